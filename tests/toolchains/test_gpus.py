"""What "native" is for a GPU; there is none where the tests run, so that its tools are played."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeny_async import Compiler, CompileRequest, Kernel, RequestError, Target
from teeny_async.result import Exit
from teeny_async.settings import Settings
from teeny_async.testing import FakeHost
from teeny_async.toolchains import gpus
from tests.support import KERNELS, changed

pytestmark = pytest.mark.anyio

NVIDIA, AMD = Target.parse("native-gpu+ptx88"), Target.parse("native@amdgcn-amd-amdhsa")
QUERY = ("/smi", "--query-gpu=compute_cap", "--format=csv,noheader")


def machine(nvidia: Exit | None = None, amd: Exit | None = None) -> FakeHost:
    programs = {"nvidia-smi": "/smi"} if nvidia else {}
    programs |= {"rocm_agent_enumerator": "/rocm"} if amd else {}
    return FakeHost(programs=programs, answers={QUERY: nvidia or Exit(code=0), ("/rocm",): amd or Exit(code=0)})


async def test_the_gpu_of_this_machine() -> None:
    eight = machine(nvidia=Exit(code=0, stdout=b"9.0\n" * 8))
    assert str(await gpus.native(eight, NVIDIA)) == "sm_90+ptx88"
    assert str(await gpus.native(machine(nvidia=Exit(code=0, stdout=b"12.0\n")), NVIDIA)) == "sm_120+ptx88"
    assert str(await gpus.native(machine(amd=Exit(code=0, stdout=b"gfx000\ngfx942\ngfx942\n")), AMD)) == "gfx942"
    assert str(await gpus.native(machine(amd=Exit(code=0, stdout=b"gfx90a\n")), AMD)) == "gfx90a"


@pytest.mark.parametrize(
    ("host", "target", "message"),
    [
        (machine(), NVIDIA, "needs an NVIDIA GPU, and there is no nvidia-smi here: name the architecture, as in sm_90"),
        (machine(), AMD, "needs an AMD GPU, and there is no rocm_agent_enumerator here: .* as in gfx942"),
        (machine(nvidia=Exit(code=9, stdout=b"No devices were found\n")), NVIDIA, "it says 'No devices were found'"),
        (machine(nvidia=Exit(code=0)), NVIDIA, r"it says 'nothing \(exit 0\)'"),
        (machine(amd=Exit(code=0, stdout=b"gfx000\n")), AMD, "rocm_agent_enumerator finds none"),
        (machine(nvidia=Exit(code=0, stdout=b"9.0\n7.5\n")), NVIDIA, "this machine has sm_90, sm_75; name the arch"),
    ],
)
async def test_there_is_not_one(host: FakeHost, target: Target, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        await gpus.native(host, target)


@pytest.mark.usefixtures("no_leftovers")
async def test_a_session_asks_the_machine(settings: Settings, tmp_path: Path) -> None:
    """Each toolchain does, through the session; what is keyed is the name it found."""
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\n[ $1 = --query-gpu=compute_cap ] && echo 8.9\n")
    script.chmod(0o755)
    settings = changed(settings, {"PATH": f"{tmp_path}:{settings.environ['PATH']}"})
    kernels = {"zig": "saxpy.c", "nvcc": "vector_add.cu", "rustc": "saxpy.rs", "zig-lang": "vector_add.zig"}
    async with Compiler(settings=settings) as compiler:
        for tool, name in kernels.items():
            kernel = Kernel.from_file(KERNELS / name)
            plan = await compiler.plan(CompileRequest(kernel, Target.parse("native-gpu"), toolchain=tool))
            assert str(plan.target) == "sm_89"
        cuda = Kernel.from_file(KERNELS / "vector_add.cu")
        with pytest.raises(RequestError, match="the GPU is native-gpu"):
            await compiler.plan(CompileRequest(cuda, Target.parse("native"), toolchain="nvcc"))
