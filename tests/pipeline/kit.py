"""Sessions on fakes: no process, no file, and exits that a test decides."""

from __future__ import annotations

from typing import Any

import anyio

from teeny_async import Compiler, CompileRequest, Kernel, RetryPolicy, Target
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain

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
