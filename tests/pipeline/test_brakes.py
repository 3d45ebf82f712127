"""Failures after which nothing more is started, and what becomes of the rest."""

from __future__ import annotations

import errno

import anyio
import pytest

from teeny_async import CompileRequest, CompileResult, Failure, FailureKind
from teeny_async.action import Action
from teeny_async.events import Event, Finished
from teeny_async.result import Artifact, Exit
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.toolchains.base import Host, Toolchain

from .kit import OK, Gate, request, session

pytestmark = pytest.mark.anyio


class Tool(FakeToolchain):
    """Says what the errno of a failed start means, as the real judge does."""

    def __init__(self, path: str) -> None:
        super().__init__(fingerprint=path)
        self._path = path

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name="tool", path=self._path, version="1", fingerprint=self._path)

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        kinds = {errno.ENOENT: FailureKind.TOOL_MISSING, errno.ENOSPC: FailureKind.DISK_FULL}
        if exit.errno in kinds:
            return Failure(kind=kinds[exit.errno], message=f"errno {exit.errno}", tool="tool", log="of another")
        return super().judge(action, exit)


ONE, OTHER = Tool("/one"), Tool("/other")


class Breaking:
    """Answers well so often, then never again."""

    def __init__(self, good: int, code: int, path: str = "/one") -> None:
        self.good = good
        self.code = code
        self.path = path
        self.runs = 0

    def __call__(self, action: Action) -> Exit:
        if action.executable != self.path:
            return OK
        self.runs += 1
        return OK if self.runs <= self.good else Exit(code=None, errno=self.code)


def requests(count: int, tool: Tool = ONE, start: int = 0) -> list[CompileRequest]:
    return [request(number, toolchain=tool) for number in range(start, start + count)]


def kinds(results: list[CompileResult]) -> list[FailureKind | None]:
    return [result.failure.kind if result.failure else None for result in results]


async def test_a_compiler_that_vanished_is_not_started_again() -> None:
    runner = FakeRunner(Breaking(3, errno.ENOENT))
    events: list[Event] = []
    async with session(runner, jobs=1, on_event=events.append) as compiler:
        results = await compiler.compile_many(requests(50))
        stats = compiler.stats
    assert len(runner.actions) == 4, "three that worked and one that did not"
    assert [result.request.kernel.name for result in results] == [f"k{number}" for number in range(50)]
    assert kinds(results) == [None] * 3 + [FailureKind.TOOL_MISSING] * 47
    first, *rest = results[3:]
    assert first.failure is not None
    assert (first.failure.message, len(first.attempts)) == ("errno 2", 1)
    for result in rest:
        assert result.failure is not None
        assert result.failure.message == "not started: errno 2"
        assert (result.attempts, result.failure.log) == ((), ""), "nothing of another's run"
    assert stats.failures == {"tool_missing": 47}
    assert sum(isinstance(event, Finished) for event in events) == 50


async def test_those_of_other_compilers_go_on() -> None:
    runner = FakeRunner(Breaking(0, errno.ENOENT))
    mixed = [each for pair in zip(requests(20), requests(20, OTHER), strict=True) for each in pair]
    async with session(runner, jobs=1) as compiler:
        results = await compiler.compile_many(mixed)
    assert kinds(results) == [FailureKind.TOOL_MISSING, None] * 20
    assert sum(action.executable == "/one" for action in runner.actions) == 1


async def test_a_full_disk_stops_all_after_its_retries() -> None:
    runner = FakeRunner(Breaking(1, errno.ENOSPC))
    mixed = [*requests(10), *requests(10, OTHER)]
    async with session(runner, jobs=1) as compiler:
        results = await compiler.compile_many(mixed)
    stopped = [result for result in results if result.failure and not result.attempts]
    assert results[0].ok
    tried = [result for result in results if result.failure and result.attempts]
    assert {len(result.attempts) for result in tried} == {4}, "one may have begun while another backed off"
    assert len(tried) < 5
    assert len(stopped) > 10
    assert results[-1] in stopped, "another toolchain writes to the same disk"
    for result in stopped:
        assert result.failure is not None
        assert result.failure.message == "not started: errno 28"


async def test_what_runs_by_then_runs_on_and_what_is_cached_is_served() -> None:
    gate = Gate()
    broken = Breaking(0, errno.ENOENT)

    async def answer(action: Action) -> Exit:
        if b"return 7;" in action.inputs[0].data():
            return await gate(action)
        await gate.entered.wait()
        gate.opened.set()
        return broken(action)

    runner = FakeRunner(answer)
    async with session(FakeRunner()) as compiler:
        store = compiler._store
        await compiler.compile_many(requests(1, start=100))
    async with session(runner, jobs=2, store=store) as compiler:
        order = [*requests(1, start=7), *requests(5), *requests(1, start=100)]
        results = await compiler.compile_many(order)
    assert [result.ok for result in results] == [True] + [False] * 5 + [True]
    assert results[-1].source == "cached"


async def test_a_later_call_tries_again() -> None:
    broken = Breaking(0, errno.ENOENT)
    runner = FakeRunner(broken)
    async with session(runner, jobs=1) as compiler:
        assert not any(result.ok for result in await compiler.compile_many(requests(3)))
        broken.good = 100
        assert all(result.ok for result in await compiler.compile_many(requests(3)))
    assert len(runner.actions) == 4


async def test_a_stream_delivers_a_result_for_each_of_the_rest() -> None:
    runner = FakeRunner(Breaking(2, errno.ENOENT))
    async with session(runner, jobs=1) as compiler:
        async with compiler.as_completed(iter(requests(600)), window=16) as results:
            seen = [result async for result in results]
        async with compiler.as_completed(requests(3, OTHER)) as results:
            assert all([result.ok async for result in results])
    assert {result.request.kernel.name for result in seen} == {f"k{number}" for number in range(600)}
    assert sum(result.ok for result in seen) == 2
    assert len(runner.actions) == 3 + 3


async def test_nothing_is_left_waiting_or_held() -> None:
    runner = FakeRunner(Breaking(2, errno.ENOENT))
    async with session(runner, jobs=3) as compiler:
        await compiler.compile_many(requests(40))
        assert compiler._tower.admission.running == 0
        assert len(compiler._tower.flights) == 0
        with anyio.fail_after(5):
            assert (await compiler.compile_result(request(99, toolchain=OTHER))).ok


async def test_an_infeasible_pair_stops_nothing_else() -> None:
    def answer(action: Action) -> Exit:
        return Exit(code=1, stderr=b"no") if b"return 0;" in action.inputs[0].data() else OK

    class Infeasible(FakeToolchain):
        def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
            if exit.code:
                return Failure(kind=FailureKind.INFEASIBLE, message="too large", exit=1)
            return super().judge(action, exit)

    tool = Infeasible()
    async with session(FakeRunner(answer)) as compiler:
        results = await compiler.compile_many([request(number, toolchain=tool) for number in range(10)])
    assert [result.ok for result in results] == [False] + [True] * 9
