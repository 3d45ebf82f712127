"""Waiting for the threads of a remote: until all have ended, until it took too long, or until it is in vain."""

from __future__ import annotations

from concurrent.futures import Future

import anyio
import pytest

from teeny_async.store.remote_threads import finished

pytestmark = pytest.mark.anyio


def done() -> Future[object]:
    future: Future[object] = Future()
    future.set_result(None)
    return future


async def test_it_waits_for_all() -> None:
    last: Future[object] = Future()
    async with anyio.create_task_group() as group:
        answers: list[bool] = []

        async def wait() -> None:
            answers.append(await finished([done(), last], 60, lambda: False))

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        await anyio.to_thread.run_sync(last.set_result, None)
    assert answers == [True]


async def test_nothing_is_done_at_once_and_too_long_is_no() -> None:
    assert await finished([], 60, lambda: False)
    assert not await finished([Future(), done()], 0.01, lambda: False)


async def test_it_ends_when_one_shows_that_the_rest_is_in_vain() -> None:
    with anyio.fail_after(20):
        assert not await finished([Future(), done()], 60, iter([False, True]).__next__)
        assert not await finished([Future()], 60, lambda: True)
