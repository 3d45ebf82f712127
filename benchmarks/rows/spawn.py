"""spawn: the process layer alone, running a trivial static program, against the tools that only spawn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import in_child, measured
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row, Sample
from benchmarks.peers import Loop, loops, program
from benchmarks.programs import NO_COMPILER, compiled

TREE = Metric("tree_cpu", "tree CPU a run", "us")
OWN = Metric("own_cpu", "own CPU a run", "us")
WALL = Metric("wall", "wall a run", "us")
FLOOR = "C posix_spawn"
ANYIO = "anyio.run_process"


def cases(context: Context) -> Iterator[Case]:
    runs = context.size(2000, 200)
    for jobs in (2,) if context.quick else (2, 8):
        yield _spawning(context, runs, jobs)
    yield _heavy_parent(context, runs, context.size(2048, 512))


def _spawning(context: Context, runs: int, jobs: int) -> Case:
    ours = [_ours(context, loop, runs, jobs) for loop in loops()]
    goals = []
    for who in ours:
        goals += [
            Goal(contestant=who.name, metric=TREE, how="ratio", limit=1.6, versus=FLOOR),
            Goal(contestant=who.name, metric=TREE, how="below", limit=1.3, versus="ninja"),
            Goal(contestant=who.name, metric=TREE, how="below", limit=1.3, versus=ANYIO),
            Goal(contestant=who.name, metric=OWN, how="below", limit=2.5, versus=ANYIO),
        ]
    return Case(
        title=f"{runs:,} runs, {jobs} at a time",
        metrics=(TREE, OWN, WALL),
        base=FLOOR,
        contestants=(
            _in_c(context, runs, jobs, capture=True),
            _in_c(context, runs, jobs, capture=False),
            *_tools(context, runs, jobs),
            _anyio(context, runs, jobs),
            *ours,
        ),
        goals=goals,
    )


def _heavy_parent(context: Context, runs: int, megabytes: int) -> Case:
    plain, heavy = loops()[0], f"asyncio, {megabytes} MB parent"
    return Case(
        title=f"{runs:,} runs, 2 at a time, under a parent of {megabytes} MB (small pages, all touched)",
        metrics=(TREE, OWN, WALL),
        base="asyncio",
        contestants=(
            _ours(context, plain, runs, 2),
            _ours(context, plain, runs, 2, name=heavy, megabytes=megabytes),
            _anyio(context, runs, 2, name=f"{ANYIO}, {megabytes} MB parent", megabytes=megabytes),
        ),
        goals=(Goal(contestant=heavy, metric=TREE, how="ratio", limit=1.1, versus="asyncio"),),
    )


def _ours(context: Context, loop: Loop, runs: int, jobs: int, name: str = "", megabytes: int = 0) -> Contestant:
    trivial = compiled(context, "trivial")
    return Contestant(
        name=name or loop.name,
        version=loop.version,
        command="await LocalRunner.run(Action(...)) in as many tasks as jobs",
        absent=loop.absent or (NO_COMPILER if trivial is None else None),
        run=partial(
            in_child,
            context,
            "rows.spawn:run_ours",
            program=str(trivial),
            runs=runs,
            jobs=jobs,
            backend=loop.backend,
            uvloop=loop.uvloop,
            megabytes=megabytes,
        ),
    )


def _anyio(context: Context, runs: int, jobs: int, name: str = ANYIO, megabytes: int = 0) -> Contestant:
    trivial = compiled(context, "trivial")
    arguments: dict[str, Any] = {"program": str(trivial), "runs": runs, "jobs": jobs, "megabytes": megabytes}
    return Contestant(
        name=name,
        command="await anyio.run_process([PROGRAM], start_new_session=True) in as many tasks as jobs",
        absent=NO_COMPILER if trivial is None else None,
        run=partial(in_child, context, "rows.spawn:run_anyio", **arguments),
    )


def _in_c(context: Context, runs: int, jobs: int, *, capture: bool) -> Contestant:
    spawn, trivial = compiled(context, "spawn"), compiled(context, "trivial")
    argv = [str(spawn), str(runs), str(jobs), str(int(capture)), str(trivial)]

    def run() -> Sample:
        return _each(measured(argv, context.place("c")), runs)

    return Contestant(
        name=FLOOR if capture else f"{FLOOR}, nothing kept",
        command=f"spawn N J {int(capture)} PROGRAM (benchmarks/programs/spawn.c)",
        absent=NO_COMPILER if spawn is None or trivial is None else None,
        run=run,
    )


def _tools(context: Context, runs: int, jobs: int) -> Iterator[Contestant]:
    trivial = compiled(context, "trivial")
    folder = context.place("tools")
    ninja, make, xargs = (program(name) for name in ("ninja", "make", "xargs"))
    edges = "".join(f"build o{number}: run\n" for number in range(runs))
    (folder / "build.ninja").write_text(f"rule run\n command = {trivial}\n{edges}")
    targets = " ".join(f"o{number}" for number in range(runs))
    (folder / "Makefile").write_text(f"all: {targets}\n.PHONY: all {targets}\n{targets}:\n\t@{trivial}\n")
    (folder / "arguments").write_text("".join(f"{number}\n" for number in range(runs)))

    def run(argv: list[str], stdin: Path | None = None) -> Sample:
        (folder / ".ninja_log").unlink(missing_ok=True)
        return _each(measured(argv, folder, stdin=stdin), runs)

    yield ninja.contestant(partial(run, [ninja.path, f"-j{jobs}"]), f"ninja -j{jobs}")
    yield make.contestant(partial(run, [make.path, f"-j{jobs}"]), f"make -j{jobs}")
    command = [xargs.path, f"-P{jobs}", "-n1", str(trivial)]
    yield xargs.contestant(partial(run, command, folder / "arguments"), f"xargs -P{jobs} -n1 PROGRAM")


def _each(whole: Sample, runs: int) -> Sample:
    return {"tree_cpu": whole["whole_cpu"] / runs, "wall": whole["wall"] / runs}


# In the child


def run_ours(program: str, runs: int, jobs: int, backend: str, uvloop: bool, megabytes: int) -> dict[str, float]:
    """Our runner. Its start (a supervisor) is not counted; its end is. Own CPU: all that the programs did not use."""
    import os

    from benchmarks.cpu import Span
    from benchmarks.inside import ballast, run, workers
    from teeny_async.action import Action
    from teeny_async.execution.runner import LocalRunner, RunLimits

    heavy = ballast(megabytes)
    action = Action(argv=("trivial",), executable=program)
    limits = RunLimits(wall=60.0)

    async def go() -> dict[str, float]:
        spent = 0.0

        async def once(runner: LocalRunner) -> None:
            nonlocal spent
            exit = await runner.run(action, {}, limits)
            if exit.code != 0 or exit.stdout != b"ok\n":
                raise RuntimeError(f"the program ended with {exit}")
            spent += exit.usage.cpu

        async with LocalRunner(os.environ["TMPDIR"]) as runner:
            await once(runner)
            spent = 0.0
            span = Span()
            await workers(partial(once, runner), runs, jobs)
        used = span.end()
        return {
            "tree_cpu": used["tree_cpu"] / runs,
            "own_cpu": (used["tree_cpu"] - spent) / runs,
            "wall": used["wall"] / runs,
        }

    numbers = run(go, backend, uvloop)
    del heavy
    return numbers


def run_anyio(program: str, runs: int, jobs: int, megabytes: int) -> dict[str, float]:
    """The same with anyio alone, on asyncio."""
    import anyio

    from benchmarks.cpu import Span, children_cpu
    from benchmarks.inside import ballast, run, workers

    heavy = ballast(megabytes)

    async def go() -> dict[str, float]:
        async def once() -> None:
            done = await anyio.run_process([program], start_new_session=True)
            if done.stdout != b"ok\n":
                raise RuntimeError(f"the program ended with {done}")

        await once()
        span, before = Span(), children_cpu()
        await workers(once, runs, jobs)
        used = span.end()
        return {
            "tree_cpu": used["tree_cpu"] / runs,
            "own_cpu": (used["tree_cpu"] - children_cpu() + before) / runs,
            "wall": used["wall"] / runs,
        }

    numbers = run(go)
    del heavy
    return numbers


ROW = Row(id="spawn", title="The process layer alone: runs of a trivial static program, output captured", cases=cases)
