"""Sources that read files, through a session: what is shared, what is kept, what is looked at again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import Compiler, CompileResult
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain
from tests.support import the_file_clock_moved_on

from .kit import request, session

pytestmark = pytest.mark.anyio


class Including(FakeToolchain):
    """A compiler that puts a header's text into its output, and says that it read it."""

    def __init__(self, header: Path) -> None:
        super().__init__()
        self.header = header
        header.write_text("one")
        os.utime(header)

    def plan(self, *args: Any) -> Action:
        return replace(super().plan(*args), depfile="kernel.d", search=(str(self.header.parent),))

    def exit(self, action: Action) -> Exit:
        if not self.header.exists():
            return Exit(code=1, stderr=b"kernel.c:1:1: error: no such header")
        text = self.header.read_bytes()
        return Exit(code=0, outputs=FrozenMap({"object": text}), depfile=f"k.o: k.c {self.header}\n".encode())


@pytest.fixture
def tool(tmp_path: Path) -> Including:
    return Including(tmp_path / "h.h")


async def test_a_hit_needs_no_compiler_and_a_changed_file_misses(tool: Including) -> None:
    runner, store = FakeRunner(tool.exit), MemoryStore()
    sources = []
    for text in ("one", "one", "two", "two", "one"):
        tool.header.write_text(text)
        await the_file_clock_moved_on()
        async with session(runner, store=store) as compiler:
            result = await compiler.compile_result(request(toolchain=tool))
        assert result.artifact["object"] == text.encode()
        sources.append(result.source)
    assert sources == ["compiled", "cached", "compiled", "cached", "cached"]


async def test_a_file_that_changes_meanwhile_is_not_kept(tool: Including) -> None:
    def answer(action: Action) -> Exit:
        exit = tool.exit(action)
        tool.header.write_text("changed")
        return exit

    runner, store = FakeRunner(answer), MemoryStore()
    await the_file_clock_moved_on()
    async with session(runner, store=store) as compiler:
        first = await compiler.compile_result(request(toolchain=tool))
        assert first.uncached is not None
        assert "h.h changed while it was compiled" in first.uncached
        await compiler.compile_result(request(toolchain=tool))
    assert len(runner.actions) == 2


@pytest.mark.parametrize("changes", [False, True])
async def test_who_comes_while_it_reads_looks_for_itself(tool: Including, changes: bool) -> None:
    """Whether a compile that is reading sees the files as they are for a later caller cannot be known."""
    reading, go_on = anyio.Event(), anyio.Event()

    async def answer(action: Action) -> Exit:
        exit = tool.exit(action)
        reading.set()
        await go_on.wait()
        return exit

    runner = FakeRunner(answer)
    results: list[CompileResult] = []

    async def late(compiler: Compiler) -> None:
        results.append(await compiler.compile_result(request(toolchain=tool)))

    await the_file_clock_moved_on()
    async with session(runner) as compiler, anyio.create_task_group() as group:
        group.start_soon(late, compiler)
        await reading.wait()
        if changes:
            tool.header.write_text("two")
            await the_file_clock_moved_on()
        group.start_soon(late, compiler)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    first, second = results
    assert first.artifact["object"] == b"one"
    assert second.artifact["object"] == (b"two" if changes else b"one")
    assert second.source == ("compiled" if changes else "cached")
    assert len(runner.actions) == (2 if changes else 1)


async def test_requests_of_one_call_share_one_compile(tool: Including) -> None:
    runner = FakeRunner(tool.exit)
    await the_file_clock_moved_on()
    async with session(runner) as compiler:
        results = await compiler.compile_many([request(number % 3, toolchain=tool) for number in range(30)])
    assert len(runner.actions) == 3
    assert all(result.ok for result in results)


async def test_a_failure_is_not_remembered_without_what_it_read(tool: Including) -> None:
    tool.header.unlink()
    runner, store = FakeRunner(tool.exit), MemoryStore()
    async with session(runner, store=store) as compiler:
        assert not (await compiler.compile_result(request(toolchain=tool))).ok
        tool.header.write_text("found")
        assert (await compiler.compile_result(request(toolchain=tool))).ok


async def test_the_last_one_out_of_a_line_cancels_it_all(tool: Including) -> None:
    started = anyio.Event()

    async def answer(action: Action) -> Exit:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    runner = FakeRunner(answer)
    async with session(runner) as compiler:
        async with anyio.create_task_group() as group:
            group.start_soon(compiler.compile_result, request(toolchain=tool))
            await started.wait()
            group.start_soon(compiler.compile_result, request(toolchain=tool))
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert runner.running == 0
    assert len(runner.actions) == 1


async def test_a_compiler_that_does_not_say_what_it_read_is_not_cached(tool: Including) -> None:
    runner = FakeRunner(lambda action: replace(tool.exit(action), depfile=None))
    async with session(runner) as compiler:
        for _ in range(2):
            result = await compiler.compile_result(request(toolchain=tool))
            assert result.uncached == "the compiler did not say what it read"
    assert len(runner.actions) == 2
