"""The same session under trio: a nursery of tasks, one compiler, one compile for equal requests."""

from pathlib import Path

import trio

from teeny_async import Compiler, CompileRequest, Kernel, Target

KERNEL = Kernel.from_file(Path(__file__).parent / "kernels" / "stencil.c")


async def show(compiler: Compiler, cpu: str) -> None:
    result = await compiler.compile_result(CompileRequest(KERNEL, Target.parse(cpu)))
    print(f"{cpu}: {result.source}, {sum(map(len, result.outputs.values()))} bytes")


async def main() -> None:
    async with Compiler() as compiler, trio.open_nursery() as nursery:
        for cpu in ("sm_90", "sm_90", "gfx942", "znver4"):
            nursery.start_soon(show, compiler, cpu)


trio.run(main)
