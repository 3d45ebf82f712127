"""What "native" is for a GPU: asked of the driver's own tools, and never remembered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from teeny_async.errors import RequestError
from teeny_async.target import Target

if TYPE_CHECKING:
    from teeny_async.toolchains.base import Host

_NVIDIA = (
    "nvidia-smi",
    ("--query-gpu=compute_cap", "--format=csv,noheader"),
    re.compile(r"^\s*(\d+)\.(\d)\s*$", re.MULTILINE),
)
_AMD = ("rocm_agent_enumerator", (), re.compile(r"^\s*(gfx(?!0+$)[0-9a-f]+)\s*$", re.MULTILINE))


async def native(host: Host, target: Target) -> Target:
    """`target` with "native" replaced by the GPU of this machine. Raises RequestError: none, or of several kinds."""
    program, arguments, pattern = _NVIDIA if target.is_nvidia else _AMD
    maker, example = ("NVIDIA", "sm_90") if target.is_nvidia else ("AMD", "gfx942")
    advice = f"name the architecture, as in {example}"
    path = host.which(program)
    if path is None:
        raise RequestError(f"'native' needs an {maker} GPU, and there is no {program} here: {advice}")
    answer = await host.run([path, *arguments], remember=False)
    found = _kinds(pattern, answer.stdout.decode("utf-8", "replace"))
    if answer.code != 0 or not found:
        said = answer.text.strip()[:200] or f"nothing (exit {answer.code})"
        raise RequestError(f"'native' needs an {maker} GPU, and {program} finds none; it says {said!r}: {advice}")
    if len(found) > 1:
        raise RequestError(f"'native' is not one thing: this machine has {', '.join(found)}; {advice}")
    return replace(target, cpu=found[0])


def _kinds(pattern: re.Pattern[str], text: str) -> Sequence[str]:
    """The different architectures in what a tool printed, in order."""
    groups = [match.groups() for match in pattern.finditer(text)]
    return list(dict.fromkeys(each[0] if len(each) == 1 else f"sm_{each[0]}{each[1]}" for each in groups))
