"""Retries: which failures are worth another attempt, how many, and after what delay.

tenacity drives the loop. It decides on result values, never on exceptions: a predicate on exceptions
would see, and retry, a cancellation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from teeny_async.failures import POLICIES, FailureKind
from teeny_async.result import Artifact, Attempt, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently a transient failure is tried again; which kinds are transient is
    `teeny_async.failures.POLICIES`.

    max_attempts: the first one included. initial, maximum: seconds of the first back-off and the most of
    any; each is twice the one before, plus up to `jitter` seconds at random. retry_timeouts: whether a
    compile that hit its time limit is tried again.
    """

    max_attempts: int = 4
    initial: float = 0.1
    maximum: float = 10.0
    jitter: float = 0.1
    retry_timeouts: bool = False

    def wants(self, attempts: Sequence[Attempt]) -> bool:
        """Whether another attempt follows the last of these."""
        kind = attempts[-1].kind
        if kind is None or len(attempts) >= self.max_attempts:
            return False
        match POLICIES[kind].retry:
            case "backoff":
                return True
            case "once":
                return sum(attempt.kind is kind for attempt in attempts) < 2
            case "opt-in":
                return kind is FailureKind.TIMEOUT and self.retry_timeouts
            case _:
                return False


NO_RETRIES = RetryPolicy(max_attempts=1)


async def retry_from(
    first: Failure,
    again: Callable[[], Awaitable[Artifact | Failure]],
    *,
    policy: RetryPolicy,
    attempts: Sequence[Attempt],
    before_sleep: Callable[[float], None],
) -> Artifact | Failure:
    """Attempts until one is not worth another; `first` is the outcome of the one made already.

    attempts: the list that each attempt appends itself to. before_sleep: told each delay, in seconds.
    """
    # Imported here: it costs 20 ms, and most sessions never retry.
    from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_exponential, wait_random

    made: list[Artifact | Failure] = [first]

    async def attempt() -> Artifact | Failure:
        return made.pop() if made else await again()

    def last_outcome(state: RetryCallState) -> Any:
        assert state.outcome is not None
        return state.outcome.result()

    def announce(state: RetryCallState) -> None:
        before_sleep(state.upcoming_sleep)

    retrying = AsyncRetrying(
        sleep=anyio.sleep,
        retry=retry_if_result(lambda outcome: isinstance(outcome, Failure) and policy.wants(attempts)),
        wait=wait_exponential(multiplier=policy.initial, max=policy.maximum) + wait_random(0, policy.jitter),
        before_sleep=announce,
        retry_error_callback=last_outcome,
    )
    outcome: Artifact | Failure = await retrying(attempt)
    return outcome
