"""The words of a benchmark: a `Row` has `Case`s, a case has contestants that run in turn, and goals.

A contestant's `run` is one round: it does the work, in a process of its own, and gives numbers in base
units (seconds, bytes, counts). Nothing here runs anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

Sample = Mapping[str, float]
"""Metric -> number, in seconds, bytes or counts."""


class Metric(NamedTuple):
    """One number of a sample. unit: what people read it in, a name in `UNITS`."""

    key: str
    label: str
    unit: str


UNITS: dict[str, float] = {"s": 1, "ms": 1e3, "us": 1e6, "B": 1, "KB": 1 / 1024, "MB": 1 / 2**20, "": 1, "x": 1}
"""Unit -> how many of it a base unit is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """Who does the work, and how to have it done once.

    command: the command line, or the call, as one would write it. absent: why it cannot run here, and the
    command that installs it.
    """

    name: str
    command: str
    version: str = ""
    run: Callable[[], Sample] | None = None
    absent: str | None = None


How = Literal["value", "ratio", "below", "over", "least"]
"""value: the number itself, at most the limit; least: at least. ratio: divided by another contestant's, at
most. below: the other's divided by it, at least. over: the other's taken away from it, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A limit on one contestant's metric. It is judged by the median of the rounds.

    versus: the contestant that it is compared with, in the same round. metric_versus: that one's metric,
    where it is another.
    """

    contestant: str
    metric: Metric
    how: How
    limit: float
    versus: str = ""

    @property
    def text(self) -> str:
        """The goal in words."""
        scaled = f"{self.limit * UNITS[self.metric.unit]:,g} {self.metric.unit}".rstrip()
        words = {
            "value": f"at most {scaled}",
            "least": f"at least {scaled}",
            "ratio": f"at most {self.limit:g}x {self.versus}",
            "below": f"at least {self.limit:g}x below {self.versus}",
            "over": f"at most {scaled} over {self.versus}",
        }
        return f"{self.contestant}: {self.metric.label} {words[self.how]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Contestants that do the same work. metrics: the first one is what ratios to `base` are made of.

    rounds: fewer than were asked for, where one takes minutes.
    """

    title: str
    metrics: Sequence[Metric]
    base: str
    contestants: Sequence[Contestant]
    goals: Sequence[Goal] = ()
    rounds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where and how a run measures. folder: private, removed at the end. cpus: those we may use."""

    folder: Path
    quick: bool
    cpus: int
    made: dict[str, Path] = field(default_factory=dict)
    """Programs that were compiled already, by name."""

    def size(self, full: int, quick: int) -> int:
        """How much work: the real amount, or that of a quick run."""
        return quick if self.quick else full

    def place(self, name: str) -> Path:
        """A new empty folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row family. cases: prepares each case, yields it, and cleans up after it when it is resumed."""

    id: str
    title: str
    cases: Callable[[Context], Iterator[Case]]
