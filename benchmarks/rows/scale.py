"""scale: many compiles on all cores, beside xargs; the wall says whether we keep the machine busy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.commands import START_WALL, TREE, WALL, ours, planned, runners
from benchmarks.measure import in_child, measured
from benchmarks.model import Case, Contestant, Context, Goal, Row, Sample
from benchmarks.peers import program
from benchmarks.programs import NO_COMPILER, compiled
from benchmarks.rows.cold import missing

XARGS = "xargs"


def cases(context: Context) -> Iterator[Case]:
    count = context.size(2000, 100)
    for spin in (0, 15):
        yield _static(context, count, spin)
    yield _nvcc(context)


def _static(context: Context, count: int, spin: int) -> Case:
    compiler = compiled(context, "compiler")
    absent = NO_COMPILER if compiler is None else None
    arguments: dict[str, Any] = {"program": str(compiler), "count": count, "spin": spin, "jobs": context.cpus}
    return Case(
        title=f"{count:,} runs of a static program that takes {spin} ms, {context.cpus} at a time",
        metrics=(WALL, TREE),
        base=XARGS,
        contestants=(
            _xargs(context, compiler, count, spin),
            Contestant(
                name="teeny_async",
                command=f"Compiler(store=EMPTY_FOLDER, jobs={context.cpus}).compile_many(requests)",
                absent=absent,
                run=partial(in_child, context, "rows.scale:run_ours", **arguments),
            ),
        ),
        goals=(Goal(contestant="teeny_async", metric=WALL, how="ratio", limit=1.1, versus=XARGS),),
    )


def _xargs(context: Context, compiler: Path | None, count: int, spin: int) -> Contestant:
    xargs = program(XARGS)

    def run() -> Sample:
        folder = context.place(XARGS)
        for number in range(count):
            (folder / str(number)).write_text(_source(spin, number))
        (folder / "lines").write_text("".join(f"{number} {number}.out\n" for number in range(count)))
        whole = measured([xargs.path, f"-P{context.cpus}", "-n2", str(compiler)], folder, stdin=folder / "lines")
        shutil.rmtree(folder)
        return {"tree_cpu": whole["whole_cpu"] / count, "wall": whole["wall"]}

    absent = xargs.absent or (NO_COMPILER if compiler is None else None)
    command = f"xargs -P{context.cpus} -n2 PROGRAM, on files that are there"
    return Contestant(name=XARGS, command=command, version=xargs.version, absent=absent, run=run)


def _nvcc(context: Context) -> Case:
    """As many as take the machine half a minute or so: 2,000 on 16 cores."""
    count = context.size(min(2000, 125 * context.cpus), 2 * context.cpus)
    absent = missing("nvcc")
    plan = None if absent else planned(context, "nvcc", count)
    return Case(
        title=f"{count:,} nvcc compiles, {context.cpus} at a time",
        metrics=(WALL, TREE, START_WALL),
        base=XARGS,
        contestants=(
            *runners(context, plan, context.cpus, (XARGS,), absent),
            ours(context, "nvcc", count, absent),
        ),
        goals=(Goal(contestant="teeny_async", metric=WALL, how="ratio", limit=1.1, versus=XARGS),),
    )


def _source(spin: int, number: int) -> str:
    return f"SPIN {spin} {number}\n".ljust(1024, "/")


# In the child


def run_ours(program: str, count: int, spin: int, jobs: int) -> dict[str, float]:
    """All requests through a session with a store, its start not counted."""
    import os

    from benchmarks.cpu import Span
    from benchmarks.inside import Compilerette, all_ok, run
    from teeny_async import Compiler, CompileRequest, Kernel

    tool = Compilerette(program)
    wanted = [
        CompileRequest(Kernel(name="k", source=_source(spin, number), language="c"), toolchain=tool)
        for number in range(count + 1)
    ]

    async def go() -> dict[str, float]:
        async with Compiler(store=os.path.join(os.environ["TMPDIR"], "cache"), jobs=jobs) as compiler:
            await compiler.compile(wanted[-1])
            span = Span()
            results = await compiler.compile_many(wanted[:-1])
            wall = span.end()["wall"]
        all_ok(results, "compiled")
        return {"wall": wall, "tree_cpu": span.end(count)["tree_cpu"]}

    return run(go)


ROW = Row(id="scale", title="Thousands of compiles on every core", cases=cases)
