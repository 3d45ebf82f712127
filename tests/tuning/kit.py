"""Tuning without compilers: a fake toolchain, and a kernel whose params are its speed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teeny_async import Kernel, RetryPolicy, Sweep
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Exit
from teeny_async.settings import Settings
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.tuning import MeasureContext
from teeny_async.tuning.space import Config

KERNEL = Kernel(name="k", source="int f() { return X * Y; }", language="c")


TOOL = FakeToolchain()


def sweep(targets: Any = "znver4", **options: Any) -> Sweep:
    params = options.pop("params", {"X": range(8), "Y": range(6)})
    return Sweep(KERNEL, targets, params, options.pop("constraints", ()), toolchain=TOOL, **options)


def answer(action: Action) -> Exit:
    """X = 5 does not compile; the size of the output grows with Y."""
    if "-DX=5" in action.argv:
        return Exit(code=1, stderr=b"X is 5")
    [size] = [arg.removeprefix("-DY=") for arg in action.argv if arg.startswith("-DY=")] or ["0"]
    return Exit(code=0, outputs=FrozenMap({"object": b"x" * (10 + int(size))}))


def seconds(config: Mapping[str, Any]) -> float:
    """Best at X=3 Y=4."""
    return 1e-3 * (1 + abs(int(config["X"]) - 3) + abs(int(config["Y"]) - 4))


class Meter:
    """A measurement that is told by the configuration; `calls` are those it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Config, float]] = []

    async def __call__(self, artifact: Artifact, config: Config, context: MeasureContext) -> float:
        self.calls.append((config, context.fidelity))
        return seconds(config)


def options(runner: FakeRunner | None = None) -> dict[str, Any]:
    """Of a session on fakes."""
    settings = Settings(environ={}, cache_dir=Path("/nonexistent"), scratch_dir="/nonexistent")
    return {
        "runner": runner or FakeRunner(answer),
        "store": MemoryStore(),
        "jobs": 2,
        "retry": RetryPolicy(initial=0.0, jitter=0.0),
        "settings": settings,
    }
