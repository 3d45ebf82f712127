"""Failures that are remembered: which, for how long, and that nobody compiles for them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from teeny_async import CompileError, Failure, FailureKind, ToolchainCrashError
from teeny_async.action import Action
from teeny_async.failures import DAY, POLICIES, WEEK
from teeny_async.pipeline.keeping import is_lasting
from teeny_async.result import Artifact, Exit
from teeny_async.store.base import Entry
from teeny_async.store.disk import DiskStore
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain

from .kit import CRASHED, OK, REFUSED, SHELL, request, session

pytestmark = pytest.mark.anyio


class Telling(FakeToolchain):
    """Judges by what the tool printed: the kind's own word."""

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        if exit.code == 0:
            return Artifact(outputs=exit.outputs)
        return Failure(kind=FailureKind(exit.text), message=exit.text, exit=exit.code)


TELLING = Telling()


def saying(kind: FailureKind, code: int = 1) -> Exit:
    return Exit(code=code, stderr=kind.value.encode())


async def runs_of(exits: list[Exit], store: Any = None, **second: Any) -> tuple[int, str]:
    """One request in two sessions on one store: how many runs it took in the second, and its source there."""
    store = store or MemoryStore()
    runner = FakeRunner(lambda _: exits[min(len(runner.actions), len(exits)) - 1])
    async with session(runner, store=store) as compiler:
        await compiler.compile_many([request(toolchain=TELLING)])
    before = len(runner.actions)
    async with session(runner, store=store, **second) as compiler:
        [result] = await compiler.compile_many([request(toolchain=TELLING)])
    return len(runner.actions) - before, result.source


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_what_the_compiler_decided_is_remembered_and_what_the_machine_did_is_not(kind: FailureKind) -> None:
    runs, source = await runs_of([saying(kind)])
    lasting = {FailureKind.DIAGNOSTIC, FailureKind.INFEASIBLE, FailureKind.CRASH}
    assert (runs == 0, source == "cached") == (kind in lasting, kind in lasting)


async def test_a_crash_that_was_not_the_same_twice_is_not_remembered() -> None:
    crash, other = saying(FailureKind.CRASH, -11), saying(FailureKind.CRASH, -6)
    assert (await runs_of([crash, other, crash, crash]))[0] == 2


def test_only_the_same_crash_twice_is_a_verdict() -> None:
    def failed(kind: FailureKind, exit: int = -11, message: str = "died") -> Failure:
        return Failure(kind=kind, exit=exit, message=message)

    crash = failed(FailureKind.CRASH)
    assert is_lasting(crash, crash)
    assert not is_lasting(crash, None)
    assert not is_lasting(crash, failed(FailureKind.CRASH, -6))
    assert not is_lasting(crash, failed(FailureKind.CRASH, message="died elsewhere"))
    assert not is_lasting(crash, failed(FailureKind.INFRA))
    assert not is_lasting(failed(FailureKind.OUT_OF_MEMORY), failed(FailureKind.OUT_OF_MEMORY))
    assert is_lasting(failed(FailureKind.DIAGNOSTIC), failed(FailureKind.INFRA))


def test_every_kind_that_is_remembered_has_an_end() -> None:
    for policy in POLICIES.values():
        assert bool(policy.lasts) == (policy.cached or policy.cached_when_repeated)
        assert policy.retry == "never" or not policy.cached


@pytest.mark.parametrize("store", ["memory", "disk"])
async def test_it_comes_back_whole(store: str, tmp_path: Any) -> None:
    refused = Exit(code=1, stderr=b"kernel.sh:3:5: error: expected ';'\nkernel.sh:3:5: note: here\n")
    keeper = MemoryStore() if store == "memory" else DiskStore(tmp_path / "cache")
    found = []
    for _ in range(2):
        async with session(FakeRunner(lambda _: refused), store=keeper) as compiler:
            [result] = await compiler.compile_many([request(toolchain=SHELL)])
            found.append(result)
    fresh, kept = found
    assert (fresh.source, kept.source) == ("compiled", "cached")
    assert fresh.failure is not None
    assert kept.failure == fresh.failure
    assert kept.failure.diagnostics[0].line == 3
    assert [attempt.exit for attempt in kept.failure.attempts] == [1]
    assert "expected ';'" in kept.failure.log
    assert str(kept.failure) == str(fresh.failure)
    with pytest.raises(CompileError, match="expected"):
        _ = kept.artifact


