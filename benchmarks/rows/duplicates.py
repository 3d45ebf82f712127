"""duplicates: the same request a hundred thousand times, while one compile is under way."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.measure import in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row, Sample
from benchmarks.peers import package

if TYPE_CHECKING:
    import anyio

    from teeny_async import Compiler, CompileRequest

CPU = Metric("cpu", "CPU a duplicate", "us")
BYTES = Metric("bytes", "memory a duplicate", "B")
GET = "diskcache get"
BARE = "bare task"
BOTH = "compile_many"
EQUAL = "compile_many, equal objects"
SINGLE = "compile"


def cases(context: Context) -> Iterator[Case]:
    count = context.size(100_000, 10_000)
    folder = context.place("get")
    arguments: dict[str, Any] = {
        "name": "diskcache",
        "folder": str(folder),
        "entries": 1_000,
        "size": 4096,
        "key_size": 1024,
    }
    in_child(context, "caches:fill", **arguments)
    yield Case(
        title=f"{count:,} duplicates in one compile_many",
        metrics=(CPU, BYTES),
        base=GET,
        contestants=(
            package("diskcache").contestant(
                partial(in_child, context, "caches:read", **arguments), "Cache.get(key) of 4 KB", name=GET
            ),
            _contestant(context, BOTH, "compiler.compile_many([request] * N)", count),
            _contestant(context, EQUAL, "the same with N equal request objects, each of which is keyed", count),
        ),
        goals=(
            Goal(contestant=BOTH, metric=CPU, how="value", limit=3e-6),
            Goal(contestant=BOTH, metric=BYTES, how="value", limit=300),
        ),
    )
    yield Case(
        title=f"{count:,} duplicates as single calls, a task each, on asyncio",
        metrics=(CPU, BYTES),
        base=BARE,
        contestants=(
            _contestant(context, BARE, "N tasks that wait for one anyio.Event", count),
            _contestant(context, SINGLE, "N tasks that await compiler.compile(request)", count),
        ),
        goals=(
            Goal(contestant=SINGLE, metric=CPU, how="over", limit=3e-6, versus=BARE),
            Goal(contestant=SINGLE, metric=BYTES, how="over", limit=300, versus=BARE),
        ),
    )


def _contestant(context: Context, way: str, command: str, count: int) -> Contestant:
    traced: dict[str, float] = {}

    def run() -> Sample:
        """Memory once, in a process of its own: it is the same each time, and counting it slows everything down."""
        if not traced:
            traced.update(in_child(context, "rows.duplicates:run", way=way, count=count, trace=True))
        numbers = in_child(context, "rows.duplicates:run", way=way, count=count, trace=False)
        return {**numbers, "bytes": traced["bytes"]}

    return Contestant(name=way, command=command, run=run)


# In the child


def run(way: str, count: int, trace: bool) -> dict[str, float]:
    """CPU of a duplicate; or, with `trace`, the most memory that was held at a time, a duplicate."""
    import time
    import tracemalloc

    import anyio

    from benchmarks.inside import Gated, distinct, offline, run

    async def go() -> dict[str, float]:
        gate = anyio.Event()
        requests = [distinct(1) for _ in range(count)] if way == EQUAL else [distinct(1)] * count
        async with offline(None, Gated(gate)) as session:
            await session.plan(requests[0])
            if trace:
                tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            began = time.process_time()
            await _all_at_once(session, gate, requests, way)
            spent = time.process_time() - began
            peak = tracemalloc.get_traced_memory()[1]
        if way != BARE and session.stats.coalesced != count - 1:
            raise RuntimeError(f"not all but one were duplicates: {session.stats}")
        return {"bytes": (peak - before) / count} if trace else {"cpu": spent / count}

    return run(go)


async def _all_at_once(session: Compiler, gate: anyio.Event, requests: list[CompileRequest], way: str) -> None:
    """All requests, before the one compile may end."""
    import anyio
    import anyio.lowlevel

    async with anyio.create_task_group() as group:
        if way in (BOTH, EQUAL):
            group.start_soon(session.compile_many, requests)
        else:
            for request in requests:
                group.start_soon(*((gate.wait,) if way == BARE else (session.compile, request)))
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        gate.set()


ROW = Row(id="duplicates", title="A duplicate of a request that is under way", cases=cases)
