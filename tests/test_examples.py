"""Every example runs, as a user would run it, and prints what its first line promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standins import install_teenyc

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "compile_one": [".version 8.8", ".target sm_90", "compiled in"],
    "sweep_targets": ["Counter({'compiled':"],
    "dask_cluster": [
        "cluster 1: {'compiled': 12}, 12 compiler runs on 2 workers",
        "cluster 2: {'cached': 12}, 0 compiler runs on 2 workers",
    ],
    "stream_results": ["UNROLL=1: ", "slots were busy"],
    "custom_toolchain": ["square:", "diagnostic: "],
    "tune_cuda_matmul": ["matmul", "verdicts in", "compiling"],
    "tune_cpu_matmul": ["6 compiles (of 48;", "native", "three plain loops", "times as fast", "measured on"],
    "upstream": ["sm_80: compiled", "2 written, 0 there already", "axpby_", "has the id axpby__f32__1024 and 13 lines"],
    "every_toolchain": [
        "zig    zig     sm_90",
        "hip    zig     gfx942",
        "triton triton  gfx942",
        "runs",
        "15 of 15 compiled",
    ],
    "under_trio": ["coalesced", "gfx942: compiled", "znver4: compiled"],
}
NEED_TEENYC = ("upstream",)


ARGUMENTS = {"every_toolchain": ["h100", "mi300x", "native"]}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_it_runs(name: str, tmp_path: Path) -> None:
    environ = {**os.environ, "TEENY_ASYNC_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    if name in NEED_TEENYC:
        environ["TEENYC_PATH"] = str(install_teenyc(tmp_path / "teenyc").path)
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *ARGUMENTS.get(name, ())]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for words in SAYS[name]:
        assert words in done.stdout
