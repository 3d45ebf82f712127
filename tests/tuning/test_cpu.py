"""Measuring on this machine's CPU: real compiles, a real worker, kernels that misbehave."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from teeny_async import Kernel, RequestError, Sweep, Target
from teeny_async.settings import Settings
from teeny_async.tuning import MeasureFailed, load_best, tune
from teeny_async.tuning.command import CommandMeasurer, last_object
from teeny_async.tuning.cpu import CpuMeasurer
from teeny_async.tuning.signature import Argument, Signature
from teeny_async.tuning.worker import Worker
from teeny_async.tuning.workers.arrays import Problem
from teeny_async.tuning.workers.stdio import Refused
from teeny_async.tuning.workers.timing import measure, summary, uncertainty

pytest.importorskip("numpy")
KERNEL = Kernel.from_file(Path(__file__).parent / "bad.c", name="bad")
CALL = "x: in f32[n]; y: out f32[n]; n: i32"


def signature(**options: Any) -> Signature:
    return Signature.parse("kernel", CALL, {"n": 1000}, **{"reference": "y = 2 * x", **options})


def test_a_signature_is_read() -> None:
    found = Signature.parse(
        "f", "a: in f32[m, k * 2]; s: f64 = 0.5 * m; c: inout i32[8]; m: i32", {"m": 4, "k": 3}, rtol=0.1
    )
    assert found.arguments[0] == Argument("a", "in", "f32", "m, k * 2")
    message = found.message({"TILE": 8})
    assert [each.get("shape") for each in message["arguments"]] == [[4, 6], "", [8], ""]
    assert [each.get("value") for each in message["arguments"]] == ["", 2.0, "", 4]
    launch = Signature.parse("f", "", {"n": 100}, grid="ceil(n / B), 2", block="B", shared="B * 4").launch({"B": 32})
    assert launch == {"grid": [4, 2, 1], "block": [32, 1, 1], "shared": 128}
    for text in ("a", "a: f31", "a: in f32", "a: f32[3]", "b: i32", "a: in f32[__import__]x"):
        with pytest.raises(RequestError):
            Signature.parse("f", text, {"m": 1})
    with pytest.raises(RequestError, match="1 or more"):
        Signature.parse("f", "", {}, grid="0", block="1").launch({})


def test_the_times_of_runs() -> None:
    times = iter([9.0, 2.0, *[1.0, 3.0, 2.0] * 500])
    found = measure(lambda: next(times) / 10, batch=10, fidelity=3.9)
    assert (found.median, found.p20, found.p80, found.runs) == (0.02, 0.01, 0.03, 5)
    assert measure(lambda: 1.0, give_up_above=0.5).stopped == "hopeless"
    noisy = [iter([0.001, 0.0012, 0.0009] * 1000) for _ in range(2)]
    assert measure(lambda: next(noisy[0]), fidelity=0.1).runs < measure(lambda: next(noisy[1])).runs
    assert summary([3.0, 1.0, 2.0]).median == 2.0


def test_runs_end_when_the_median_is_known() -> None:
    assert measure(lambda: 0.001).runs == 10
    assert measure(lambda: 0.001, warm_up=0.0).runs == 10
    samples = [1.0 + number / 1000 for number in range(100)]
    assert 0.019 < uncertainty(samples) < 0.023
    assert uncertainty(samples * 100) < uncertainty(samples) / 5
    assert uncertainty([0.0] * 10) == float("inf")


def test_what_is_far_from_the_best_is_not_measured_as_well() -> None:
    runs = []
    for best in (None, 0.001, 0.0005):
        noisy = iter([0.001, 0.00102, 0.00098] * 1000)
        runs.append(measure(lambda noisy=noisy: next(noisy), best=best).runs)  # type: ignore[misc]
    assert runs[0] == runs[1] > 10
    assert runs[2] == 10


@pytest.mark.parametrize(("found", "wrong"), [(2.0, 0), (2.1, 1), (float("nan"), 1), (float("inf"), 1)])
def test_what_is_compared(found: float, wrong: int) -> None:
    argument = {"name": "x", "role": "out", "type": "f32", "shape": [4], "rtol": 1e-4}
    problem = Problem([argument], "x = zeros_like(x) + 2.0")
    array = np.full(4, 2.0, dtype=np.float32)
    problem.check({"x": array})
    array[1] = found
    if wrong:
        with pytest.raises(Refused, match=f"{wrong} of 4 elements of x are wrong: x\\[1\\] is {found:.6g}, not 2"):
            problem.check({"x": array})
    else:
        problem.check({"x": array})


def test_what_is_not_finite_must_be_the_same(tmp_path: Path) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text("import numpy\ndef f(x):\n    return numpy.array([1.0, numpy.inf, numpy.nan])\n")
    argument = {"name": "x", "role": "out", "type": "f32", "shape": [3], "rtol": 1e-4}
    problem = Problem([argument], f"{reference}:f")
    problem.check({"x": np.array([1.0, np.inf, np.nan], dtype=np.float32)})
    with pytest.raises(Refused, match="2 of 3"):
        problem.check({"x": np.array([1.0, np.nan, np.inf], dtype=np.float32)})


@pytest.mark.anyio
async def test_right_and_wrong_and_hanging_and_crashing(settings: Settings, scratch_dir: Path) -> None:
    measurer = CpuMeasurer(signature(), timeout=1.5, scratch_dir=str(scratch_dir))
    sweep = Sweep(KERNEL, "native", {"FAULT": range(5)}, opt_level=1)
    result = await tune(sweep, measure=measurer, confirm=1, settings=settings, run=scratch_dir.parent / "run")
    found = {int(verdict.config["FAULT"]): verdict for verdict in result.verdicts if verdict.phase == "search"}
    assert {number: verdict.status for number, verdict in found.items()} == {
        0: "ok",
        1: "wrong",
        2: "error",
        3: "error",
        4: "wrong",
    }
    said = [str((verdict.failure or {}).get("message")) for _, verdict in sorted(found.items())]
    assert said[1].startswith("1 of 1,000 elements of y are wrong: y[3] is ")
    assert "hung: no answer in 1.5 s" in said[2]
    assert "died (signal SIGSEGV)" in said[3]
    assert "1,000 of 1,000" in said[4]
    measured = result.best("native").measurement
    assert measured["checked"] is True
    assert measured["problem"] == {"n": 1000}
    assert measured["p20"] <= (result.best().value or 0) <= measured["p80"]
    assert "(cpu " in measured["device"]
    best = load_best(scratch_dir.parent / "run")
    assert best.artifact["library"].startswith(b"\x7fELF")


def test_what_this_machine_cannot_run_is_refused() -> None:
    measurer = CpuMeasurer(signature(), runs_on=["znver4"])
    assert measurer.refusal(None) is None
    assert measurer.refusal(Target.parse("sm_90")) is not None
    assert measurer.refusal(Target.parse("a64fx" if os.uname().machine == "x86_64" else "znver3")) is not None


@pytest.mark.anyio
async def test_a_worker_ends_with_its_parent_and_when_nobody_waits() -> None:
    script = "import sys, time; print('{}', flush=True); sys.stdin.readline(); time.sleep(100)"
    worker = Worker([sys.executable, "-c", script])
    await worker.start()
    assert worker._process is not None
    pid = worker._process.pid
    with anyio.move_on_after(0.2):
        await worker.ask({}, 60.0)
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(MeasureFailed, match="hung"):
        await worker.ask({}, 0.2)
    assert worker.starts == 2
    broken = Worker([sys.executable, "-c", "import sys; sys.exit('no such device')"])
    with pytest.raises(MeasureFailed, match=r"died \(exit 1\): no such device"):
        await broken.start()


COMMAND = """
import json, sys
artifact, config = open(sys.argv[1], "rb").read(), json.load(open(sys.argv[2]))
print("some noise")
if config["config"]["FAULT"] == 1:
    sys.exit("broken")
