"""The cache thread: order, errors, cancellation, closing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

import teeny_async.store.thread
from teeny_async.store.thread import CacheThread

pytestmark = pytest.mark.anyio


async def test_results_and_errors_come_back() -> None:
    thread = CacheThread()
    try:
        assert await thread.call(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await thread.call(divmod, 7, 0)
        assert await thread.call(threading.current_thread) is not threading.current_thread()
        assert not (await thread.call(threading.current_thread)).daemon
    finally:
        await thread.aclose()


async def test_jobs_run_one_by_one_in_order() -> None:
    thread = CacheThread()
    started: list[int] = []
    running = 0

    def job(number: int) -> int:
        nonlocal running
        started.append(number)
        running += 1
        assert running == 1
        time.sleep(0.001)
        running -= 1
        return number

    results: dict[int, int] = {}

    async def ask(number: int) -> None:
        results[number] = await thread.call(job, number)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(ask, number)
    await thread.aclose()
    assert sorted(started) == list(range(20))
    assert results == {number: number for number in range(20)}


async def test_a_cancelled_waiter_leaves_the_job_alone() -> None:
    thread = CacheThread()
    go, done = threading.Event(), threading.Event()

    def job() -> None:
        go.wait(10)
        done.set()

    with anyio.move_on_after(0.05) as scope:
        await thread.call(job)
    assert scope.cancelled_caught
    assert not done.is_set()
    go.set()
    assert await thread.call(done.is_set)  # it ran to its end, and the next one runs too
    await thread.aclose()


async def test_closing_finishes_what_was_submitted_even_when_cancelled() -> None:
    thread = CacheThread()
    finished = threading.Event()

    def job() -> None:
        time.sleep(0.05)
        finished.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.call, job)
        await anyio.lowlevel.checkpoint()
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
        await thread.aclose()
        assert finished.is_set()
    assert not thread._thread.is_alive()
    await thread.aclose()  # once more does no harm
    with pytest.raises(RuntimeError, match="closed"):
        await thread.call(finished.is_set)


async def test_many_callers_of_one_thread_are_all_answered() -> None:
    thread = CacheThread()
    answered = 0

    async def ask() -> None:
        nonlocal answered
        for _ in range(10):
            await thread.call(int)
            answered += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(ask)
    await thread.aclose()
    assert answered == 500


def test_event_loops_of_several_threads_share_it() -> None:
    thread = CacheThread()
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await thread.call(abs, -1))

    loops = [
        threading.Thread(target=anyio.run, args=(ask,), kwargs={"backend": backend})
        for backend in ("asyncio", "trio") * 3
    ]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    anyio.run(thread.aclose)
    assert answers == [1] * 6


def test_a_loop_that_has_ended_does_not_stop_it() -> None:
    thread = CacheThread()
    go = threading.Event()

    async def leave_early() -> None:
        with anyio.move_on_after(0.02):
            await thread.call(go.wait, 10)

    for backend in ("asyncio", "trio"):
        anyio.run(leave_early, backend=backend)
    go.set()

    async def ask() -> None:
        assert await thread.call(abs, -1) == 1
        await thread.aclose()

    anyio.run(ask)


def test_an_interpreter_that_never_closed_it_still_exits() -> None:
    root = Path(teeny_async.store.thread.__file__).parents[2]
    script = f"import sys; sys.path.insert(0, {str(root)!r}); import teeny_async.store.thread as t; t.CacheThread()"
    assert subprocess.run([sys.executable, "-c", script], timeout=20, check=False).returncode == 0
