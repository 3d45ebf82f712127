"""Progress of a tuning run: its verdicts, what runs, and the best so far for each target."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from teeny_async.report.activity import Activity
from teeny_async.report.progress import LineProgress, NoProgress, Progress
from teeny_async.report.style import moves_cursor
from teeny_async.tuning.result import config_text, value_text
from teeny_async.tuning.steps import Confirming, Known, Measured, Measuring, Step
from teeny_async.tuning.verdict import Verdict

_MOST = 8
"""Targets shown; the others are counted."""


_BAD = ("infeasible", "wrong", "error")
"""Statuses of a verdict that no compile has."""


@dataclass(frozen=True, slots=True)
class Busy:
    """A measurement under way. since: seconds, monotonic."""

    name: str
    device: str
    since: float


class TuneActivity(Activity):
    """How far a search has come: in verdicts, those of earlier parts of the run included, and not in compiles.

    places: kernel and target of each search, in the order to show. confirming: how many finalists are being measured,
    and of what target. seconds: of the budget, from `began` on.
    """

    def __init__(self, now: float) -> None:
        super().__init__(None, now)
        self.places: list[tuple[str, str]] = []
        self.best: dict[tuple[str, str], Verdict] = {}
        self.bad: Counter[str] = Counter()
        self.known = 0
        self.seconds: float | None = None
        self.confirming: Confirming | None = None
        self._searched = 0
        self._busy: dict[str, Busy] = {}

    @property
    def done(self) -> int:
        return self._searched

    @property
    def measuring(self) -> list[Busy]:
        """The oldest first."""
        return sorted(self._busy.values(), key=lambda busy: busy.since)

    def verdict(self, verdict: Verdict) -> None:
        """Take note of a new verdict."""
        self._searched += verdict.phase == "search"
        if verdict.status in _BAD:
            self.bad[verdict.status] += 1
        known = self.best.get((verdict.kernel, verdict.target))
        if verdict.value is not None and (known is None or _rank(verdict) <= _rank(known)):
            self.best[verdict.kernel, verdict.target] = verdict

    def step(self, step: Step) -> None:
        """Take note of what a run does besides."""
        match step:
            case Known(verdict=verdict):
                self.known += 1
                if verdict.phase == "search":
                    self.skip()
                self.verdict(verdict)
            case Measuring():
                name = f"{target_name(step.target)} {config_text(step.config)}"
                self._busy[step.device] = Busy(name, step.device, step.time)
            case Measured(device=device):
                self._busy.pop(device, None)
            case Confirming():
                self.confirming = step

    def seconds_left(self, now: float) -> float | None:
        left = super().seconds_left(now)
        budget = None if self.seconds is None else max(0.0, self.seconds - (now - self.began))
        return min((each for each in (left, budget) if each is not None), default=None)

    def stage(self) -> str | None:
        """What comes after the search."""
        step = self.confirming
        if step is None:
            return None
        return f"confirming the best {step.configs} of {target_name(step.target)}, in {step.rounds} rounds"

    def leaders(self) -> list[str]:
        """As in "sm_90: 143 us (142 us to 145 us), measured, at TILE=32 ROWS=8"."""
        many = len({kernel for kernel, _ in self.best}) > 1
        places = dict.fromkeys([*self.places, *self.best])
        found = [
            f"{f'{kernel} ' if many else ''}{target_name(target)}: {value_text(verdict)}, {quality(verdict)}, "
            f"at {config_text(verdict.config)}"
            for kernel, target in places
            if (verdict := self.best.get((kernel, target))) is not None
        ]
        more = [f"and {len(found) - _MOST} more targets"] if len(found) > _MOST else []
        return found[:_MOST] + more


class TuneLines(LineProgress):
    """Lines for logs and pipes; each is followed by the best so far."""

    def __init__(self, activity: TuneActivity, stream: TextIO) -> None:
        super().__init__(activity, stream)
        self._search = activity
        self._stage: str | None = None

    def refresh(self, now: float) -> None:
        before = self._said_at
        super().refresh(now)
        if self._said_at != before:
            for line in self._search.leaders():
                self.note(f"  best so far: {line}")
        if self._search.stage() != self._stage:
            self._stage = self._search.stage()
            self.note(self._stage or "")


def make_tune_progress(
    activity: TuneActivity, *, quiet: bool, environ: Mapping[str, str], stream: TextIO | None = None
) -> Progress:
    """The progress that suits a stream (standard error)."""
    stream = stream or sys.stderr
    if quiet:
        return NoProgress(stream)
    if moves_cursor(stream, environ):
        from teeny_async.report.tune_live import TuneLive

        return TuneLive(activity, stream)
    return TuneLines(activity, stream)


def target_name(target: str) -> str:
    """Without its triple: "native" for "native@x86_64-unknown-linux-gnu"."""
    return target.partition("@")[0]


def quality(verdict: Verdict) -> str:
    """What a value is: an estimate, measured, or exact."""
    if verdict.estimate:
        return f"{verdict.objective} estimate"
    return "measured" if verdict.goal.measured else verdict.objective


def _rank(verdict: Verdict) -> tuple[object, ...]:
    return (verdict.phase != "confirm", -verdict.fidelity, verdict.order)
