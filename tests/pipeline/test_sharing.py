"""Two processes, one compile: sessions that meet at a key."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

import teeny_async
from teeny_async import Compiler, CompileRequest, Kernel
from teeny_async.caching import meeting_place
from teeny_async.events import Event, Started, Waiting
from teeny_async.failures import FailureKind
from teeny_async.pipeline.rules import Mode
from teeny_async.report.text import waiting_text
from teeny_async.result import Exit
from teeny_async.settings import Settings
from teeny_async.store.claims import ClaimedKey, Claims
from teeny_async.store.disk import DiskStore
from teeny_async.testing import FakeRunner, FakeToolchain, fake_exit

ROOT = Path(teeny_async.__file__).parents[1]
PROCESSES, KEYS = 8, 100
SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
import os, anyio
from dataclasses import dataclass
from pathlib import Path
from teeny_async import Compiler, CompileRequest, Kernel
from teeny_async.settings import Settings
from teeny_async.testing import FakeRunner, FakeToolchain, fake_exit

async def compiled(action):
    with open(sys.argv[2], "ab", 0) as log:
        log.write(action.inputs[0].data()[:9] + b"\\n")
    await anyio.sleep(0.002)
    return fake_exit(action)

async def main():
    tool = FakeToolchain()
    requests = [
        CompileRequest(Kernel(name="k", source=f"key {n:05}", language="c"), toolchain=tool) for n in range(100)
    ]
    async with Compiler(runner=FakeRunner(compiled), jobs=2, settings=Settings.from_environ(os.environ)) as compiler:
        print("ready", flush=True)
        sys.stdin.readline()
        results = await compiler.compile_many(requests)
    for n, result in enumerate(results):
        assert result.artifact["object"] == b"key %05d" % n
    print(sum(result.source == "compiled" for result in results))

anyio.run(main)
"""


def request(number: int = 0) -> CompileRequest:
    return CompileRequest(Kernel(name=f"k{number}", source=f"int k{number};", language="c"), toolchain=FakeToolchain())


@dataclass
class Held:
    """A claim, and the session that it belongs to."""

    claims: Claims
    key: ClaimedKey

    def release(self) -> None:
        self.key.release()
        self.claims.close()


async def held(compiler: Compiler, settings: Settings, number: int = 0) -> Held:
    """The claim of a request, as another session with the same store has it."""
    key = (await compiler.plan(request(number))).booking.key
    claims = Claims(meeting_place(settings), scope=DiskStore(settings.cache_dir).folder_identity or "")
    taken = claims.try_claim(key.digest)
    assert isinstance(taken, ClaimedKey)
    return Held(claims, taken)


def claimed(settings: Settings) -> list[Path]:
    return [path for path in left(settings) if path.suffix == ".claim"]


def left(settings: Settings) -> list[Path]:
    folder = meeting_place(settings)
    return list(folder.iterdir()) if folder.is_dir() else []


def test_eight_processes_compile_each_of_a_hundred_keys_once(settings: Settings, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SESSION, str(ROOT), str(log)]
    environ = dict(settings.environ)
    processes = [
        subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    counts = [int(process.communicate(timeout=30)[0]) for process in processes]
    compiled = log.read_text().splitlines()
    assert sorted(compiled) == [f"key {number:05}" for number in range(KEYS)]
    assert sum(counts) == KEYS
    assert left(settings) == []


@pytest.mark.anyio
async def test_a_session_waits_without_a_slot_and_takes_what_the_other_kept(settings: Settings) -> None:
    events: list[Event] = []
    waits = anyio.Event()

    def on_event(event: Event) -> None:
        events.append(event)
        if isinstance(event, Waiting):
            waits.set()

    runner = FakeRunner()
    async with (
        Compiler(runner=runner, settings=settings, jobs=1, on_event=on_event) as compiler,
        Compiler(runner=FakeRunner(), settings=settings, wait_for_others=0) as other,
        anyio.create_task_group() as group,
    ):
        taken = await held(compiler, settings)

        async def finish() -> None:
            await waits.wait()
            assert (await compiler.compile_result(request(1))).source == "compiled"  # there is one slot
            await other.compile(request())
            taken.release()

        group.start_soon(finish)
        result = await compiler.compile_result(request())
        assert (result.ok, result.source, result.timings.ran) == (True, "cached", 0.0)
    assert len(runner.actions) == 1
    [waiting] = [event for event in events if isinstance(event, Waiting)]
    assert result.key is not None
    assert waiting.key == result.key.digest
    text = f"waiting for {waiting.key[:16]} (k0 default), held by pid {os.getpid()} since "
    assert re.fullmatch(re.escape(text) + r"\d\d:\d\d:\d\d", waiting_text(waiting))
    assert [event.request.kernel.name for event in events if isinstance(event, Started)] == ["k1"]
    assert left(settings) == []


@pytest.mark.anyio
async def test_a_holder_that_lets_go_without_a_result_is_followed(settings: Settings) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, Waiting):
            taken.release()

    runner = FakeRunner()
    async with Compiler(runner=runner, settings=settings, jobs=1, on_event=on_event) as compiler:
        taken = await held(compiler, settings)
        assert (await compiler.compile_result(request())).source == "compiled"
        assert compiler.stats.most_running == 1
    assert len(runner.actions) == 1
    assert left(settings) == []


