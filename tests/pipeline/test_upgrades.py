"""A compiler that is replaced while a session is open: no result is kept under the other one's key."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeny_async import Compiler, CompileRequest, Kernel
from teeny_async.failures import FailureKind
from teeny_async.result import Exit
from teeny_async.testing import FakeRunner, FakeToolchain, MemoryStore, fake_exit
from teeny_async.toolchains.base import Toolchain, ToolNotFound

pytestmark = pytest.mark.anyio


class Installed(FakeToolchain):
    """A compiler that is a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    async def find(self, host: Any) -> Toolchain:
        try:
            fingerprint = hashlib.sha256(self._path.read_bytes()).hexdigest()
        except OSError:
            raise ToolNotFound("it is gone") from None
        return replace(await super().find(host), path=str(self._path), fingerprint=fingerprint)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "compiler"
    path.write_bytes(b"version 1")
    return path


def upgrade(binary: Path, content: bytes = b"version 2, which is longer") -> None:
    new = binary.with_name("new")
    new.write_bytes(content)
    new.replace(binary)


def request(binary: Path, tool: Installed, number: int = 0) -> CompileRequest:
    return CompileRequest(Kernel(name="k", source=f"int k{number};", language="c"), toolchain=tool)


async def test_the_next_call_of_the_session_misses(binary: Path) -> None:
    tool = Installed(binary)
    async with Compiler(runner=FakeRunner(), store=MemoryStore()) as compiler:
        first = await compiler.compile_result(request(binary, tool))
        assert (await compiler.compile_result(request(binary, tool))).source == "cached"
        upgrade(binary)
        second = await compiler.compile_result(request(binary, tool))
        assert (second.source, second.uncached) == ("compiled", None)
        assert second.key != first.key
        upgrade(binary, b"version 1")
        back = await compiler.compile_result(request(binary, tool))
        assert (back.source, back.key) == ("cached", first.key)


async def test_what_was_compiled_while_it_was_replaced_is_not_kept(binary: Path) -> None:
    tool = Installed(binary)
    waiting = [upgrade]

    def answer(action: Any) -> Exit:
        if waiting:
            waiting.pop()(binary)
        return fake_exit(action)

    store = MemoryStore()
    async with Compiler(runner=FakeRunner(answer), store=store, jobs=1) as compiler:
        results = await compiler.compile_many([request(binary, tool, number) for number in range(3)])
        assert [result.ok for result in results] == [True] * 3
        assert all("replaced" in (result.uncached or "") for result in results)
        again = await compiler.compile_many([request(binary, tool, number) for number in range(3)])
        assert {(result.source, result.uncached) for result in again} == {("compiled", None)}
        upgrade(binary, b"version 1")
        old = await compiler.compile_result(request(binary, tool))
        assert old.source == "compiled"


async def test_a_compiler_that_is_gone_is_missing(binary: Path) -> None:
    tool = Installed(binary)
    async with Compiler(runner=FakeRunner(), store=MemoryStore()) as compiler:
        await compiler.compile_result(request(binary, tool))
        binary.unlink()
        result = await compiler.compile_result(request(binary, tool))
        assert result.failure is not None
        assert result.failure.kind is FailureKind.TOOL_MISSING
