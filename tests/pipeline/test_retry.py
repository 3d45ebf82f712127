"""Which failures are tried again, how often, and that a cancellation is never one of them."""

from __future__ import annotations

import anyio
import pytest

from teeny_async import Failure, FailureKind, RetryPolicy, Usage
from teeny_async.action import Action
from teeny_async.failures import POLICIES
from teeny_async.pipeline.retry import retry_from
from teeny_async.result import Artifact, Attempt, Exit
from teeny_async.testing import FakeRunner

from .kit import OK, request, session


def attempt(kind: FailureKind | None) -> Attempt:
    return Attempt(number=1, kind=kind, exit=1, usage=Usage())


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        (["DIAGNOSTIC"], False),
        (["INFEASIBLE"], False),
        (["TOOL_MISSING"], False),
        (["CANCELLED"], False),
        (["TIMEOUT"], False),
        (["CRASH"], True),
        (["CRASH", "CRASH"], False),
        (["BAD_OUTPUT"], True),
        (["BAD_OUTPUT", "BAD_OUTPUT"], False),
        (["CRASH", "BAD_OUTPUT"], True),
        (["INFRA", "INFRA", "INFRA"], True),
        (["INFRA", "INFRA", "INFRA", "INFRA"], False),
        (["DISK_FULL"], True),
        (["SPAWN"], True),
        (["OUT_OF_MEMORY"], True),
    ],
)
def test_what_is_tried_again(kinds: list[str], wanted: bool) -> None:
    assert RetryPolicy().wants([attempt(FailureKind[kind]) for kind in kinds]) is wanted


def test_timeouts_are_tried_again_only_when_asked() -> None:
    assert RetryPolicy(retry_timeouts=True).wants([attempt(FailureKind.TIMEOUT)])


def test_every_kind_has_its_row() -> None:
    assert set(POLICIES) == set(FailureKind)
    assert all(row.hint.endswith((".", '".', "how.")) for row in POLICIES.values())


@pytest.mark.anyio
async def test_a_cancellation_is_not_retried() -> None:
    """A predicate on exceptions would take the cancellation for a failure and try again."""
    tries = []

    async def again() -> Artifact | Failure:
        tries.append(1)
        await anyio.sleep_forever()
        raise AssertionError

    first = Failure(kind=FailureKind.INFRA, message="")
    with anyio.move_on_after(0.05) as scope:
        await retry_from(
            first,
            again,
            policy=RetryPolicy(initial=0, jitter=0, max_attempts=100),
            attempts=[attempt(FailureKind.INFRA)],
            before_sleep=lambda _: None,
        )
    assert scope.cancelled_caught
    assert len(tries) == 1


@pytest.mark.anyio
async def test_back_off_doubles_up_to_its_maximum() -> None:
    delays: list[float] = []
    attempts = [attempt(FailureKind.INFRA)]

    async def again() -> Artifact | Failure:
        attempts.append(attempt(FailureKind.INFRA))
        return Failure(kind=FailureKind.INFRA, message="")

    outcome = await retry_from(
        Failure(kind=FailureKind.INFRA, message=""),
        again,
        policy=RetryPolicy(initial=0.001, maximum=0.005, jitter=0, max_attempts=6),
        attempts=attempts,
        before_sleep=delays.append,
    )
    assert isinstance(outcome, Failure)
    assert delays == [0.001, 0.002, 0.004, 0.005, 0.005]


@pytest.mark.anyio
async def test_a_crash_runs_again_alone() -> None:
    beside: list[int] = []
    seen: dict[bytes, int] = {}

    async def answer(action: Action) -> Exit:
        text = action.inputs[0].data()
        seen[text] = seen.get(text, 0) + 1
        if b"return 0;" in text and seen[text] == 1:
            return Exit(code=-11)
        if b"return 0;" in text:
            beside.append(runner.running)
        await anyio.sleep(0.005)
        return OK

    runner = FakeRunner(answer)
    async with session(runner, jobs=2) as compiler:
        results = await compiler.compile_many([request(number) for number in range(12)])
    assert all(result.ok for result in results)
    assert beside == [1]
    assert runner.most_running == 2
