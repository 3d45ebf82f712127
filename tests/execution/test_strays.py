"""Daemons: a process that left its job's group is ended with the job, and not before."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from teeny_async.execution.runner import LocalRunner
from teeny_async.execution.supervisor.strays import END, SPARE, UNKNOWN, judge

from .kit import LIMITS, processes_below, sh

pytestmark = pytest.mark.anyio
ROOT = b"/tmp/teeny-async-u/s"
BARE = 'setsid env -i PATH="$PATH" TMP="$TMPDIR"'


@pytest.mark.parametrize(
    ("tmpdir", "birth", "births", "verdict"),
    [
        (ROOT + b"/2", 50, [10], END),
        (ROOT + b"/2/tmp", 50, [10], END),
        (ROOT + b"/1", 50, [10], SPARE),
        (ROOT + b"/1/tmp", 5, [10], SPARE),
        (b"", 50, [10, 60], UNKNOWN),
        (b"", 50, [50], UNKNOWN),
        (b"", 0, [10], UNKNOWN),
        (b"", 5, [10, 0], UNKNOWN),
        (b"", 5, [10, 20], END),
        (ROOT + b"2/1", 50, [10], UNKNOWN),
        (b"", 50, [], END),
    ],
)
def test_whose_a_stray_is_shows_its_tmpdir_or_its_age(
    tmpdir: bytes, birth: int, births: list[int], verdict: int
) -> None:
    assert judge(tmpdir, birth, ROOT, {b"1"}, births) == verdict


@asynccontextmanager
async def running(runner: LocalRunner, folder: Path, nap: int = 50) -> AsyncIterator[None]:
    """A job that runs meanwhile; it has a daemon, which must not be ended before it. nap: told apart by it."""
    daemon = f"sleep {nap} "
    async with anyio.create_task_group() as group:
        group.start_soon(runner.run, sh(f"setsid sleep {nap} & sleep 70"), {}, LIMITS)
        with anyio.fail_after(10):
            while daemon not in processes_below(folder):
                await anyio.sleep(0.01)
        yield
        assert daemon in processes_below(folder)
        group.cancel_scope.cancel()


async def until_gone(folder: Path, mark: str) -> None:
    with anyio.fail_after(10):
        while any(mark in command for command in processes_below(folder)):
            await anyio.sleep(0.01)


def leave(script: str, ready: Path, *, by: str = "setsid") -> str:
    """A script that leaves a daemon; it ends when that has come to READY."""
    script = script.replace("READY", f"touch {ready}")
    return f"{by} sh -c {shlex.quote(script)} & while [ ! -e {ready} ]; do sleep 0.01; done"


@pytest.mark.parametrize("command", ["READY; exec sleep 60", "sleep 60 & READY; wait"], ids=["alone", "with a child"])
async def test_a_daemon_of_one_job_is_ended_beside_another_job(command: str, tmp_path: Path) -> None:
    async with LocalRunner(str(tmp_path)) as runner, running(runner, tmp_path):
        await runner.run(sh(leave(command, tmp_path / "ready")), {}, LIMITS)
        await until_gone(tmp_path, "sleep 60")


async def test_a_daemon_that_is_seen_without_an_environment_is_looked_at_again(tmp_path: Path) -> None:
    go = tmp_path / "go"
    late = f"READY; while [ ! -e {go} ]; do sleep 0.01; done; TMPDIR=$TMP exec sleep 60"
    async with LocalRunner(str(tmp_path)) as runner, running(runner, tmp_path):
        exit = await runner.run(sh(leave(late, tmp_path / "ready", by=BARE)), {}, LIMITS)
        assert exit.code == 0
        assert any("/go" in command for command in processes_below(tmp_path)), "nothing told whose it is"
        go.touch()
        await until_gone(tmp_path, "/go")
        await until_gone(tmp_path, "sleep 60")


async def test_a_daemon_without_an_environment_is_ended_with_the_last_job_it_can_be_of(tmp_path: Path) -> None:
    async with LocalRunner(str(tmp_path)) as runner:
        async with running(runner, tmp_path):
            await runner.run(sh(leave("READY; exec sleep 60", tmp_path / "ready", by=BARE)), {}, LIMITS)
        async with running(runner, tmp_path, nap=55):
            await until_gone(tmp_path, "sleep 60")
