"""Measuring on GPUs, with a device that is none: the worker, its watchdog, and the measurer are the real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import RequestError, Sweep, Target
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.testing import FakeRunner
from teeny_async.tuning import tune
from teeny_async.tuning.cuda import CudaMeasurer
from teeny_async.tuning.signature import Signature
from tests.tuning.kit import KERNEL, TOOL, options

pytest.importorskip("numpy")
from teeny_async.tuning.workers.cuda import SmiClocks

pytestmark = pytest.mark.anyio
FAULTS = ["none", "wrong", "launch", "hang", "crash", "context"]
SIGNATURE = Signature.parse(
    "kernel",
    "x: in f32[n]; y: out f32[n]; n: i32",
    {"n": 1000},
    reference="y = x * 2",
    grid="ceil(n / 128)",
    block="128",
)


def cubin(action: Action) -> Exit:
    """What the fake device runs: X is the fault, Y the milliseconds."""
    macros = dict(arg.removeprefix("-D").split("=") for arg in action.argv if arg.startswith("-D"))
    kernel = {"fault": FAULTS[int(macros["X"])], "seconds": 1e-3 * int(macros["Y"])}
    return Exit(code=0, outputs=FrozenMap({"object": b"\x7fELF" + json.dumps(kernel).encode()}))


def measurer(**more: Any) -> CudaMeasurer:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return CudaMeasurer(
        SIGNATURE, device_class="tests.tuning.fake_cuda:FakeDevice", env=env, **{"timeout": 1.0, **more}
    )


class Loads(CudaMeasurer):
    """The fake toolchain writes objects."""

    async def __call__(self, artifact: Any, config: Any, context: Any) -> Any:
        from dataclasses import replace

        return await super().__call__(replace(artifact, outputs={"cubin": artifact["object"]}), config, context)


async def test_what_a_kernel_does_is_a_verdict_and_the_run_goes_on() -> None:
    device = measurer()
    device.__class__ = Loads
    sweep = Sweep(KERNEL, "sm_90", {"X": range(len(FAULTS)), "Y": [4, 2]}, toolchain=TOOL)
    result = await tune(sweep, measure=device, confirm=1, **options(FakeRunner(cubin)))
    found = {
        FAULTS[int(verdict.config["X"])]: (verdict.status, str((verdict.failure or {}).get("message")))
        for verdict in result.verdicts
    }
    assert {fault: status for fault, (status, _) in found.items()} == {
        "none": "ok",
        "wrong": "wrong",
        "launch": "infeasible",
        "hang": "error",
        "crash": "error",
        "context": "error",
    }
    assert "hung: no answer in 1 s; it was killed" in found["hang"][1]
    assert "SIGABRT" in found["crash"][1]
    assert "illegal memory access" in found["context"][1]
    best = result.best()
    assert (best.config["Y"], best.value) == (2, 0.002)
    assert best.measurement["device"] == "Fake H200 (cuda 0)"
    assert best.measurement["clocks"] == {"sm_mhz": 1980.0}
    assert best.measurement["checked"] is True


async def test_several_devices_work_at_the_same_time() -> None:
    device = measurer(devices=(0, 1))
    device.__class__ = Loads
    sweep = Sweep(KERNEL, "sm_90", {"X": [0], "Y": range(1, 9)}, toolchain=TOOL)
    with anyio.fail_after(30):
        result = await tune(sweep, measure=device, confirm=0, **options(FakeRunner(cubin)))
    assert {verdict.measurement["device"] for verdict in result.verdicts} == {
        "Fake H200 (cuda 0)",
        "Fake H200 (cuda 1)",
    }


async def test_devices_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(RequestError, match=r"CUDA device 9 cannot be used: .*no CUDA-capable device"):
        async with measurer(devices=(9,)):
            pass
    async with measurer() as device:
        assert device.refusal(Target.parse("sm_90")) is None
        assert device.refusal(Target.parse("sm_90a")) is None
        assert "are sm_90, which do not run code for sm_100" in str(device.refusal(Target.parse("sm_100")))
        assert device.refusal(Target.parse("znver4")) is not None
    with pytest.raises(RequestError, match="grid and its block"):
        CudaMeasurer(Signature.parse("k", "", {}), device_class="x:y")


def test_clocks_are_asked_for_in_passing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\necho 1980, 3201\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    clocks = SmiClocks(0)
    assert [clocks.read() for _ in range(3)] == [{"sm_mhz": 1980.0, "memory_mhz": 3201.0}] * 3
    assert (tmp_path / "asked").read_text() == "x\n"
    smi.write_text("#!/bin/sh\necho no device\n")
    assert SmiClocks(0).read() == {}
    monkeypatch.setenv("PATH", "/nowhere")
    assert SmiClocks(0).read() == {}
