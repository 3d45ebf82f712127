"""One thread of our own for blocking work that belongs together.

An sqlite connection belongs to a thread: a pool that hands each call to another thread would open a
connection in each (the first get in a new thread costs as much as 70). And a hop to a thread costs
as much as 14 gets, so callers send whole batches.

Jobs run one at a time in the order they were submitted. Whoever waits for a job may be cancelled;
the job is done all the same, and its result is dropped. The thread is not a daemon, so that a
write is never cut off at interpreter exit; a thread that nobody closed ends by itself once the
main thread has ended.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import anyio
from anyio.lowlevel import current_token

T = TypeVar("T")
P = ParamSpec("P")

_WATCH = 1.0
"""Seconds between two looks at whether the main thread still lives."""


class _Job(Generic[T]):
    """A call on its way through the thread, and where to say that it is done."""

    __slots__ = ("done", "error", "post", "result", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.done = anyio.Event()
        self.post = _poster()
        self.result: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001  # handed to the waiter; the thread must go on
            self.error = error
        # The loop may have ended along with the task that waited (RunFinishedError is one, too).
        with contextlib.suppress(RuntimeError):
            self.post(self.done.set)

    async def outcome(self) -> T:
        await self.done.wait()
        try:
            if self.error is not None:
                raise self.error
            return cast("T", self.result)
        finally:
            # The traceback refers to this frame, the frame to the job, the job to the error.
            self.error = None


class CacheThread:
    """A thread that runs blocking calls for event loops, any number of them, on either backend."""

    def __init__(self, name: str = "teeny_async cache") -> None:
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._submitting = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=False)
        self._thread.start()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the thread; returns what it returns, raises what it raises.

        Raises RuntimeError when the thread is closed.
        """
        job = _Job(lambda: function(*args, **kwargs))
        # The lock keeps a job from getting behind the end mark, where nobody would ever run it.
        with self._submitting:
            if self._closed:
                raise RuntimeError("the cache thread is closed")
            self._jobs.put(job)
        return await job.outcome()

    async def aclose(self) -> None:
        """Wait for the jobs that were submitted, then end the thread; shielded from cancellation."""
        with self._submitting:
            if self._closed:
                return
            self._closed = True
            last = _Job(lambda: None)
            self._jobs.put(last)
            self._jobs.put(None)
        with anyio.CancelScope(shield=True):
            await last.outcome()
        self._thread.join()  # it has nothing left to do but return

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_WATCH)
            except queue.Empty:
                if not threading.main_thread().is_alive():
                    return
                continue
            if job is None:
                return
            job.run()
            del job  # or the last result would live until the next job comes


def _poster() -> Callable[[Callable[[], object]], object]:
    """How another thread makes the current event loop run something soon.

    trio's token has `run_sync_soon`; asyncio's and uvloop's is the loop, with `call_soon_threadsafe`.
    """
    token: Any = current_token().native_token
    post = getattr(token, "run_sync_soon", None) or token.call_soon_threadsafe
    return cast("Callable[[Callable[[], object]], object]", post)
