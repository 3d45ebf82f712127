"""What limits a sweep on many machines: `python -m benchmarks.many_machines`.

First it measures what one compile costs in each place that all compiles pass through: the session (plan, key,
look-up, verdict), the disk store, the client of a Dask cluster and its scheduler. Then it simulates a sweep on
clusters of up to 1,000 workers with these numbers. Two workers on loopback stand for all: what they cost a client
and a scheduler for a task does not depend on how many there are, but for the choice among them, which is measured.
`many_machines.md` says what came out.
"""

from __future__ import annotations

import heapq
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from teeny_async import Compiler, CompileRequest, DaskRunner, Kernel, Target
from teeny_async.action import Action, Input
from teeny_async.cluster.teams import least_loaded
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.store.base import Entry
from teeny_async.store.disk import DiskStore
from teeny_async.store.memory import MemoryStore
from teeny_async.store.remote import RemoteStore
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.toolchains.base import Driver, Host, Toolchain

TASKS = 600
SOURCE = "// a kernel of a usual size\n" + "x += y * 2; // and one more line of it\n" * 200


class Trivial(Driver):
    """A compiler that writes one file: what is left is the cost of everything else."""

    name = "trivial"
    languages = frozenset({"c"})

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name=self.name, path="/bin/sh", version="1", fingerprint="00")

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("sh", "-c", "echo code > out"),
            executable=toolchain.path,
            inputs=(Input("kernel.c", (request.kernel.source,)),),
            outputs=FrozenMap({"object": "out"}),
            required=("object",),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return Artifact(outputs=exit.outputs)


def requests(count: int, toolchain: Driver) -> list[CompileRequest]:
    return [
        CompileRequest(Kernel(name=f"k{n}", source=f"{SOURCE}// {n}", language="c"), Target(), toolchain=toolchain)
        for n in range(count)
    ]


@dataclass
class Meter:
    """Seconds of a block, by the clock and of this process's CPUs."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def metered() -> Iterator[Meter]:
    meter = Meter()
    wall, cpu = time.perf_counter(), time.process_time()
    yield meter
    meter.wall, meter.cpu = time.perf_counter() - wall, time.process_time() - cpu


async def session_costs(folder: Path) -> dict[str, float]:
    """Milliseconds of the session for each compile: planning and its key alone, and all of it."""
    work = requests(2000, FakeToolchain())
    async with Compiler(runner=FakeRunner(), store=MemoryStore(), jobs=1) as compiler:
        await compiler.compile_result(work[0])
        with metered() as keys:
            for request in work:
                await compiler.plan(request)
        with metered() as whole:
            await compiler.compile_many(work)
    return {"plan and key": 1e3 * keys.cpu / len(work), "session": 1e3 * whole.cpu / len(work)}


async def store_costs(folder: Path) -> dict[str, float]:
    """Milliseconds of CPU for each entry put or looked up: disk, and a remote without its network."""
    entry = Entry(Artifact(outputs={"ptx": SOURCE.encode()}), {})
    digests = [f"{n:064x}" for n in range(1000)]
    costs: dict[str, float] = {}
    for name, store in (("disk", DiskStore(folder / "disk")), ("remote", RemoteStore(f"file://{folder}/remote"))):
        await store.open(lambda operation, message: print(f"{operation}: {message}", file=sys.stderr))
        with metered() as puts:
            for digest in digests:
                await store.put(digest, entry)
            await store.aclose()
        await store.open(lambda *_: None)
        with metered() as gets:
            found = await store.get_many(digests)
        await store.aclose()
        assert None not in found
        costs |= {f"{name} put": puts.cpu, f"{name} get": gets.cpu}  # of 1,000, in seconds: ms of one
    return costs


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Any, int]]:
    """A scheduler and two workers of one thread, each a process: a client, and the scheduler's process id."""
    from distributed import Client

    file = folder / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    where = ["--scheduler-file", str(file)]
    processes = [subprocess.Popen([*dask, "scheduler", "--port", "0", "--no-dashboard", *where], **quiet)]
    try:
        while not file.exists():
            time.sleep(0.05)
        for _ in range(2):
            options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
            processes.append(subprocess.Popen([*dask, "worker", *options, *where], **quiet))
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(2, timeout=60)
            yield client, processes[0].pid
    finally:
        for process in processes:
            process.terminate()
            process.wait()


