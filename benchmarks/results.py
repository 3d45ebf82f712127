"""From the samples of the rounds to medians, spreads, ratios and verdicts; and the JSON of a run.

A ratio is taken within each round, where both contestants met the same machine, and then its median.
Spread: the middle half of the rounds (first to third quartile) from four rounds on, else all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.model import Case, Contestant, Goal, Row, Sample


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and what lies around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None for no values."""
        if not values:
            return None
        if len(values) < 4:
            return cls(statistics.median(values), min(values), max(values))
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def to_json(self) -> dict[str, float]:
        return {"median": self.median, "low": self.low, "high": self.high}


@dataclass(slots=True)
class Outcome:
    """A contestant's rounds. trouble: why it has none, or fewer."""

    contestant: Contestant
    samples: list[Sample] = field(default_factory=list)
    trouble: str | None = None

    def values(self, key: str) -> list[float]:
        """A metric, round by round; empty where it has none."""
        return [sample[key] for sample in self.samples if key in sample]


_COMPARE: dict[str, Callable[[float, float], float]] = {
    "ratio": lambda ours, theirs: ours / theirs,
    "below": lambda ours, theirs: theirs / ours,
    "over": lambda ours, theirs: ours - theirs,
}


@dataclass(slots=True)
class CaseResult:
    """A case that was run."""

    case: Case
    outcomes: dict[str, Outcome]

    def spread(self, name: str, key: str) -> Spread | None:
        """A contestant's metric."""
        return Spread.of(self.outcomes[name].values(key))

    def compare(self, name: str, key: str, versus: str, how: str = "ratio") -> Spread | None:
        """A contestant's metric against another's, round by round; None where either has none."""
        ours, theirs = self.outcomes[name].values(key), self.outcomes[versus].values(key)
        return Spread.of([_COMPARE[how](a, b) for a, b in zip(ours, theirs, strict=False) if b and a])

    def measure(self, goal: Goal) -> Spread | None:
        """The number that a goal is about."""
        if goal.how in ("value", "least"):
            return self.spread(goal.contestant, goal.metric.key)
        return self.compare(goal.contestant, goal.metric.key, goal.versus, goal.how)

    def met(self, goal: Goal) -> bool | None:
        """None where it could not be measured."""
        found = self.measure(goal)
        if found is None:
            return None
        at_least = goal.how in ("below", "least")
        return found.median >= goal.limit if at_least else found.median <= goal.limit

    def to_json(self) -> dict[str, Any]:
        case = self.case
        return {
            "title": case.title,
            "base": case.base,
            "metrics": [metric._asdict() for metric in case.metrics],
            "contestants": [self._contestant(outcome) for outcome in self.outcomes.values()],
            "goals": [self._goal(goal) for goal in case.goals],
        }

    def _contestant(self, outcome: Outcome) -> dict[str, Any]:
        who, main = outcome.contestant, self.case.metrics[0].key
        keys = sorted({key for sample in outcome.samples for key in sample})
        ratio = self.compare(who.name, main, self.case.base)
        return {
            "name": who.name,
            "version": who.version,
            "command": who.command,
            "absent": who.absent,
            "trouble": outcome.trouble,
            "rounds": len(outcome.samples),
            "metrics": {key: _json(self.spread(who.name, key)) for key in keys},
            "samples": list(outcome.samples),
            "ratio": _json(ratio),
        }

    def _goal(self, goal: Goal) -> dict[str, Any]:
        return {
            "text": goal.text,
            "contestant": goal.contestant,
            "metric": goal.metric.key,
            "how": goal.how,
            "versus": goal.versus or None,
            "limit": goal.limit,
            "measured": _json(self.measure(goal)),
            "met": self.met(goal),
        }


@dataclass(slots=True)
class RowResult:
    """A row that was run. error: what went wrong with the row itself."""

    row: Row
    cases: list[CaseResult] = field(default_factory=list)
    error: str | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.row.id,
            "title": self.row.title,
            "error": self.error,
            "seconds": self.seconds,
            "cases": [case.to_json() for case in self.cases],
        }


def _json(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else spread.to_json()
