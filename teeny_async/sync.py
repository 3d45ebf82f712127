"""Running a coroutine function from synchronous code, whatever runs in this thread already."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.lowlevel
import sniffio

T = TypeVar("T")


def run_sync(function: Callable[[], Awaitable[T]], backend: str) -> T:
    """The result of `await function()` in an event loop of its own.

    In this thread, or, where an event loop runs here already (a notebook), in another one that this one
    waits for. An interruption of the wait cancels the function and is raised when that has ended.
    """
    try:
        sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return anyio.run(function, backend=backend)
    return _in_thread(function, backend)


def _in_thread(function: Callable[[], Awaitable[T]], backend: str) -> T:
    import anyio.from_thread  # few need it

    results: list[T] = []
    errors: list[BaseException] = []
    started = threading.Event()
    stops: list[Callable[[], None]] = []

    async def cancellable() -> None:
        token = anyio.lowlevel.current_token()
        with anyio.CancelScope() as scope:
            stops.append(lambda: anyio.from_thread.run_sync(scope.cancel, token=token))
            started.set()
            results.append(await function())

    def run() -> None:
        try:
            anyio.run(cancellable, backend=backend)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="teeny_async")
    thread.start()
    try:
        thread.join()
    except BaseException:
        started.wait()
        if thread.is_alive() and stops:
            stops[0]()
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]
