"""Compile one kernel for one target and look at what comes back."""

import asyncio
from pathlib import Path

from teeny_async import CompileRequest, Kernel, Target, compile_one

KERNELS = Path(__file__).parent / "kernels"


async def main() -> None:
    kernel = Kernel.from_file(KERNELS / "saxpy.c")
    result = await compile_one(CompileRequest(kernel, Target.parse("sm_90"), params={"BLOCK": 256}))
    ptx = result.artifact["ptx"].decode()  # raises CompileError or ToolchainError, were there no artifact
    print(f"{result.source} in {result.timings.total:.3f} s, {result.usage.max_rss >> 20} MiB")
    print("\n".join(line for line in ptx.splitlines() if line.startswith(".")))


asyncio.run(main())
