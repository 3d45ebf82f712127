"""`Session`: the order of the stages, and the tasks that carry requests through them.

    plan -> in flight already? board it -> look up (many keys, one hop to the store) -> admission -> fly -> land

Everything that a request waits for belongs to the session's own task group: the look-ups, the flights.
Callers only board and leave; a caller that is cancelled takes nothing from those who joined it. Nothing
here reads the environment or a global; `teeny_async.api` puts a session together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Literal, Protocol

import anyio
import anyio.lowlevel

from teeny_async.events import CacheFault, Event, Finished, Queued, ToolchainFound
from teeny_async.execution.digests import file_clock_ns
from teeny_async.execution.runner import Runner
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest
from teeny_async.pipeline.admission import Admission, Ticket
from teeny_async.pipeline.batch import Batch
from teeny_async.pipeline.closures import Closures
from teeny_async.pipeline.flying import Pilot
from teeny_async.pipeline.inflight import Flight, FlightTable, Passenger
from teeny_async.pipeline.planning import Booking, Plan, Planner, Unlearned
from teeny_async.pipeline.retry import RetryPolicy
from teeny_async.pipeline.stats import CompilerStats, Tally
from teeny_async.pipeline.stream import ResultStream
from teeny_async.result import Artifact, CompileResult, Failure
from teeny_async.store.base import Entry, Store
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound

Mode = Literal["normal", "cached_only", "refresh", "no_cache"]
OnEvent = Callable[[Event], None]
LOOKUPS_PER_HOP = 256
_CANCELLED = Failure(kind=FailureKind.CANCELLED, message="cancelled before it ended")

logger = logging.getLogger("teeny_async")


class RememberingHost(Host, Protocol):
    """A host that can keep what it found out in a store."""

    async def recall(self, store: Store) -> None: ...

    async def note(self, store: Store) -> None: ...


class Session:
    """Compiles requests until it is left. Use it as an async context manager, in one event loop.

    Leaving it cancels what still runs and returns once no process of it is left; that is bounded in time.
    """

    def __init__(
        self,
        *,
        runner: Runner,
        host: RememberingHost,
        store: Store | None,
        jobs: int,
        retry: RetryPolicy,
        mode: Mode,
        timeout: float | None,
        on_event: OnEvent | None,
    ) -> None:
        self._runner = runner
        self._host = host
        self._store = store
        self._mode = mode
        self._on_event = on_event
        self._retry = retry
        self._timeout = timeout
        self._jobs = jobs
        self._group: ServiceGroup | None = None

    async def __aenter__(self) -> Session:
        self._admission = Admission(self._jobs)
        self._flights = FlightTable()
        self._lookups: list[Flight] = []
        self._lookups_wanted = anyio.Event()
        self._tally = Tally(self._jobs, time.monotonic())
        self._planner = Planner(self._host, self._on_found)
        self._closures = None if self._store is None else Closures(self._store)
        self._pilot = Pilot(
            runner=self._runner,
            admission=self._admission,
            policy=self._retry,
            timeout=self._timeout,
            tally=self._tally,
            emit=self.emit,
        )
        async with AsyncExitStack() as opened:
            if self._store is not None:
                await self._store.open(self._on_fault)
                opened.push_async_callback(self._close_store, self._store)
            await opened.enter_async_context(self._runner)
            self._group = await opened.enter_async_context(ServiceGroup())
            if self._store is not None:
                await self._host.recall(self._store)
            self._opened = opened.pop_all()
        self._group.start(self._serve_lookups)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group = None
        self._admission.close()
        for flight in self._flights.all():
            if flight.scope is None:  # it has no task to land it
                self._land(flight, _CANCELLED)
        await self._opened.__aexit__(kind, error, trace)

    async def _close_store(self, store: Store) -> None:
        with anyio.CancelScope(shield=True):
            await store.aclose()

    # What callers do

    async def compile(self, request: CompileRequest) -> Artifact:
        """The artifact of a request.

        Raises RequestError before anything starts, CompileError when the tool refused the kernel,
        ToolchainError when no verdict could be had.
        """
        return (await self.compile_result(request)).artifact

    async def compile_result(self, request: CompileRequest) -> CompileResult:
        """As `compile`, with the failure as a value."""
        [result] = await self.compile_many([request])
        return result

    async def compile_many(self, requests: Iterable[CompileRequest], *, fail_fast: bool = False) -> list[CompileResult]:
        """Results in the order of the requests; failures are values.

        Every request is planned before any compiler starts; the first that cannot be raises RequestError.
        fail_fast: raise the first failure as its exception and cancel the rest.
        """
        return await Batch(self, list(requests), fail_fast).run()

    def as_completed(
        self, requests: Iterable[CompileRequest] | AsyncIterable[CompileRequest], *, window: int | None = None
    ) -> ResultStream:
        """Results as they come, from an iterable of any length, with bounded memory.

            async with compiler.as_completed(requests) as results:
                async for result in results: ...

        window: how many requests may be under way or waiting to be taken. Leaving the block early cancels
        the rest. A request that cannot be planned ends the stream with RequestError, after the results of
        all that came before it.
        """
        return ResultStream(self, requests, window)

    async def toolchain(self, driver: Driver) -> Toolchain:
        """Find and identify a toolchain. Raises ToolNotFound."""
        found = await self._planner.toolchain(driver)
        await self._note_probes()
        return found

    async def plan(self, request: CompileRequest) -> Plan:
        """How a request would be compiled, and its key. Raises RequestError, ToolNotFound."""
        plan = await self._planner.prepare(request)
        await self._note_probes()
        return plan

    @property
    def stats(self) -> CompilerStats:
        """Counts so far."""
        return self._tally.snapshot(time.monotonic())

    # What a batch or a stream does for one request: book, board, and be told when it has landed

    async def book(self, request: CompileRequest) -> Booking | Failure:
        """The request's key, or the failure when its toolchain is not there. Raises RequestError.

        It waits only where a tool has to be found or asked first.
        """
        try:
            try:
                return self._planner.plan(request).booking
            except Unlearned:
                return (await self.plan(request)).booking
        except ToolNotFound as error:
            return Failure(kind=FailureKind.TOOL_MISSING, message=str(error))

    def board(self, request: CompileRequest, booking: Booking, passenger: Passenger, tag: Any) -> Flight:
        """Join the flight for a key, or start one. The passenger's `landed` is called later.

        Synchronous, so that nothing comes between looking a flight up and inserting it.
        """
        if self._group is None:
            raise RuntimeError("the session is not open: use it inside `async with Compiler(...) as compiler:`")
        under_way = self._flights.get(booking.key, request.log_level)
        if under_way is not None and under_way.reading_since is None:
            under_way.board(passenger, tag)
            return under_way
        flight = Flight(request, booking.key, time.monotonic())
        flight.uncached = booking.uncacheable
        flight.reads_files = booking.reads_files
        self._flights.insert(flight)
        flight.board(passenger, tag)
        if under_way is not None:
            under_way.followers.append(flight)
        else:
            self._dispatch(flight)
        return flight

    def leave(self, flight: Flight, passenger: Passenger) -> None:
        """A passenger waits no longer."""
        self._flights.leave(flight, passenger)

    def result(self, request: CompileRequest, flight: Flight, first: bool) -> CompileResult:
        """A passenger's result, once its flight has landed."""
        assert flight.outcome is not None
        return self._finished(
            CompileResult(
                request=request,
                key=flight.key,
                outcome=flight.outcome,
                source=flight.source if first else "coalesced",
                attempts=flight.attempts,
                timings=flight.timings,
                usage=flight.usage,
                uncached=flight.uncached,
            )
        )

    def refused(self, request: CompileRequest, failure: Failure) -> CompileResult:
        """The result of a request for which nothing could be started."""
        return self._finished(CompileResult(request=request, key=None, outcome=failure, source="compiled"))

    def _finished(self, result: CompileResult) -> CompileResult:
        """Count a result and tell the observer."""
        self._tally.sources[result.source] += 1
        if not result.ok:
            self._tally.failed += 1
        if self._on_event is not None:
            self.emit(lambda now: Finished(time=now, result=result))
        return result

    def emit(self, make: Callable[[float], Event]) -> None:
        """Tell the observer, if there is one. Its errors are logged: they are not the compile's."""
        if self._on_event is None:
            return
        try:
            self._on_event(make(time.monotonic()))
        except Exception:
            logger.exception("teeny_async: on_event failed")

    # The stages

    def _dispatch(self, flight: Flight) -> None:
        if self._mode in ("normal", "cached_only") and self._store is not None and flight.uncached is None:
            self._lookups.append(flight)
            self._lookups_wanted.set()
        else:
            self._miss(flight)

    async def _serve_lookups(self) -> None:
        """Look up what has gathered while the last look-up was under way: many keys, one hop."""
        assert self._store is not None or not self._lookups
        while True:
            await self._lookups_wanted.wait()
            self._lookups_wanted = anyio.Event()
            while self._lookups:
                batch = self._lookups[:LOOKUPS_PER_HOP]
                del self._lookups[:LOOKUPS_PER_HOP]
                await self._look_up([flight for flight in batch if not flight.reads_files])
                await self._look_up_readers([flight for flight in batch if flight.reads_files])

    async def _look_up(self, flights: Sequence[Flight]) -> None:
        await self._look_up_as([(flight, flight.key.digest) for flight in flights])

    async def _look_up_readers(self, flights: Sequence[Flight]) -> None:
        """For what reads files: first which result it has with the files as they are, then that."""
        if not flights:
            return
        now = file_clock_ns()
        for flight in flights:
            flight.reading_since = now
        assert self._closures is not None
        digests = await self._closures.result_digests([flight.key.digest for flight in flights])
        await self._look_up_as([(f, digest) for f, digest in zip(flights, digests, strict=True) if digest is not None])
        for flight, digest in zip(flights, digests, strict=True):
            if digest is None:
                self._looked_up(flight, None)

    async def _look_up_as(self, wanted: Sequence[tuple[Flight, str]]) -> None:
        if not wanted:
            return
        assert self._store is not None
        entries = await self._store.get_many([digest for _, digest in wanted])
        for (flight, _), entry in zip(wanted, entries, strict=True):
            self._looked_up(flight, entry)

    def _looked_up(self, flight: Flight, entry: Entry | None) -> None:
        if entry is not None and _serves(entry, flight.log_level):
            flight.source = "cached"
            self._land(flight, entry.outcome)
        else:
            self._miss(flight)

    def _miss(self, flight: Flight) -> None:
        if flight.abandoned:  # while it was looked up
            self._send_followers(flight)
            return
        flight.reading_since = None  # its compiler has not begun
        if self._mode == "cached_only":
            message = f"{flight.request.kernel.name}: not in the cache (key {flight.key.digest[:16]})"
            self._land(flight, Failure(kind=FailureKind.NOT_CACHED, message=message))
            return
        self.emit(lambda now: Queued(time=now, request=flight.request, key=flight.key.digest))
        # `start` needs the ticket that `submit` is still making when it starts it at once.
        holder: list[Ticket] = []
        ticket = self._admission.submit(lambda: self._start(flight, holder))
        holder.append(ticket)
        if not ticket.running:
            flight.while_waiting(lambda: self._admission.withdraw(ticket))

    def _start(self, flight: Flight, holder: list[Ticket]) -> None:
        flight.scope = anyio.CancelScope()
        assert self._group is not None
        self._group.start(self._fly, flight, holder)

    async def _fly(self, flight: Flight, holder: list[Ticket]) -> None:
        flight.started_at = time.monotonic()
        assert flight.scope is not None
        [ticket] = holder
        outcome: Artifact | Failure = _CANCELLED
        try:
            with flight.scope:
                await anyio.lowlevel.checkpoint_if_cancelled()
                plan = self._planner.plan(flight.request)
                outcome = await self._pilot.fly(flight, plan, ticket)
                await self._keep(flight, plan, outcome)
        except Exception as bug:
            logger.exception("teeny_async: internal error")
            self._flights.remove(flight)
            flight.crash(bug, time.monotonic())
            self._send_followers(flight)
        finally:
            if ticket.running:
                self._admission.release(ticket)
            if not flight.has_landed:
                self._land(flight, outcome)

    async def _keep(self, flight: Flight, plan: Plan, outcome: Artifact | Failure) -> None:
        """Store a good artifact; once it exists, a cancellation does not lose it."""
        if self._store is None or self._mode == "no_cache" or flight.uncached or isinstance(outcome, Failure):
            return
        with anyio.CancelScope(shield=True):
            digest = await self._result_digest(flight, plan)
            if digest is not None:
                await self._store.put(digest, Entry(outcome, _info(flight, plan)))

    async def _result_digest(self, flight: Flight, plan: Plan) -> str | None:
        """The key to keep a result under; None, and the reason in `flight.uncached`, when it may not be kept."""
        if not flight.reads_files:
            return flight.key.digest
        assert self._closures is not None
        assert flight.reading_since is not None
        lesson = await self._closures.learn(
            flight.key.digest, plan.stages[0].action, flight.depfile, flight.reading_since
        )
        flight.uncached = lesson.why_not
        return lesson.digest

    def _land(self, flight: Flight, outcome: Artifact | Failure) -> None:
        self._flights.remove(flight)
        flight.land(outcome, time.monotonic())
        self._send_followers(flight)

    def _send_followers(self, flight: Flight) -> None:
        """Those who came too late to see the files that this flight saw now look for themselves."""
        followers, flight.followers = flight.followers, []
        for follower in followers:
            if follower.abandoned:
                self._send_followers(follower)
            elif not follower.has_landed:
                self._dispatch(follower)

    async def _note_probes(self) -> None:
        if self._store is not None and self._mode != "cached_only":
            await self._host.note(self._store)

    def _on_found(self, found: Toolchain) -> None:
        self.emit(
            lambda now: ToolchainFound(
                time=now,
                toolchain=found.name,
                version=found.version,
                path=found.path,
                fingerprint=found.fingerprint,
            )
        )

    def _on_fault(self, operation: str, message: str) -> None:
        self._tally.cache_faults += 1
        logger.warning("teeny_async: cache %s failed: %s", operation, message)
        self.emit(lambda now: CacheFault(time=now, operation=operation, message=message))


def _serves(entry: Entry, log_level: str | None) -> bool:
    """Whether an entry answers a request: one for a log is not answered by an entry that has none."""
    if log_level is None or isinstance(entry.outcome, Failure):
        return True
    return entry.outcome.log_level == log_level


def _info(flight: Flight, plan: Plan) -> FrozenMap[Any]:
    request = flight.request
    return FrozenMap(
        {
            "kernel": request.kernel.name,
            "target": str(plan.target),
            "params": dict(request.params),
            "toolchain": plan.stages[0].toolchain.version,
            "seconds": flight.ran,
            "max_rss": flight.usage.max_rss,
            "created": time.time(),
            "components": plan.booking.key.explain(),
        }
    )
