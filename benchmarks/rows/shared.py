"""shared: several processes read one warm cache at the same time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import TIMEOUT, Broken, child_argv, clean_env, in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row, Sample

RATE = Metric("rate", "hits per second", "")
PER_CPU = Metric("per_cpu", "hits per CPU second", "")
FAULTS = Metric("faults", "faults of the store", "")
ONE = "1 process"
MANY = "8 processes"


def cases(context: Context) -> Iterator[Case]:
    entries, passes = context.size(2_000, 500), context.size(10, 4)
    folder = context.place("shared")
    in_child(context, "rows.warm_hit:fill", folder=str(folder), entries=entries, size=4096)
    contestants = [
        Contestant(
            name=f"{count} process{'es' if count > 1 else ''}",
            command=f"{count} times: compile_many of {entries:,} cached requests, {passes} times over",
            run=partial(_together, context, folder, count, entries, passes),
        )
        for count in (1, 2, 8)
    ]
    # Perfect scaling is the number of cores; three quarters of it leave room for memory and caches.
    scaling = 0.75 * min(8, context.cpus)
    yield Case(
        title=f"{entries:,} entries of 4 KB on {context.cpus} CPUs",
        metrics=(RATE, PER_CPU, FAULTS),
        base=ONE,
        contestants=contestants,
        goals=(
            Goal(contestant=MANY, metric=FAULTS, how="value", limit=0),
            Goal(contestant=ONE, metric=RATE, how="below", limit=scaling, versus=MANY),
            Goal(contestant=MANY, metric=PER_CPU, how="ratio", limit=1.25, versus=ONE),
            Goal(contestant=ONE, metric=PER_CPU, how="ratio", limit=1.25, versus=MANY),
        ),
    )
    shutil.rmtree(folder, ignore_errors=True)


def _together(context: Context, folder: Path, count: int, entries: int, passes: int) -> Sample:
    """`count` processes that begin at one moment."""
    place = context.place("processes")
    arguments: dict[str, Any] = {"folder": str(folder), "entries": entries, "passes": passes, "place": str(place)}
    processes = [
        subprocess.Popen(
            child_argv("rows.shared:run", place / f"{number}.json", {**arguments, "number": number}),
            env=clean_env(TMPDIR=str(place)),
            cwd=place,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for number in range(count)
    ]
    try:
        deadline = time.monotonic() + TIMEOUT
        while len(list(place.glob("*.ready"))) < count:
            if any(process.poll() for process in processes) or time.monotonic() > deadline:
                raise Broken("a process did not get ready")
            time.sleep(0.005)
        (place / "go").touch()
        if any(process.wait(TIMEOUT) for process in processes):
            raise Broken("a process failed")
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    answers = [json.loads((place / f"{number}.json").read_text()) for number in range(count)]
    hits = entries * passes * count
    seconds = max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers)
    return {
        "rate": hits / seconds,
        "per_cpu": hits / sum(answer["cpu"] for answer in answers),
        "faults": sum(answer["faults"] for answer in answers),
    }


# In the child


def run(folder: str, entries: int, passes: int, place: str, number: int) -> dict[str, float]:
    """Get ready, wait for the others, and read everything `passes` times."""
    from benchmarks.inside import all_ok, distinct, offline, run

    requests = [distinct(index) for index in range(entries)]

    async def go() -> dict[str, float]:
        async with offline(Path(folder) / "ours") as session:
            await session.plan(requests[0])
            _wait_for_all(Path(place), number)
            began, cpu = time.monotonic(), time.process_time()
            for _ in range(passes):
                all_ok(await session.compile_many(requests), "cached")
            ended, cpu = time.monotonic(), time.process_time() - cpu
            return {"began": began, "ended": ended, "cpu": cpu, "faults": session.stats.cache_faults}

    return run(go)


def _wait_for_all(place: Path, number: int) -> None:
    """Blocking: there is nothing else to run."""
    (place / f"{number}.ready").touch()
    while not (place / "go").exists():
        time.sleep(0.001)


ROW = Row(id="shared", title="Processes that share one warm cache", cases=cases)
