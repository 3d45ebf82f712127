"""One compiler at a time, real: what comes back of it, and that nothing of it is left."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from teeny_async.action import Action
from teeny_async.execution.runner import LocalRunner, RunLimits

from .kit import LIMITS, left_in, processes_below, sh, supervisors_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[LocalRunner]:
    """A runner; once it is closed, no process and no scratch file may be left."""
    async with LocalRunner(str(tmp_path)) as opened:
        yield opened
    assert supervisors_of(tmp_path) == []
    assert processes_below(tmp_path) == []
    assert left_in(tmp_path) == []


async def test_exit_streams_and_outputs_come_back(runner: LocalRunner) -> None:
    exit = await runner.run(
        sh("cat in > out; echo o; echo e >&2; exit 3", inputs={"in": "text"}, outputs={"o": "out", "absent": "no"}),
        {},
        LIMITS,
    )
    assert (exit.code, exit.stdout, exit.stderr) == (3, b"o\n", b"e\n")
    assert dict(exit.outputs) == {"o": b"text"}
    assert exit.stopped is None


async def test_the_environment_is_ours_alone(runner: LocalRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKS", "1")
    exit = await runner.run(sh("env; ls /proc/self/fd; cat"), {}, LIMITS)
    names = {line.split("=")[0] for line in exit.stdout.decode().splitlines() if "=" in line}
    assert names - {"_", "PWD", "OLDPWD", "SHLVL"} == {"PATH", "LC_ALL", "HOME", "TMPDIR"}
    descriptors = [line for line in exit.stdout.decode().splitlines() if line.isdigit()]
    assert descriptors == ["0", "1", "2", "3"], "3 is ls's own"


async def test_every_run_has_a_session_a_folder_and_a_tmpdir_of_its_own(runner: LocalRunner) -> None:
    script = 'test -d "$TMPDIR" && test "$HOME" = "$TMPDIR" && pwd && cat /proc/$$/stat'
    one, two = [(await runner.run(sh(script), {}, LIMITS)).stdout.decode().splitlines() for _ in range(2)]
    assert one[0] != two[0]
    pid, _, _, _, group, session = one[1].split()[:6]
    assert pid == group == session


async def test_large_outputs_and_inputs_pass_whole(runner: LocalRunner) -> None:
    text = "x" * 3_000_000
    exit = await runner.run(sh("cat in in > out", inputs={"in": text}, outputs={"o": "out"}), {}, LIMITS)
    assert exit.outputs["o"] == text.encode() * 2


async def test_output_streams_are_capped_at_head_and_tail(runner: LocalRunner) -> None:
    exit = await runner.run(
        sh("echo first >&2; head -c 200000000 /dev/zero >&2; echo last >&2", capture_limit=10_000), {}, LIMITS
    )
    assert exit.code == 0
    assert exit.stderr.startswith(b"first\n")
    assert exit.stderr.endswith(b"last\n")
    assert len(exit.stderr) < 11_000
    assert exit.dropped > 199_000_000


@pytest.mark.parametrize("script", ["sleep 60", "sleep 60 & sleep 60", "trap '' TERM; sleep 60 & sleep 60"])
async def test_a_timeout_ends_the_whole_group(runner: LocalRunner, script: str) -> None:
    exit = await runner.run(sh(script), {}, RunLimits(wall=0.1, grace=0.2))
    assert exit.stopped == "timeout"
    assert exit.code in (-signal.SIGTERM, -signal.SIGKILL)


async def test_a_limit_on_cpu_time_ends_a_busy_process(runner: LocalRunner) -> None:
    exit = await runner.run(sh("while :; do :; done"), {}, RunLimits(wall=20, cpu=0.5))
    assert exit.stopped == "cpu_timeout"
    assert exit.usage.cpu >= 0.5


async def test_the_cpu_time_of_a_tree_is_what_is_limited(runner: LocalRunner) -> None:
    """Many short children, each far below the limit, and a parent that only waits."""
    script = "while :; do sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'; done"
    exit = await runner.run(sh(script), {}, RunLimits(wall=20, cpu=0.4))
    assert exit.stopped == "cpu_timeout"
    assert exit.usage.wall < 15


async def test_a_process_that_waits_uses_no_cpu_time(runner: LocalRunner) -> None:
    exit = await runner.run(sh("sleep 0.7"), {}, RunLimits(wall=20, cpu=0.2))
    assert (exit.stopped, exit.code) == (None, 0)


HOLD = "head -c {0} /dev/zero | tail -c {0} | sleep {1} & wait"
"""A pipeline in which tail holds bytes in memory while sleep reads nothing of them."""


async def test_growth_beyond_what_was_expected_is_told_while_it_runs(runner: LocalRunner) -> None:
    told: list[int] = []
    hold = HOLD.format(80_000_000, 1)
    exit = await runner.run(sh(hold), {}, RunLimits(wall=20, memory=40_000_000, grown=told.append))
    assert exit.code == 0
    assert told
    assert min(told) > 40_000_000
    assert told == sorted(told)
    quiet: list[int] = []
    await runner.run(sh("sleep 0.5"), {}, RunLimits(wall=20, memory=40_000_000, grown=quiet.append))
    assert quiet == []


async def test_the_peak_is_of_all_processes_together(runner: LocalRunner) -> None:
    one = HOLD.format(50_000_000, 1)
    exit = await runner.run(sh(f"({one}) & ({one}) & wait"), {}, RunLimits(wall=20))
    assert 45_000_000 < exit.usage.max_rss < 80_000_000
    assert exit.usage.peak > 95_000_000


async def test_the_kernel_would_rather_kill_a_compiler_than_us(runner: LocalRunner) -> None:
    exit = await runner.run(sh("sleep 0.1; cat /proc/self/oom_score_adj"), {}, LIMITS)
    assert int(exit.stdout) > int(Path("/proc/self/oom_score_adj").read_text())


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_us(runner: LocalRunner) -> None:
    with anyio.fail_after(10):
        exit = await runner.run(sh("sleep 60 & echo done; exit 0"), {}, LIMITS)
    assert exit.code == 0
    assert exit.stdout == b"done\n"
    assert exit.survivors


async def test_a_daemon_in_a_session_of_its_own_is_ended_too(runner: LocalRunner, tmp_path: Path) -> None:
    await runner.run(sh("setsid sleep 60 & sleep 0.1; exit 0"), {}, LIMITS)
    with anyio.fail_after(5):
        while processes_below(tmp_path):
            await anyio.sleep(0.01)


async def test_a_cancelled_run_returns_when_its_group_is_gone(runner: LocalRunner, tmp_path: Path) -> None:
    with anyio.move_on_after(0.2) as scope:
        await runner.run(sh("trap '' TERM; sleep 60 & sleep 60"), {}, RunLimits(grace=0.2))
    assert scope.cancelled_caught
    assert processes_below(tmp_path) == []


async def test_what_cannot_start_says_why(runner: LocalRunner, tmp_path: Path) -> None:
    missing = await runner.run(_executable("/nonexistent/tool"), {}, LIMITS)
    assert (missing.code, missing.errno) == (None, 2)
    (tmp_path / "plain").write_text("not a program")
    assert (await runner.run(_executable(str(tmp_path / "plain")), {}, LIMITS)).errno in (8, 13)


def _executable(path: str) -> Action:
    return dataclasses.replace(sh(""), executable=path)


async def test_scratch_that_resists_is_removed(runner: LocalRunner, tmp_path: Path) -> None:
    script = "mkdir -p d/e && touch d/e/f && chmod 0 d/e && mkdir $TMPDIR/x && touch $TMPDIR/x/y && ln -s / link"
    assert (await runner.run(sh(script), {}, LIMITS)).code == 0
    assert [path.name for path in tmp_path.glob("teeny-async-*/*/*")] == ["lock"]


async def test_an_output_may_not_be_a_link_out_of_scratch(runner: LocalRunner) -> None:
    exit = await runner.run(sh("ln -s /etc/passwd out", outputs={"o": "out"}), {}, LIMITS)
    assert dict(exit.outputs) == {}


async def test_usage_is_of_the_tree(runner: LocalRunner) -> None:
    spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    exit = await runner.run(sh(f"sh -c '{spin}'"), {}, LIMITS)
    assert exit.usage.cpu > 0.05
    assert exit.usage.wall >= exit.usage.cpu * 0.5
    memory = await runner.run(sh("head -c 100000000 /dev/zero | tail -c 50000000 | wc -c"), {}, LIMITS)
    assert 45_000_000 < memory.usage.max_rss < 150_000_000


async def test_many_at_once(runner: LocalRunner) -> None:
    codes: list[int | None] = []

    async def one(number: int) -> None:
        exit = await runner.run(sh(f"echo {number}; exit {number}"), {}, LIMITS)
        assert exit.stdout == b"%d\n" % number
        codes.append(exit.code)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert sorted(code for code in codes if code is not None) == list(range(100))


async def test_a_killed_supervisor_is_replaced(runner: LocalRunner, tmp_path: Path) -> None:
    """Its compilers die with it, the run says that it was lost, and the next one works."""
    started = tmp_path / "started"
    exits = []

    async def victim() -> None:
        exits.append(await runner.run(sh(f"touch {started}; sleep 60 & sleep 60"), {}, LIMITS))

    async with anyio.create_task_group() as group:
        group.start_soon(victim)
        with anyio.fail_after(10):
            while not started.exists():
                await anyio.sleep(0.01)
        assert runner._supervised is not None
        runner._supervised._process.kill()
    assert exits[0].stopped == "lost"
    with anyio.fail_after(5):
        while any("sleep" in command for command in processes_below(tmp_path)):
            await anyio.sleep(0.01)
    assert (await runner.run(sh("echo back"), {}, LIMITS)).stdout == b"back\n"


BALLAST = """
import sys, anyio
from teeny_async.execution.runner import LocalRunner, RunLimits
from teeny_async.action import Action
ballast = b"x" * (int(sys.argv[2]) << 20)
async def main():
    async with LocalRunner(sys.argv[1]) as runner:
        exit = await runner.run(Action(argv=("true",), executable="/bin/true"), {}, RunLimits())
        print(exit.usage.max_rss)
