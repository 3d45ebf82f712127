"""Streams: any iterable, in bounded memory, left at any time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, Kernel, RequestError
from teeny_async.action import Action
from teeny_async.result import Exit
from teeny_async.testing import FakeRunner

from .kit import OK, Gate, request, session

pytestmark = pytest.mark.anyio


async def test_all_results_come_from_a_sync_iterable() -> None:
    async with session(FakeRunner()) as compiler, compiler.as_completed(map(request, range(1000))) as results:
        names = {result.request.kernel.name async for result in results}
    assert len(names) == 1000


async def test_all_results_come_from_an_async_iterable() -> None:
    async def requests() -> AsyncIterator[CompileRequest]:
        for number in range(50):
            await anyio.lowlevel.checkpoint()
            yield request(number)

    async with session(FakeRunner()) as compiler, compiler.as_completed(requests()) as results:
        assert len([result async for result in results]) == 50


async def test_a_slow_producer_does_not_hold_results_back() -> None:
    more = anyio.Event()

    async def requests() -> AsyncIterator[CompileRequest]:
        yield request(0)
        await more.wait()
        yield request(1)

    async with session(FakeRunner()) as compiler, compiler.as_completed(requests()) as results:
        with anyio.fail_after(5):
            first = await anext(aiter(results))
        assert first.request.kernel.name == "k0"
        more.set()
        assert len([result async for result in results]) == 1


async def test_no_more_than_the_window_is_pulled_ahead() -> None:
    pulled = 0

    def requests() -> Iterator[CompileRequest]:
        nonlocal pulled
        for number in range(10_000):
            pulled += 1
            yield request(number)

    async with session(FakeRunner()) as compiler, compiler.as_completed(requests(), window=8) as results:
        taken = 0
        async for _ in results:
            taken += 1
            assert pulled <= taken + 8 + 1
            if taken == 100:
                break
    assert pulled < 120


async def test_results_come_as_they_are_ready() -> None:
    gate = Gate()

    async def answer(action: Action) -> Exit:
        return await gate(action) if b"return 0;" in action.inputs[0].data() else OK

    asked = [request(0), request(1), request(2)]
    async with session(FakeRunner(answer)) as compiler, compiler.as_completed(asked) as results:
        names = []
        async for result in results:
            names.append(result.request.kernel.name)
            if len(names) == 2:
                gate.opened.set()
    assert names[-1] == "k0"


async def test_leaving_early_cancels_the_rest() -> None:
    gate = Gate()

    async def answer(action: Action) -> Exit:
        return OK if b"return 0;" in action.inputs[0].data() else await gate(action)

    runner = FakeRunner(answer)
    async with session(runner) as compiler:
        async with compiler.as_completed(map(request, range(500)), window=50) as results:
            async for _ in results:
                break
        await anyio.wait_all_tasks_blocked()
        assert runner.running == 0
        assert (await compiler.compile_result(request(0))).source == "cached"
    assert len(runner.actions) < 50


async def test_leaving_early_leaves_a_compile_to_others_who_want_it() -> None:
    gate = Gate()
    runner = FakeRunner(gate)
    outcome = []

    async def join() -> None:
        outcome.append(await compiler.compile_result(request(0)))

    async with session(runner) as compiler, anyio.create_task_group() as group:
        async with compiler.as_completed([request(0)]):
            await gate.entered.wait()
            group.start_soon(join)
            await anyio.wait_all_tasks_blocked()
        assert gate.cancelled == 0
        gate.opened.set()
    assert outcome[0].ok


async def test_a_bad_request_ends_the_stream_after_the_results_before_it() -> None:
    bad = request(9, kernel=Kernel(name="bad", source="fn f() {}", language="rust"), params={"N": 1})
    seen = []

    async def take(compiler: Compiler) -> None:
        async with compiler.as_completed([request(0), request(1), bad, request(2)]) as results:
            async for result in results:
                seen.append(result.request.kernel.name)  # noqa: PERF401  # those before the error are wanted

    async with session(FakeRunner()) as compiler:
        with pytest.raises(RequestError, match="nothing reads N"):
            await take(compiler)
    assert sorted(seen) == ["k0", "k1"]


async def test_an_error_of_the_callers_iterable_is_the_callers() -> None:
    def requests() -> Iterator[CompileRequest]:
        yield request(0)
        raise ZeroDivisionError

    async with session(FakeRunner()) as compiler:
        with pytest.raises(ZeroDivisionError):
            async with compiler.as_completed(requests()) as results:
                assert [result.ok async for result in results] == [True]


async def test_duplicates_in_a_stream_share_or_hit() -> None:
    runner = FakeRunner()
    asked = (request(number % 7) for number in range(5000))
    async with session(runner) as compiler, compiler.as_completed(asked) as results:
        count = len([None async for _ in results])
    assert count == 5000
    assert len(runner.actions) == 7


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(RequestError, match="window"):
        session(FakeRunner()).as_completed([], window=0)
