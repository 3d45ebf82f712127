"""What runs in a Dask worker: compilers under our own supervisor, and the register by which they are ended.

A Dask task is a function in a thread; cancelling it makes Dask forget it, and the thread goes on. So a task only
hands its action to the worker's `Agent`, which runs it exactly as a session on one machine would, in an event loop
of its own, and waits for the outcome. What ends compilers is a message beside the tasks (`cancel_jobs`), by the
names under which they were registered. A job whose client was killed is ended when Dask has noticed, in a second or
two. A worker that is killed takes its compilers along: its supervisor ends them when it finds its pipe closed.

The functions of this module are what the client sends to be called; arguments and answers are plain data.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, TypeVar

import anyio

from teeny_async.action import Action
from teeny_async.closure import read_depfile
from teeny_async.errors import RequestError
from teeny_async.execution.digests import FileDigests, Snapshot, file_clock_ns
from teeny_async.execution.probe import MachineHost, ProbeMemory
from teeny_async.execution.runner import LocalRunner, RunLimits
from teeny_async.pipeline.closures import closure_files
from teeny_async.result import Exit
from teeny_async.settings import Settings
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver, Toolchain, ToolNotFound

T = TypeVar("T")

_REMEMBERED = 20_000
"""Names of cancelled jobs that are kept: one may be cancelled before it has come to this worker."""
_LOOK_EVERY = 1.0
"""Seconds between two looks at whether somebody still waits for a job."""
CANCELLED = Exit(code=None, stopped="cancelled")


class Report(NamedTuple):
    """What comes back of a job. seen: files that its compiler read beside its inputs, path -> SHA-256 as they are
    on the worker (None: not there), so that the client can tell whether its own are the same."""

    exit: Exit
    seen: Mapping[str, str | None]


class Refusal(NamedTuple):
    """Why there is no answer; stands for the ToolNotFound or RequestError that a driver raised."""

    text: str


class Agent:
    """Runs jobs in a thread with an event loop of its own, for as long as the process lives.

    The thread is a daemon: a worker that exits must not wait for it, and the supervisor outlives it by the moment
    that it takes to end what still runs.
    """

    def __init__(self, settings: Settings) -> None:
        self._runner = LocalRunner(settings.scratch_dir)
        self._host = MachineHost(settings.environ, self._runner, ProbeMemory())
        self._digests = FileDigests()
        self._running: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        threading.Thread(target=anyio.run, args=(self._serve,), name="teeny_async agent", daemon=True).start()
        self._started.wait()

    async def _serve(self) -> None:
        async with self._runner:
            self._loop = asyncio.get_running_loop()
            self._started.set()
            await anyio.sleep_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine of this object in its loop; what comes of it, for whoever has no loop or another one."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, job: str, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Report:
        """Run an action to its end, or to its being cancelled."""
        if job in self._cancelled:
            return Report(CANCELLED, {})
        if _lacks(action.mirror):
            return Report(Exit(code=None, errno=errno.EIO), {})  # ENOENT would say that the compiler is missing
        scope, ended = anyio.CancelScope(), anyio.Event()
        self._running[job] = scope, ended
        exit = CANCELLED
        try:
            with scope:
                exit = await self._runner.run(action, chained, limits)
        finally:
            del self._running[job]
            ended.set()
        seen = {} if exit.depfile is None else await anyio.to_thread.run_sync(self._seen, action, exit.depfile)
        return Report(exit, seen)

    def _seen(self, action: Action, depfile: bytes) -> dict[str, str | None]:
        snapshot = Snapshot(self._digests, file_clock_ns())
        files = closure_files(action, read_depfile(depfile.decode("utf-8", "surrogateescape")))
        return {path: snapshot.digest(path) for path in files}

    async def cancel(self, jobs: list[str]) -> None:
        """End jobs, and those of them that are still to come; returns once no process of theirs is left."""
        for job in jobs:
            self._cancelled[job] = None
            if job in self._running:
                self._running[job][0].cancel()
        while len(self._cancelled) > _REMEMBERED:
            self._cancelled.popitem(last=False)
        for job in jobs:
            if job in self._running:
                await self._running[job][1].wait()

    async def ask(self, question: Callable[[MachineHost], Coroutine[Any, Any, T]]) -> T | Refusal:
        """Ask a driver, on this machine."""
        try:
            return await question(self._host)
        except (ToolNotFound, RequestError) as error:
            return Refusal(str(error))


def _lacks(folder: str | None) -> bool:
    return folder is not None and not os.path.isdir(folder)


_agents: list[Agent] = []
_starting = threading.Lock()


def agent() -> Agent:
    """The one of this process; its thread starts when it is first needed."""
    with _starting:
        if not _agents:
            _agents.append(Agent(Settings.from_environ(os.environ)))
        return _agents[0]


def run_job(job: str, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Report:
    """The body of a Dask task: run a compiler here, and wait for it."""
    running = agent().call(agent().run(job, action, chained, limits))
    while not wait([running], timeout=_LOOK_EVERY).done:
        if _is_forgotten(job):
            agent().call(agent().cancel([job]))
    return running.result()


def _is_forgotten(job: str) -> bool:
    """Whether nobody waits for a task any more: a client that was killed sends no message to end its jobs, but
    Dask notices that it has gone, and tells the worker to drop what it asked for."""
    from distributed import get_worker

    task = get_worker().state.tasks.get(job)
    return task is None or task.state == "cancelled"


async def cancel_jobs(jobs: list[str]) -> None:
    """End jobs of this worker."""
    await asyncio.wrap_future(agent().call(agent().cancel(jobs)))


async def find_tool(driver: Driver) -> Toolchain | Refusal:
    """What `driver.find` says on this worker."""
    return await asyncio.wrap_future(agent().call(agent().ask(driver.find)))


async def ask_cpus(driver: Driver, toolchain: Toolchain, triple: str) -> frozenset[str] | Refusal | None:
    """What `driver.cpus` says on this worker."""
    return await asyncio.wrap_future(agent().call(agent().ask(lambda host: driver.cpus(host, toolchain, triple))))


async def ask_native(driver: Driver, toolchain: Toolchain, target: Target) -> Target | Refusal:
    """What `driver.native` says on this worker."""
    return await asyncio.wrap_future(agent().call(agent().ask(lambda host: driver.native(host, toolchain, target))))
