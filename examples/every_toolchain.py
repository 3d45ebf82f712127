"""One kernel in seven languages, for 20 processors, by every toolchain that is here and takes it.

Each GPU binary is one that ptxas or lld was content with; the libraries for this machine are loaded and run.
Name processors to compile for those only: python every_toolchain.py h100 mi300x native
"""

import ctypes
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio

from teeny_async import Compiler, CompileRequest, CompileResult, Kernel, RequestError, Sweep
from teeny_async.toolchains.base import ToolNotFound

KERNELS = Path(__file__).parent / "kernels"
NVIDIA = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "h100", "b200", "b300", "rtx5090", "dgx-spark"]
OTHERS = ["gfx90a", "mi300x", "gfx1100", "gfx1201", "x86-64-v3", "milan", "genoa", "spr", "graviton4", "native"]
TOOLS = {
    "c": ["zig", "cc"],
    "cuda": ["nvcc", "zig"],
    "hip": ["zig"],
    "rust": ["rustc", "teenyc"],
    "zig": ["zig"],
    "triton": ["triton"],
    "ttir": ["triton"],
}


async def takeable(compiler: Compiler, request: CompileRequest) -> list[CompileRequest]:
    """The request for each toolchain that is installed and takes it: a library for a CPU, a binary for a GPU."""
    assert request.target is not None
    if request.kernel.language == "rust" and not request.target.is_nvidia:
        return []  # the shipped one has the calling convention of a PTX kernel
    emit = "cubin" if request.target.is_nvidia else "hsaco" if request.target.is_amd else "shared"
    found = []
    for tool in TOOLS[request.kernel.language]:
        by_tool = replace(request, toolchain=tool, emit=emit)
        try:
            await compiler.plan(by_tool)
        except (RequestError, ToolNotFound):
            continue
        found.append(by_tool)
    return found


def adds(library: bytes) -> bool:
    """Whether it loads and gives right numbers."""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(library)
        file.flush()
        floats = ctypes.c_float * 1000
        out = floats()
        ctypes.CDLL(file.name).vector_add(floats(*range(1000)), floats(*range(1000)), out, 1000)
        return list(out) == [2.0 * i for i in range(1000)]


def row(result: CompileResult) -> str:
    request = result.request
    name = f"{request.kernel.language:6} {request.toolchain:7} {str(request.target).partition('@')[0]:15}"
    if result.failure:
        return f"{name} {result.failure.message}"
    metrics = result.artifact.metrics
    spills = metrics.get("spills", metrics.get("spill_stores", ""))
    numbers = f"{len(result.outputs[request.emit or '']):8} B {metrics.get('registers', ''):>9} {spills:>6}"
    ran = request.target is not None and request.target.cpu == "native" and adds(result.outputs["shared"])
    return f"{name} {numbers} {result.timings.ran * 1e3:8.0f} ms {'runs' if ran else ''}"


async def main(names: list[str]) -> None:
    kernels = [Kernel.from_file(path, entry_point=entry(path)) for path in sorted(KERNELS.glob("vector_add.*"))]
    async with Compiler() as compiler:
        requests = []
        for request in Sweep(kernels, names):
            requests += await takeable(compiler, request)
        print(f"{'':6} {'':7} {'':15} {'size':>10} {'registers':>9} {'spills':>6} {'time':>11}")
        results = await compiler.compile_many(requests)
        for result in results:
            print(row(result).rstrip())
    good = sum(result.ok for result in results)
    print(f"{good} of {len(results)} compiled, {compiler.stats.utilisation:.0%} of the slots busy")


def entry(path: Path) -> str:
    return "vector_add_entry_point" if path.suffix == ".rs" else "vector_add"


anyio.run(main, sys.argv[1:] or [*NVIDIA, *OTHERS])
