"""Sessions on fakes: no process, no file, and exits that a test decides; and `sh` as a real compiler."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import anyio

from teeny_async import Compiler, CompileRequest, Kernel, RetryPolicy, Target
from teeny_async.action import Action, Input
from teeny_async.execution.runner import RunLimits
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain, fake_exit
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain
from teeny_async.toolchains.verdict import judge

TOOL = FakeToolchain()
OK = Exit(code=0, outputs=FrozenMap({"object": b"code"}))
REFUSED = Exit(code=1, stderr=b"no")
CRASHED = Exit(code=-11)
FAST = RetryPolicy(initial=0.0, jitter=0.0)


def request(number: int = 0, **options: Any) -> CompileRequest:
    """A request of its own for each number."""
    kernel = options.pop("kernel", Kernel(name=f"k{number}", source=f"int f() {{ return {number}; }}", language="c"))
    return CompileRequest(kernel, Target(), toolchain=options.pop("toolchain", TOOL), **options)


def session(runner: FakeRunner, **options: Any) -> Compiler:
    """A session on fakes; however few CPUs there are, its jobs may be more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Compiler(**{"runner": runner, "store": MemoryStore(), "jobs": 2, "retry": FAST, **options})


class Gate:
    """An answer that waits until it is opened, and says when somebody is there."""

    def __init__(self, exit: Exit = OK) -> None:
        self.entered = anyio.Event()
        self.opened = anyio.Event()
        self.cancelled = 0
        self._exit = exit

    async def __call__(self, action: Action) -> Exit:
        self.entered.set()
        try:
            await self.opened.wait()
        except BaseException:
            self.cancelled += 1
            raise
        return self._exit


class Recording(FakeRunner):
    """A FakeRunner that notes the limits of each run."""

    def __init__(self, answer: Any = fake_exit) -> None:
        super().__init__(answer)
        self.limits: list[RunLimits] = []

    async def run(self, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Exit:
        self.limits.append(limits)
        return await super().run(action, chained, limits)


class Shell(Driver):
    """A toolchain whose compiler is `sh` and whose kernels are scripts; each has to write `out`."""

    name = "shell"
    languages = frozenset({"c"})

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name=self.name, path="/bin/sh", version="shell 1", fingerprint="shell")

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("sh", "-eu", "kernel.sh"),
            executable=toolchain.path,
            env=FrozenMap({"LEVEL": str(request.opt_level)}),
            neutral=FrozenMap({"PATH": "/usr/bin:/bin", "LC_ALL": "C"}),
            inputs=(Input("kernel.sh", (request.kernel.source,)),),
            outputs=FrozenMap({"object": "out"}),
            required=("object",),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text)


SHELL = Shell()


def script(text: str, name: str = "k", **options: Any) -> CompileRequest:
    """A request whose compiler runs this."""
    return request(kernel=Kernel(name=name, source=text, language="c"), toolchain=SHELL, **options)
