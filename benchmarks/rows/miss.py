"""miss: the whole way of a request that is not cached, with a compiler that costs next to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.measure import in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row
from benchmarks.peers import loops
from benchmarks.programs import NO_COMPILER, compiled

OWN = Metric("own_cpu", "own CPU a request", "us")
TREE = Metric("tree_cpu", "tree CPU", "us")
WALL = Metric("wall", "wall", "us")
BY_HAND = "by hand"
SIZE = 20 * 1024


def cases(context: Context) -> Iterator[Case]:
    requests = context.size(2000, 200)
    compiler = compiled(context, "compiler")
    absent = NO_COMPILER if compiler is None else None
    arguments: dict[str, Any] = {"program": str(compiler), "requests": requests}
    by_hand = Contestant(
        name=BY_HAND,
        command="mkdtemp, write_bytes, anyio.run_process, read_bytes, sha256, diskcache set, rmtree; checks little",
        absent=absent,
        run=partial(in_child, context, "rows.miss:run_by_hand", **arguments),
    )
    ours = [
        Contestant(
            name=loop.name,
            version=loop.version,
            command="Compiler(store=FOLDER, jobs=2).compile_many(requests)",
            absent=absent or loop.absent,
            run=partial(in_child, context, "rows.miss:run_ours", backend=loop.backend, uvloop=loop.uvloop, **arguments),
        )
        for loop in loops()
    ]
    yield Case(
        title=f"{requests:,} requests of 20 KB, 2 at a time: key, look-up, scratch, write, spawn, read, verify, publish",
        metrics=(OWN, TREE, WALL),
        base=BY_HAND,
        contestants=(by_hand, *ours),
        goals=[Goal(contestant=who.name, metric=OWN, how="value", limit=1.2e-3) for who in ours],
    )


# In the child


def run_ours(program: str, requests: int, backend: str, uvloop: bool) -> dict[str, float]:
    """Own CPU: that of the session and its supervisor, without the compilers'. The session's start is not counted."""
    import os

    from benchmarks.cpu import Span
    from benchmarks.inside import Compilerette, all_ok, run
    from teeny_async import Compiler, CompileRequest, Kernel

    tool = Compilerette(program)
    wanted = [
        CompileRequest(Kernel(name="k", source=f"none {number}\n".ljust(SIZE, "/"), language="c"), toolchain=tool)
        for number in range(requests + 1)
    ]

    async def go() -> dict[str, float]:
        async with Compiler(store=os.path.join(os.environ["TMPDIR"], "cache"), jobs=2) as compiler:
            await compiler.compile(wanted[-1])
            span = Span()
            results = await compiler.compile_many(wanted[:-1])
        used = span.end()
        all_ok(results, "compiled")
        compilers = sum(result.usage.cpu for result in results)
        return {
            "own_cpu": (used["tree_cpu"] - compilers) / requests,
            "tree_cpu": used["tree_cpu"] / requests,
            "wall": used["wall"] / requests,
        }

    return run(go, backend, uvloop)


def run_by_hand(program: str, requests: int) -> dict[str, float]:
    """What one writes in an afternoon: no key of the tool, no time limit, no groups, nothing verified."""
    import hashlib
    import os
    import shutil
    import tempfile
    from pathlib import Path

    import anyio
    import diskcache

    from benchmarks.cpu import Span, children_cpu
    from benchmarks.inside import run, workers

    sources = iter([f"none {number}\n".ljust(SIZE, "/").encode() for number in range(requests)])

    async def go() -> dict[str, float]:
        with diskcache.Cache(os.path.join(os.environ["TMPDIR"], "cache"), eviction_policy="none") as cache:

            async def once() -> None:
                source = next(sources)
                key = hashlib.sha256(source).digest()
                if cache.get(key) is not None:
                    raise RuntimeError("it was not to be there")
                folder = Path(tempfile.mkdtemp())
                (folder / "kernel.in").write_bytes(source)
                await anyio.run_process([program, "kernel.in", "kernel.out"], cwd=folder, start_new_session=True)
                cache.set(key, (folder / "kernel.out").read_bytes())
                shutil.rmtree(folder)

            span, before = Span(), children_cpu()
            await workers(once, requests, 2)
            used = span.end()
        return {
            "own_cpu": (used["tree_cpu"] - children_cpu() + before) / requests,
            "tree_cpu": used["tree_cpu"] / requests,
            "wall": used["wall"] / requests,
        }

    return run(go)


ROW = Row(id="miss", title="The whole miss path of a trivial compiler", cases=cases)
