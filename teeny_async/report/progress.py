"""Progress on standard error: lines where nobody watches, a live display (`report.live`) on a terminal.

The displays are synchronous and hold no thread: whoever runs the event loop calls `refresh` every
`interval` seconds. Standard output is never touched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import ClassVar, Protocol, TextIO

from teeny_async.report.activity import Activity
from teeny_async.report.style import moves_cursor
from teeny_async.report.summary import STATES
from teeny_async.report.text import plural, seconds_text

_STEP = 10
"""Percent between two lines."""
_QUIET = 2.0
"""Seconds without a line, at least: a sweep that takes one second needs no ten lines."""
_HEARTBEAT = 60.0
"""Seconds after which a line comes in any case: a log that stands still looks like a hang."""


class Progress(Protocol):
    """Something that shows an `Activity`. `interval`: seconds between two calls of `refresh`."""

    interval: ClassVar[float]

    def start(self) -> None: ...

    def refresh(self, now: float) -> None: ...

    def note(self, text: str) -> None:
        """Say something at once: a warning, an interruption."""

    def stop(self) -> None: ...


class NoProgress:
    """Notes only."""

    interval: ClassVar[float] = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def start(self) -> None: ...

    def refresh(self, now: float) -> None: ...

    def stop(self) -> None: ...

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LineProgress(NoProgress):
    """A line for every ten percent, for logs and pipes."""

    interval: ClassVar[float] = 0.5

    def __init__(self, activity: Activity, stream: TextIO) -> None:
        super().__init__(stream)
        self._activity = activity
        self._said = 0
        self._said_at = activity.began

    def refresh(self, now: float) -> None:
        quiet = now - self._said_at
        done, total = self._activity.done, self._activity.total
        step = total is None or (done - self._said) * 100 >= _STEP * total
        if (step and done > self._said and quiet >= _QUIET) or quiet >= _HEARTBEAT:
            self._said, self._said_at = done, now
            self.note(progress_line(self._activity, now))


def progress_line(activity: Activity, now: float) -> str:
    """As in "412 of 1,000 (41%) in 12.0 s, about 17.4 s left: 300 compiled, 112 cached; 2 running, ..."."""
    done, total = activity.done, activity.total
    line = f"{done:,}" if total is None else f"{done:,} of {total:,} ({done * 100 // (total or 1)}%)"
    line += f" in {seconds_text(now - activity.began)}"
    left = activity.seconds_left(now)
    line += f", about {seconds_text(left)} left" if left and done != total else ""
    counts = [f"{activity.states[state]:,} {state}" for state in STATES if activity.states[state]]
    line += f": {', '.join(counts)}" if counts else ""
    running = activity.running
    if running:
        oldest = running[0]
        line += f"; {len(running)} running, the oldest ({oldest.name}) for {seconds_text(now - oldest.since)}"
    if activity.retries:
        line += f"; tried again {plural(activity.retries, 'time')}"
    return line


def make_progress(
    activity: Activity, *, quiet: bool, environ: Mapping[str, str], stream: TextIO | None = None
) -> Progress:
    """The progress that suits a stream (standard error): live on a terminal that can move its cursor."""
    stream = stream or sys.stderr
    if quiet:
        return NoProgress(stream)
    if moves_cursor(stream, environ):
        from teeny_async.report.live import LiveProgress

        return LiveProgress(activity, stream)
    return LineProgress(activity, stream)


def show_cursor() -> None:
    """Give the cursor back that a live display hides, from where nothing but system calls can be trusted."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
