"""stages: a sweep to cubin when a part of it is there already: the PTX, or what the same PTX was assembled to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row
from benchmarks.rows.cold import missing

WALL = Metric("wall", "time", "ms")
NOTHING, PTX, CUBIN = "nothing there", "PTX there", "same PTX assembled"
COUNT = 48
"""Six kernels for eight targets; a variant of one comes to the same PTX."""
_WAYS = {
    NOTHING: 'compile_many(emit="cubin") on an empty store',
    PTX: 'the same after emit="ptx" in another session: ptxas runs, the front end does not',
    CUBIN: "sources with another comment, after that: the front end runs, ptxas does not",
}


def cases(context: Context) -> Iterator[Case]:
    absent = missing("zig") or (None if shutil.which("ptxas") else "ptxas is not on PATH")
    yield Case(
        title=f"{COUNT} zig kernels for 8 GPUs to cubin, {context.cpus} at a time",
        metrics=(WALL,),
        base=NOTHING,
        contestants=[
            Contestant(
                name=way,
                command=command,
                absent=absent,
                run=partial(in_child, context, "rows.stages:run", way=way, jobs=context.cpus),
            )
            for way, command in _WAYS.items()
        ],
        goals=[Goal(contestant=way, metric=WALL, how="ratio", limit=0.9, versus=NOTHING) for way in (PTX, CUBIN)],
    )


# In the child


def run(way: str, jobs: int) -> dict[str, float]:
    """The time of a sweep, of which some was prepared."""
    import os
    import time
    from dataclasses import replace

    from benchmarks.inside import all_ok, run
    from benchmarks.kernels import requests
    from teeny_async import Compiler, CompileRequest

    ptx = requests("zig", 2 * COUNT)  # the second half has a comment that the first has not
    cubin = [replace(request, emit="cubin") for request in ptx]
    store = os.path.join(os.environ["TMPDIR"], "cache")
    prepared = {NOTHING: [], PTX: ptx[:COUNT], CUBIN: cubin[:COUNT]}[way]
    wanted = cubin[COUNT:] if way == CUBIN else cubin[:COUNT]

    async def sweep(asked: list[CompileRequest]) -> float:
        async with Compiler(store=store, jobs=jobs) as compiler:
            await compiler.plan(wanted[0])
            began = time.perf_counter()
            all_ok(await compiler.compile_many(asked), "compiled")
            return time.perf_counter() - began

    run(lambda: sweep(prepared))
    return {"wall": run(lambda: sweep(wanted))}


ROW = Row(id="stages", title="Stages that are there already", cases=cases)
