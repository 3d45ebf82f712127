"""One session: hits, misses, modes, failures as values, order, closing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import (
    CacheError,
    CompileError,
    Compiler,
    Failure,
    FailureKind,
    Kernel,
    NotCachedError,
    RequestError,
    RetryPolicy,
    ToolchainCrashError,
    ToolchainNotFoundError,
)
from teeny_async.action import Action
from teeny_async.events import Event, Finished, Queued, Retried, Started
from teeny_async.result import Exit
from teeny_async.store.base import Entry
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.toolchains.base import Host, Toolchain, ToolNotFound

from .kit import CRASHED, OK, REFUSED, Gate, request, session

pytestmark = pytest.mark.anyio


async def test_a_second_session_finds_what_the_first_one_kept() -> None:
    store, runner = MemoryStore(), FakeRunner()
    for expected in ("compiled", "cached"):
        async with session(runner, store=store) as compiler:
            [result] = await compiler.compile_many([request()])
        assert result.ok
        assert result.source == expected
    assert len(runner.actions) == 1


async def test_results_keep_the_order_of_the_requests() -> None:
    async def backwards(action: Action) -> Exit:
        await anyio.sleep(0.03 if b"return 0" in action.inputs[0].data() else 0)
        return OK

    async with session(FakeRunner(backwards)) as compiler:
        results = await compiler.compile_many(request(number) for number in range(5))
    assert [result.request.kernel.name for result in results] == ["k0", "k1", "k2", "k3", "k4"]


async def test_failures_are_values_and_do_not_stop_the_others() -> None:
    def answer(action: Action) -> Exit:
        return REFUSED if b"return 1" in action.inputs[0].data() else OK

    async with session(FakeRunner(answer)) as compiler:
        results = await compiler.compile_many([request(0), request(1), request(2)])
    assert [result.ok for result in results] == [True, False, True]
    failure = results[1].failure
    assert failure is not None
    assert failure.kind is FailureKind.DIAGNOSTIC
    with pytest.raises(CompileError, match="k1"):
        _ = results[1].artifact


async def test_each_caller_gets_an_exception_of_its_own() -> None:
    async with session(FakeRunner(lambda _: REFUSED)) as compiler:
        first, second = await compiler.compile_many([request(), request()])
    with pytest.raises(CompileError) as one:
        _ = first.artifact
    with pytest.raises(CompileError) as two:
        _ = second.artifact
    assert one.value is not two.value
    assert one.value.failure.kind is FailureKind.DIAGNOSTIC


async def test_compile_gives_the_artifact_or_raises() -> None:
    async with session(FakeRunner()) as compiler:
        assert (await compiler.compile(request()))["object"]
    async with session(FakeRunner(lambda _: CRASHED)) as compiler:
        with pytest.raises(ToolchainCrashError):
            await compiler.compile(request())


async def test_fail_fast_raises_the_first_failure_and_cancels_the_rest() -> None:
    gate = Gate()

    async def answer(action: Action) -> Exit:
        return REFUSED if b"return 1;" in action.inputs[0].data() else await gate(action)

    runner = FakeRunner(answer)
    async with session(runner) as compiler:
        with pytest.raises(CompileError):
            await compiler.compile_many((request(number) for number in range(50)), fail_fast=True)
        await anyio.wait_all_tasks_blocked()
        assert runner.running == 0
    assert len(runner.actions) < 50


async def test_a_bad_request_is_refused_before_anything_runs() -> None:
    runner = FakeRunner()
    bad = request(1, kernel=Kernel(name="bad", source="fn f() {}", language="rust"), params={"N": 1})
    async with session(runner) as compiler:
        with pytest.raises(RequestError, match="nothing reads N"):
            await compiler.compile_many([request(0), bad])
    assert runner.actions == []


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (1, "int: 1; give CompileRequest objects, or a Sweep"),
        (Kernel(name="k", source="", language="c"), "CompileRequest\\(kernel, target\\)"),
        ("kernel.c", "Kernel.from_file"),
    ],
)
async def test_what_is_no_request_is_a_type_error_that_teaches(wrong: Any, advice: str) -> None:
    async with session(FakeRunner()) as compiler:
        with pytest.raises(TypeError, match=f"not a CompileRequest but .*{advice}"):
            await compiler.compile_many([request(), wrong])
        with pytest.raises(TypeError, match=advice):
            async with compiler.as_completed([wrong]) as results:
                _ = [result async for result in results]
        with pytest.raises(TypeError, match=advice):
            await compiler.explain(wrong)


async def test_cached_only_runs_nothing_and_a_miss_is_a_failure() -> None:
    store, runner = MemoryStore(), FakeRunner()
    async with session(runner, store=store) as compiler:
        await compiler.compile_many([request(0)])
    async with session(runner, store=store, mode="cached_only") as compiler:
        hit, miss = await compiler.compile_many([request(0), request(1)])
        assert hit.source == "cached"
        with pytest.raises(NotCachedError) as error:
            _ = miss.artifact
        assert isinstance(error.value, CacheError)
    assert len(runner.actions) == 1


async def test_refresh_compiles_again_and_overwrites() -> None:
    store, exits = MemoryStore(), [OK, Exit(code=0, outputs={"object": b"newer"})]
    runner = FakeRunner(lambda _: exits[len(runner.actions) - 1])
    async with session(runner, store=store) as compiler:
        await compiler.compile(request())
    async with session(runner, store=store, mode="refresh") as compiler:
        [result] = await compiler.compile_many([request()])
        assert result.source == "compiled"
    async with session(runner, store=store) as compiler:
        assert (await compiler.compile(request()))["object"] == b"newer"


async def test_no_cache_neither_reads_nor_writes() -> None:
    store, runner = MemoryStore(), FakeRunner()
    for _ in range(2):
        async with session(runner, store=store, mode="no_cache") as compiler:
            await compiler.compile(request())
    assert len(runner.actions) == 2
    await store.open(lambda *_: None)
    assert (await store.stats()).entries == 0
    await store.aclose()


async def test_what_cannot_be_keyed_is_compiled_each_time_and_says_so() -> None:
    class Reader(FakeToolchain):
        def plan(self, *args: Any) -> Action:
            import dataclasses

            return dataclasses.replace(super().plan(*args), uncacheable="it reads a file")

    store, runner, tool = MemoryStore(), FakeRunner(), Reader()
    for _ in range(2):
        async with session(runner, store=store) as compiler:
            [result] = await compiler.compile_many([request(toolchain=tool)])
            assert result.ok
            assert result.uncached == "it reads a file"
    assert len(runner.actions) == 2


async def test_a_missing_toolchain_is_a_failure_that_says_how_to_install_it() -> None:
    class Missing(FakeToolchain):
        async def find(self, host: Host) -> Toolchain:
            raise ToolNotFound("missing: run: pip install missing")

    async with session(FakeRunner()) as compiler:
        [result] = await compiler.compile_many([request(toolchain=Missing())])
    assert isinstance(result.outcome, Failure)
    assert result.outcome.kind is FailureKind.TOOL_MISSING
    with pytest.raises(ToolchainNotFoundError, match="pip install missing"):
        _ = result.artifact


async def test_the_callers_own_exception_leaves_the_session_as_it_is() -> None:
    class Mine(Exception):
        pass

    gate = Gate()
    runner = FakeRunner(gate)

    async def use() -> None:
        async with session(runner) as compiler:
            with anyio.move_on_after(0.05):
                await compiler.compile_result(request(0))
            await gate.entered.wait()
            async with compiler.as_completed([request(1)]):
                raise Mine

    with pytest.raises(Mine):
        await use()
    assert runner.running == 0


async def test_closing_cancels_what_runs() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    outcomes = []

    async def wait_for_it(compiler: Compiler) -> None:
        outcomes.append(await compiler.compile_result(request()))

    async with anyio.create_task_group() as group, session(runner) as compiler:
        group.start_soon(wait_for_it, compiler)
        await gate.entered.wait()
    assert gate.cancelled == 1
    [result] = outcomes
    assert result.failure is not None
    assert result.failure.kind is FailureKind.CANCELLED


async def test_a_session_can_be_entered_again() -> None:
    compiler = session(FakeRunner())
    for expected in ("compiled", "cached"):
        async with compiler:
            assert (await compiler.compile_result(request())).source == expected


async def test_events_tell_the_story_in_order() -> None:
    events: list[Event] = []
    exits = [CRASHED, OK]
    runner = FakeRunner(lambda _: exits[len(runner.actions) - 1])
    async with session(runner, on_event=events.append) as compiler:
        await compiler.compile(request())
        await compiler.compile(request())
    story = [type(event) for event in events if not type(event).__name__.startswith("Toolchain")]
    assert story == [Queued, Started, Retried, Started, Finished, Finished]
    assert [event.time for event in events] == sorted(event.time for event in events)


async def test_an_observer_that_fails_does_not_fail_the_compile(caplog: pytest.LogCaptureFixture) -> None:
    def observer(event: Event) -> None:
        raise ZeroDivisionError

    async with session(FakeRunner(), on_event=observer) as compiler:
        assert await compiler.compile(request())
    assert "on_event failed" in caplog.text


async def test_an_error_of_ours_reaches_every_caller_instead_of_hanging_them() -> None:
    class Broken(FakeToolchain):
        def judge(self, action: Action, exit: Exit) -> Any:
            raise ZeroDivisionError

    tool = Broken()
    async with session(FakeRunner()) as compiler:
        with pytest.raises(RuntimeError, match="report it") as error:
            await compiler.compile_many([request(toolchain=tool), request(toolchain=tool)])
        assert isinstance(error.value.__cause__, ZeroDivisionError)
        assert await compiler.compile(request(7))


async def test_stats_count_what_happened() -> None:
    async with session(FakeRunner()) as compiler:
        await compiler.compile_many([request(0), request(0), request(1)])
        await compiler.compile_many([request(0)])
        stats = compiler.stats
    assert (stats.requests, stats.compiled, stats.coalesced, stats.cached) == (4, 2, 1, 1)
    assert stats.runs == 2
    assert stats.hits == {"store": 1}
    assert stats.most_running == 2
    assert 0 <= stats.utilisation <= 1


async def test_stats_tell_what_failed_what_was_tried_again_and_whose_flake_it_was() -> None:
    tries: dict[bytes, int] = {}

    def answer(action: Action) -> Exit:
        text = action.inputs[0].data()
        tries[text] = tries.get(text, 0) + 1
        if b"return 1;" in text:
            return REFUSED
        return CRASHED if b"return 2;" in text and tries[text] == 1 else OK

    async with session(FakeRunner(answer)) as compiler:
        await compiler.compile_many([request(number) for number in (0, 1, 1, 2)])
        stats = compiler.stats
    assert (stats.failed, stats.failures) == (2, {"diagnostic": 2})
    assert stats.retries == {"crash": 1}
    assert stats.flakes == {"fake": 1}
    assert stats.runs == 4


async def test_a_store_with_layers_says_where_the_hits_were() -> None:
    class Layered(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.hits_by_layer = {"memory": 0, "folder": 5, "shipped": 0}

        async def get_many(self, digests: Sequence[str]) -> list[Entry | None]:
            found = await super().get_many(digests)
            self.hits_by_layer["folder"] += sum(entry is not None for entry in found)
            return found

    store = Layered()
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(0), request(1)])
        assert compiler.stats.hits == {}
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(0), request(1)])
        assert compiler.stats.hits == {"folder": 2}, "since the session began"


async def test_a_retry_says_what_the_attempt_failed_of() -> None:
    events: list[Event] = []
    exits = [Exit(code=-11, stderr=b"it fell over"), OK]
    runner = FakeRunner(lambda _: exits[len(runner.actions) - 1])
    async with session(runner, on_event=events.append) as compiler:
        await compiler.compile(request())
    [retried] = [event for event in events if isinstance(event, Retried)]
    assert (retried.kind, retried.message, retried.attempt) == (FailureKind.CRASH, "it fell over", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"jobs": 0}, "jobs is"), ({"mode": "fast"}, "mode is"), ({"timeout": -1}, "timeout is")],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        session(FakeRunner(), **options)


def test_more_jobs_than_cpus_are_obeyed_with_one_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Compiler(jobs=10_000, store=tmp_path, runner=FakeRunner())
    assert [str(warning.message) for warning in caught if "jobs=10000" in str(warning.message)]


async def test_retries_never_hold_a_slot() -> None:
    """While one compile backs off, the only slot is free for another."""
    order = []

    async def answer(action: Action) -> Exit:
        text = action.inputs[0].data()
        order.append(text)
        return Exit(code=-9) if len(order) == 1 else OK

    class OutOfMemory(FakeToolchain):
        def judge(self, action: Action, exit: Exit) -> Any:
            if exit.code == -9:
                return Failure(kind=FailureKind.INFRA, message="stale handle", exit=-9)
            return super().judge(action, exit)

    tool = OutOfMemory()
    policy = RetryPolicy(initial=0.2, jitter=0)
    async with session(FakeRunner(answer), jobs=1, retry=policy) as compiler:
        results = await compiler.compile_many([request(0, toolchain=tool), request(1, toolchain=tool)])
    assert all(result.ok for result in results)
    assert [b"return 0" in text for text in order] == [True, False, True]
    attempts = results[0].attempts
    assert [attempt.kind for attempt in attempts] == [FailureKind.INFRA, None]
    assert attempts[0].delay == pytest.approx(0.2)
