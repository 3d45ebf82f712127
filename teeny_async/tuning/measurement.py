"""Measuring: what a user's `measure` is given and gives back, and the devices that are measured on one at a time.

async def measure(artifact, config, context):
    return seconds                                    # or a mapping with "time", or a `Measurement`
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import anyio

from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest
from teeny_async.result import Artifact
from teeny_async.target import Target
from teeny_async.tuning.space import Config

MeasureKind = Literal["wrong", "infeasible", "error"]


class MeasureFailed(Exception):
    """Raised by a measurement that gave no time; the tuning run records it and goes on.

    kind: "wrong" (not what the reference computes), "infeasible" (the device cannot run it), "error".
    """

    def __init__(self, kind: MeasureKind, message: str) -> None:
        super().__init__(message)
        self.kind: MeasureKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """value: the objective's; seconds, for "time": the median. p20, p80: of the single runs.

    checked: the output was compared with a reference and is right; None: there was none. stopped: why fewer runs
    were made than asked for ("hopeless"). device, clocks: what it ran on, and how fast that was set. problem:
    the sizes. contention: what else went on while it was measured, as far as the measurement knows; numbers, of which
    more is worse. numbers: whatever else was measured.
    """

    value: float
    p20: float | None = None
    p80: float | None = None
    runs: int | None = None
    checked: bool | None = None
    stopped: str | None = None
    device: str | None = None
    clocks: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    contention: Mapping[str, float] | None = None
    numbers: Mapping[str, Any] = field(default_factory=FrozenMap)

    @classmethod
    def of(cls, found: Measurement | Mapping[str, Any] | float) -> Measurement:
        """What a measure function returned. Raises MeasureFailed for what is no measurement."""
        if isinstance(found, Measurement):
            return found
        if isinstance(found, Mapping):
            return cls._of_mapping(found)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
            raise MeasureFailed(
                "error", f"measure returned {found!r}: a finite number, or a mapping with one as 'time'"
            )
        return cls(value=float(found))

    @classmethod
    def _of_mapping(cls, found: Mapping[str, Any]) -> Measurement:
        if found.get("error"):
            kind: MeasureKind = found["kind"] if found.get("kind") in ("wrong", "infeasible") else "error"
            raise MeasureFailed(kind, str(found["error"]))
        if found.get("correct") is False:
            raise MeasureFailed("wrong", "the output is not what the reference gives")
        value = found.get("time", found.get("value"))
        known = {name: found[name] for name in cls.__dataclass_fields__ if name in found and name != "value"}
        if "correct" in found:
            known["checked"] = True
        others = {name: found[name] for name in found if name not in (*known, "time", "value", "correct")}
        known["numbers"] = FrozenMap({**known.get("numbers", {}), **others})
        return cls(value=cls.of(value if value is not None else math.nan).value, **known)

    def record(self) -> dict[str, Any]:
        """What a journal keeps, without what is not known."""
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in asdict(self).items()}
        return {name: value for name, value in plain.items() if value not in (None, {}) and name != "value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureContext:
    """request: what was compiled. target: resolved. device: the one to use, which nothing else is measured on.

    fidelity: the share of a full measurement that is wanted, above 0 to 1. best: the best value so far; what is
    clearly worse need not be measured as well. give_up_above: a run that takes longer is hopeless and need not be
    repeated. Both in the objective's unit; None while nothing is known, and when the winners are confirmed.
    confirming: it is one of several measurements of a winner at the end, from which its spread will be reckoned.
    """

    request: CompileRequest
    target: Target
    device: str
    fidelity: float = 1.0
    confirming: bool = False
    best: float | None = None
    give_up_above: float | None = None


Measure = Callable[[Artifact, Config, MeasureContext], Awaitable["Measurement | Mapping[str, Any] | float"]]


class Measurer(Protocol):
    """A way to measure. An async context manager; leaving it ends all that it runs."""

    flags: Sequence[str]
    """Compiler flags that its artifacts need."""

    def refusal(self, target: Target | None) -> str | None:
        """Why it cannot measure for a target; None when it can."""

    def devices(self) -> Sequence[str]:
        """What can be measured on at the same time without disturbing each other; known once it is entered."""

    async def __call__(self, artifact: Artifact, config: Config, context: MeasureContext) -> Any: ...

    async def extras(self, artifact: Artifact, context: MeasureContext) -> Mapping[str, bytes]:
        """More outputs that belong to a winner, such as the library that was timed."""

    async def __aenter__(self) -> Measurer: ...

    async def __aexit__(self, *error: object) -> None: ...


class UserMeasure:
    """A function of the user's as a `Measurer`. devices: names; as many measurements run at a time."""

    flags: Sequence[str] = ()

    def __init__(self, function: Measure, devices: Sequence[str] = ("default",)) -> None:
        self._function = function
        self._devices = devices

    def refusal(self, target: Target | None) -> str | None:
        return None

    def devices(self) -> Sequence[str]:
        return self._devices

    async def __call__(self, artifact: Artifact, config: Config, context: MeasureContext) -> Any:
        return await self._function(artifact, config, context)

    async def extras(self, artifact: Artifact, context: MeasureContext) -> Mapping[str, bytes]:
        return {}

    async def __aenter__(self) -> UserMeasure:
        return self

    async def __aexit__(self, *error: object) -> None: ...


class DevicePool:
    """Devices, each given to one measurement at a time, first come, first served."""

    def __init__(self, names: Sequence[str]) -> None:
        self._free = list(names)
        self._limit = anyio.Semaphore(len(names))

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[str]:
        """Wait for a device."""
        async with self._limit:
            name = self._free.pop(0)
            try:
                yield name
            finally:
                self._free.append(name)
