"""Take results as they come, from requests that are made as they are needed, and stop when satisfied."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from teeny_async import Compiler, CompileRequest, Kernel, Target

KERNEL = Kernel.from_file(Path(__file__).parent / "kernels" / "vector_add.c")


def requests() -> Iterator[CompileRequest]:
    for unroll in range(1, 1_000_000):
        yield CompileRequest(KERNEL, Target.parse("sm_90"), params={"UNROLL": unroll})


async def main() -> None:
    async with Compiler() as compiler, compiler.as_completed(requests(), window=16) as results:
        async for result in results:
            size = len(result.artifact["ptx"])
            print(f"UNROLL={result.request.params['UNROLL']}: {size} bytes of PTX")
            if size > 8_000:
                break  # leaving the block cancels what is still under way
        print(f"slots were busy {compiler.stats.utilisation:.0%} of the time")


asyncio.run(main())
