"""`Batch`: one `compile_many` call, from a list of requests to a list of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from teeny_async.model import CompileRequest
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.planning import Booking
from teeny_async.result import CompileResult, Failure

if TYPE_CHECKING:
    from teeny_async.pipeline.session import Session

_CHECKPOINT_EVERY = 64
"""Requests between two chances for other tasks; planning one takes some 20 us, boarding one as much."""


class Batch:
    """Plans everything, then boards everything, then waits.

    A request object that comes again is neither planned nor looked up again, and an equal request joins
    the flight of the first even when that has landed by then.
    """

    def __init__(self, session: Session, requests: list[CompileRequest], fail_fast: bool) -> None:
        self._session = session
        self.call = session.new_call()
        self._requests = requests
        self._fail_fast = fail_fast
        self._results: list[CompileResult | None] = [None] * len(requests)
        self._missing = len(requests)
        self._first_failure: CompileResult | None = None
        self._bug: BaseException | None = None
        self._settled = anyio.Event()
        self._flights: dict[tuple[str, str | None], Flight] = {}

    async def run(self) -> list[CompileResult]:
        bookings = await self._book_all()
        try:
            await self._board_all(bookings)
            if self._missing:
                await self._settled.wait()
        finally:
            for flight in self._flights.values():
                self._session.leave(flight, self)
        if self._bug is not None:
            raise RuntimeError("teeny_async: internal error; please report it") from self._bug
        if self._first_failure is not None:
            failure = self._first_failure.failure
            assert failure is not None
            raise failure.error(self._first_failure.request, self._first_failure.key)
        return [result for result in self._results if result is not None]

    async def _book_all(self) -> list[Booking | Failure]:
        """One booking for each request, in order; a repeated object shares its first one's."""
        booked: dict[int, Booking | Failure] = {}
        bookings = []
        for request in self._requests:
            booking = booked.get(id(request))
            if booking is None:
                booking = booked[id(request)] = await self._session.book(request)
                if len(booked) % _CHECKPOINT_EVERY == 0:
                    await anyio.lowlevel.checkpoint()
            bookings.append(booking)
        return bookings

    async def _board_all(self, bookings: list[Booking | Failure]) -> None:
        for index, booking in enumerate(bookings):
            if isinstance(booking, Failure):
                self._settle(index, self._session.refused(self._requests[index], booking))
                continue
            name = (booking.key.digest, self._requests[index].log_level)
            flight = self._flights.get(name)
            if flight is None:
                flight = self._session.board(self._requests[index], booking, self, index)
                self._flights[flight.name] = flight
                if len(self._flights) % _CHECKPOINT_EVERY == 0:
                    await anyio.lowlevel.checkpoint()
            elif flight.has_landed:
                self.landed(flight, index, False)
            else:
                flight.board(self, index)

    def landed(self, flight: Flight, tag: int, first: bool) -> None:
        if flight.bug is not None:
            self._bug = flight.bug
            self._settled.set()
        else:
            self._settle(tag, self._session.result(self._requests[tag], flight, first))

    def _settle(self, index: int, result: CompileResult) -> None:
        self._results[index] = result
        self._missing -= 1
        if self._fail_fast and not result.ok and self._first_failure is None:
            self._first_failure = result
            self._settled.set()
        if not self._missing:
            self._settled.set()
