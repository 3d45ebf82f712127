"""Compilers that misbehave: the right verdict, the other results intact, and nothing left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from teeny_async import Compiler, FailureKind
from teeny_async.events import Event, Retried
from teeny_async.settings import Settings
from tests.execution.kit import left_in, processes_below, supervisors_of

from .kit import FAST, Faulty

pytestmark = pytest.mark.anyio
NEIGHBOURS = 6


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files; nothing may live or lie in it afterwards."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    yield scratch
    assert supervisors_of(scratch) == []
    assert processes_below(scratch) == []
    assert left_in(scratch) == []


def compiler_in(place: Path, **options: object) -> Compiler:
    settings = Settings(environ={}, cache_dir=place.parent / "cache", scratch_dir=str(place))
    return Compiler(settings=settings, jobs=2, retry=FAST, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ("hang", [FailureKind.TIMEOUT]),
        ("deaf", [FailureKind.TIMEOUT]),
        ("bomb", [FailureKind.TIMEOUT]),
        ("holder", [None]),
        ("orphans", [None]),
        ("litter", [None]),
        ("refuse", [FailureKind.DIAGNOSTIC]),
        ("flood", [FailureKind.DIAGNOSTIC]),
        ("segv-once", [FailureKind.CRASH, None]),
        ("segv", [FailureKind.CRASH, FailureKind.CRASH]),
        ("kill-once", [FailureKind.OUT_OF_MEMORY, None]),
        ("empty", [FailureKind.BAD_OUTPUT, FailureKind.BAD_OUTPUT]),
        ("truncated", [FailureKind.BAD_OUTPUT, FailureKind.BAD_OUTPUT]),
        ("wrong-target", [FailureKind.BAD_OUTPUT, FailureKind.BAD_OUTPUT]),
    ],
)
async def test_a_fault_among_good_ones(place: Path, fault: str, kinds: list[FailureKind | None]) -> None:
    tool = Faulty(place.parent / "state")
    timeout = 0.4 if kinds == [FailureKind.TIMEOUT] else 20.0
    requests = [tool.request(f"good {number}") for number in range(NEIGHBOURS)]
    requests.insert(2, tool.request(fault, timeout=timeout))
    async with compiler_in(place) as compiler:
        results = await compiler.compile_many(requests)
        stats = compiler.stats
    bad = results.pop(2)
    assert [attempt.kind for attempt in bad.attempts] == kinds
    assert (bad.failure.kind if bad.failure else None) == kinds[-1]
    assert all(result.ok for result in results)
    assert tool.runs() == NEIGHBOURS + len(kinds)
    assert stats.runs == NEIGHBOURS + len(kinds)


async def test_a_tool_that_vanishes_in_mid_run_is_missing_from_then_on(place: Path) -> None:
    tool = Faulty(place.parent / "state")
    async with compiler_in(place) as compiler:
        assert (await compiler.compile_result(tool.request("vanish"))).ok
        result = await compiler.compile_result(tool.request("good"))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.TOOL_MISSING
    assert len(result.attempts) == 1


async def test_a_tool_that_is_being_written_is_tried_again(place: Path) -> None:
    """ETXTBSY: an installer has the program open for writing."""
    tool = Faulty(place.parent / "state")
    writer = os.open(tool.script, os.O_WRONLY | os.O_APPEND)
    results = []

    async def compile_it(compiler: Compiler) -> None:
        results.append(await compiler.compile_result(tool.request("good")))

    retried = anyio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, Retried):
            retried.set()

    async with compiler_in(place, on_event=watch) as compiler, anyio.create_task_group() as group:
        group.start_soon(compile_it, compiler)
        await retried.wait()
        os.close(writer)
    [result] = results
    assert result.ok
    kinds = [attempt.kind for attempt in result.attempts]
    assert kinds[0] is FailureKind.SPAWN
    assert kinds[-1] is None


async def test_a_huge_output_costs_no_memory_of_ours(place: Path) -> None:
    tool = Faulty(place.parent / "state")

    def peak() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    before = peak()
    async with compiler_in(place) as compiler:
        result = await compiler.compile_result(tool.request("flood"))
    assert result.failure is not None
    assert result.failure.message == "flooded"
    assert peak() - before < 30 << 20


@pytest.mark.parametrize("fault", ["hang", "deaf", "bomb"])
async def test_cancelling_leaves_nothing_running(place: Path, fault: str) -> None:
    tool = Faulty(place.parent / "state")
    async with compiler_in(place) as compiler:
        with anyio.move_on_after(0.3):
            await compiler.compile_many([tool.request(f"{fault} {number}") for number in range(4)])
        with anyio.fail_after(10):
            while processes_below(place):
                await anyio.sleep(0.01)
        assert (await compiler.compile_result(tool.request("good"))).ok
