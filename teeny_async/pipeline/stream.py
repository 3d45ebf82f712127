"""`ResultStream`: results as they come, from an iterable of any length, in bounded memory.

One feeder task pulls requests while there is room in the window and boards their flights; results queue
up until they are taken. No task, no event and no list grows with the number of requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from teeny_async.errors import RequestError
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.model import CompileRequest
from teeny_async.pipeline.inflight import Flight
from teeny_async.result import CompileResult, Failure

if TYPE_CHECKING:
    from teeny_async.pipeline.session import Session

DEFAULT_WINDOW = 256
_CHECKPOINT_EVERY = 64


class ResultStream:
    """An async context manager and async iterator over results, in the order they come."""

    def __init__(
        self,
        session: Session,
        requests: Iterable[CompileRequest] | AsyncIterable[CompileRequest],
        window: int | None,
    ) -> None:
        if window is not None and window < 1:
            raise RequestError(f"window is a number of requests, 1 or more, not {window!r}")
        self._session = session
        self.call = 0
        self._requests = requests
        self._window = window or DEFAULT_WINDOW
        self._ready: deque[CompileResult] = deque()
        self._aboard: dict[int, Flight] = {}
        self._outstanding = 0
        self._count = 0
        self._taken = 0
        self._fed = False
        self._error: BaseException | None = None
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._group: ServiceGroup | None = None

    async def __aenter__(self) -> ResultStream:
        self.call = self._session.new_call()
        self._group = await ServiceGroup().__aenter__()
        self._group.start(self._feed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for flight in list(self._aboard.values()):
            self._session.leave(flight, self)
        assert self._group is not None
        await self._group.__aexit__(kind, error, trace)

    def __aiter__(self) -> ResultStream:
        return self

    async def __anext__(self) -> CompileResult:
        self._taken += 1
        if self._taken % _CHECKPOINT_EVERY == 0:
            await anyio.lowlevel.checkpoint()
        while not self._ready:
            if self._fed and not self._outstanding:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._arrived.wait()
        result = self._ready.popleft()
        self._outstanding -= 1
        # Half the window at a time, so that the feeder is not woken for each single request.
        if self._outstanding <= self._window // 2:
            self._room.set()
        return result

    async def _feed(self) -> None:
        try:
            if isinstance(self._requests, AsyncIterable):
                async for request in self._requests:
                    await self._take_in(request)
            else:
                for request in self._requests:
                    await self._take_in(request)
        except Exception as error:  # noqa: BLE001 - a request that cannot be planned, or the caller's iterable itself
            self._error = error
        finally:
            self._fed = True
            self._arrived.set()

    async def _take_in(self, request: CompileRequest) -> None:
        while self._outstanding >= self._window:
            self._room = anyio.Event()
            await self._room.wait()
        booking = await self._session.book(request)
        self._outstanding += 1
        self._count += 1
        if isinstance(booking, Failure):
            self._deliver(self._session.refused(request, booking))
        else:
            number = self._count
            flight = self._session.board(request, booking, self, (number, request))
            if not flight.has_landed:
                self._aboard[number] = flight
        if self._count % _CHECKPOINT_EVERY == 0:
            await anyio.lowlevel.checkpoint()

    def landed(self, flight: Flight, tag: Any, first: bool) -> None:
        number, request = tag
        self._aboard.pop(number, None)
        if flight.bug is not None:
            self._error = RuntimeError("teeny_async: internal error; please report it")
            self._error.__cause__ = flight.bug
            self._outstanding -= 1
            self._arrived.set()
        else:
            self._deliver(self._session.result(request, flight, first))

    def _deliver(self, result: CompileResult) -> None:
        self._ready.append(result)
        self._arrived.set()
