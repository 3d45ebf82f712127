"""One flight's way through the toolchain: attempt, judge, retry, keep.

The order is the design:

    slot -> first stage -> second stage -> slot back -> verdict -> (back off without a slot, again) -> store
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import anyio

from teeny_async.events import Event, Retried, Started
from teeny_async.execution.digests import file_clock_ns
from teeny_async.execution.runner import RunLimits, Runner
from teeny_async.failures import POLICIES
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.admission import Admission, Ticket
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.planning import Plan
from teeny_async.pipeline.retry import RetryPolicy, retry_from
from teeny_async.pipeline.stats import Tally
from teeny_async.result import Artifact, Attempt, Exit, Failure, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """Flies flights for a session. timeout: wall seconds of a run, where the request sets none."""

    runner: Runner
    admission: Admission
    policy: RetryPolicy
    timeout: float | None
    tally: Tally
    emit: Callable[[Callable[[float], Event]], None]

    async def fly(self, flight: Flight, plan: Plan, ticket: Ticket) -> Artifact | Failure:
        """The flight's outcome, after all its attempts. Holds `ticket` on entry; it is given back."""
        attempts: list[Attempt] = []
        flight.attempts = attempts
        outcome = await self._attempt(flight, plan, attempts, ticket)
        if isinstance(outcome, Failure) and self.policy.wants(attempts):
            outcome = await retry_from(
                outcome,
                partial(self._attempt_again, flight, plan, attempts),
                policy=self.policy,
                attempts=attempts,
                before_sleep=partial(self._note_retry, flight, attempts),
            )
        return replace(outcome, attempts=tuple(attempts)) if isinstance(outcome, Failure) else outcome

    async def _attempt_again(self, flight: Flight, plan: Plan, attempts: list[Attempt]) -> Artifact | Failure:
        kind = attempts[-1].kind
        assert kind is not None
        ready = anyio.Event()
        ticket = self.admission.submit(ready.set, alone=POLICIES[kind].alone)
        try:
            await ready.wait()
        except BaseException:
            self.admission.withdraw(ticket)
            raise
        return await self._attempt(flight, plan, attempts, ticket)

    async def _attempt(self, flight: Flight, plan: Plan, attempts: list[Attempt], ticket: Ticket) -> Artifact | Failure:
        number = len(attempts) + 1
        self.emit(lambda now: Started(time=now, request=flight.request, key=flight.key.digest, attempt=number))
        began = time.monotonic()
        try:
            outcome, exit, usage = await self._run_stages(flight, plan)
        finally:
            flight.ran += time.monotonic() - began
            self.admission.release(ticket)
        kind = outcome.kind if isinstance(outcome, Failure) else None
        attempts.append(Attempt(number=number, kind=kind, exit=exit.code, usage=usage))
        flight.usage = flight.usage + usage
        return outcome

    async def _run_stages(self, flight: Flight, plan: Plan) -> tuple[Artifact | Failure, Exit, Usage]:
        limits = RunLimits(wall=flight.request.timeout or self.timeout)
        made: Artifact | None = None
        total = Usage()
        for stage in plan.stages:
            action, chained = stage.action, {}
            if made is not None:
                action = stage.driver.chain(action, made.outputs)
                chained = {name: made.outputs[label] for name, label in action.chained.items()}
            began = time.monotonic()
            if action.depfile is not None:
                flight.reading_since = file_clock_ns()
            exit = await self.runner.run(action, chained, limits)
            if action.depfile is not None:
                flight.depfile = exit.depfile
            self.tally.ran(exit.usage, time.monotonic() - began)
            total = total + exit.usage
            outcome = stage.driver.judge(action, exit)
            if isinstance(outcome, Failure):
                return outcome, exit, total
            made = outcome if made is None else merged(made, outcome)
        assert made is not None, "a plan has at least one stage"
        return made, exit, total

    def _note_retry(self, flight: Flight, attempts: list[Attempt], delay: float) -> None:
        last = attempts[-1] = replace(attempts[-1], delay=delay)
        kind = last.kind
        assert kind is not None
        self.tally.retries[kind] += 1
        self.emit(
            lambda now: Retried(
                time=now,
                request=flight.request,
                key=flight.key.digest,
                attempt=last.number,
                kind=kind,
                message=kind.value,
                delay=delay,
            )
        )


def merged(first: Artifact, second: Artifact) -> Artifact:
    """The artifact of two stages: the outputs and metrics of both."""
    return replace(
        first,
        outputs=FrozenMap({**first.outputs, **second.outputs}),
        metrics=FrozenMap({**first.metrics, **second.metrics}),
        diagnostics=(*first.diagnostics, *second.diagnostics),
    )
