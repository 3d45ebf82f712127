"""The end of a measured search: the best are measured again, in turns, with nothing else going on. Pure.

One measurement takes milliseconds, and its spread is that of these milliseconds. A machine drifts more slowly than
that: clocks, temperature, the neighbours of a virtual machine. Measured within a second, one and the same kernel
gave 146 us (p20 to p80: 146 to 147) and 150 us (149 to 151). So each finalist is measured in several rounds, all of
them in each round, and what is reported is the median of the rounds, with the range from the lowest p20 to the
highest p80 of them: a spread that another run can be expected to fall into. Taking turns keeps the comparison fair
while the machine drifts.

Being the best of many is also luck: what won the search may measure worse than it did. A finalist is ranked by its
final measurement, and when that is worse than what another has shown in the search, the other is measured as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from teeny_async.frozen import FrozenMap
from teeny_async.tuning.verdict import Verdict

ROUNDS = 5
WAVES = 3
"""Times that others are called in because all finalists turned out worse than they seemed."""


def contenders(ranked: Sequence[Verdict], count: int) -> list[Verdict]:
    """Of a ranking, those to be measured now: the best `count` at first; then what still looks better than the best."""
    confirmed = [verdict for verdict in ranked if verdict.phase == "confirm"]
    if not confirmed:
        return list(ranked[:count])
    others = [verdict for verdict in ranked if verdict.phase != "confirm" and verdict.fidelity == 1.0]
    return [verdict for verdict in others if verdict.order < confirmed[0].order][:count]


def pooled(rounds: Sequence[Verdict]) -> Verdict:
    """One verdict from those of all rounds of a configuration; a round that failed decides alone."""
    failed = [verdict for verdict in rounds if verdict.value is None]
    if failed:
        return failed[0]
    values = [verdict.value for verdict in rounds if verdict.value is not None]
    return replace(rounds[-1], value=median(values), measurement=FrozenMap(_record(rounds, values)))


def _record(rounds: Sequence[Verdict], values: Sequence[float]) -> dict[str, Any]:
    records = [verdict.measurement for verdict in rounds]
    found = {
        **records[-1],
        "p20": min(record.get("p20", value) for record, value in zip(records, values, strict=True)),
        "p80": max(record.get("p80", value) for record, value in zip(records, values, strict=True)),
        "rounds": list(values),
        "contention": _most([record.get("contention", {}) for record in records]),
        "spans": [[record["started"], record["ended"]] for record in records if "started" in record],
    }
    if all("runs" in record for record in records):
        found["runs"] = sum(record["runs"] for record in records)
    return found


def _most(contentions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The worst of each number."""
    names = dict.fromkeys(name for contention in contentions for name in contention)
    return {name: max(contention[name] for contention in contentions if name in contention) for name in names}
