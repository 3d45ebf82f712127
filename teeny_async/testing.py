"""Fakes for every door to the outside, for tests of code that uses teeny_async.

    runner = FakeRunner()
    async with Compiler(runner=runner, store=MemoryStore()) as compiler:
        result = await compiler.compile_result(CompileRequest(kernel, toolchain=FakeToolchain()))
    assert len(runner.actions) == 1

No process starts and no file is touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import anyio.lowlevel

from teeny_async.action import Action, Input
from teeny_async.execution.runner import RunLimits
from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import render
from teeny_async.store.memory import MemoryStore
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver, Host, Toolchain

__all__ = ["FakeHost", "FakeRunner", "FakeToolchain", "MemoryStore", "fake_exit"]

Answer = Callable[[Action], Exit | Awaitable[Exit]]


def fake_exit(action: Action) -> Exit:
    """Success: every output of the action is there, and holds its inputs' text."""
    data = b"".join(item.data() for item in action.inputs) or b"\0"
    return Exit(code=0, outputs=FrozenMap(dict.fromkeys(action.outputs, data)))


class FakeRunner:
    """Answers actions without running anything. actions: all that were run, in order.

    answer: makes the Exit of an action, or an awaitable of it; it may raise nothing. By default all succeed.
    """

    def __init__(self, answer: Answer = fake_exit) -> None:
        self.actions: list[Action] = []
        self.running = 0
        self.most_running = 0
        self._answer = answer

    async def run(self, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Exit:
        self.actions.append(action)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await anyio.lowlevel.checkpoint()
            answer = self._answer(action)
            return answer if isinstance(answer, Exit) else await answer
        finally:
            self.running -= 1

    async def __aenter__(self) -> FakeRunner:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class FakeHost:
    """A machine with nothing on it but the programs named. programs: name -> path; answers: argv -> Exit."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        programs: Mapping[str, str] | None = None,
        answers: Mapping[tuple[str, ...], Exit] | None = None,
    ) -> None:
        self.environ = environ or {}
        self._programs = programs or {}
        self._answers = answers or {}
        self.runs: list[tuple[str, ...]] = []

    def which(self, name: str) -> str | None:
        return self._programs.get(name)

    def package_file(self, package: str, *names: str) -> str | None:
        return self._programs.get(package)

    async def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, remember: bool = True) -> Exit:
        self.runs.append(tuple(argv))
        return self._answers.get(tuple(argv), Exit(code=None, errno=2))

    async def fingerprint(self, name: str, version: str, files: Mapping[str, Path]) -> str:
        return f"{name} {version} {sorted(files)}".encode().hex()


class FakeToolchain(Driver):
    """A toolchain that takes every kernel and needs no tool; pair it with a `FakeRunner`.

    fingerprint: stands for the contents of the compiler; another one gives other keys.
    """

    name = "fake"
    languages = frozenset({"c", "cuda", "hip", "rust", "zig", "triton", "ttir"})
    emits = ("object",)

    def __init__(self, fingerprint: str = "fake") -> None:
        self._fingerprint = fingerprint

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name=self.name, path="/fake", version="fake 1", fingerprint=self._fingerprint)

    def default_target(self, kernel: Kernel) -> Target:
        return Target()

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        rendered = render(request)
        defines = tuple(f"-D{name}={value}" for name, value in rendered.defines)
        return Action(
            argv=("fake", str(target), f"-O{request.opt_level}", *defines, *request.flags),
            executable=toolchain.path,
            inputs=(Input("kernel", (request.kernel.prelude or "", rendered.text)),),
            outputs=FrozenMap({"object": "kernel.o"}),
            required=("object",),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        if exit.code == 0:
            return Artifact(outputs=exit.outputs)
        kind = FailureKind.DIAGNOSTIC if exit.code and exit.code > 0 else FailureKind.CRASH
        return Failure(kind=kind, message=exit.text or "no message", exit=exit.code, tool=self.name)
