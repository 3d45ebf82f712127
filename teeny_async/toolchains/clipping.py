"""How much of a tool's text is read: its ends."""

from __future__ import annotations

from dataclasses import replace

from teeny_async.result import Exit

_HALF = 1 << 17
"""Bytes at either end of a stream that are parsed at all."""


def clipped(exit: Exit) -> Exit:
    """The exit with no more text than is worth reading: a log of 64 MB would take seconds to parse."""
    surplus = sum(max(0, len(stream) - 2 * _HALF) for stream in (exit.stderr, exit.stdout))
    if not surplus:
        return exit
    stderr, stdout = (
        stream if len(stream) <= 2 * _HALF else stream[:_HALF] + b"\n" + stream[-_HALF:]
        for stream in (exit.stderr, exit.stdout)
    )
    return replace(exit, stderr=stderr, stdout=stdout, dropped=exit.dropped + surplus)
