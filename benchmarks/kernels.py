"""Real kernels for the rows that run real compilers: the shipped ones, for several targets, in variants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from teeny_async import CompileRequest, Kernel, Target
from teeny_async.toolchains.base import Driver

KERNELS = Path(__file__).resolve().parent.parent / "examples" / "kernels"
_TARGETS = [Target(cpu) for cpu in ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120")]
_SUFFIX = {"rustc": ".rs", "zig": ".c", "nvcc": ".cu"}


def requests(kind: str, count: int) -> list[CompileRequest]:
    """`count` different requests for a toolchain; a variant differs from its kernel by a comment at the end."""
    return list(itertools.islice(_all(kind), count))


def _all(kind: str) -> Iterator[CompileRequest]:
    kernels = [Kernel.from_file(path, include_dirs=()) for path in sorted(KERNELS.glob(f"*{_SUFFIX[kind]}"))]
    toolchain: str | Driver = kind
    for variant in itertools.count():
        for target, kernel in itertools.product(_TARGETS, kernels):
            changed = replace(kernel, source=f"{kernel.source}\n// variant {variant}\n")
            yield CompileRequest(changed, target, toolchain=toolchain, emit="ptx")
