"""`tune` as a whole, on fakes: compile, measure, journal, resume, results."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pandas as pd
import pytest

from teeny_async import RequestError, Sweep, ToolchainNotFoundError
from teeny_async.result import Artifact
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.toolchains.base import Host, Toolchain, ToolNotFound
from teeny_async.tuning import MeasureContext, MeasureFailed, TuneResult, Verdict, load_best, tune
from teeny_async.tuning.journal import NAME, load
from teeny_async.tuning.prepare import Plan
from teeny_async.tuning.space import Config
from tests.tuning.kit import KERNEL, Meter, answer, options, seconds, sweep

pytestmark = pytest.mark.anyio
WINNER = {"X": 3, "Y": 4}


def table(result: TuneResult) -> list[tuple[Any, ...]]:
    """What a run found, whatever the order and the times of day."""
    return sorted((str(v.config), v.status, v.value, v.fidelity, v.phase, v.target) for v in result.verdicts)


async def test_the_best_is_found_measured_and_confirmed(tmp_path: Path) -> None:
    meter = Meter()
    runner = FakeRunner(answer)
    result = await tune(sweep(), measure=meter, run=tmp_path, **options(runner))
    assert result.best().config == WINNER
    assert result.best().phase == "confirm"
    assert len(runner.actions) == 48
    assert len(meter.calls) == 42 + 3 * 5  # X = 5 does not compile; the best three are confirmed, in five rounds
    finals = [tuple(config.values()) for config, _ in meter.calls[42:]]
    assert finals == finals[:3] * 5  # in turns, so that a machine that drifts is fair to all of them
    assert result.stats["statuses"] == {"ok": 42, "failed": 6}  # configurations: a confirmation is none
    failed = next(verdict for verdict in result.verdicts if verdict.status == "failed")
    assert failed.failure == {"kind": "diagnostic", "message": "X is 5", "diagnostics": []}
    measured = result.best().measurement
    assert measured["device"] == "default"
    assert set(measured["contention"]) == {"compiles", "load"}
    assert [verdict.config["X"] for verdict in result.top(3)].count(3) >= 1


async def test_an_estimate_is_called_one_and_ties_are_named() -> None:
    result = await tune(sweep(), "size", **options())
    assert result.best().config == {"X": 0, "Y": 0}
    assert not result.best().estimate
    assert [verdict.config["X"] for verdict in result.ties()] == [0, 1, 2, 3, 4, 6, 7]


async def test_each_target_takes_the_first_objective_that_can_be_had() -> None:
    notes: list[Any] = []
    result = await tune(sweep(["znver4"]), ["time", "size"], on_plan=notes.append, **options())
    assert result.best("znver4").objective == "size"
    assert notes[0].total == 48
    assert notes[0].notes == ["znver4: no time: nothing to measure with was given"]
    with pytest.raises(RequestError, match="no registers: not for this kind of target"):
        await tune(sweep(), "registers", **options())


async def test_a_run_says_what_it_will_do() -> None:
    plans: list[Plan] = []
    targets = ["znver4", "znver5"]
    await tune(sweep(targets), ["time"], measure=Meter(), budget="30,1h", on_plan=plans.append, confirm=0, **options())
    assert plans[0].describe.splitlines()[-3:] == [
        "96 compiles",
        "budget: 30 configurations of each target, 3600 s, at most",
        "by time, measured on default: znver4, znver5",
    ]
    assert (plans[0].total, plans[0].seconds) == (60, 3600.0)
    halving = tune(sweep(), measure=Meter(), strategy="halving", on_plan=plans.append, confirm=0, **options())
    assert plans[1:] == []
    result = await halving
    assert plans[1].total == len(result.verdicts)


async def test_a_run_does_not_go_on_with_other_devices_or_tools(tmp_path: Path) -> None:
    await tune(sweep(), measure=Meter(), devices=("A100 (cuda 0)",), run=tmp_path, confirm=0, **options())
    again: dict[str, Any] = {"run": tmp_path, "resume": True, "confirm": 0, "measure": Meter()}
    await tune(sweep(), devices=("A100 (cuda 3)",), **again, **options())
    with pytest.raises(RequestError, match="devices changed from A100 to H100"):
        await tune(sweep(), devices=("H100 (cuda 0)",), **again, **options())


async def test_one_measurement_at_a_time_on_a_device_while_compiles_go_on() -> None:
    busy: dict[str, int] = {}
    most = 0

    async def measure(artifact: Artifact, config: Config, context: MeasureContext) -> float:
        nonlocal most
        busy[context.device] = busy.get(context.device, 0) + 1
        assert busy[context.device] == 1
        most = max(most, sum(busy.values()))
        await anyio.sleep(0)
        busy[context.device] -= 1
        return 1.0

    await tune(sweep(), measure=measure, devices=("gpu0", "gpu1"), **options())
    assert most == 2


async def test_what_fails_in_a_measurement_is_a_verdict() -> None:
    async def measure(artifact: Artifact, config: Config, context: MeasureContext) -> Any:
        match config["X"]:
            case 0:
                raise MeasureFailed("wrong", "4 of 9 differ")
            case 1:
                raise ZeroDivisionError
            case 2:
                return {"error": "too many threads", "kind": "infeasible"}
            case 3:
                return {"time": 2.0, "correct": False}
            case 4:
                return "fast"
        return {"time": 2.0, "correct": True, "p20": 1.0, "p80": 3.0, "runs": 9, "watts": 250}

    result = await tune(sweep(params={"X": range(7)}), measure=measure, confirm=0, **options())
    found = {int(verdict.config["X"]): verdict for verdict in result.verdicts}
    statuses = {number: verdict.status for number, verdict in found.items()}
    assert statuses == {0: "wrong", 1: "error", 2: "infeasible", 3: "wrong", 4: "error", 5: "failed", 6: "ok"}
    assert found[6].spread == (1.0, 3.0)
    assert found[6].measurement["numbers"] == {"watts": 250}
    assert found[6].measurement["checked"] is True


async def test_the_hopeless_are_told_when_to_give_up() -> None:
    limits: list[float | None] = []

    async def measure(artifact: Artifact, config: Config, context: MeasureContext) -> float:
        limits.append(context.give_up_above)
        return 2.0

    await tune(sweep(params={"X": range(4)}), measure=measure, confirm=1, hopeless=3.0, **options())
    assert limits[0] is None
    assert limits[3] == 6.0
    assert limits[4] is None  # the confirmation is done in full


async def test_the_spread_of_a_winner_is_that_of_the_rounds() -> None:
    """A machine that drifts: what a single measurement says of its spread is too little."""
    drift = iter(range(10_000))

    async def measure(artifact: Artifact, config: Config, context: MeasureContext) -> Any:
        now = seconds(config) + 1e-6 * next(drift)
        return {"time": now, "p20": now - 1e-7, "p80": now + 1e-7, "runs": 10, "contention": {"preempted": next(drift)}}

    result = await tune(sweep(), measure=measure, confirm=2, rounds=3, **options())
    best = result.best()
    rounds = best.measurement["rounds"]
    assert best.value == sorted(rounds)[1]
    assert best.spread == (min(rounds) - 1e-7, max(rounds) + 1e-7)
    assert best.measurement["runs"] == 30
    assert len(best.measurement["spans"]) == 3
    assert best.measurement["contention"]["preempted"] == next(drift) - 3  # that of the worst, which is the last one
    found = await tune(sweep(params={"X": [1], "Y": [1]}), measure=Meter(), confirm=1, **options())
    assert found.best().spread == (seconds({"X": 1, "Y": 1}), seconds({"X": 1, "Y": 1}))


async def test_the_best_so_far_is_measured_again_while_the_search_goes_on(tmp_path: Path) -> None:
    """In a run that has taken a while: here one that goes on."""
    await tune(sweep(params={"X": [1], "Y": [1]}), measure=Meter(), run=tmp_path, confirm=0, **options())
    lines = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()]
    aged = [{**line, "at": 50.0} if line["type"] == "verdict" else line for line in lines]
    (tmp_path / NAME).write_text("".join(json.dumps(line) + "\n" for line in aged))
    meter = Meter()
    other = sweep(params={"X": [3], "Y": [4]})
    result = await tune(other, measure=meter, run=tmp_path, resume=True, confirm=1, rounds=2, **options())
    assert len(meter.calls) == 1 + 1 + 2  # searched, watched, and confirmed in two rounds
    assert result.best().config == WINNER
    assert result.best().measurement["watched"] == [seconds(WINNER)]
    assert len(load(tmp_path).verdicts) == 1 + 1 + 1  # what was watched has no line of its own


async def test_luck_does_not_win() -> None:
    """What was fast once and is slow again gives way to what was second, which is measured again then too."""
    calls: Counter[Any] = Counter()

    async def measure(artifact: Artifact, config: Config, context: MeasureContext) -> float:
        calls[config["X"]] += 1
        return 1.0 if config["X"] == 4 and calls[4] == 1 else 10.0 + float(config["X"])

    result = await tune(sweep(params={"X": range(5)}), measure=measure, confirm=1, **options())
    assert (result.best().config["X"], result.best().value, result.best().phase) == (0, 10.0, "confirm")
    assert calls == {0: 6, 1: 1, 2: 1, 3: 1, 4: 6}


async def test_what_fails_when_it_is_confirmed_does_not_win() -> None:
    async def measure(artifact: Artifact, config: Config, context: MeasureContext) -> float:
        if context.confirming and config["X"] == 0:
            raise MeasureFailed("wrong", "a race")
        return 1.0 + float(config["X"])

    result = await tune(sweep(params={"X": range(4)}), measure=measure, confirm=2, **options())
    assert [verdict.config["X"] for verdict in result.ranked()] == [1, 2, 3]


@pytest.mark.parametrize("strategy", ["grid", "random", "halving"])
async def test_it_goes_on_where_it_was_killed(tmp_path: Path, strategy: str) -> None:
    """Whatever part of the journal is left: the same table, and nothing in it is done twice."""
    whole = await tune(sweep(), measure=Meter(), strategy=strategy, run=tmp_path / "whole", **options())
    lines = (tmp_path / "whole" / NAME).read_bytes().splitlines(keepends=True)
    for kept in (1, len(lines) // 3, len(lines) - 2):
        folder = tmp_path / f"kept{kept}"
        folder.mkdir()
        (folder / NAME).write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
        done = {(verdict.config, verdict.fidelity, verdict.phase) for verdict in load(folder).verdicts.values()}
        meter = Meter()
        runner = FakeRunner(answer)
        result = await tune(sweep(), measure=meter, strategy=strategy, run=folder, resume=True, **options(runner))
        assert table(result) == table(whole)
        searched = {(config, fidelity) for config, fidelity, phase in done if phase == "search"}
        now = [v for v in load(folder).verdicts.values() if v.ok and v.identity[2:] not in done]
        assert len(meter.calls) == sum(5 if verdict.phase == "confirm" else 1 for verdict in now)
        assert not {call for call in meter.calls if call[1] < 1} & searched
        assert result.best().config == WINNER


async def test_a_finished_run_does_nothing_more(tmp_path: Path) -> None:
    await tune(sweep(), measure=Meter(), run=tmp_path, **options())
    meter, runner = Meter(), FakeRunner(answer)
    again = await tune(sweep(), measure=meter, run=tmp_path, resume=True, **options(runner))
    assert not meter.calls
    assert again.best().config == WINNER
    assert len(runner.actions) <= 1  # the winner's artifact, where the cache has lost it


async def test_budgets_end_it() -> None:
    result = await tune(sweep(), measure=Meter(), budget=7, strategy="random", confirm=0, **options())
    assert len(result.verdicts) == 7
    result = await tune(sweep(), measure=Meter(), budget="0.000001s", confirm=0, **options())
    assert not result.verdicts
    with pytest.raises(LookupError):
        result.best()


async def test_optuna_gets_there_with_less() -> None:
    pytest.importorskip("optuna")
    result = await tune(sweep(), measure=Meter(), budget=30, strategy="optuna", confirm=1, **options())
    assert len({verdict.config for verdict in result.verdicts}) == 30
    assert (result.best().value or 1) <= 3e-3


async def test_what_would_fail_them_all_stops_the_run() -> None:
    class Missing(FakeToolchain):
        async def find(self, host: Host) -> Toolchain:
            raise ToolNotFound("nowhere to be found")

    with pytest.raises(ToolchainNotFoundError, match="nowhere"):
        await tune(Sweep(KERNEL, "znver4", {"X": [1], "Y": [1]}, toolchain=Missing()), "size", **options())


async def test_results_for_programs(tmp_path: Path) -> None:
    seen: list[Verdict] = []
    result = await tune(sweep(), measure=Meter(), run=tmp_path, on_verdict=seen.append, **options())
    assert len(seen) == len(result.verdicts)
    data = json.loads(result.to_json())
    assert data["best"]["k znver4"]["config"] == WINNER
    assert len(data["verdicts"]) == 51
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert rows[0]["X"] == "0"
    assert {row["failure"] for row in rows} == {"", "diagnostic: X is 5"}
    assert "X=3 Y=4" in result._repr_html_()
    assert isinstance(result.to_pandas(), pd.DataFrame)


async def test_the_winner_is_loaded_in_one_line(tmp_path: Path) -> None:
    await tune(sweep(), measure=Meter(), run=tmp_path, **options())
    best = load_best(tmp_path, device="znver4")
    assert best.config == WINNER
    assert best.artifact["object"] == b"x" * 14
    with pytest.raises(LookupError, match="it has k for znver4"):
        load_best(tmp_path, device="sm_90")
    [stored] = (tmp_path / "artifacts").iterdir()
    stored.write_bytes(b"other")
    with pytest.raises(RequestError, match="was changed"):
        load_best(tmp_path / "best.json", device="znver4")
