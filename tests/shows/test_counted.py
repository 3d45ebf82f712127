"""1,000 requests of which 900 are duplicates run exactly 100 compiles, counted by the compiler itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeny_async import Compiler, CompileRequest, Kernel
from teeny_async.action import Action, Input
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest as Request
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain
from teeny_async.toolchains.verdict import judge

pytestmark = pytest.mark.anyio

# Each run appends a line in one write: what the compiler itself says of how often it ran.
COMPILER = '#!/bin/sh\necho "$$" >> {counter}\ncat "$1" > "$2"\n'


class Counting(Driver):
    """A shell script as compiler, real in all but what it does."""

    name = "counting"
    languages = frozenset({"c"})

    def __init__(self, folder: Path) -> None:
        self.counter = folder / "counter"
        self.script = folder / "compiler"
        self.script.write_text(COMPILER.format(counter=self.counter))
        self.script.chmod(0o755)

    def runs(self) -> int:
        return len(self.counter.read_text().splitlines())

    async def find(self, host: Host) -> Toolchain:
        fingerprint = await host.fingerprint(self.name, "1", {"compiler": self.script})
        return Toolchain(name=self.name, path=str(self.script), version="1", fingerprint=fingerprint)

    def default_target(self, kernel: Kernel) -> Target:
        return Target()

    def plan(self, request: Request, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("compiler", "kernel.c", "kernel.o"),
            executable=toolchain.path,
            neutral=FrozenMap({"PATH": "/usr/bin:/bin"}),
            inputs=(Input("kernel.c", (request.kernel.source,)),),
            outputs=FrozenMap({"object": "kernel.o"}),
            required=("object",),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text)


@pytest.mark.parametrize("streamed", [False, True])
async def test_900_duplicates_of_100_kernels_run_100_compiles(tmp_path: Path, streamed: bool) -> None:
    tool = Counting(tmp_path)
    requests = [
        CompileRequest(Kernel(name=f"k{n % 100}", source=f"int k{n % 100};\n", language="c"), toolchain=tool)
        for n in range(1000)
    ]
    async with Compiler(store=tmp_path / "cache") as compiler:
        if streamed:
            async with compiler.as_completed(requests) as stream:
                results = [result async for result in stream]
        else:
            results = await compiler.compile_many(requests)
    assert tool.runs() == 100
    assert len(results) == 1000
    for result in results:
        assert result.artifact["object"] == result.request.kernel.source.encode()
    assert sum(result.source == "compiled" for result in results) == 100
