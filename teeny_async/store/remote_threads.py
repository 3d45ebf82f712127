"""The threads that wait for a remote, so that no event loop does: many that read, a few that write.

They are no daemons: one that is ended in the middle of foreign code takes the process with it. Each is in a
request, which has its time limit, so an interpreter that exits waits for them no longer than that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor

import anyio

from teeny_async.store.thread import _poster


class Threads:
    """Readers and writers of one opening of a store. Threads start when they are first needed."""

    def __init__(self, readers: int, writers: int) -> None:
        self._readers = ThreadPoolExecutor(readers, "teeny_async remote read")
        self._writers = ThreadPoolExecutor(writers, "teeny_async remote write")

    def read(self, work: Callable[[], object]) -> Future[object]:
        """Run it in a reading thread; it must not raise, or nobody hears of it."""
        return self._readers.submit(work)

    def write(self, work: Callable[[], object]) -> Future[object]:
        """Run it in a writing thread; it must not raise, or nobody hears of it."""
        return self._writers.submit(work)

    def end(self) -> None:
        """Run what is queued no more. What runs goes on to its end, which nobody waits for."""
        for pool in (self._readers, self._writers):
            pool.shutdown(wait=False, cancel_futures=True)


async def finished(work: Collection[Future[object]], patience: float, is_vain: Callable[[], bool]) -> bool:
    """Wait until all of it is done; False when `patience` seconds are over first, or when the end of a part shows
    that the rest is waited for in vain. It stops nothing."""
    left = len(work)
    counting = threading.Lock()
    done = anyio.Event()
    post = _poster()

    def one_less(_: Future[object]) -> None:
        nonlocal left
        with counting:
            left -= 1
            is_over = left == 0
        if is_over or is_vain():
            # The loop may have ended along with the task that waited (RunFinishedError is one, too).
            with contextlib.suppress(RuntimeError):
                post(done.set)

    for future in work:
        future.add_done_callback(one_less)
    if work and not is_vain():
        with anyio.move_on_after(patience):
            await done.wait()
    return all(future.done() for future in work)
