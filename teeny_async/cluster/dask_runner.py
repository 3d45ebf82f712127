"""`DaskRunner`: the compilers of a session run on a Dask cluster (pip install 'teeny_async[dask]').

    from distributed import Client
    from teeny_async import DaskRunner, compile_many

    with Client("tcp://scheduler:8786") as client:
        results = await compile_many(sweep, runner=DaskRunner(client))

All else stays where it is: keys, cache, retries, limits and verdicts are this process's. What goes to a worker
is an action, inputs included, and what comes back is bytes. teeny_async and the compilers have to be installed on
the workers; files that a kernel reads beside its own text (`-I` folders, `mod x;`) have to be there under the
same paths, as on a shared file system: a compile that read another content than this machine has is not cached.

The cluster comes from Dask's own packages, and the `Client` is all that is needed of it:

    Slurm       dask_jobqueue.SLURMCluster(queue="cpu", cores=32, processes=1, memory="64GB", walltime="01:00:00")
    Kubernetes  dask_kubernetes.operator.KubeCluster(name="kernels", image="an image with your compilers")
    SSH         distributed.SSHCluster(["head", "node1", "node2"], worker_options={"nthreads": 32})

Give a worker one process with as many threads as it has CPUs: a thread of it only waits for a compiler.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from teeny_async.action import Action
from teeny_async.cluster.bridge import Bridge
from teeny_async.cluster.fleet import LOST, Fleet
from teeny_async.errors import RequestError
from teeny_async.execution.digests import FileDigests, Snapshot, file_clock_ns
from teeny_async.execution.runner import RunLimits
from teeny_async.result import Exit
from teeny_async.store.base import Store
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver, Toolchain

if TYPE_CHECKING:
    from distributed import Client


class DaskRunner:
    """Runs compilers on the workers of a Dask cluster; pass it to `Compiler` or `compile_many` as `runner`.

    client: a `distributed.Client`, synchronous or not; the session may run on asyncio, uvloop or trio all the same.
    jobs: compiles that are with the cluster at a time, where the session sets no `jobs`; None is one for each
        thread of it and one more for each worker, as they are now. Set it for a cluster that is still to grow.
    patience: seconds to wait for a worker when there is none, at the start or later; then compiles fail.

    The toolchain is looked for on the workers. Where they differ, those with the same tool, path and contents
    work together, the largest such group; the others compile nothing with it, and a warning is logged. A worker
    that is lost costs those of its compiles that were under way an attempt. A compile that is cancelled, or whose
    session ends, is ended on its worker before the call returns.

    Raises RequestError for a client that is closed, and for numbers that make no sense.
    """

    def __init__(self, client: Client, *, jobs: int | None = None, patience: float = 60.0) -> None:
        if (jobs is not None and jobs < 1) or not patience >= 0:
            raise RequestError("jobs is a number of compiles, 1 or more; patience one of seconds, 0 or more")
        if getattr(client, "status", None) not in ("running", "connecting", "newly-created"):
            raise RequestError(f"the Dask client is not connected: {client!r}")
        self.jobs = jobs or _room(client)
        self._fleet = Fleet(client, patience)
        self._bridge = Bridge(client.loop.asyncio_loop)
        self.host = DaskHost(self._fleet, self._bridge)
        self._name = f"teeny_async-{uuid.uuid4().hex[:12]}"
        self._numbers = itertools.count(1)
        self._digests = FileDigests()

    async def __aenter__(self) -> DaskRunner:
        await self._bridge.call(self._fleet.join)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._bridge.call(self._fleet.leave)

    async def run(self, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Exit:
        job = f"{self._name}-{next(self._numbers)}"
        # The session's own bookkeeping stays here, and so does what a worker's memory has to do with it.
        limits = replace(limits, memory=None, grown=None)
        try:
            report = await self._bridge.call(self._fleet.run, job, action, dict(chained), limits)
        except RuntimeError:  # the client was closed, or its loop
            report = LOST
        if not report.seen or await anyio.to_thread.run_sync(same_here, self._digests, report.seen):
            return report.exit
        # The key would be made of files that this compiler has not read; without a list there is no key.
        return replace(report.exit, depfile=None)


class DaskHost:
    """The cluster, as a planner asks it about tools. Its workers remember what they found out."""

    def __init__(self, fleet: Fleet, bridge: Bridge) -> None:
        self._fleet = fleet
        self._bridge = bridge

    async def recall(self, store: Store) -> None:
        """Nothing is noted here."""

    async def note(self, store: Store) -> None:
        """Nothing is noted here."""

    async def find(self, driver: Driver) -> Toolchain:
        return await self._bridge.call(self._fleet.find, driver)

    async def cpus(self, driver: Driver, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return await self._bridge.call(self._fleet.cpus, driver, toolchain, triple)

    async def native(self, driver: Driver, toolchain: Toolchain, target: Target) -> Target:
        return await self._bridge.call(self._fleet.native, driver, toolchain, target)


def same_here(digests: FileDigests, seen: Mapping[str, str | None]) -> bool:
    """Whether the files that a compiler read elsewhere (path -> SHA-256) are the same on this machine."""
    here = Snapshot(digests, file_clock_ns())
    return all(digest is not None and here.digest(path) == digest for path, digest in seen.items())


def _room(client: Client) -> int:
    """A compile for each thread, and one for each worker that begins when another ends."""
    state = client.scheduler_info()
    workers = state.get("workers", {})
    threads = state.get("total_threads", sum(entry["nthreads"] for entry in workers.values()))
    return max(1, int(threads) + int(state.get("n_workers", len(workers))))
