"""`Tower`: the order of the stages, and the tasks that carry flights through them.

    look up (many keys, one hop to the store) -> brakes -> admission -> claim -> fly -> keep -> land

A key that another process has claimed is waited for without a slot, and looked up again.

Everything that a request waits for belongs to the session's own task group: the look-ups, the flights.
A flight has no task until it starts; a hundred thousand may wait.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
import anyio.lowlevel

from teeny_async.errors import RequestError
from teeny_async.events import Queued
from teeny_async.execution.runner import Runner
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.failures import FailureKind
from teeny_async.pipeline.admission import Admission, Ticket
from teeny_async.pipeline.brakes import Brakes
from teeny_async.pipeline.budget import Budget
from teeny_async.pipeline.bundling import RequestOrigin
from teeny_async.pipeline.costs import Learned, work_of
from teeny_async.pipeline.explaining import Explainer, not_cached
from teeny_async.pipeline.flying import Pilot, Trip, wait_for_a_slot
from teeny_async.pipeline.inflight import Flight, FlightTable
from teeny_async.pipeline.keeping import Keeper
from teeny_async.pipeline.planning import Plan, Planner
from teeny_async.pipeline.rules import Rules
from teeny_async.pipeline.sharing import Sharing
from teeny_async.pipeline.stages import Stages
from teeny_async.pipeline.telling import Teller
from teeny_async.pipeline.watching import Watch
from teeny_async.result import Artifact, Failure
from teeny_async.store.claims import Holder
from teeny_async.toolchains.base import ToolNotFound

LOOKUPS_PER_HOP = 256
NOTE_EVERY = 30.0
"""Seconds between two notes of what was learned, in a session that goes on: a kill loses no more."""
_REPLACED = "its compiler was replaced after it had been identified; the next call will identify the new one"
_CANCELLED = Failure(kind=FailureKind.CANCELLED, message="cancelled before it ended")

logger = logging.getLogger("teeny_async")


class Tower:
    """The flights of a session, from boarding to landing."""

    def __init__(
        self,
        *,
        runner: Runner,
        planner: Planner,
        keeper: Keeper,
        explainer: Explainer,
        sharing: Sharing,
        learned: Learned,
        rules: Rules,
        teller: Teller,
    ) -> None:
        self.flights = FlightTable()
        self.brakes = Brakes()
        self.admission = Admission(rules.jobs, learned.memory)
        self._budget = Budget(self.admission, rules.memory_limit, rules.memory_left)
        self._watch = Watch(rules.slow_after)
        self._planner = planner
        self._keeper = keeper
        self._explainer = explainer
        self._sharing = sharing
        self._learned = learned
        self._rules = rules
        self._teller = teller
        self._stages = Stages(keeper)
        self._pilot = Pilot(
            runner=runner,
            admission=self.admission,
            rules=rules,
            learned=learned,
            watch=self._watch,
            teller=teller,
            stages=self._stages,
        )
        self._group: ServiceGroup | None = None
        self._until_note = NOTE_EVERY
        self._lookups: list[Flight] = []
        self._lookups_wanted = anyio.Event()

    def open(self, group: ServiceGroup) -> None:
        """Begin; everything runs in `group`, and ends with it."""
        self._group = group
        group.start(self._serve_lookups)
        group.start(self._watch.serve, self._look)

    def close(self) -> None:
        """Start nothing any more, and land what has not started."""
        self.admission.close()
        for flight in self.flights.all():
            if flight.scope is None:  # it has no task to land it
                self._land(flight, _CANCELLED)

    def send(self, flight: Flight, *, after: Flight | None = None) -> None:
        """A new flight: carry it to its end. after: one under its key that must land first."""
        self.flights.insert(flight)
        if after is None:
            self._set_out(flight)
        else:
            after.follow(flight)

    def _set_out(self, flight: Flight) -> None:
        self._lookups.append(flight)
        if len(self._lookups) == 1:
            self._lookups_wanted.set()

    async def _serve_lookups(self) -> None:
        """Look up what has gathered while the last look-up was under way: many keys, one hop."""
        while True:
            await self._lookups_wanted.wait()
            self._lookups_wanted = anyio.Event()
            while self._lookups:
                batch = self._lookups[:LOOKUPS_PER_HOP]
                del self._lookups[:LOOKUPS_PER_HOP]
                answers = await self._keeper.look_up(batch)
                misses = []
                for flight, answer in zip(batch, answers, strict=True):
                    if flight.has_landed:
                        continue  # the session was closed meanwhile
                    if answer is None:
                        misses.append(flight)
                    else:
                        flight.source = "cached"
                        self._land(flight, answer)
                if misses:
                    self._missed(misses)

    async def _not_cached(self, flights: Sequence[Flight]) -> None:
        """Land misses where only cached results are allowed, with what is near to them."""
        for flight in flights:
            flight.reading_since = None  # it waits for no compiler
        for flight, nearest in zip(flights, await self._explainer.neighbours(flights), strict=True):
            if flight.abandoned:
                self._send_followers(flight)
            elif not flight.has_landed:
                self._land(flight, Failure(kind=FailureKind.NOT_CACHED, message=not_cached(flight, nearest)))

    def _missed(self, flights: Sequence[Flight]) -> None:
        """Queue them; those that are expected to take longest start first."""
        if self._rules.mode == "cached_only":
            assert self._group is not None
            self._group.start(self._not_cached, flights)  # others are looked up meanwhile
            return
        self._budget.refresh(time.monotonic())
        with self.admission.gathering():
            for flight in flights:
                self._miss(flight)

    def _miss(self, flight: Flight) -> None:
        if flight.abandoned:  # while it was looked up
            self._send_followers(flight)
            return
        flight.reading_since = None  # its compiler has not begun
        toolchains = flight.booking.toolchains
        why_not = self.brakes.why_not(toolchains, flight.call)
        if why_not is not None:
            self._land(flight, why_not)
            return
        self._teller.emit(lambda now: Queued(time=now, request=flight.request, key=flight.key.digest))
        work = flight.work = work_of(flight.request, toolchains[0].name, flight.booking.target)
        # `start` needs the ticket that `submit` is still making when it starts it at once.
        holder: list[Ticket] = []
        rank = -(self._learned.seconds(work) or 0.0)
        ticket = self.admission.submit(lambda: self._start(flight, holder), rank=rank, work=work)
        holder.append(ticket)
        if not ticket.running:
            flight.while_waiting(lambda: self.admission.withdraw(ticket))

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
                outcome = self.brakes.why_not(flight.booking.toolchains, flight.call) or await self._claimed(
                    flight, ticket
                )
        except Exception as bug:
            logger.exception("teeny_async: internal error")
            self.flights.remove(flight)
            flight.crash(bug, time.monotonic())
            self._send_followers(flight)
        finally:
            if ticket.running:
                self.admission.release(ticket)
            if not flight.has_landed:
                self._land(flight, outcome)

    async def _claimed(self, flight: Flight, ticket: Ticket) -> Artifact | Failure:
        taken = self._sharing.take(flight)
        if isinstance(taken, Holder):
            self.admission.release(ticket)
            return await self._waited(flight)
        try:
            if taken is not None and self._sharing.may_be_late(flight):
                answer = await self._answered(flight)
                if answer is not None:
                    return answer
            return await self._flown(flight, ticket)
        finally:
            if taken is not None:
                taken.release()

    async def _waited(self, flight: Flight) -> Artifact | Failure:
        """The outcome of a flight whose key another process has: what that has kept, or else its own."""
        flight.started_at = 0.0
        async with self._sharing.wait(flight):
            answer = await self._answered(flight)
            if answer is not None:
                return answer
            return await self._next_slot(flight, partial(self._flown, flight))

    async def _next_slot(
        self, flight: Flight, go: Callable[[Ticket], Awaitable[Artifact | Failure]]
    ) -> Artifact | Failure:
        """The outcome of a flight that gave its slot back; it was its turn before, so it goes first."""
        ticket = await wait_for_a_slot(self.admission, rank=-math.inf, work=flight.work)
        flight.started_at = time.monotonic()
        try:
            return self.brakes.why_not(flight.booking.toolchains, flight.call) or await go(ticket)
        finally:
            if ticket.running:
                self.admission.release(ticket)

    async def _answered(self, flight: Flight) -> Artifact | Failure | None:
        """What the store has for a flight by now."""
        [answer] = await self._keeper.look_up([flight])
        if answer is None:
            flight.reading_since = None  # its compiler has not begun
        else:
            flight.source, flight.started_at = "cached", 0.0
        return answer

    async def _flown(self, flight: Flight, ticket: Ticket) -> Artifact | Failure:
        try:
            plan = await self._planner.take(flight.request)
        except (ToolNotFound, RequestError) as error:  # it was there, and took the request, when it was booked
            return Failure(kind=FailureKind.TOOL_MISSING, message=str(error))
        front = self._stages.front_of(flight, plan)
        front_end = self._stages.under_way(front)
        if front_end is None:
            if self._stages.has_made(front, plan) and (answer := await self._answered(flight)):
                return answer
            with self._stages.working_on(front):
                return await self._carried(flight, plan, ticket)
        self.admission.release(ticket)
        flight.started_at = 0.0
        await front_end.wait()
        return await self._answered(flight) or await self._next_slot(flight, partial(self._carried, flight, plan))

    async def _carried(self, flight: Flight, plan: Plan, ticket: Ticket) -> Artifact | Failure:
        trip = Trip(flight, plan)
        outcome = await self._pilot.fly(trip, ticket)
        if plan.booking.key.digest != flight.key.digest or not self._planner.are_current(plan.booking.toolchains):
            flight.uncached = flight.uncached or _REPLACED
        if isinstance(outcome, Failure) and self.brakes.pull(outcome, trip.failed_stage.toolchain):
            self._stop_waiting()
        await self._keeper.keep(flight, plan, outcome)
        return outcome

    def _stop_waiting(self) -> None:
        """Land those that wait for a slot and must not get one any more."""
        with self.admission.gathering():
            for flight in self.flights.all():
                why_not = self.brakes.why_not(flight.booking.toolchains, flight.call)
                if why_not is not None and flight.waits_for_a_slot:
                    flight.cancel()
                    self._land(flight, why_not)

    def _land(self, flight: Flight, outcome: Artifact | Failure) -> None:
        self.flights.remove(flight)
        if isinstance(outcome, Failure):
            outcome = outcome.of(RequestOrigin(flight.request, flight.booking, self._planner.plan))
        flight.land(outcome, time.monotonic())
        self._send_followers(flight)

    def _send_followers(self, flight: Flight) -> None:
        """Those who came too late to see the files that this flight saw now look for themselves."""
        followers, flight.followers = flight.followers, ()
        for follower in followers:
            if follower.abandoned:
                self._send_followers(follower)
            elif not follower.has_landed:
                self._set_out(follower)

    async def _look(self, passed: float) -> None:
        """What is done about once a second while anything runs."""
        now = time.monotonic()
        for flight, seconds in self._watch.slow(now):
            self._teller.slow(flight.request, flight.key.digest, seconds)
        self._budget.refresh(now)
        self._until_note -= passed
        if self._until_note <= 0:
            self._until_note = NOTE_EVERY
            await self._keeper.note_costs()
            await self._keeper.note_asked()