@pytest.mark.anyio
async def test_a_holder_that_hangs_is_waited_for_so_long(settings: Settings) -> None:
    async with Compiler(runner=FakeRunner(), settings=settings, wait_for_others=0.05) as compiler:
        taken = await held(compiler, settings)
        assert (await compiler.compile_result(request())).source == "compiled"
        taken.release()


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["cached_only", "no_cache", "refresh"])
async def test_where_results_are_not_shared_nobody_waits(settings: Settings, mode: Mode) -> None:
    await kept(settings, request(1))
    async with Compiler(runner=FakeRunner(), settings=settings, mode=mode, wait_for_others=None) as compiler:
        taken = await held(compiler, settings)
        result = await compiler.compile_result(request())
        assert result.ok == (mode != "cached_only")
        taken.release()


async def kept(settings: Settings, one: CompileRequest) -> None:
    async with Compiler(runner=FakeRunner(), settings=settings) as compiler:
        await compiler.compile(one)


@pytest.mark.anyio
async def test_a_result_that_came_between_the_look_and_the_claim_is_found(settings: Settings) -> None:
    """The other has let go by the time that this one's turn comes: nothing is held, and yet it is there."""
    async with Compiler(runner=FakeRunner(), settings=settings) as other:
        await other.compile(request(2))

        async def answer(action: object) -> Exit:
            await other.compile(request())
            return Exit(code=1, stderr=b"refused")

        runner = FakeRunner(answer)
        async with Compiler(runner=runner, settings=settings, jobs=1) as compiler:
            first, second = await compiler.compile_many([request(1), request()])
        assert not first.ok
        assert second.source == "cached"
    assert len(runner.actions) == 1


@pytest.mark.anyio
async def test_a_claim_ends_with_a_failure_and_with_a_cancellation(settings: Settings) -> None:
    runs = anyio.Event()

    async def hang(action: object) -> Exit:
        runs.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with Compiler(runner=FakeRunner(lambda _: Exit(code=1, stderr=b"no")), settings=settings) as compiler:
        result = await compiler.compile_result(request())
        assert result.failure is not None
        assert result.failure.kind is FailureKind.DIAGNOSTIC
        assert claimed(settings) == []
    async with Compiler(runner=FakeRunner(hang), settings=settings) as compiler, anyio.create_task_group() as group:
        group.start_soon(compiler.compile_result, request(1))
        await runs.wait()
        assert len(claimed(settings)) == 1
        group.cancel_scope.cancel()
    assert left(settings) == []


@pytest.mark.anyio
async def test_who_is_cancelled_while_it_waits_leaves_the_slot_to_others(settings: Settings) -> None:
    waits = anyio.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, Waiting):
            waits.set()

    async with Compiler(runner=FakeRunner(fake_exit), settings=settings, jobs=1, on_event=on_event) as compiler:
        taken = await held(compiler, settings)
        async with anyio.create_task_group() as group:
            group.start_soon(compiler.compile_result, request())
            await waits.wait()
            group.cancel_scope.cancel()
        assert (await compiler.compile_result(request(1))).source == "compiled"
        taken.release()
        assert (await compiler.compile_result(request())).source == "compiled"