anyio.run(main)
"""


def test_a_large_parent_does_not_count_as_the_compilers_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BALLAST, str(tmp_path), "1000"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 20 << 20


SWEEP = """
import sys, anyio
from teeny_async.execution.runner import LocalRunner, RunLimits
from tests.execution.kit import sh
async def main():
    async with LocalRunner(sys.argv[1]) as runner, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(runner.run, sh("trap '' TERM; touch $0.started; sleep 60 & sleep 60"), {}, RunLimits())
anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_kill_9_of_our_own_process_leaves_nothing(tmp_path: Path, backend: str) -> None:
    ours = subprocess.Popen([sys.executable, "-c", SWEEP, str(tmp_path), backend], cwd=Path(__file__).parents[2])
    _until(lambda: len(processes_below(tmp_path)) == 9)
    ours.kill()
    ours.wait()
    _until(lambda: not processes_below(tmp_path))
    _until(lambda: not left_in(tmp_path))


async def test_the_next_start_sweeps_what_was_left_when_both_were_killed(tmp_path: Path) -> None:
    ours = subprocess.Popen([sys.executable, "-c", SWEEP, str(tmp_path), "asyncio"], cwd=Path(__file__).parents[2])
    _until(lambda: len(processes_below(tmp_path)) == 9)
    for pid in [*supervisors_of(tmp_path), ours.pid]:
        os.kill(pid, signal.SIGKILL)
    ours.wait()
    assert left_in(tmp_path)
    assert processes_below(tmp_path), "nobody was left to end them"
    async with LocalRunner(str(tmp_path)) as runner:
        await runner.run(sh("true"), {}, LIMITS)
    _until(lambda: not left_in(tmp_path))
    assert processes_below(tmp_path) == []


async def test_a_scratch_folder_that_is_not_there_is_no_missing_tool() -> None:
    async with LocalRunner("/nonexistent") as runner:
        exit = await runner.run(sh("true"), {}, LIMITS)
    assert (exit.code, exit.errno) == (None, errno.EIO)


def _until(true: object) -> None:
    deadline = time.monotonic() + 15
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    async def main() -> None:
        async with LocalRunner(str(tmp_path)) as runner:
            for _ in range(50):
                await runner.run(sh("true"), {}, LIMITS)

    before = len(os.listdir("/proc/self/fd"))
    anyio.run(main)
    assert len(os.listdir("/proc/self/fd")) == before
