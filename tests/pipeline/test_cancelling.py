"""A real compile that is cancelled at any moment of its life leaves nothing: no process, no file, no slot.

A moment is a turn of the event loop, counted, not timed: the first ones each by itself (look-up, admission,
the sending of the job), then a seeded choice of the rest (the compiler runs, back-off, the store is written).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from teeny_async import Artifact, Compiler, Failure, RetryPolicy
from teeny_async.pipeline.inflight import Flight
from teeny_async.settings import Settings
from tests.execution.kit import processes_below

from .kit import script

pytestmark = pytest.mark.anyio

EACH = 12
CHOSEN = 14
LIVES: dict[str, list[str]] = {
    "compile": ["sleep 0.01 & sleep 0.01; echo code > out; touch a; mkdir -p $TMPDIR/d; touch $TMPDIR/d/e; wait"],
    "deaf": ["trap '' TERM; sleep 0.02 & sleep 0.02; echo code > out; wait"],
    "retried": ["sleep 0.005; kill -SEGV $$"],
    "queued": ["sleep 0.01; echo code > out", "echo more > out"],
}


async def cancelled_after(turns: int, work: Callable[[], Awaitable[object]]) -> int | None:
    """Cancel work after so many turns of the loop; None when it was still running then, else its turns."""
    ended: list[int] = []
    turn = 0

    async def run() -> None:
        await work()
        ended.append(turn)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        while turn < turns and not ended:
            await anyio.lowlevel.checkpoint()
            turn += 1
        group.cancel_scope.cancel()
    return ended[0] if ended else None


def moments(whole: int) -> list[int]:
    chance = random.Random(2026)
    return [*range(EACH), *sorted(chance.randrange(EACH, whole) for _ in range(CHOSEN)), whole - 2, whole - 1]


def nothing_is_left(compiler: Compiler, scratch: Path) -> None:
    tower = compiler._tower
    assert (tower.admission.running, tower.admission.charged, tower.admission.waiting) == (0, 0, 0)
    assert len(tower.flights) == 0
    assert tower._watch._running == {}
    assert processes_below(scratch) == []
    assert {path.name for path in scratch.glob("teeny-async-*/*/*")} <= {"lock"}


async def settled(compiler: Compiler) -> None:
    """Wait until the flights that were left have ended: their slots are given back when their groups are gone."""
    with anyio.fail_after(20):
        while compiler._tower.admission.running or compiler._tower.admission.waiting or compiler._tower._watch._running:
            compiler._tower.admission._admit()  # it meets, and drops, the tickets that were withdrawn
            await anyio.sleep(0.001)
        # A flight that has its artifact keeps it before it goes.
        while any(task.name and "_fly" in task.name for task in anyio.get_running_tasks()):
            await anyio.sleep(0.001)


@pytest.mark.parametrize("life", list(LIVES))
async def test_cancelling_it_leaves_nothing(
    life: str, settings: Settings, scratch_dir: Path, no_leftovers: None
) -> None:
    count = 0

    def work() -> Awaitable[object]:
        nonlocal count
        count += 1
        # Each is another kernel: none is a hit.
        return compiler.compile_many([script(f"{text}\n# {count}") for text in LIVES[life]])

    policy = RetryPolicy(initial=0.01, jitter=0)
    async with Compiler(settings=settings, jobs=1, retry=policy) as compiler:
        await work()  # finds what is found once
        whole = await cancelled_after(1_000_000, work)
        assert whole is not None
        cut_short = 0
        for turns in moments(whole):
            cut_short += await cancelled_after(turns, work) is None
            await settled(compiler)
            nothing_is_left(compiler, scratch_dir)
        assert cut_short > EACH
        assert (await compiler.compile_result(script("echo good > out"))).ok


@pytest.mark.parametrize("life", ["compile", "deaf"])
async def test_closing_the_session_at_any_moment_leaves_nothing_either(
    life: str, settings: Settings, scratch_dir: Path, no_leftovers: None
) -> None:
    chance = random.Random(7)
    for count, turns in enumerate([0, 1, 2, 4, 8, *(chance.randrange(10, 2000) for _ in range(5))]):
        async with anyio.create_task_group() as group:
            with anyio.fail_after(20):
                async with Compiler(settings=settings) as compiler:
                    requests = [script(f"{text}\n# {count} {number}") for text in LIVES[life] for number in range(6)]
                    group.start_soon(compiler.compile_many, requests)
                    while not len(compiler._tower.flights):
                        await anyio.lowlevel.checkpoint()
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
        nothing_is_left(compiler, scratch_dir)


async def test_what_is_looked_up_while_the_session_closes_waits_for_no_slot(
    settings: Settings, scratch_dir: Path, no_leftovers: None
) -> None:
    begun = anyio.Event()

    async def late(flights: Sequence[Flight]) -> list[Artifact | Failure | None]:
        begun.set()
        answers: list[Artifact | Failure | None] = []
        with anyio.CancelScope(shield=True):
            while tower.admission.jobs:
                await anyio.lowlevel.checkpoint()
            answers += await look_up(flights)
        return answers

    async with anyio.create_task_group() as group, Compiler(settings=settings) as compiler:
        tower = compiler._tower
        look_up = tower._keeper.look_up
        tower._keeper.look_up = late  # type: ignore[method-assign]
        group.start_soon(compiler.compile_many, [script("echo good > out")])
        await begun.wait()
    nothing_is_left(compiler, scratch_dir)


async def test_closing_is_bounded_however_deaf_the_compilers_are(
    settings: Settings, scratch_dir: Path, no_leftovers: None
) -> None:
    """Their lives are far longer than the patience of the test."""
    deaf = "trap '' TERM INT HUP; sleep 600 & sleep 600 & touch up; while :; do sleep 600; done"
    results: list[object] = []

    async def ask() -> None:
        results.extend(await compiler.compile_many([script(f"{deaf}\n# {number}") for number in range(4)]))

    async with anyio.create_task_group() as group:
        with anyio.fail_after(30):
            async with Compiler(settings=settings, jobs=2) as compiler:
                group.start_soon(ask)
                while len(list(scratch_dir.glob("teeny-async-*/*/*/up"))) < 2:
                    await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert processes_below(scratch_dir) == []
