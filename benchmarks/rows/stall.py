"""stall: what else runs in the event loop while compilers are spawned by a process with much memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.measure import in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row
from benchmarks.peers import loops
from benchmarks.programs import NO_COMPILER, compiled

WORST = Metric("worst", "worst stall", "ms")
P99 = Metric("p99", "99th percentile", "ms")
IDLE, ANYIO = "idle loop", "anyio.run_process"


def cases(context: Context) -> Iterator[Case]:
    spawns, megabytes = context.size(500, 100), context.size(2048, 512)
    program = compiled(context, "compiler")
    absent = NO_COMPILER if program is None else None
    arguments: dict[str, Any] = {
        "program": str(program),
        "spawns": spawns,
        "megabytes": megabytes,
        "jobs": context.cpus,
    }

    def contestant(name: str, command: str, reason: str | None, **options: Any) -> Contestant:
        run = partial(
            in_child, context, "rows.stall:run", **{**arguments, "backend": "asyncio", "uvloop": False, **options}
        )
        return Contestant(name=name, command=command, absent=reason, run=run)

    ours = [
        contestant(
            loop.name,
            f"compile_many of {spawns} requests, {context.cpus} at a time",
            absent or loop.absent,
            way="ours",
            backend=loop.backend,
            uvloop=loop.uvloop,
        )
        for loop in loops(context.quick)
    ]
    yield Case(
        title=f"{spawns} spawns, parent of {megabytes} MB; a task that sleeps 1 ms at a time notes how late it wakes",
        metrics=(WORST, P99),
        base=IDLE,
        contestants=(
            contestant(IDLE, "the ticking task alone: what the machine itself does", None, way="idle"),
            contestant(ANYIO, f"anyio.run_process, {context.cpus} tasks, on asyncio", absent, way="anyio"),
            *ours,
        ),
        goals=[Goal(contestant=who.name, metric=WORST, how="value", limit=0.010) for who in ours],
    )


# In the child


def run(way: str, program: str, spawns: int, megabytes: int, jobs: int, backend: str, uvloop: bool) -> dict[str, float]:
    """Seconds by which a 1 ms sleep came late, while the work was done."""
    import os
    import time
    from pathlib import Path

    import anyio

    from benchmarks.inside import Compilerette, all_ok, ballast, run, workers
    from teeny_async import Compiler, CompileRequest, Kernel

    heavy = ballast(megabytes)
    late: list[float] = []
    tool = Compilerette(program)
    wanted = [
        CompileRequest(Kernel(name="k", source=f"none {number}\n".ljust(4096, "/"), language="c"), toolchain=tool)
        for number in range(spawns + 1)
    ]
    source = Path(os.environ["TMPDIR"], "source")
    source.write_text(wanted[0].kernel.source)

    async def tick() -> None:
        while True:
            due = time.perf_counter() + 0.001
            await anyio.sleep(0.001)
            late.append(time.perf_counter() - due)

    async def compile_all(compiler: Compiler) -> None:
        all_ok(await compiler.compile_many(wanted[1:]), "compiled")

    async def by_anyio() -> None:
        await anyio.run_process([program, str(source), "/dev/null"])

    async def go() -> None:
        async with Compiler(mode="no_cache", jobs=jobs) as compiler, anyio.create_task_group() as group:
            await compiler.compile(wanted[0])
            group.start_soon(tick)
            await anyio.sleep(0.02)
            late.clear()
            if way == "ours":
                await compile_all(compiler)
            elif way == "anyio":
                await workers(by_anyio, spawns, jobs)
            else:
                await anyio.sleep(1.0)
            group.cancel_scope.cancel()

    run(go, backend, uvloop)
    del heavy
    late.sort()
    return {"worst": late[-1], "p99": late[int(len(late) * 0.99)]}


ROW = Row(id="stall", title="Stalls of the event loop while compilers are spawned", cases=cases)
