"""Prints what a teenygrad program would find: compiles a kernel by teenyc for two cards and exports it to its folder.

Needs teenyc: TEENYC_PATH, or the rustup toolchain that has it. Makes ./cache and ./teenyc_cache.
"""

import asyncio
from pathlib import Path

from teeny_async import Compiler, Kernel, Sweep
from teeny_async.store.disk import DiskStore
from teeny_async.upstream import export, import_kernels

KERNELS = Path(__file__).parent / "kernels_prelude"


async def main(folder: str) -> None:
    prelude = (KERNELS / "no_core.rs").read_text()
    kernel = Kernel.from_file(KERNELS / "axpby.rs", prelude=prelude, id="axpby__f32__1024")
    store = DiskStore("cache")
    async with Compiler(store=store) as compiler:
        for result in await compiler.compile_many(Sweep(kernel, ["sm_80", "sm_90"], toolchain="teenyc")):
            print(f"{result.request.target}: {result.source}, {len(result.artifact['ptx'])} bytes of PTX")

    # No teenyc is needed from here on: neither by us nor by a program that looks there.
    report = await export(store, folder)
    print(f"{len(report.written)} written, {report.same} there already")
    print(*(f"{stem}.o" for stem in report.written), sep="\n")

    # And back: what a program has left there, to compile for other cards.
    [found] = import_kernels(folder, preludes=[prelude], ids=["axpby__f32__1024"])
    print(f"{found.name} has the id {found.id} and {len(found.source.splitlines())} lines of its own")


asyncio.run(main("teenyc_cache"))
