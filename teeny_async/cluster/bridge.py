"""From any event loop into the loop of a Dask client, and back.

A Dask client lives in one asyncio loop: that of a thread of its own, or the caller's. Our callers may be in another
one, or in trio. `call` starts a coroutine over there and waits here; being cancelled here cancels it there, and
waits until it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from teeny_async.store.thread import _poster

T = TypeVar("T")


class Bridge:
    """The way to an asyncio loop. Raises RuntimeError when that loop is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """What `function(*args)` returns or raises over there."""
        ended = anyio.Event()
        post = _poster()
        tasks: list[asyncio.Task[T]] = []

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop of a caller that was killed
                post(ended.set)

        def start() -> None:
            tasks.append(self._loop.create_task(function(*args)))
            tasks[0].add_done_callback(tell)

        def stop() -> None:
            tasks[0].cancel()

        self._loop.call_soon_threadsafe(start)
        try:
            await ended.wait()
        except anyio.get_cancelled_exc_class():
            self._loop.call_soon_threadsafe(stop)
            with anyio.CancelScope(shield=True):
                await ended.wait()
            if not tasks[0].cancelled():
                tasks[0].exception()  # seen; whoever waited for it is gone
            raise
        if tasks[0].cancelled():
            raise RuntimeError("the Dask client was closed")
        return tasks[0].result()
