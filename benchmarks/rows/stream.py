"""stream: a million different requests through `as_completed`, with a runner that answers at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.measure import in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row

CPU = Metric("cpu", "CPU a request", "us")
WALL = Metric("wall", "wall", "us")
LAST = Metric("last", "the last 10,000", "us")
FIRST = Metric("first", "the first 10,000", "us")
GROWTH = Metric("growth", "last over first", "x")
RSS = Metric("rss", "RSS growth", "MB")
STREAM, DRAINED = "as_completed", "the iterator alone"
PART = 10_000


def cases(context: Context) -> Iterator[Case]:
    count = context.size(1_000_000, 100_000)
    contestants = [
        Contestant(name=way, command=call, run=partial(in_child, context, "rows.stream:run", way=way, count=count))
        for way, call in (
            (DRAINED, "for request in requests: pass"),
            (STREAM, "async for result in compiler.as_completed(requests), no store, a runner that answers at once"),
        )
    ]
    yield Case(
        title=f"{count:,} different requests",
        metrics=(CPU, WALL, FIRST, LAST, GROWTH, RSS),
        base=DRAINED,
        contestants=contestants,
        goals=(
            Goal(contestant=STREAM, metric=RSS, how="value", limit=50 * 2**20),
            Goal(contestant=STREAM, metric=LAST, how="value", limit=25e-6),
            Goal(contestant=STREAM, metric=GROWTH, how="value", limit=1.2),
        ),
        rounds=1,
    )


# In the child


def run(way: str, count: int) -> dict[str, float]:
    """CPU of all requests, of the first part and of the last; memory from the 1,000th request on."""
    import time

    from benchmarks.cpu import rss
    from benchmarks.inside import distinct, offline, run

    clock, wall = [0.0], [0.0, 0.0]
    memory = [0]

    def note(done: int) -> None:
        if done % PART == 0:
            clock.append(time.process_time())
            memory.append(rss())
        elif done == 1000:
            memory[0] = rss()

    requests = (distinct(number, 200) for number in range(count))

    async def go() -> None:
        async with offline(None) as session:
            await session.plan(distinct(0))
            clock[0], wall[0] = time.process_time(), time.perf_counter()
            done = 0
            if way == DRAINED:
                for _ in requests:
                    note(done := done + 1)
                return
            async with session.as_completed(requests) as results:
                async for result in results:
                    if not result.ok:
                        raise RuntimeError(str(result.failure))
                    note(done := done + 1)

    run(go)
    wall[1] = time.perf_counter()
    first, last = (clock[1] - clock[0]) / PART, (clock[-1] - clock[-2]) / PART
    return {
        "cpu": (clock[-1] - clock[0]) / count,
        "wall": (wall[1] - wall[0]) / count,
        "first": first,
        "last": last,
        "growth": last / first,
        "rss": max(memory) - memory[0],
    }


ROW = Row(id="stream", title="A stream of requests without end", cases=cases)
