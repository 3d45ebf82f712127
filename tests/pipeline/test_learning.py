"""What one session learns and the next one uses: order, memory, and the note in the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from teeny_async import CompileRequest, FailureKind, Kernel
from teeny_async.action import Action
from teeny_async.events import Event, Started, Warned
from teeny_async.execution.runner import RunLimits
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.admission import Admission
from teeny_async.pipeline.budget import Budget
from teeny_async.pipeline.costs import DEFAULT_PEAK, MARGIN, Learned, work_of
from teeny_async.pipeline.keeping import COSTS_NOTE
from teeny_async.result import Exit, Usage
from teeny_async.store.memory import MemoryStore
from teeny_async.target import Target
from teeny_async.testing import FakeRunner

from .kit import OK, SHELL, TOOL, Gate, Recording, request, session

MIB = 1 << 20


def named(name: str, text: str = "", **options: Any) -> CompileRequest:
    return request(kernel=Kernel(name=name, source=f"// {name} {text}", language="c"), **options)


def held(size: int) -> Exit:
    return Exit(code=0, outputs=FrozenMap({"object": b"code"}), usage=Usage(max_rss=size, peak=size))


async def note_in(store: MemoryStore) -> str | None:
    await store.open(lambda *_: None)
    text = await store.get_note(COSTS_NOTE)
    await store.aclose()
    return text


async def put_note(store: MemoryStore, text: str) -> None:
    await store.open(lambda *_: None)
    await store.put_note(COSTS_NOTE, text)
    await store.aclose()


# Order


@pytest.mark.anyio
async def test_on_a_second_run_the_longest_go_first_though_their_keys_have_changed() -> None:
    store = MemoryStore()
    learned = Learned()
    for seconds in range(1, 9):
        learned.succeeded(work_of(named(f"k{seconds}"), TOOL.name, Target()), seconds, 0)
    await put_note(store, learned.merged(None))
    started: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Started):
            started.append(event.request.kernel.name)

    async with session(FakeRunner(), store=store, jobs=1, on_event=on_event) as compiler:
        results = await compiler.compile_many([named(f"k{number}", "edited") for number in range(1, 9)])
    assert started == [f"k{number}" for number in range(8, 0, -1)]
    assert [result.request.kernel.name for result in results] == [f"k{number}" for number in range(1, 9)]


@pytest.mark.anyio
async def test_a_session_learns_from_its_own_compiles() -> None:
    """Times are measured here: the slow one takes a hundred times as long."""
    order: list[str] = []

    async def answer(action: Action) -> Exit:
        text = action.inputs[0].data().decode()
        order.append(text)
        await anyio.sleep(0.2 if "slow" in text else 0.002)
        return OK

    names = ["a", "b", "slow", "c"]
    async with session(FakeRunner(answer), jobs=1) as compiler:
        await compiler.compile_many([named(name) for name in names])
        order.clear()
        await compiler.compile_many([named(name, "edited") for name in names])
    assert "slow" in order[0]


@pytest.mark.anyio
async def test_with_nothing_known_they_go_in_order() -> None:
    runner = FakeRunner()
    async with session(runner, jobs=1) as compiler:
        await compiler.compile_many([request(number) for number in range(10)])
    texts = [action.inputs[0].data() for action in runner.actions]
    assert texts == [b"int f() { return %d; }" % number for number in range(10)]


# Memory


class Hungry:
    """Each run holds so many bytes. most: at one time."""

    def __init__(self, size: Callable[[str], int]) -> None:
        self.size = size
        self.now = self.most = 0

    async def __call__(self, action: Action) -> Exit:
        size = self.size(action.inputs[0].data().decode())
        self.now += size
        self.most = max(self.most, self.now)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        self.now -= size
        return held(size)


@pytest.mark.anyio
async def test_no_more_is_held_than_the_limit_from_the_first_run_on() -> None:
    hungry = Hungry(lambda _: 400 * MIB)
    runner = FakeRunner(hungry)
    async with session(runner, jobs=12, memory_limit="2GiB") as compiler:
        await compiler.compile_many([request(number) for number in range(36)])
        stats = compiler.stats
    assert hungry.most <= 2048 * MIB
    assert runner.most_running == 4
    assert stats.memory_limit == 2048 * MIB
    assert 4 * 400 * MIB <= stats.memory_most <= 2048 * MIB
    assert stats.most_running == 4


@pytest.mark.anyio
async def test_small_compilers_are_not_held_back_for_long() -> None:
    """Nothing is known and the limit is tight: two are tried, then all slots are used."""
    runner = FakeRunner(Hungry(lambda _: 50 * MIB))
    async with session(runner, jobs=12, memory_limit="2GiB") as compiler:
        await compiler.compile_many([request(number) for number in range(36)])
    assert runner.most_running == 12


@pytest.mark.anyio
async def test_a_second_session_starts_with_what_the_first_one_learned() -> None:
    store = MemoryStore()
    expected = []
    for text in ("", "edited"):
        runner = Recording(Hungry(lambda _: 400 * MIB))
        async with session(runner, jobs=12, memory_limit="2GiB", store=store) as compiler:
            await compiler.compile_many([named(f"k{number}", text) for number in range(12)])
        expected.append(runner.limits[0].memory)
    assert expected == [DEFAULT_PEAK, int(400 * MIB * MARGIN)]


@pytest.mark.anyio
async def test_a_kernel_that_was_large_before_is_admitted_as_such() -> None:
    def size(text: str) -> int:
        return (900 if "large" in text else 50) * MIB

    store = MemoryStore()
    names = ["large1", "large2", *(f"small{number}" for number in range(20))]
    async with session(FakeRunner(Hungry(size)), jobs=1, store=store) as compiler:
        await compiler.compile_many([named(name) for name in names])
    hungry = Hungry(size)
    runner = FakeRunner(hungry)
    async with session(runner, jobs=12, store=store, memory_limit="1200MiB") as compiler:
        await compiler.compile_many([named(name, "edited") for name in names])
    assert hungry.most <= 1200 * MIB
    assert runner.most_running > 2


@pytest.mark.anyio
async def test_a_kill_for_memory_runs_again_alone_and_its_like_are_expected_to_need_more() -> None:
    beside: list[int] = []
    killed: list[str] = []

    async def answer(action: Action) -> Exit:
        text = action.inputs[0].data().decode()
        if "return 5;" in text and text not in killed:
            killed.append(text)
            return Exit(code=-9, usage=Usage(max_rss=700 * MIB))
        if "return 5;" in text:
            beside.append(runner.running)
        await anyio.lowlevel.checkpoint()
        return held(300 * MIB)

    runner = Recording(answer)
    requests = [
        request(number, kernel=Kernel(name="k", source=f"return {number};", language="c"), toolchain=SHELL)
        for number in range(20)
    ]
    async with session(runner, jobs=4, memory_limit="8GiB") as compiler:
        results = await compiler.compile_many(requests)
        assert compiler.stats.retries == {"out_of_memory": 1}
        assert compiler.stats.flakes == {"shell": 1}
    assert all(result.ok for result in results)
    assert [attempt.kind for attempt in results[5].attempts] == [FailureKind.OUT_OF_MEMORY, None]
    assert beside == [1]
    expected = [limits.memory or 0 for limits in runner.limits]
    assert max(expected[6:]) >= 700 * MIB * 1.25


@pytest.mark.anyio
async def test_one_that_grows_beyond_what_was_expected_holds_others_back_at_once() -> None:
    gate = Gate()
    store = MemoryStore()
    learned = Learned()
    learned.succeeded(work_of(named("k"), TOOL.name, Target()), 1.0, 100 * MIB)
    await put_note(store, learned.merged(None))

    class Growing(Recording):
        async def run(self, action: Action, chained: Any, limits: RunLimits) -> Exit:
            if len(self.actions) == 0:
                assert limits.memory == int(100 * MIB * MARGIN)
                assert limits.grown is not None
                limits.grown(950 * MIB)
            return await super().run(action, chained, limits)

    runner = Growing(gate)
    async with (
        session(runner, jobs=4, memory_limit="1GiB", store=store) as compiler,
        anyio.create_task_group() as group,
    ):
        group.start_soon(compiler.compile_result, named("k", "one"))
        await gate.entered.wait()
        group.start_soon(compiler.compile_result, named("k", "two"))
        await anyio.wait_all_tasks_blocked()
        assert runner.running == 1
        assert compiler.stats.memory_most == 950 * MIB
        gate.opened.set()


# The budget


def test_while_idle_all_that_is_left_is_ours_and_while_busy_what_is_charged_is_added() -> None:
    left = 1000
    admission = Admission(8, lambda work, _: int(work))
    budget = Budget(admission, None, lambda: left)
    budget.refresh(0.0)
    assert admission.budget == 1000
    ticket = admission.submit(lambda: None, work=400)
    left = 600
    budget.refresh(10.0)
    assert admission.budget == 1000
    left = 100
    budget.refresh(20.0)
    assert admission.budget == 500, "somebody else took 500"
    left = 5000
    budget.refresh(30.0)
    assert admission.budget == 1000, "never more than when it was idle"
    admission.release(ticket)
    budget.refresh(40.0)
    assert admission.budget == 5000


def test_a_limit_of_the_users_holds_whatever_the_machine_has() -> None:
    admission = Admission(8, lambda work, _: int(work))
    Budget(admission, 300, lambda: 1000).refresh(0.0)
    assert admission.budget == 300
    Budget(admission, 300, None).refresh(0.0)
    assert admission.budget == 300
    Budget(admission, 300, lambda: 200).refresh(0.0)
    assert admission.budget == 200
    unlimited = Admission(8, lambda work, _: int(work))
    Budget(unlimited, None, lambda: None).refresh(0.0)
    assert unlimited.budget is None


def test_the_machine_is_not_asked_again_within_a_moment() -> None:
    asked = 0

    def left() -> int:
        nonlocal asked
        asked += 1
        return 1000

    budget = Budget(Admission(1), None, left)
    for now in (0.0, 0.1, 0.9, 1.0, 1.5, 2.1):
        budget.refresh(now)
    assert asked == 3


# The note


@pytest.mark.anyio
async def test_two_sessions_on_one_store_both_leave_what_they_learned() -> None:
    store = MemoryStore()
    gate = Gate()
    sessions = session(FakeRunner(gate), store=store), session(FakeRunner(), store=store)
    async with sessions[0] as one, sessions[1] as two, anyio.create_task_group() as group:
        group.start_soon(one.compile_result, named("one"))
        await gate.entered.wait()
        await two.compile_result(named("two"))
        gate.opened.set()
    learned = Learned()
    learned.load(await note_in(store))
    for name in ("one", "two"):
        assert learned.seconds(work_of(named(name), TOOL.name, Target())) is not None


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["", "{", "[[[", '{"schema": 1, "peaks": {"fake": "much"}}', "\x00"])
async def test_a_damaged_note_costs_nothing_but_what_it_held(text: str) -> None:
    store = MemoryStore()
    await put_note(store, text)
    async with session(FakeRunner(), store=store) as compiler:
        assert (await compiler.compile_result(request())).ok
        assert compiler.stats.cache_faults == 0
    assert json.loads(await note_in(store) or "")["schema"] == 1


@pytest.mark.anyio
async def test_hits_touch_no_note() -> None:
    class Counting(MemoryStore):
        notes = 0

        async def get_note(self, name: str) -> str | None:
            type(self).notes += name == COSTS_NOTE
            return await super().get_note(name)

        async def put_note(self, name: str, text: str) -> None:
            type(self).notes += name == COSTS_NOTE
            await super().put_note(name, text)

    store = Counting()
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(number) for number in range(10)])
    assert Counting.notes == 3, "read before the first miss; read again and written at the end"
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(number) for number in range(10)])
    assert Counting.notes == 3


@pytest.mark.anyio
async def test_no_cache_leaves_no_note() -> None:
    store = MemoryStore()
    async with session(FakeRunner(), store=store, mode="no_cache") as compiler:
        await compiler.compile(request())
    assert await note_in(store) is None


@pytest.mark.anyio
async def test_what_was_learned_is_noted_even_when_the_session_is_cancelled() -> None:
    store = MemoryStore()
    with anyio.CancelScope() as scope:
        async with session(FakeRunner(), store=store) as compiler:
            await compiler.compile(request())
            scope.cancel()
            await anyio.sleep_forever()
    assert await note_in(store) is not None


@pytest.mark.anyio
async def test_fakes_are_not_limited_by_this_machine() -> None:
    async with session(FakeRunner()) as compiler:
        await compiler.compile(request())
        assert compiler.stats.memory_limit is None
        assert compiler._tower.admission.charged == 0
        assert compiler.stats.memory_most == DEFAULT_PEAK


# What is told


@pytest.mark.anyio
async def test_a_process_that_cannot_be_killed_is_told_of() -> None:
    events: list[Event] = []
    stuck = Exit(code=None, stopped="timeout", unreaped=True)
    async with session(FakeRunner(lambda _: stuck), on_event=events.append) as compiler:
        result = await compiler.compile_result(request(toolchain=SHELL))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.TIMEOUT
    [warned] = [event for event in events if isinstance(event, Warned)]
    assert "k0" in warned.message
    assert "left behind" in warned.message
