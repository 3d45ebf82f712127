"""What the time of a winner is, and how far another run may differ: it is measured more than once. Pure.

One measurement takes milliseconds, and its spread is that of these milliseconds. A machine drifts more slowly than
that: clocks, temperature, the neighbours of a virtual machine. Measured within a second, one and the same kernel
gave 146 us (p20 to p80: 146 to 147) and 150 us (149 to 151). So

- while the search goes on, its best so far is measured again now and then (`Watched`);
- at its end the best few are measured in several rounds, all of them in each round, with nothing else going on.

What is reported is the median of the rounds, and the range from the lowest p20 to the highest p80 of them, widened to
the medians of when it was watched, extremes aside (their own spread has the compiles in it that ran beside): the
range of the whole run, and not of its last second. What a machine does only after the run has ended is in no spread.
Two finalists are compared by their rounds, which saw the same drift: they are tied unless one of them was the faster
in every round.

Being the best of many is also luck: what won the search may measure worse than it did. A finalist is ranked by its
final measurement, and when that is worse than what another has shown in the search, the other is measured as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from teeny_async.frozen import FrozenMap
from teeny_async.tuning.space import Config
from teeny_async.tuning.verdict import Verdict

ROUNDS = 5
_EVERY, _SHARE = 3.0, 0.1
"""Seconds between two looks at the best so far, at least, and as a share of what the run has taken."""
WAVES = 3
"""Times that others are called in because all finalists turned out worse than they seemed."""


def contenders(ranked: Sequence[Verdict], count: int) -> list[Verdict]:
    """Of a ranking, those to be measured now: the best `count` at first; then what still looks better than the best."""
    confirmed = [verdict for verdict in ranked if verdict.phase == "confirm"]
    if not confirmed:
        return list(ranked[:count])
    others = [verdict for verdict in ranked if verdict.phase != "confirm" and verdict.fidelity == 1.0]
    return [verdict for verdict in others if verdict.order < confirmed[0].order][:count]


class Watched:
    """The measurements of a search's best so far, besides its verdict."""

    def __init__(self) -> None:
        self._due = _EVERY
        self._found: dict[Config, list[Verdict]] = {}

    def due(self, elapsed: float) -> bool:
        """Whether it is time for the next one; then the one after that is put off. elapsed: seconds of the run."""
        if elapsed < self._due:
            return False
        self._due = elapsed + max(_EVERY, _SHARE * elapsed)
        return True

    def add(self, verdict: Verdict) -> None:
        self._found.setdefault(verdict.config, []).append(verdict)

    def of(self, config: Config) -> list[Verdict]:
        return self._found.get(config, [])


def pooled(rounds: Sequence[Verdict], watched: Sequence[Verdict] = ()) -> Verdict:
    """One verdict from those of all rounds of a configuration, and those of when it was watched.

    One that failed decides alone.
    """
    failed = [verdict for verdict in (*rounds, *watched) if verdict.value is None]
    if failed:
        return replace(rounds[-1], value=None, status=failed[0].status, failure=failed[0].failure)
    return replace(rounds[-1], value=median(_values(rounds)), measurement=FrozenMap(_record(rounds, watched)))


def in_every_round(one: Verdict, other: Verdict) -> bool | None:
    """Whether one of two finalists was the faster one, or the other, each time; None when they took no turns."""
    spans = [
        verdict.measurement.get("spans", [])[-len(verdict.measurement.get("rounds", ())) :] for verdict in (one, other)
    ]
    if not spans[0] or len(spans[0]) != len(spans[1]):
        return None
    if spans[0][0][0] > spans[1][-1][1] or spans[1][0][0] > spans[0][-1][1]:
        return None  # of two waves
    pairs = list(zip(one.measurement["rounds"], other.measurement["rounds"], strict=True))
    return all(first < second for first, second in pairs) or all(first > second for first, second in pairs)


def _usual(values: Sequence[float]) -> list[float]:
    """Without the most extreme tenth at both ends: one burst of something else is no drift."""
    cut = len(values) // 10
    return sorted(values)[cut : len(values) - cut]


def _values(verdicts: Sequence[Verdict]) -> list[float]:
    return [verdict.value for verdict in verdicts if verdict.value is not None]


def _record(rounds: Sequence[Verdict], watched: Sequence[Verdict]) -> dict[str, Any]:
    every = [*watched, *rounds]
    records = [verdict.measurement for verdict in every]
    seen = _usual(_values(watched))
    found = {
        **records[-1],
        "p20": min([*seen, *(v.measurement.get("p20", v.value) for v in rounds)]),
        "p80": max([*seen, *(v.measurement.get("p80", v.value) for v in rounds)]),
        "rounds": _values(rounds),
        "watched": _values(watched),
        "contention": _most([verdict.measurement.get("contention", {}) for verdict in rounds]),
        "spans": [[record["started"], record["ended"]] for record in records if "started" in record],
    }
    if all("runs" in record for record in records):
        found["runs"] = sum(record["runs"] for record in records)
    return found


def _most(contentions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The worst of each number."""
    names = dict.fromkeys(name for contention in contentions for name in contention)
    return {name: max(contention[name] for contention in contentions if name in contention) for name in names}


def again(searched: Verdict) -> Verdict:
    """A verdict as it was before its measurement, for another one."""
    compiled = FrozenMap({**searched.compile, "source": "kept"})
    return replace(searched, phase="confirm", value=None, fidelity=1.0, measurement=FrozenMap(), compile=compiled)
