"""`Session`: what callers do, and what is put together for them.

    plan -> in flight already? board it -> else a new flight: `teeny_async.pipeline.tower`

Callers only board and leave; a caller that is cancelled takes nothing from those who joined it. Nothing
here reads the environment or a global; `teeny_async.api` puts a session together.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from teeny_async.errors import RequestError
from teeny_async.execution.runner import Runner
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.failures import FailureKind
from teeny_async.model import CompileRequest, check_request
from teeny_async.pipeline.batch import Batch
from teeny_async.pipeline.closures import Closures
from teeny_async.pipeline.costs import Learned
from teeny_async.pipeline.explaining import Explainer, Explanation
from teeny_async.pipeline.inflight import Flight, Lounge, Passenger
from teeny_async.pipeline.keeping import Keeper
from teeny_async.pipeline.planning import Booking, Plan, Planner, Unlearned
from teeny_async.pipeline.rules import Rules
from teeny_async.pipeline.sharing import Sharing
from teeny_async.pipeline.stats import CompilerStats, Tally
from teeny_async.pipeline.stream import ResultStream
from teeny_async.pipeline.telling import OnEvent, Teller
from teeny_async.pipeline.tower import Tower
from teeny_async.result import Artifact, CompileResult, Failure
from teeny_async.store.base import Store
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound
from teeny_async.toolchains.elsewhere import Elsewhere

__all__ = ["OnEvent", "RememberingHost", "Session"]


class _Remembering(Protocol):
    async def recall(self, store: Store) -> None: ...

    async def note(self, store: Store) -> None: ...


class RememberingHost(Host, _Remembering, Protocol):
    """A host that can keep what it found out in a store."""


class RememberingElsewhere(Elsewhere, _Remembering, Protocol):
    """The same of other machines."""


class Session:
    """Compiles requests until it is left. Use it as an async context manager, in one event loop.

    Leaving it cancels what still runs and returns once no process of it is left; that is bounded in time.
    """

    def __init__(
        self,
        *,
        runner: Runner,
        host: RememberingHost | RememberingElsewhere,
        store: Store | None,
        rules: Rules,
        on_event: OnEvent | None,
        runtime: Path | None = None,
    ) -> None:
        self._runtime = runtime
        self._runner = runner
        self._host = host
        self._store = store
        self._rules = rules
        self._on_event = on_event
        self._is_open = False

    async def __aenter__(self) -> Session:
        rules = self._rules
        learned = Learned()
        self._tally = Tally(rules.jobs, time.monotonic())
        self._teller = Teller(self._on_event, self._tally)
        self._planner = Planner(self._host, self._teller.found)
        closures = None if self._store is None else Closures(self._store)
        self._keeper = Keeper(self._store, closures, rules, learned)
        self._explainer = Explainer(self._store, closures, self._keeper)
        self._sharing = Sharing(rules, self._teller, self._runtime)
        self._tower = Tower(
            runner=self._runner,
            planner=self._planner,
            keeper=self._keeper,
            explainer=self._explainer,
            sharing=self._sharing,
            learned=learned,
            rules=rules,
            teller=self._teller,
        )
        async with AsyncExitStack() as opened:
            if self._store is not None:
                await self._store.open(self._teller.fault)
                opened.push_async_callback(self._close_store, self._store)
            await opened.enter_async_context(self._runner)
            group = await opened.enter_async_context(ServiceGroup())
            if self._store is not None:
                await self._host.recall(self._store)
                self._keeper.opened()
                self._sharing.opened(self._store)
            self._opened = opened.pop_all()
        self._tower.open(group)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._tower.close()
        await self._opened.__aexit__(kind, error, trace)

    async def _close_store(self, store: Store) -> None:
        with anyio.CancelScope(shield=True):
            await self._keeper.note_costs()
            await self._keeper.note_asked()
            await self._sharing.aclose()
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
        lounge = self._lounge(request)
        if lounge is None:
            [result] = await self.compile_many([request])
            return result
        with lounge:
            await lounge.landing.wait()
        if lounge.flight.bug is not None:
            raise RuntimeError("teeny_async: internal error; please report it") from lounge.flight.bug
        return self.result(request, lounge.flight, lounge.take_first())

    def _lounge(self, request: CompileRequest) -> Lounge | None:
        """Where to wait when this very object is under way; then it need not be planned or keyed again."""
        flight = self._tower.flights.of(request)
        if flight is None or flight.reading_since is not None:
            return None
        lounge = flight.lounge
        if lounge is None:
            lounge = flight.lounge = Lounge(flight, self.leave)
            flight.board(lounge, None)
        lounge.call = flight.call = self.new_call()
        return lounge

    async def compile_many(self, requests: Iterable[CompileRequest], *, fail_fast: bool = False) -> list[CompileResult]:
        """Results in the order of the requests; failures are values.

        Every request is planned before any compiler starts; the first that cannot be raises RequestError.
        When a compiler vanishes or the disk stays full, what was not started yet fails for the same reason.
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
        plan = await self._prepare(request)
        self._check_keyable(request, plan.booking)
        return plan

    async def explain(self, request: CompileRequest) -> Explanation:
        """Why a request is in the store, or is not: its key's components, and for a miss the nearest entry.

        Nothing is compiled. Without regard to `mode` the store is looked into, with the folders and the remote that
        it has; the look counts as no use of the entry, and puts none from one of them into another.
        Raises RequestError, and ToolchainNotFoundError, without which there is no key.
        """
        [explanation] = await self.explain_many([request])
        return explanation

    async def explain_many(self, requests: Iterable[CompileRequest]) -> list[Explanation]:
        """As `explain`, for many; a store is gone through once for all of them."""
        self._check_open()
        asked = []
        for request in requests:
            check_request(request)
            try:
                asked.append((request, await self._prepare(request)))
            except ToolNotFound as error:
                failure = Failure(kind=FailureKind.TOOL_MISSING, message=str(error))
                raise failure.error(request, None) from None
        return await self._explainer.explain(asked)

    @property
    def stats(self) -> CompilerStats:
        """Counts so far."""
        return self._tally.snapshot(
            time.monotonic(),
            hits=self._keeper.hits(self._tally.sources["cached"]),
            most_running=self._tower.admission.most_running,
            memory_limit=self._tower.admission.budget,
            memory_most=self._tower.admission.most_charged,
        )

    # What a batch or a stream does: begin; for each request book, board, be told when it has landed

    def new_call(self) -> int:
        """The number of a batch or stream that begins now."""
        self._check_open()
        self._planner.forget_changed()
        return self._tower.brakes.new_call()

    async def book(self, request: CompileRequest) -> Booking | Failure:
        """The request's key, or the failure when its toolchain is not there. Raises RequestError.

        It waits only where a tool has to be found or asked first.
        """
        check_request(request)
        try:
            try:
                booking = self._planner.book(request)
            except Unlearned:
                booking = (await self._prepare(request)).booking
        except ToolNotFound as error:
            return Failure(kind=FailureKind.TOOL_MISSING, message=str(error))
        self._check_keyable(request, booking)
        return booking

    def board(self, request: CompileRequest, booking: Booking, passenger: Passenger, tag: Any) -> Flight:
        """Join the flight for a key, or start one. The passenger's `landed` is called later.

        Synchronous, so that nothing comes between looking a flight up and inserting it.
        """
        self._check_open()
        under_way = self._tower.flights.get(booking.key, request.log_level)
        if under_way is not None and under_way.reading_since is None:
            under_way.board(passenger, tag)
            return under_way
        flight = Flight(request, booking, passenger.call, time.monotonic())
        flight.board(passenger, tag)
        self._tower.send(flight, after=under_way)
        return flight

    def leave(self, flight: Flight, passenger: Passenger) -> None:
        """A passenger waits no longer."""
        self._tower.flights.leave(flight, passenger)

    def result(self, request: CompileRequest, flight: Flight, first: bool) -> CompileResult:
        """A passenger's result, once its flight has landed."""
        assert flight.outcome is not None
        if flight.kept is not None:
            self._keeper.asked(request, flight)
        return self._teller.finished(
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
        return self._teller.finished(CompileResult(request=request, key=None, outcome=failure, source="compiled"))

    def _check_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("the session is not open: use it inside `async with Compiler(...) as compiler:`")

    async def _prepare(self, request: CompileRequest) -> Plan:
        plan = await self._planner.prepare(request)
        await self._note_probes()
        return plan

    def _check_keyable(self, request: CompileRequest, booking: Booking) -> None:
        if booking.uncacheable is not None and self._rules.refuses_unkeyable:
            raise RequestError(
                f"kernel {request.kernel.name!r} cannot be cached: {booking.uncacheable}; "
                'unkeyable="run" compiles it each time'
            )

    async def _note_probes(self) -> None:
        if self._store is not None and self._rules.mode != "cached_only":
            await self._host.note(self._store)
