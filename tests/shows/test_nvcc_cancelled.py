"""A real tree of compilers, cancelled in the middle: nvcc, its shell, cicc and ptxas are gone, TMPDIR is clean."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, Kernel, Target
from teeny_async.settings import Settings
from tests.execution.kit import left_in, processes_below

pytestmark = pytest.mark.anyio


def straight_line(lines: int) -> Kernel:
    """A kernel that keeps cicc and ptxas busy for many seconds: long, and nothing in it can be left out."""
    body = "\n".join(f"x = x * a[{n % 64}] + y; y = y * x - a[{(n * 7) % 64}];" for n in range(lines))
    source = f'extern "C" __global__ void k(float *a) {{ float x = a[0], y = a[1];\n{body}\na[2] = x + y; }}\n'
    return Kernel(name="straight", source=source, language="cuda")


@pytest.mark.parametrize("stage", ["cicc", "ptxas"])
async def test_a_cancelled_nvcc_leaves_nothing(
    settings: Settings, scratch_dir: Path, no_leftovers: None, stage: str
) -> None:
    request = CompileRequest(straight_line(9_000), Target("sm_90"), toolchain="nvcc", emit="cubin")
    async with Compiler(settings=settings) as compiler:
        async with anyio.create_task_group() as group:
            group.start_soon(compiler.compile_result, request)
            with anyio.fail_after(60):
                while not any(stage in command.split(" ")[0] for command in processes_below(scratch_dir)):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            while processes_below(scratch_dir):
                await anyio.sleep(0.01)
        assert [path for path in left_in(scratch_dir) if not path.endswith("lock")] == left_in(scratch_dir)
        small = CompileRequest(straight_line(3), Target("sm_90"), toolchain="nvcc")
        assert (await compiler.compile_result(small)).ok
