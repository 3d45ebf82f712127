"""In-flight compiles: one flight for any number of equal requests.

The invariant: from the moment a key is looked up here until its flight lands, every request with that key
finds that flight. There is no `await` between looking a key up and inserting its flight.

A flight belongs to the session, not to the caller that was first: callers *board* it and may *leave*;
when the last one has left, the flight is cancelled and taken out of the table at once, so that a later
caller starts a new one instead of joining one that is being torn down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from teeny_async.keys import CacheKey
from teeny_async.model import CompileRequest
from teeny_async.pipeline.costs import Work
from teeny_async.pipeline.planning import Booking
from teeny_async.result import NO_TIME, NO_USAGE, Artifact, Attempt, Failure, Source, Timings

if TYPE_CHECKING:
    from teeny_async.pipeline.asking import Kept


class Passenger(Protocol):
    """Who waits for a flight: `landed` is called once, when it has. call: see `Brakes`."""

    @property
    def call(self) -> int: ...

    def landed(self, flight: Flight, tag: Any, first: bool) -> None: ...


class Flight:
    """One compile under way.

    outcome: set when it has landed; `bug` instead, when the pipeline itself failed.
    abandoned: everyone left before that.
    call: the number of the call that it belongs to; the latest, where several wait for it.
    name: what it goes by in a table of flights. A log is no part of the key, but who wants one cannot join who
        does not.
    lasting: the outcome is a verdict about the request, which may be kept.
    work: how its costs are named; None until it is known to be a miss.
    reads_files: its compiler reads files of the machine. reading_since: when it began to (nanoseconds of
        `file_clock_ns`); who comes later may see other files, and does not board. depfile: what it read.
    lounge: where those wait who joined it by a call of their own, if there are any.
    followers: flights of those who came later; they set out when this one has landed.
    kept: the entry that answers it, or that its outcome was kept in, where that matters; see `asking`.
    """

    __slots__ = (
        *("_passengers", "_withdraw", "abandoned", "attempts", "booking", "bug", "call", "depfile", "followers"),
        *("kept", "key", "lasting", "log_level", "lounge", "name", "outcome", "queued_at", "ran", "reading_since"),
        *("reads_files", "request", "scope", "source", "started_at", "timings", "uncached", "usage", "work"),
    )

    def __init__(self, request: CompileRequest, booking: Booking, call: int, now: float) -> None:
        self.request = request
        self.booking = booking
        self.call = call
        self.key = booking.key
        self.log_level = request.log_level
        self.name = (booking.key.digest, request.log_level)
        self.outcome: Artifact | Failure | None = None
        self.bug: BaseException | None = None
        self.source: Source = "compiled"
        self.attempts: Sequence[Attempt] = ()
        self.usage = NO_USAGE
        self.timings = NO_TIME
        self.uncached = booking.uncacheable
        self.lasting = False
        self.work: Work | None = None
        self.queued_at = now
        self.started_at = 0.0
        self.ran = 0.0
        self.scope: anyio.CancelScope | None = None
        self.abandoned = False
        self.reads_files = booking.reads_files
        self.reading_since: int | None = None
        self.depfile: bytes | None = None
        self.followers: Sequence[Flight] = ()
        self.lounge: Lounge | None = None
        self.kept: Kept | None = None
        self._withdraw: Callable[[], None] | None = None
        self._passengers: list[tuple[Passenger, Any]] = []

    @property
    def has_landed(self) -> bool:
        return self.outcome is not None or self.bug is not None

    def board(self, passenger: Passenger, tag: Any) -> None:
        self._passengers.append((passenger, tag))
        self.call = max(self.call, passenger.call)

    def leave(self, passenger: Passenger) -> bool:
        """Take a passenger's places; True when nobody is left."""
        self._passengers = [place for place in self._passengers if place[0] is not passenger]
        return not self._passengers

    def follow(self, follower: Flight) -> None:
        """A flight under the same key that sets out when this one has landed."""
        self.followers = (*self.followers, follower)

    def while_waiting(self, withdraw: Callable[[], None]) -> None:
        """How to give up the flight's place in a queue, while it has no task of its own."""
        self._withdraw = withdraw

    @property
    def waits_for_a_slot(self) -> bool:
        return self.scope is None and self._withdraw is not None and not self.has_landed

    def cancel(self) -> None:
        """Stop it, wherever it is."""
        if self.scope is not None:
            self.scope.cancel()
        elif self._withdraw is not None:
            self._withdraw()

    def land(self, outcome: Artifact | Failure, now: float) -> None:
        """Set the outcome and tell everyone aboard; the first to board is told that it was."""
        self.outcome = outcome
        self._tell(now)

    def crash(self, bug: BaseException, now: float) -> None:
        """The pipeline failed: everyone aboard is told, so that nobody waits for ever."""
        self.bug = bug
        self._tell(now)

    def _tell(self, now: float) -> None:
        started = self.started_at or now
        self.timings = Timings(waited=started - self.queued_at, ran=self.ran, total=now - self.queued_at)
        passengers, self._passengers = self._passengers, []
        first = True
        for passenger, tag in passengers:
            passenger.landed(self, tag, first)
            first = False


class Lounge:
    """A passenger for any number of callers that ask for a request object that is under way: one event for all.

    Enter it while waiting for `landing`. call: the latest of theirs.
    """

    __slots__ = ("_first", "_leave", "_waiting", "call", "flight", "landing")

    def __init__(self, flight: Flight, leave: Callable[[Flight, Passenger], None]) -> None:
        self.flight = flight
        self.landing = anyio.Event()
        self.call = flight.call
        self._first = False
        self._leave = leave
        self._waiting = 0

    def landed(self, flight: Flight, tag: Any, first: bool) -> None:
        self._first = first
        self.landing.set()

    def __enter__(self) -> None:
        self._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.flight.lounge = None
            self._leave(self.flight, self)

    def take_first(self) -> bool:
        """Whether the caller counts as the first to board; nobody after it does."""
        first, self._first = self._first, False
        return first


class FlightTable:
    """The flights of a session, by key and by request."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str | None], Flight] = {}
        self._by_request: dict[int, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def get(self, key: CacheKey, log_level: str | None) -> Flight | None:
        """The flight for a key; see `Flight.name`."""
        return self._flights.get((key.digest, log_level))

    def of(self, request: CompileRequest) -> Flight | None:
        """The flight that was started for this very object, which needs no key to be found."""
        return self._by_request.get(id(request))  # no other object has its id: the flight keeps it alive

    def insert(self, flight: Flight) -> None:
        self._flights[flight.name] = flight
        self._by_request[id(flight.request)] = flight

    def remove(self, flight: Flight) -> None:
        """Take a flight out; a newer one under the same key stays."""
        if self._flights.get(flight.name) is flight:
            del self._flights[flight.name]
        if self._by_request.get(id(flight.request)) is flight:
            del self._by_request[id(flight.request)]

    def leave(self, flight: Flight, passenger: Passenger) -> None:
        """A passenger gives up waiting; the last one out cancels the flight."""
        if not flight.has_landed and flight.leave(passenger):
            self.remove(flight)
            flight.abandoned = True
            flight.cancel()

    def all(self) -> list[Flight]:
        return list(self._flights.values())
