"""Numbers and names as people read them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace

from teeny_async.events import Waiting
from teeny_async.model import CompileRequest, ParamValue
from teeny_async.result import Diagnostic, Failure

_UNITS = ("KiB", "MiB", "GiB", "TiB")
_LONE_NUMBER = re.compile(r"(?<![:\w.])-?\d[\w.]*")
_COPY = re.compile(r"kernel\.\w+")
"""The name of a kernel's file in a scratch folder."""


def size_text(size: int) -> str:
    """Bytes, in three or four characters and a unit: "812 B", "4.1 KiB", "310 MiB"."""
    if size < 1024:
        return f"{size} B"
    value, unit = size / 1024, _UNITS[0]
    for larger in _UNITS[1:]:
        if value < 999.5:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def seconds_text(seconds: float) -> str:
    """Seconds: "4 ms", "0.31 s", "12.0 s", "3:25", "1:02:09"."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def value_text(value: ParamValue) -> str:
    """A param's value as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def params_text(params: Mapping[str, ParamValue]) -> str:
    """As in "BLOCK=64 UNROLL=4"."""
    return " ".join(f"{name}={value_text(value)}" for name, value in params.items())


def waiting_text(event: Waiting) -> str:
    """As in "waiting for 3f1c0a... (gemm sm_90), held by pid 4711 since 14:03:59"."""
    since = "" if event.since is None else f" since {time.strftime('%H:%M:%S', time.localtime(event.since))}"
    return f"waiting for {event.key[:16]} ({request_text(event.request)}), held by pid {event.pid or 'unknown'}{since}"


def target_text(request: CompileRequest) -> str:
    """The target's name, "default" for the compiler's own choice."""
    return "default" if request.target is None else str(request.target)


def request_text(request: CompileRequest) -> str:
    """Which compile it is: kernel, target and params."""
    return " ".join(filter(None, (request.kernel.name, target_text(request), params_text(request.params))))


def diagnostic_text(diagnostic: Diagnostic, path: str | None = None) -> str:
    """A message on one line. path: what the user calls the kernel's file; the compiler saw a copy of it."""
    if path is not None and diagnostic.file is not None and _COPY.fullmatch(diagnostic.file):
        diagnostic = replace(diagnostic, file=path)
    return " ".join(str(diagnostic).split())


def failure_text(failure: Failure, path: str | None = None) -> str:
    """The first error, on one line: where, what."""
    for diagnostic in failure.diagnostics:
        if diagnostic.severity not in ("warning", "note", "help", "remark"):
            return diagnostic_text(diagnostic, path)
    return " ".join(failure.message.split())


def without_numbers(text: str) -> str:
    """A message with "#" for its numbers, by which messages of one kind are told; lines of files and names stay."""
    return _LONE_NUMBER.sub("#", text)


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
