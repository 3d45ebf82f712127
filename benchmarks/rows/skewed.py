"""skewed: one kernel takes twenty times as long as the rest, comes last, and the second run knows it.

The compiler sleeps instead of working, so that the makespan is the schedule's and not the machine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.measure import in_child, measured
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row, Sample
from benchmarks.peers import program
from benchmarks.programs import NO_COMPILER, compiled

WALL = Metric("wall", "makespan", "ms")
FIRST, SECOND = "first run", "second run"
SHORT, FACTOR, JOBS = 40, 20, 2


def cases(context: Context) -> Iterator[Case]:
    nap = context.size(25, 10)
    compiler = compiled(context, "compiler")
    absent = NO_COMPILER if compiler is None else None
    arguments: dict[str, Any] = {"program": str(compiler), "nap": nap}
    naps = [nap] * SHORT + [nap * FACTOR]
    yield Case(
        title=f"{SHORT} kernels of {nap} ms, then one of {nap * FACTOR} ms, {JOBS} at a time",
        metrics=(WALL,),
        base=FIRST,
        contestants=(
            _sleeping(context, "first come, xargs", naps),
            _sleeping(context, "longest first, xargs", sorted(naps, reverse=True)),
            Contestant(
                name=FIRST,
                command="compile_many, nothing known yet: first come, first served",
                absent=absent,
                run=partial(in_child, context, "rows.skewed:run", again=False, **arguments),
            ),
            Contestant(
                name=SECOND,
                command='compile_many with mode="refresh", the times of the first run known from the store',
                absent=absent,
                run=partial(in_child, context, "rows.skewed:run", again=True, **arguments),
            ),
        ),
        goals=(Goal(contestant=SECOND, metric=WALL, how="ratio", limit=0.85, versus=FIRST),),
    )


def _sleeping(context: Context, name: str, naps: list[int]) -> Contestant:
    xargs = program("xargs")

    def run() -> Sample:
        folder = context.place("xargs")
        lines = folder / "naps"
        lines.write_text("".join(f"{nap / 1000}\n" for nap in naps))
        return measured([xargs.path, f"-P{JOBS}", "-n1", "sleep"], folder, stdin=lines)

    return xargs.contestant(run, f"xargs -P{JOBS} -n1 sleep, in this order", name=name)


# In the child


def run(program: str, nap: int, again: bool) -> dict[str, float]:
    """The makespan of a run; with `again`, of a second one in a new session on the same store."""
    import os
    import time

    from benchmarks.inside import Compilerette, all_ok, run
    from teeny_async import Compiler, CompileRequest, Kernel

    tool = Compilerette(program)
    naps = [nap] * SHORT + [nap * FACTOR]
    wanted = [
        CompileRequest(Kernel(name=f"k{number}", source=f"NAP {ms} {number}\n", language="c"), toolchain=tool)
        for number, ms in enumerate(naps)
    ]
    store = os.path.join(os.environ["TMPDIR"], "cache")

    async def once(refresh: bool) -> float:
        async with Compiler(store=store, jobs=JOBS, mode="refresh" if refresh else "normal") as compiler:
            await compiler.plan(wanted[0])
            began = time.perf_counter()
            all_ok(await compiler.compile_many(wanted), "compiled")
            return time.perf_counter() - began

    wall = run(lambda: once(False))
    if again:
        wall = run(lambda: once(True))
    return {"wall": wall}


ROW = Row(id="skewed", title="A skewed sweep, longest first against first come", cases=cases)
