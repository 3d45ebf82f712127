"""Interpreters that fork for each job: what a job is there is what it is anywhere, and it is killed as any."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from teeny_async.action import Action, Input
from teeny_async.execution.runner import LocalRunner, RunLimits
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from tests.execution.kit import LIMITS, left_in, processes_below, supervisors_of

pytestmark = pytest.mark.anyio

WARM = "import os, sys\nsys.ready = os.getpid()\n"
SAY = """\
import json, os, sys
facts = [getattr(sys, "ready", 0), os.getpid(), os.getsid(0), os.getcwd(), os.environ["TMPDIR"], dict(os.environ), sys.argv]
open("out", "w").write(json.dumps(facts))
print("said")
print("complained", file=sys.stderr)
"""


def script(text: str, warm: str | None = WARM, **env: str) -> Action:
    return Action(
        argv=("python", "-P", "-s", "-S", "script.py", "kernel.py"),
        executable=os.path.realpath(sys.executable),
        env=FrozenMap(env),
        inputs=(Input("script.py", (text,)),),
        outputs=FrozenMap({"out": "out"}),
        warm=warm,
    )


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[LocalRunner]:
    async with LocalRunner(str(tmp_path)) as runner:
        yield runner
    assert processes_below(tmp_path) == []
    assert left_in(tmp_path) == []


async def run(runner: LocalRunner, action: Action, limits: RunLimits = LIMITS) -> Exit:
    return await runner.run(action, {}, limits)


async def test_each_job_is_a_process_of_its_own(runner: LocalRunner) -> None:
    found = [await run(runner, script(SAY, A=str(number))) for number in range(3)]
    facts = [json.loads(exit.outputs["out"]) for exit in found]
    readied, pids, sessions, folders, tmpdirs, environs, words = zip(*facts, strict=True)
    assert len(set(readied)) == 3  # the environment is the interpreter's too
    assert all(readied)
    assert pids == sessions
    assert len(set(pids)) == 3
    assert folders == tmpdirs
    assert [environ["A"] for environ in environs] == ["0", "1", "2"]
    assert words == (["script.py", "kernel.py"],) * 3
    assert [(exit.code, exit.stdout, exit.stderr) for exit in found] == [(0, b"said\n", b"complained\n")] * 3
    assert found[0].usage.max_rss > 1 << 20


async def test_one_interpreter_serves_many_at_once(runner: LocalRunner) -> None:
    ready: list[int] = []

    async def one() -> None:
        ready.append(json.loads((await run(runner, script(SAY))).outputs["out"])[0])

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    assert len(ready) == 20
    assert len(set(ready)) == 1
    assert ready[0]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, ""),
        ("import os; os.abort()", -signal.SIGABRT, ""),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os._exit(7)", 7, ""),
    ],
)
async def test_a_job_ends_as_it_does_anywhere_and_alone(runner: LocalRunner, text: str, code: int, says: str) -> None:
    first = json.loads((await run(runner, script(SAY))).outputs["out"])[0]
    exit = await run(runner, script(text))
    assert exit.code == code
    assert says in exit.text
    assert json.loads((await run(runner, script(SAY))).outputs["out"])[0] == first


BUSY = "import os, time\nos.system('sleep 1000 &')\nopen(os.path.join('..', '..', '..', 'up'), 'w').close()\ntime.sleep(1000)\n"


async def test_a_timeout_ends_the_whole_group(runner: LocalRunner, tmp_path: Path) -> None:
    exit = await run(runner, script(BUSY), RunLimits(wall=0.3, grace=0.2))
    assert exit.stopped == "timeout"
    assert not any("sleep" in line for line in processes_below(tmp_path))


async def test_a_cancelled_job_is_gone(runner: LocalRunner, tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(run, runner, script(BUSY))
        with anyio.fail_after(20):
            while not (tmp_path / "up").exists():
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert not any("sleep" in line for line in processes_below(tmp_path))
    assert (await run(runner, script(SAY))).code == 0


async def test_a_job_is_cancelled_before_it_is_forked(runner: LocalRunner) -> None:
    """Its interpreter is not ready, and never will be; closing the runner ends that."""
    with anyio.move_on_after(0.3) as scope:
        await run(runner, script(SAY, warm="import time\ntime.sleep(1000)\n"))
    assert scope.cancelled_caught
    assert (await run(runner, script(SAY))).code == 0


@pytest.mark.parametrize("warm", ["1 / 0", "import os; os._exit(0)", "this is no program"])
async def test_without_an_interpreter_it_is_started_as_any_other(runner: LocalRunner, warm: str) -> None:
    for _ in range(5):
        exit = await run(runner, script(SAY, warm=warm))
        assert exit.code == 0
        assert json.loads(exit.outputs["out"])[0] == 0


async def test_a_killed_interpreter_is_replaced(runner: LocalRunner) -> None:
    first = json.loads((await run(runner, script(SAY))).outputs["out"])[0]
    os.kill(first, signal.SIGKILL)
    found = [json.loads((await run(runner, script(SAY))).outputs["out"])[0] for _ in range(2)]
    assert first not in found
    assert found[1]


async def test_a_killed_supervisor_takes_all_with_it(tmp_path: Path) -> None:
    async with LocalRunner(str(tmp_path)) as runner:
        found: list[Exit] = []

        async def one() -> None:
            found.append(await run(runner, script(BUSY)))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            with anyio.fail_after(20):
                while not (tmp_path / "up").exists():
                    await anyio.sleep(0.01)
            [supervisor] = supervisors_of(tmp_path)
            os.kill(supervisor, signal.SIGKILL)
        assert found[0].stopped == "lost"
    with anyio.fail_after(10):
        while processes_below(tmp_path):
            await anyio.sleep(0.01)
