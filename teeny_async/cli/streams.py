"""The three standard streams, as a shell may leave them: closed, or on something that takes no more."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


def make_sound() -> None:
    """Have all three streams, and a standard error whose failure changes nothing.

    A closed one (`>&-`) becomes /dev/null: otherwise the next file to be opened would get its number, and
    whatever is printed. What cannot be said on standard error (a full disk, a reader that is gone) is lost, but
    the work goes on and the exit code stays what it is.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    kept = None if sys.stderr is None else sys.stderr.encoding
    raw = _Forgiving(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=kept or "utf-8", errors="backslashreplace", line_buffering=True
    )


def give_up_stdout() -> None:
    """Standard output takes no more; the interpreter must not try to flush the rest to it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class _Forgiving(io.FileIO):
    """A file that takes everything, and loses what it cannot write."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))