async def dask_costs(folder: Path) -> dict[str, float]:
    """Milliseconds of CPU for each compile in the client's process and in the scheduler's; compiles a second here,
    beside those of the local runner with as many jobs."""
    import psutil

    with cluster(folder) as (client, pid):
        scheduler = psutil.Process(pid)
        async with Compiler(runner=DaskRunner(client), store=MemoryStore()) as compiler:
            await compiler.compile_many(requests(20, Trivial()))
            before = sum(scheduler.cpu_times()[:2])
            with metered() as meter:
                results = await compiler.compile_many(requests(TASKS + 20, Trivial())[20:])
            spent = sum(scheduler.cpu_times()[:2]) - before
        assert all(result.ok for result in results)
    async with Compiler(store=MemoryStore(), jobs=2) as local:
        await local.compile_many(requests(20, Trivial()))
        with metered() as here:
            await local.compile_many(requests(TASKS + 20, Trivial())[20:])
    return {
        "client": 1e3 * meter.cpu / TASKS,
        "scheduler": 1e3 * spent / TASKS,
        "dask compiles/s": TASKS / meter.wall,
        "local compiles/s": TASKS / here.wall,
    }


def choice_costs() -> dict[str, float]:
    """Milliseconds to choose one of 1,000 workers."""
    loads = {f"tcp://10.0.{n // 250}.{n % 250}:40000": (n % 3, 1) for n in range(1000)}
    with metered() as meter:
        for _ in range(200):
            least_loaded(loads)
    return {"choice of 1,000": 1e3 * meter.cpu / 200}


def simulate(workers: int, mean: float, costs: Mapping[str, float], *, tasks: int) -> float:
    """The share of the workers' time that goes into compiling, in a sweep of so many tasks; a worker has one thread.

    Each task passes the client and the scheduler, one at a time each, on its way out and (half the cost each way)
    on its way back. Two are with each worker at a time, so that one is at hand when the other ends. Compile times are
    spread as they are in real sweeps: most are near the mean, some take several times as long.
    """
    chance = random.Random(1)
    hops = [costs["client"] / 2e3, costs["scheduler"] / 2e3]
    free_at = [0.0, 0.0]  # the client, the scheduler

    def passed(moment: float, *order: int) -> float:
        for place in order:
            free_at[place] = moment = max(moment, free_at[place]) + hops[place]
        return moment

    worker_free = [0.0] * workers
    busy, end, sent = 0.0, 0.0, 0
    returning: list[tuple[float, int]] = [(0.0, worker) for worker in range(workers) for _ in range(2)]
    heapq.heapify(returning)
    while returning and sent < tasks:
        moment, worker = heapq.heappop(returning)
        arrived = passed(moment, 0, 1)
        seconds = chance.lognormvariate(0.0, 0.6) * mean / 1.2
        worker_free[worker] = done = max(arrived, worker_free[worker]) + seconds
        busy += seconds
        sent += 1
        end = max(end, done)
        heapq.heappush(returning, (done + hops[0] + hops[1], worker))
        free_at = [moment + hop for moment, hop in zip(free_at, hops, strict=True)]  # its way back
    return busy / (workers * end)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="teeny-async-many-") as name:
        folder = Path(name)
        costs = choice_costs()
        measures: tuple[Callable[[Path], Any], ...] = (session_costs, store_costs, dask_costs)
        for measure in measures:
            costs |= anyio.run(measure, folder)
    print("measured, ms of CPU for each compile (and compiles a second, two at a time):")
    print(json.dumps({key: round(value, 3) for key, value in costs.items()}, indent=2))
    ceiling = 1e3 / max(costs["client"], costs["scheduler"])
    print(f"ceiling of one session: {ceiling:.0f} compiles a second\n")
    times = (0.1, 0.3, 1.0, 3.0, 10.0)
    print("share of the workers' time that goes into compiling: compilers at a time, mean seconds of a compile")
    print("compilers" + "".join(f"{mean:>8g}" for mean in times))
    for workers in (10, 30, 100, 300, 1000, 3000):
        shares = [simulate(workers, mean, costs, tasks=30 * workers) for mean in times]
        print(f"{workers:>9}" + "".join(f"{share:>8.0%}" for share in shares))


if __name__ == "__main__":
    main()
