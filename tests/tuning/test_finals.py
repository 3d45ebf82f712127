"""The last measurements of a search: what a winner's time is, its spread, and what is tied."""

from __future__ import annotations

from typing import Any

from teeny_async.frozen import FrozenMap
from teeny_async.tuning.finals import Watched, contenders, in_every_round, pooled
from teeny_async.tuning.result import ranked, tied
from teeny_async.tuning.verdict import Verdict


def verdict(x: int, value: float | None, at: float = 0.0, *, half: float = 0.5, **changes: Any) -> Verdict:
    measurement: dict[str, Any] = {"started": at, "ended": at + 0.1, "runs": 10, "contention": {"load": at}}
    if value is not None:
        measurement |= {"p20": value - half, "p80": value + half}
    fields: dict[str, Any] = {"status": "ok", "phase": "confirm", "measurement": FrozenMap(measurement), **changes}
    return Verdict(kernel="k", target="native", config=FrozenMap({"X": x}), objective="time", value=value, **fields)


def final(x: int, values: list[float], at: float = 100.0, watched: list[Verdict] | None = None) -> Verdict:
    return pooled([verdict(x, value, at + 2 * n + 0.1 * x) for n, value in enumerate(values)], watched or [])


def test_the_spread_is_that_of_the_whole_run() -> None:
    found = final(1, [10.0, 12.0, 11.0], watched=[verdict(1, 15.0, 5.0), verdict(1, 9.0, 50.0)])
    assert (found.value, found.spread) == (11.0, (9.0, 15.0))
    assert final(1, [10.0, 12.0, 11.0]).spread == (9.5, 12.5)
    assert final(1, [10.0]).spread == (9.5, 10.5)
    bursts = [verdict(1, value, 5.0) for value in (10.2, 30.0, *[12.0] * 7, 8.0)]
    assert final(1, [11.0], watched=bursts).spread == (10.2, 12.0)
    record = found.measurement
    assert (record["rounds"], record["watched"], record["runs"]) == ([10.0, 12.0, 11.0], [15.0, 9.0], 50)
    assert record["contention"] == {"load": 104.1}
    assert len(record["spans"]) == 5


def test_one_failed_measurement_is_enough() -> None:
    wrong = verdict(1, None, status="wrong", failure={"kind": "measure-wrong", "message": "a race"})
    for rounds, watched in (([verdict(1, 1.0), wrong], []), ([verdict(1, 1.0)], [wrong])):
        found = pooled(rounds, watched)
        assert (found.status, found.value, found.phase) == ("wrong", None, "confirm")


def test_finalists_are_compared_round_by_round() -> None:
    """A drift that all of them saw makes nothing equal; one round that went the other way does."""
    best, worse = final(1, [10.0, 12.0, 14.0]), final(2, [10.5, 12.5, 14.5])
    assert in_every_round(best, worse) is True
    assert best.spread
    assert worse.spread
    assert best.spread[1] > worse.spread[0]
    assert tied([best, worse]) == [best]
    close = final(2, [10.5, 11.5, 14.5])
    assert in_every_round(best, close) is False
    assert tied([best, close]) == [best, close]
    later = final(2, [10.5, 12.5, 14.5], at=300.0)
    assert in_every_round(best, later) is None
    assert in_every_round(best, verdict(2, 12.0, phase="search")) is None


def test_who_is_measured_again() -> None:
    searched = [verdict(x, float(x), phase="search") for x in range(1, 6)]
    assert [v.config["X"] for v in contenders(searched, 2)] == [1, 2]
    confirmed = ranked([*searched, verdict(1, 3.5), verdict(2, 4.0)])
    assert [v.config["X"] for v in confirmed] == [1, 2, 3, 4, 5]
    assert [v.config["X"] for v in contenders(confirmed, 2)] == [3]
    assert contenders(ranked([*searched, verdict(1, 1.5)]), 2) == []


def test_the_best_so_far_is_looked_at_now_and_then() -> None:
    watched = Watched()
    looks = [second for second in range(200) if watched.due(float(second))]
    assert looks[:3] == [3, 6, 9]
    assert looks[-1] - looks[-2] > 10
    watched.add(verdict(1, 1.0))
    assert [v.value for v in watched.of(FrozenMap({"X": 1}))] == [1.0]
    assert watched.of(FrozenMap({"X": 2})) == []