if config["config"]["FAULT"] == 2:
    print(json.dumps({"error": "not right", "kind": "wrong"}))
else:
    print(json.dumps({"time": len(artifact), "correct": True, "device": config["device"] + "!"}))
"""


@pytest.mark.anyio
async def test_a_command_measures(settings: Settings, scratch_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "measure.py"
    script.write_text(COMMAND)
    command = f"{sys.executable} {script} {{artifact}} {{config}}"
    measurer = CommandMeasurer(command, os.environ, devices=["one"], scratch_dir=str(scratch_dir))
    sweep = Sweep(KERNEL, "native", {"FAULT": [0, 1, 2]})
    result = await tune(sweep, measure=measurer, confirm=0, settings=settings)
    found = {verdict.config["FAULT"]: verdict for verdict in result.verdicts}
    assert {number: verdict.status for number, verdict in found.items()} == {0: "ok", 1: "error", 2: "wrong"}
    assert found[0].measurement["device"] == "one!"
    assert found[0].value == found[0].facts["size"]
    assert "broken" in str(found[1].failure)


def test_commands_that_cannot_be() -> None:
    for command in ("", "no-such-program-here {artifact}", "'"):
        with pytest.raises(RequestError):
            CommandMeasurer(command, os.environ)
    assert last_object('x\n{"a": 1}\n{broken\n') == {"a": 1}
    assert last_object("nothing") is None
