"""One flight's way through the toolchain: attempt, judge, retry.

The order is the design:

    slot -> first stage -> second stage -> slot back -> verdict -> (back off without a slot, again)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import anyio

from teeny_async.action import Action
from teeny_async.events import Started
from teeny_async.execution.digests import file_clock_ns
from teeny_async.execution.runner import RunLimits, Runner
from teeny_async.failures import POLICIES, FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.admission import Admission, Ticket
from teeny_async.pipeline.costs import PACE_FLOOR, Learned, Work
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.keeping import is_lasting
from teeny_async.pipeline.planning import Plan, Stage
from teeny_async.pipeline.retry import retry_from
from teeny_async.pipeline.rules import Rules
from teeny_async.pipeline.stages import Ran, Stages
from teeny_async.pipeline.telling import Teller
from teeny_async.pipeline.watching import Watch
from teeny_async.result import NO_USAGE, Artifact, Attempt, Failure, Usage


class Trip:
    """A flight, its plan, and how its attempts have gone so far.

    failed_stage: the stage that the last failed attempt failed in.
    """

    def __init__(self, flight: Flight, plan: Plan) -> None:
        self.flight = flight
        self.plan = plan
        self.attempts: list[Attempt] = []
        self.failures: list[Failure] = []
        self.failed_stage = plan.stages[0]
        flight.attempts = self.attempts

    @property
    def work(self) -> Work:
        assert self.flight.work is not None, "it was a miss"
        return self.flight.work


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """Flies flights for a session."""

    runner: Runner
    admission: Admission
    rules: Rules
    learned: Learned
    watch: Watch
    teller: Teller
    stages: Stages

    async def fly(self, trip: Trip, ticket: Ticket) -> Artifact | Failure:
        """The outcome after all attempts. Holds `ticket` on entry; it is given back."""
        outcome = await self._attempt(trip, ticket)
        if isinstance(outcome, Failure) and self.rules.retry.wants(trip.attempts):
            outcome = await retry_from(
                outcome,
                partial(self._attempt_again, trip),
                policy=self.rules.retry,
                attempts=trip.attempts,
                before_sleep=partial(self._note_retry, trip),
            )
        before = trip.failures[-2] if len(trip.failures) > 1 else None
        trip.flight.lasting = is_lasting(outcome, before)
        if isinstance(outcome, Failure):
            return replace(outcome, attempts=tuple(trip.attempts))
        if trip.failures:
            self.teller.tally.flakes[trip.work.tool] += 1
        return outcome

    async def _attempt_again(self, trip: Trip) -> Artifact | Failure:
        ticket = await wait_for_a_slot(
            self.admission,
            rank=-(self.learned.seconds(trip.work) or 0.0),
            alone=POLICIES[trip.failures[-1].kind].alone,
            work=trip.work,
        )
        return await self._attempt(trip, ticket)

    async def _attempt(self, trip: Trip, ticket: Ticket) -> Artifact | Failure:
        flight = trip.flight
        number = len(trip.attempts) + 1
        self.teller.emit(lambda now: Started(time=now, request=flight.request, key=flight.key.digest, attempt=number))
        began = time.monotonic()
        self.watch.began(flight, began)
        try:
            outcome, exit, usage, reused = await self._run_stages(trip, ticket)
        finally:
            seconds = time.monotonic() - began
            flight.ran += seconds
            self.watch.ended(flight)
            self.admission.release(ticket)
        if not reused:
            self._learn(trip.work, outcome, seconds, usage, ticket.charge)
        kind = None
        if isinstance(outcome, Failure):
            kind = outcome.kind
            trip.failures.append(outcome)
        trip.attempts.append(Attempt(number=number, kind=kind, exit=exit.code, usage=usage))
        flight.usage = flight.usage + usage
        return outcome

    async def _run_stages(self, trip: Trip, ticket: Ticket) -> Ran:
        limits, adapted = self._limits(trip, ticket)
        made: Artifact | None = None
        total, reused = NO_USAGE, False
        for stage in trip.plan.stages:
            action, chained = stage.action, {}
            if made is not None:
                action = stage.driver.chain(action, made.outputs)
                chained = {name: made.outputs[label] for name, label in action.chained.items()}
            run = partial(self._run, trip.flight, stage, action, chained, limits)
            ran = await self.stages.outcome(trip.flight, trip.plan, action, chained, run)
            total, reused = total + ran.usage, reused or ran.reused
            self.teller.tally.reused += ran.reused
            outcome = ran.outcome
            if isinstance(outcome, Failure):
                trip.failed_stage = stage
                if adapted is not None and ran.exit.stopped == "timeout":
                    outcome = replace(outcome, message=f"{outcome.message} ({adapted})")
                return Ran(outcome, ran.exit, total, reused)
            made = outcome if made is None else merged(made, outcome)
        assert made is not None, "a plan has at least one stage"
        return Ran(made, ran.exit, total, reused)

    async def _run(
        self, flight: Flight, stage: Stage, action: Action, chained: Mapping[str, bytes], limits: RunLimits
    ) -> Ran:
        """Run one stage, and judge it."""
        began = time.monotonic()
        if action.depfile is not None:
            flight.reading_since = file_clock_ns()
        exit = await self.runner.run(action, chained, limits)
        if action.depfile is not None:
            flight.depfile = exit.depfile
        self.teller.tally.ran(exit.usage, time.monotonic() - began)
        if exit.unreaped:
            self._warn_unreaped(flight, stage)
        return Ran(stage.driver.judge(action, exit), exit, exit.usage)

    def _limits(self, trip: Trip, ticket: Ticket) -> tuple[RunLimits, str | None]:
        """The limits of a run; and what its time limit is made of, when it is an adaptive one."""
        request, rules = trip.flight.request, self.rules
        wall, adapted = request.timeout or rules.timeout, None
        pace = self.learned.pace(trip.work) if rules.adaptive_timeout else None
        if pace is not None and rules.adaptive_timeout is not None:
            adaptive = max(PACE_FLOOR, rules.adaptive_timeout * pace)
            if wall is None or adaptive < wall:
                wall = adaptive
                adapted = f"adaptive_timeout: nine of ten like it took no more than {pace:.3g} s"
        limits = RunLimits(
            wall=wall,
            cpu=request.cpu_timeout or rules.cpu_timeout,
            memory=ticket.charge or None,
            grown=partial(self._note_growth, trip.work, ticket),
        )
        return limits, adapted

    def _note_growth(self, work: Work, ticket: Ticket, held: int) -> None:
        self.learned.holds(work, held)
        self.admission.grow(ticket, held)

    def _learn(self, work: Work, outcome: Artifact | Failure, seconds: float, usage: Usage, charge: int) -> None:
        """What an attempt teaches. One that was cut short has no time, and needs at least what it held."""
        held = max(usage.peak, usage.max_rss)
        if isinstance(outcome, Artifact):
            self.learned.succeeded(work, seconds, held)
        elif outcome.kind is FailureKind.OUT_OF_MEMORY:
            self.learned.killed(work, held, charge)
        else:
            self.learned.holds(work, held)

    def _warn_unreaped(self, flight: Flight, stage: Stage) -> None:
        self.teller.warn(
            f"{flight.request.kernel.name}: a process of {stage.driver.name} did not end even when it was killed, and "
            "was left behind; it is stuck in the kernel (a dead network file system, a frozen control group)"
        )

    def _note_retry(self, trip: Trip, delay: float) -> None:
        last = trip.attempts[-1] = replace(trip.attempts[-1], delay=delay)
        flight = trip.flight
        self.teller.retried(flight.request, flight.key.digest, last.number, trip.failures[-1], delay)


async def wait_for_a_slot(admission: Admission, *, rank: float, work: Work | None, alone: bool = False) -> Ticket:
    """A ticket that runs; whoever gets it gives it back."""
    ready = anyio.Event()
    ticket = admission.submit(ready.set, rank=rank, alone=alone, work=work)
    try:
        await ready.wait()
    except BaseException:
        admission.withdraw(ticket)
        raise
    return ticket


def merged(first: Artifact, second: Artifact) -> Artifact:
    """The artifact of two stages: the outputs and metrics of both."""
    return replace(
        first,
        outputs=FrozenMap({**first.outputs, **second.outputs}),
        metrics=FrozenMap({**first.metrics, **second.metrics}),
        diagnostics=(*first.diagnostics, *second.diagnostics),
    )
