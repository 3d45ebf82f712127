"""The benchmark runs, and its numbers are put together right. Nothing here asserts a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.many_machines import simulate
from benchmarks.measure import Broken
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row
from benchmarks.results import Spread
from benchmarks.rows import ROWS
from benchmarks.running import run_case, run_row
from benchmarks.text import table

ROOT = Path(__file__).parent.parent
IDS = "spawn miss cold-rustc cold-zig nvcc stages warm-hit cli-warm key duplicates stream stall skewed shared scale".split()
TIME = Metric("time", "time", "ms")


def benchmarks(*arguments: str, tmp: Path, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(tmp), "TEENY_ASYNC_CACHE_DIR": str(tmp / "cache")}
    argv = [sys.executable, "-m", module, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=env, timeout=300, check=False)


def contestant(name: str, *times: float) -> Contestant:
    turns = iter(times)
    return Contestant(name=name, command=f"do {name}", version="1.0", run=lambda: {"time": next(turns)})


def case(*contestants: Contestant, goals: tuple[Goal, ...] = (), rounds: int | None = None) -> Case:
    return Case(title="a case", metrics=(TIME,), base="peer", contestants=contestants, goals=goals, rounds=rounds)


def silent(line: str) -> None:
    """Where progress goes."""


def test_every_row_is_listed(tmp_path: Path) -> None:
    done = benchmarks("--list", tmp=tmp_path)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == IDS == [row.id for row in ROWS]


def test_an_unknown_row_is_a_usage_error(tmp_path: Path) -> None:
    done = benchmarks("--only", "nothing", tmp=tmp_path)
    assert done.returncode == 2
    assert "invalid choice" in done.stderr


def test_a_forked_compiler_writes_the_same_bytes(tmp_path: Path) -> None:
    few = ("--count", "2", "--rounds", "2")
    done = benchmarks(*few, tmp=tmp_path, module="benchmarks.experiments.fork_server")
    assert done.returncode == 0, done.stderr
    [rustc, *_] = done.stdout.splitlines()
    assert rustc.startswith("rustc to PTX, 2 compiles, 2 rounds: CPU ")
    assert "OTHER" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_two_rows_really_run_and_leave_nothing_behind(tmp_path: Path) -> None:
    place = tmp_path / "numbers.json"
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    arguments = ("--quick", "--rounds", "1", "--only", "key", "--only", "skewed", "--json", str(place))
    done = benchmarks(*arguments, tmp=tmp)
    assert done.returncode == 0, done.stderr
    report = json.loads(place.read_text())
    check_report(report)
    assert [row["id"] for row in report["rows"]] == ["key", "skewed"]
    for who in (who for row in report["rows"] for case in row["cases"] for who in case["contestants"]):
        assert who["trouble"] is None
        assert who["rounds"] == 1
    assert "key: A cache key" in done.stdout
    assert "goals: " in done.stdout
    assert list(tmp.iterdir()) == []


def check_report(report: dict[str, Any]) -> None:
    """The shape that readers of the JSON rely on."""
    assert set(report) == {"schema", "quick", "rounds", "machine", "rows"}
    assert report["schema"] == 1
    assert {"teeny_async", "python", "cpus", "date"} <= set(report["machine"])
    for row in report["rows"]:
        assert set(row) == {"id", "title", "error", "seconds", "cases"}
        assert row["error"] is None
        assert row["cases"]
        for case in row["cases"]:
            assert set(case) == {"title", "base", "metrics", "contestants", "goals"}
            for who in case["contestants"]:
                check_contestant(who)
            for goal in case["goals"]:
                assert {"text", "contestant", "metric", "how", "versus", "limit", "measured", "met"} == set(goal)
                assert goal["met"] in (True, False, None)


def check_contestant(who: dict[str, Any]) -> None:
    expected = {"name", "version", "command", "absent", "trouble", "rounds", "metrics", "samples", "ratio"}
    assert set(who) == expected
    assert who["command"]
    for spread in (*who["metrics"].values(), who["ratio"]):
        assert spread is None or spread["low"] <= spread["median"] <= spread["high"]


def test_a_ratio_is_taken_within_each_round() -> None:
    # The machine was twice as slow in the second round; the ratio was 3 in both.
    result = run_case(case(contestant("peer", 1.0, 2.0), contestant("ours", 3.0, 6.0)), 2, silent)
    assert result.compare("ours", "time", "peer") == Spread(3.0, 3.0, 3.0)


def test_contestants_take_turns_and_the_first_changes() -> None:
    order: list[str] = []

    def noting(name: str) -> Contestant:
        def run() -> dict[str, float]:
            order.append(name)
            return {"time": 1.0}

        return Contestant(name=name, command="", run=run)

    run_case(case(noting("peer"), noting("ours")), 3, silent)
    assert order == ["peer", "ours", "ours", "peer", "peer", "ours"]


def test_the_spread_is_the_middle_half_from_four_rounds_on() -> None:
    assert Spread.of([1.0, 9.0, 2.0]) == Spread(2.0, 1.0, 9.0)
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 100.0]) == Spread(3.0, 2.0, 4.0)
    assert Spread.of([]) is None


@pytest.mark.parametrize(
    ("how", "limit", "met"),
    [
        ("value", 3.0, True),
        ("value", 2.9, False),
        ("least", 3.0, True),
        ("ratio", 1.5, True),
        ("ratio", 1.4, False),
        ("below", 0.6, True),
        ("below", 0.7, False),
        ("over", 1.0, True),
        ("over", 0.9, False),
    ],
)
def test_goals_are_judged_by_the_median(how: Any, limit: float, met: bool) -> None:
    goal = Goal(contestant="ours", metric=TIME, how=how, limit=limit, versus="peer")
    result = run_case(case(contestant("peer", 2.0), contestant("ours", 3.0), goals=(goal,)), 1, silent)
    assert result.met(goal) is met
    assert goal.text.startswith("ours: time at ")


def test_an_absent_peer_says_so_and_its_goals_stay_open() -> None:
    goal = Goal(contestant="ours", metric=TIME, how="ratio", limit=1.0, versus="peer")
    peer = Contestant(name="peer", command="peer it", absent="peer is not on PATH (apt-get install peer)")
    row = Row(id="r", title="a row", cases=lambda _: iter([case(peer, contestant("ours", 1.0), goals=(goal,))]))
    result = run_row(row, context(), 1, silent)
    assert result.to_json()["cases"][0]["goals"][0]["met"] is None
    text = "\n".join(table([result]))
    assert "absent: peer is not on PATH (apt-get install peer)" in text
    assert "not measured" in text


def test_a_contestant_that_breaks_and_a_row_that_breaks_stop_nobody_else() -> None:
    def broken() -> dict[str, float]:
        raise Broken("it fell over")

    def no_cases(_: Context) -> Iterator[Case]:
        raise ValueError("no such thing")
        yield  # type: ignore[unreachable]  # so that it is a generator

    peer = Contestant(name="peer", command="", run=broken)
    outcome = run_case(case(peer, contestant("ours", 1.0, 2.0)), 2, silent).outcomes
    assert outcome["peer"].trouble == "failed: it fell over"
    assert len(outcome["ours"].samples) == 2
    assert run_row(Row(id="r", title="", cases=no_cases), context(), 1, silent).error == "ValueError: no such thing"


def test_a_case_may_ask_for_fewer_rounds() -> None:
    result = run_case(case(contestant("peer", 1.0, 2.0), rounds=1), 5, silent)
    assert len(result.outcomes["peer"].samples) == 1


def context() -> Context:
    return Context(folder=Path(), quick=True, cpus=1)


def test_the_simulated_cluster_is_as_fast_as_its_narrowest_place() -> None:
    assert simulate(100, 1.0, {"client": 0, "scheduler": 0}, tasks=20_000) > 0.95
    # 100 a second are asked for, and 10 a second pass.
    share = simulate(100, 1.0, {"client": 100, "scheduler": 1}, tasks=2000)
    assert 0.07 < share < 0.13
    assert simulate(100, 1.0, {"client": 1, "scheduler": 100}, tasks=2000) == pytest.approx(share, rel=0.1)
