"""Progress of a tuning run: that of its compiles, and the best so far for each target."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

from teeny_async.report.activity import Activity
from teeny_async.report.progress import LineProgress, NoProgress, Progress
from teeny_async.report.style import moves_cursor
from teeny_async.tuning.result import config_text, value_text
from teeny_async.tuning.verdict import Verdict

_MOST = 8
"""Targets shown; the others are counted."""


class Leaders:
    """The best verdict of each search, and how many there were."""

    def __init__(self) -> None:
        self.best: dict[tuple[str, str], Verdict] = {}
        self.done = 0

    def see(self, verdict: Verdict) -> None:
        self.done += 1
        known = self.best.get((verdict.kernel, verdict.target))
        if verdict.value is not None and (known is None or _rank(verdict) <= _rank(known)):
            self.best[verdict.kernel, verdict.target] = verdict

    def lines(self) -> list[str]:
        """As in "sm_90: 143 us at TILE=32 ROWS=8"."""
        found = [
            f"{target.partition('@')[0]}: {value_text(verdict)} at {config_text(verdict.config)}"
            for (_, target), verdict in self.best.items()
        ]
        more = [f"and {len(found) - _MOST} more targets"] if len(found) > _MOST else []
        return found[:_MOST] + more


class TuneLines(LineProgress):
    """Lines for logs and pipes; each is followed by the best so far."""

    def __init__(self, activity: Activity, leaders: Leaders, stream: TextIO) -> None:
        super().__init__(activity, stream)
        self._leaders = leaders

    def refresh(self, now: float) -> None:
        before = self._said_at
        super().refresh(now)
        if self._said_at != before:
            for line in self._leaders.lines():
                self.note(f"  best so far: {line}")


def make_tune_progress(
    activity: Activity, leaders: Leaders, *, quiet: bool, environ: Mapping[str, str], stream: TextIO | None = None
) -> Progress:
    """The progress that suits a stream (standard error)."""
    stream = stream or sys.stderr
    if quiet:
        return NoProgress(stream)
    if moves_cursor(stream, environ):
        from teeny_async.report.tune_live import TuneLive

        return TuneLive(activity, leaders, stream)
    return TuneLines(activity, leaders, stream)


def _rank(verdict: Verdict) -> tuple[float, ...]:
    return (-verdict.fidelity, *verdict.order)
