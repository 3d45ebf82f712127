"""Time limits: whose they are, what they are made of, and what is told of a compile that takes long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from teeny_async import Compiler, FailureKind, RequestError
from teeny_async.action import Action
from teeny_async.events import Event, Slow
from teeny_async.pipeline.costs import PACE_FLOOR, PACE_LEAST, Learned, work_of
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.keeping import COSTS_NOTE
from teeny_async.pipeline.watching import Watch
from teeny_async.result import Exit, Usage
from teeny_async.settings import Settings
from teeny_async.store.memory import MemoryStore
from teeny_async.target import Target
from teeny_async.testing import FakeRunner

from .kit import FAST, OK, SHELL, TOOL, Gate, Recording, request, script, session

STOPPED = Exit(code=-15, stopped="timeout", usage=Usage(wall=3.0))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("of_session", "of_request", "wall", "cpu"),
    [
        ({}, {}, 600.0, None),
        ({"timeout": 5.0, "cpu_timeout": 3.0}, {}, 5.0, 3.0),
        ({"timeout": 5.0, "cpu_timeout": 3.0}, {"timeout": 50.0, "cpu_timeout": 1.0}, 50.0, 1.0),
        ({"timeout": None}, {}, None, None),
    ],
)
async def test_the_requests_limits_come_before_the_sessions(
    of_session: dict[str, Any], of_request: dict[str, Any], wall: float | None, cpu: float | None
) -> None:
    runner = Recording()
    async with session(runner, **of_session) as compiler:
        await compiler.compile(request(**of_request))
    [limits] = runner.limits
    assert (limits.wall, limits.cpu) == (wall, cpu)


@pytest.mark.anyio
async def test_a_compiler_over_its_cpu_limit_is_a_timeout_and_is_not_kept(
    settings: Settings, no_leftovers: None
) -> None:
    spin = script("while :; do :; done")
    async with Compiler(settings=settings, cpu_timeout=0.3, timeout=30) as compiler:
        [result] = await compiler.compile_many([spin])
        assert result.failure is not None
        assert result.failure.kind is FailureKind.TIMEOUT
        assert "CPU" in result.failure.message
        [again] = await compiler.compile_many([spin])
        assert again.source == "compiled"


# The adaptive limit


async def store_with_pace(seconds: list[float], target: Target | None = None, tool: str = TOOL.name) -> MemoryStore:
    """A store in which an earlier session has noted how long compiles took."""
    learned = Learned()
    for number, each in enumerate(seconds):
        learned.succeeded(work_of(request(number), tool, target or Target()), each, 0)
    store = MemoryStore()
    await store.open(lambda *_: None)
    await store.put_note(COSTS_NOTE, learned.merged(None))
    await store.aclose()
    return store


async def wall_of(store: MemoryStore, number: int = 0, **options: Any) -> float | None:
    runner = Recording()
    async with session(runner, store=store, **options) as compiler:
        await compiler.compile(request(number))
    return runner.limits[0].wall


@pytest.mark.anyio
async def test_enough_earlier_times_make_a_limit() -> None:
    times = [10.0] * 14 + [400.0, 500.0]
    store = await store_with_pace(times)
    assert await wall_of(store, adaptive_timeout=1.5, timeout=None) == 600.0
    assert await wall_of(store, 1, adaptive_timeout=1.25, timeout=None) == 500.0
    assert await wall_of(store, 2, timeout=None) is None, "only who asks for it has one"


@pytest.mark.anyio
async def test_it_is_never_above_the_limit_that_was_set() -> None:
    store = await store_with_pace([300.0] * PACE_LEAST)
    assert await wall_of(store, adaptive_timeout=4, timeout=100.0) == 100.0


@pytest.mark.anyio
async def test_it_has_a_floor_and_needs_enough_of_its_kind() -> None:
    assert await wall_of(await store_with_pace([0.01] * PACE_LEAST), adaptive_timeout=4) == PACE_FLOOR
    assert await wall_of(await store_with_pace([20.0] * (PACE_LEAST - 1)), adaptive_timeout=4) == 600.0
    other = await store_with_pace([20.0] * PACE_LEAST, Target.parse("sm_90"))
    assert await wall_of(other, adaptive_timeout=4) == 600.0


@pytest.mark.anyio
async def test_a_compile_that_was_cut_short_is_no_time() -> None:
    store = await store_with_pace([20.0] * PACE_LEAST, tool=SHELL.name)
    runner = Recording(lambda _: STOPPED)
    patient = replace(FAST, retry_timeouts=True)
    async with session(runner, store=store, adaptive_timeout=2, retry=patient) as compiler:
        await compiler.compile_many([script(f"# {number}") for number in range(20)])
    assert [limits.wall for limits in runner.limits] == [40.0] * 80


@pytest.mark.anyio
async def test_the_verdict_names_the_adaptive_limit() -> None:
    store = await store_with_pace([20.0] * PACE_LEAST, tool=SHELL.name)
    async with session(FakeRunner(lambda _: STOPPED), store=store, adaptive_timeout=2) as compiler:
        adapted, plain = await compiler.compile_many([script("true"), script("true #", timeout=1)])
    assert adapted.failure is not None
    assert plain.failure is not None
    assert adapted.failure.kind is plain.failure.kind is FailureKind.TIMEOUT
    assert "adaptive_timeout: nine of ten like it took no more than 20 s" in adapted.failure.message
    assert "adaptive" not in plain.failure.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu_timeout": 0}, "cpu_timeout is a number of seconds"),
        ({"adaptive_timeout": 0.5}, "adaptive_timeout is a factor"),
        ({"slow_after": -1}, "slow_after is a number of seconds"),
        ({"failure_ttl": -1}, "failure_ttl is a number of seconds"),
        ({"memory_limit": "lots"}, "not an amount of memory"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        session(FakeRunner(), **options)
    if "cpu_timeout" in options:
        with pytest.raises(RequestError, match=message):
            request(**options)


# What takes long


def flights(count: int) -> list[Flight]:
    from teeny_async.keys import CacheKey
    from teeny_async.pipeline.planning import Booking

    booking = Booking(CacheKey("0" * 64), None, False, Target(), ())
    return [Flight(request(number), booking, 1, 0.0) for number in range(count)]


def test_a_slow_compile_is_told_of_each_time_its_time_has_doubled() -> None:
    watch = Watch(60.0)
    [flight] = flights(1)
    watch.began(flight, 1000.0)
    told = [now for now in range(1000, 1000 + 3601) if watch.slow(float(now))]
    assert told == [1060, 1120, 1240, 1480, 1960, 2920]


def test_only_what_still_runs_is_slow() -> None:
    watch = Watch(60.0)
    one, two = flights(2)
    watch.began(one, 0.0)
    watch.began(two, 30.0)
    assert watch.slow(59.9) == []
    assert watch.slow(61.0) == [(one, 61.0)]
    watch.ended(one)
    assert watch.slow(500.0) == [(two, 470.0)]
    never = Watch(None)
    never.began(one, 0.0)
    assert never.slow(1e9) == []


@pytest.mark.anyio
async def test_an_event_names_the_slow_kernel_while_it_runs() -> None:
    events: list[Event] = []
    gate = Gate()

    def on_event(event: Event) -> None:
        events.append(event)
        if isinstance(event, Slow):
            gate.opened.set()

    def answer(action: Action) -> Any:
        return gate(action) if b"return 3;" in action.inputs[0].data() else OK

    async with session(FakeRunner(answer), slow_after=0.05, on_event=on_event) as compiler:
        with anyio.fail_after(10):
            assert (await compiler.compile_result(request(3))).ok
            await compiler.compile_many([request(number) for number in range(3)])
        assert compiler.stats.slow >= 1
    slow = [event for event in events if isinstance(event, Slow)]
    assert {event.request.kernel.name for event in slow} == {"k3"}
    assert slow[0].seconds >= 0.05


@pytest.mark.anyio
async def test_one_task_watches_them_all() -> None:
    """No timer and no task for each compile: the tasks do not grow with what runs."""
    gate = Gate()

    async def tasks_with(count: int) -> int:
        async with session(FakeRunner(gate), jobs=count) as compiler, anyio.create_task_group() as group:
            group.start_soon(compiler.compile_many, [request(number) for number in range(count)])
            await anyio.wait_all_tasks_blocked()
            found = len(anyio.get_running_tasks())
            group.cancel_scope.cancel()
        return found

    assert await tasks_with(40) - await tasks_with(20) == 20
