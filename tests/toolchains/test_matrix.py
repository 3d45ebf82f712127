"""Every shipped kernel, for every kind of target, by every real compiler; what comes out, NVIDIA's assembler takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from teeny_async import CompileResult, Kernel, Sweep, compile_many_sync
from teeny_async.settings import Settings
from tests.standins import Teenyc, link_toolchain
from tests.support import KERNELS, changed

pytestmark = pytest.mark.usefixtures("no_leftovers")

GPUS = (
    *("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"),
    *("sm_100", "sm_100a", "sm_103", "sm_120", "sm_121"),
)
AMD_GPUS = ("gfx90a", "gfx942", "gfx1100")
CPUS = ("x86-64-v3", "znver4", "neoverse-v2", "apple-m1", "sifive-x280")
TEENYC_GPUS = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120")
RUST = sorted(KERNELS.glob("*.rs"))


def kernels(pattern: str) -> list[Kernel]:
    """The shipped kernels; each must have its entry point in the output."""
    found = [Kernel.from_file(path, entry_point=entry_point(path)) for path in sorted(KERNELS.glob(pattern))]
    assert found
    return found


def entry_point(path: Path) -> str:
    return f"{path.stem}_entry_point" if path.suffix == ".rs" else path.stem


def compiled(sweep: Sweep, settings: Settings, **options: Any) -> list[CompileResult]:
    """All the results: none of them is a failure, or came with a warning."""
    results = compile_many_sync(sweep, settings=settings, mode="no_cache", **options)
    assert len(results) == len(sweep.kernels) * len(sweep.targets)
    assert [f"{r.request.kernel.name} {r.request.target}: {r.failure}" for r in results if not r.ok] == []
    assert {str(diagnostic) for result in results for diagnostic in result.artifact.diagnostics} == set()
    return results


def ptx_target(result: CompileResult) -> str:
    found = re.search(rb"^\.target (\w+)", result.outputs["ptx"], re.MULTILINE)
    assert found
    return found[1].decode()


def check_assembled(results: Iterable[CompileResult]) -> None:
    """Each PTX went through `ptxas -arch=<its .target>`, and the metrics came with it."""
    for result in results:
        assert result.outputs["cubin"].startswith(b"\x7fELF")
        assert result.artifact.metrics["registers"]
        assert result.artifact.metrics["spill_stores"] == 0


def test_c_for_nvidia(settings: Settings) -> None:
    results = compiled(Sweep(kernels("*.c"), GPUS, toolchain="zig", emit="cubin"), settings)
    check_assembled(results)
    for result in results:
        assert ptx_target(result) == str(result.request.target)
        assert re.search(rb"^\.version 8\.8$", result.outputs["ptx"], re.MULTILINE)


def test_c_for_cpus_and_amd(settings: Settings) -> None:
    results = compiled(Sweep(kernels("*.c"), (*CPUS, *AMD_GPUS), toolchain="zig"), settings, backend="trio")
    machines = {result.outputs["object"][18:20] for result in results}
    assert len(machines) == 4


def test_cuda_by_zig(settings: Settings) -> None:
    check_assembled(compiled(Sweep(kernels("*.cu"), GPUS, toolchain="zig", emit="cubin"), settings))


@pytest.mark.parametrize("emit", ["ptx", "cubin"])
def test_cuda_by_nvcc(settings: Settings, emit: str) -> None:
    results = compiled(Sweep(kernels("*.cu"), ["sm_80", "sm_90"], toolchain="nvcc", emit=emit), settings)
    for result in results:
        assert set(result.outputs) == {"ptx", emit}
        if emit == "ptx":
            assert ptx_target(result) == str(result.request.target)
    if emit == "cubin":
        check_assembled(results)


def test_rust_by_rustc(settings: Settings) -> None:
    results = compiled(Sweep(kernels("*.rs"), TEENYC_GPUS, toolchain="rustc", emit="cubin"), settings, backend="trio")
    check_assembled(results)
    assert [ptx_target(result) for result in results] == list(TEENYC_GPUS) * len(RUST)


@pytest.mark.parametrize(("discovery", "backend"), [("TEENYC_PATH", "asyncio"), ("rustup", "trio")])
def test_rust_by_teenyc(settings: Settings, teenyc: Teenyc, tmp_path: Path, discovery: str, backend: Any) -> None:
    if discovery == "rustup":
        link_toolchain("teenyc-1.0", teenyc, tmp_path / "rustup")
        settings = changed(settings, {"RUSTUP_HOME": tmp_path / "rustup"})
    else:
        settings = changed(settings, {"TEENYC_PATH": teenyc.path})
    results = compiled(Sweep(kernels("*.rs"), TEENYC_GPUS, toolchain="teenyc", emit="cubin"), settings, backend=backend)
    check_assembled(results)
    forms = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_120": "sm_120a"}
    assert [ptx_target(result) for result in results] == [forms.get(cpu, cpu) for cpu in TEENYC_GPUS] * len(RUST)
    assert all(b"module" in result.outputs["mlir"] for result in results)
    assert len(teenyc.calls) == len(results)


def test_ptxas_takes_the_ptx_by_itself(settings: Settings, tmp_path: Path) -> None:
    """Not through us: the very command line that a person would type."""
    ptxas = shutil.which("ptxas")
    assert ptxas
    for result in compiled(Sweep(kernels("saxpy*.rs"), ["sm_90"], toolchain="rustc"), settings):
        path = tmp_path / "kernel.ptx"
        path.write_bytes(result.outputs["ptx"])
        command = [ptxas, f"-arch={ptx_target(result)}", str(path), "-o", str(tmp_path / "kernel.cubin")]
        subprocess.run(command, check=True)