async def test_a_sweep_with_infeasible_configurations_is_as_warm_as_one_without() -> None:
    def answer(action: Action) -> Exit:
        text = action.inputs[0].data()
        bad = any(b"return %d;" % number in text for number in range(0, 50, 5))
        worse = any(b"return %d;" % number in text for number in range(1, 50, 5))
        return saying(FailureKind.INFEASIBLE) if bad else saying(FailureKind.DIAGNOSTIC) if worse else OK

    store, runner = MemoryStore(), FakeRunner(answer)
    requests = [request(number, toolchain=TELLING) for number in range(50)]
    async with session(runner, store=store) as compiler:
        first = await compiler.compile_many(requests)
    assert sum(result.ok for result in first) == 30
    runner.actions.clear()
    async with session(runner, store=store) as compiler:
        second = await compiler.compile_many(requests)
        stats = compiler.stats
    assert runner.actions == []
    assert [result.outcome for result in second] == [result.outcome for result in first]
    assert (stats.cached, stats.failed, stats.failures) == (50, 20, {"infeasible": 10, "diagnostic": 10})


async def test_retry_failed_compiles_again_and_a_success_takes_its_place() -> None:
    store = MemoryStore()
    exits = [REFUSED, OK]
    runner = FakeRunner(lambda _: exits[len(runner.actions) - 1])
    async with session(runner, store=store) as compiler:
        assert not (await compiler.compile_result(request())).ok
    async with session(runner, store=store, retry_failed=True) as compiler:
        again = await compiler.compile_result(request())
        assert (again.ok, again.source) == (True, "compiled")
        assert (await compiler.compile_result(request())).source == "cached"
    async with session(runner, store=store) as compiler:
        kept = await compiler.compile_result(request())
    assert (kept.ok, kept.source, len(runner.actions)) == (True, "cached", 2)


async def test_a_failure_ttl_of_nothing_remembers_nothing() -> None:
    store = MemoryStore()
    assert (await runs_of([saying(FailureKind.DIAGNOSTIC)], store, failure_ttl=0))[0] == 1
    fresh = MemoryStore()
    async with session(FakeRunner(lambda _: REFUSED), store=fresh, failure_ttl=0) as compiler:
        await compiler.compile_result(request())
    await fresh.open(lambda *_: None)
    assert (await fresh.stats()).entries == 0
    await fresh.aclose()


@pytest.mark.parametrize(
    ("kind", "age", "ttl", "served"),
    [
        ("diagnostic", WEEK - 60, None, True),
        ("diagnostic", WEEK + 60, None, False),
        ("diagnostic", 3600, 60, False),
        ("diagnostic", 30, 60, True),
        ("crash", DAY - 60, None, True),
        ("crash", DAY + 60, None, False),
        ("crash", 3600, 10 * WEEK, True),
        ("crash", DAY + 60, 10 * WEEK, False),
        ("infra", 0, None, False),
        ("diagnostic", -60, None, True),
        ("diagnostic", -WEEK, None, False),
        ("diagnostic", None, None, False),
        ("diagnostic", "long ago", None, False),
    ],
)
async def test_how_long_it_is_served(kind: str, age: Any, ttl: float | None, served: bool) -> None:
    """age: seconds since it was kept; a clock of another machine may be a little ahead, not a week."""
    import time

    store, runner = MemoryStore(), FakeRunner()
    created = time.time() - age if isinstance(age, int | float) else age
    async with session(runner, store=store, failure_ttl=ttl) as compiler:
        digest = (await compiler.plan(request())).booking.key.digest
        failure = Failure(kind=FailureKind(kind), message="kept")
        await store.put(digest, Entry(failure, {"created": created}))
        result = await compiler.compile_result(request())
    assert result.ok is not served


async def test_cached_only_serves_them_too() -> None:
    store = MemoryStore()
    async with session(FakeRunner(lambda _: REFUSED), store=store) as compiler:
        await compiler.compile_result(request())
    async with session(FakeRunner(), store=store, mode="cached_only") as compiler:
        result = await compiler.compile_result(request())
    assert result.failure is not None
    assert result.failure.kind is FailureKind.DIAGNOSTIC


async def test_refresh_replaces_them() -> None:
    store = MemoryStore()
    async with session(FakeRunner(lambda _: REFUSED), store=store) as compiler:
        await compiler.compile_result(request())
    async with session(FakeRunner(), store=store, mode="refresh") as compiler:
        assert (await compiler.compile_result(request())).ok
    async with session(FakeRunner(), store=store) as compiler:
        assert (await compiler.compile_result(request())).source == "cached"


async def test_a_crash_raises_the_same_error_from_the_cache() -> None:
    store = MemoryStore()
    runner = FakeRunner(lambda _: CRASHED)
    for _ in range(2):
        async with session(runner, store=store) as compiler:
            with pytest.raises(ToolchainCrashError) as error:
                await compiler.compile(request())
    assert len(runner.actions) == 2, "both of them in the first session"
    assert len(error.value.attempts) == 2


async def test_a_cached_failure_says_for_which_target_it_was_asked_now() -> None:
    store = MemoryStore()
    for _ in range(2):
        async with session(FakeRunner(lambda _: replace(REFUSED, stderr=b"bad")), store=store) as compiler:
            result = await compiler.compile_result(request(toolchain=SHELL))
            assert "tool: shell 1, for " in str(result.failure)
