"""One compile for any number of equal requests, and who may end it."""

from __future__ import annotations

import anyio
import pytest

from teeny_async import Compiler, CompileResult, Kernel
from teeny_async.result import Exit
from teeny_async.testing import FakeRunner

from .kit import Gate, request, session

pytestmark = pytest.mark.anyio


async def test_equal_requests_share_one_compile() -> None:
    runner = FakeRunner()
    async with session(runner) as compiler:
        results = await compiler.compile_many([request(number % 10) for number in range(100)])
    assert len(runner.actions) == 10
    assert sum(result.source == "coalesced" for result in results) == 90
    assert all(result.ok for result in results)


async def test_name_and_id_do_not_tell_requests_apart() -> None:
    runner = FakeRunner()
    kernels = [Kernel(name=name, id=name, source="int f();", language="c") for name in ("a", "b")]
    async with session(runner) as compiler:
        one, two = await compiler.compile_many([request(kernel=kernel) for kernel in kernels])
    assert len(runner.actions) == 1
    assert one.key == two.key
    assert two.request.kernel.name == "b"


async def test_a_cancelled_first_caller_does_not_take_the_compile_from_the_others() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    results: list[CompileResult] = []

    async def join(compiler: Compiler) -> None:
        results.append(await compiler.compile_result(request()))

    async with session(runner) as compiler, anyio.create_task_group() as others:
        async with anyio.create_task_group() as first:
            first.start_soon(compiler.compile_result, request())
            await gate.entered.wait()
            others.start_soon(join, compiler)
            await anyio.wait_all_tasks_blocked()
            first.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert gate.cancelled == 0
        gate.opened.set()
    assert [result.ok for result in results] == [True]
    assert len(runner.actions) == 1


async def test_the_last_waiter_out_cancels_it() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    async with session(runner) as compiler:
        async with anyio.create_task_group() as callers:
            callers.start_soon(compiler.compile_result, request())
            callers.start_soon(compiler.compile_result, request())
            await gate.entered.wait()
            await anyio.wait_all_tasks_blocked()
            callers.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert gate.cancelled == 1
        assert runner.running == 0


async def test_a_new_caller_does_not_join_a_compile_that_is_being_torn_down() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    async with session(runner) as compiler:
        async with anyio.create_task_group() as callers:
            callers.start_soon(compiler.compile_result, request())
            await gate.entered.wait()
            callers.cancel_scope.cancel()
        gate.opened.set()
        assert (await compiler.compile_result(request())).ok
    assert len(runner.actions) == 2


async def test_one_that_still_waits_for_a_slot_can_be_given_up() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    async with session(runner, jobs=1) as compiler, anyio.create_task_group() as group:
        group.start_soon(compiler.compile_result, request(0))
        await gate.entered.wait()
        with anyio.move_on_after(0.01):
            await compiler.compile_result(request(1))
        gate.opened.set()
    assert len(runner.actions) == 1


async def test_an_equal_request_joins_even_after_its_flight_has_landed() -> None:
    """A kernel that cannot be cached is still compiled once for one list of requests."""
    runner = FakeRunner()
    async with session(runner, mode="no_cache") as compiler:
        results = await compiler.compile_many([request(number % 300) for number in range(3000)])
    assert len(runner.actions) == 300
    assert all(result.ok for result in results)


async def test_only_who_wants_a_log_compiles_for_one() -> None:
    runner = FakeRunner()
    async with session(runner) as compiler:
        plain, logged = await compiler.compile_many([request(), request(log_level="info")])
    assert plain.key == logged.key
    assert len(runner.actions) == 2


async def test_calls_for_the_same_object_share_a_compile_and_all_are_told() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    same = request()
    results: list[CompileResult] = []

    async def ask(compiler: Compiler) -> None:
        results.append(await compiler.compile_result(same))

    async with session(runner) as compiler:
        async with anyio.create_task_group() as callers:
            callers.start_soon(ask, compiler)
            await gate.entered.wait()
            for _ in range(50):
                callers.start_soon(ask, compiler)
            await anyio.wait_all_tasks_blocked()
            gate.opened.set()
        stats = compiler.stats
        assert (await compiler.compile_result(same)).source == "cached"
    assert len(runner.actions) == 1
    assert sorted(result.source for result in results) == ["coalesced"] * 50 + ["compiled"]
    assert (stats.requests, stats.coalesced) == (51, 50)


@pytest.mark.parametrize("leaver", ["first", "joined"])
async def test_who_leaves_takes_nothing_from_who_asked_for_the_same_object(leaver: str) -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    same = request()
    results: list[CompileResult] = []

    async def ask(compiler: Compiler) -> None:
        results.append(await compiler.compile_result(same))

    async with session(runner) as compiler, anyio.create_task_group() as others:
        async with anyio.create_task_group() as leaving:
            first, joined = (leaving, others) if leaver == "first" else (others, leaving)
            first.start_soon(ask, compiler)
            await gate.entered.wait()
            joined.start_soon(ask, compiler)
            await anyio.wait_all_tasks_blocked()
            leaving.cancel_scope.cancel()
        others.start_soon(ask, compiler)  # after the others have left
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    assert sorted(result.source for result in results) == ["coalesced", "compiled"]
    assert (len(runner.actions), gate.cancelled) == (1, 0)


async def test_the_last_to_wait_for_an_object_cancels_it_and_the_next_begins_anew() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    same = request()
    async with session(runner) as compiler:
        async with anyio.create_task_group() as callers:
            callers.start_soon(compiler.compile_result, same)
            await gate.entered.wait()
            for _ in range(3):
                callers.start_soon(compiler.compile_result, same)
            await anyio.wait_all_tasks_blocked()
            callers.cancel_scope.cancel()
        gate.opened.set()
        assert (await compiler.compile_result(same)).source == "compiled"
    assert (len(runner.actions), gate.cancelled) == (2, 1)


async def test_a_failure_of_ours_reaches_all_who_wait_for_an_object() -> None:
    opened = anyio.Event()
    errors: list[RuntimeError] = []

    async def broken(action: object) -> Exit:
        await opened.wait()
        raise ZeroDivisionError

    same = request()

    async def ask(compiler: Compiler) -> None:
        with pytest.raises(RuntimeError) as caught:
            await compiler.compile_result(same)
        errors.append(caught.value)

    async with session(FakeRunner(broken)) as compiler, anyio.create_task_group() as callers:
        for _ in range(3):
            callers.start_soon(ask, compiler)
        await anyio.wait_all_tasks_blocked()
        opened.set()
    assert [type(error.__cause__) for error in errors] == [ZeroDivisionError] * 3
