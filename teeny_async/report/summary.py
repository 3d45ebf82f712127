"""`Summary`: what came of a run, gathered result by result in bounded memory.

A sweep may have a million results. Kept of them are counts for each target, the rows of a table that is
short enough to be read, and the failures by what the compiler said; never an artifact.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from teeny_async.failures import POLICIES, FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.model import ParamValue
from teeny_async.report.text import failure_text, request_text, target_text, without_numbers
from teeny_async.result import CompileResult, Failure, Metric

State = Literal["compiled", "cached", "coalesced", "failed"]
STATES: tuple[State, ...] = ("compiled", "cached", "coalesced", "failed")
MAX_ROWS = 200
"""More rows than this are not read: the table then shows totals, and the rows that failed."""
_MAX_GROUPS = 100
_MAIN_OUTPUTS = ("cubin", "hsaco", "shared", "fatbin", "object", "ptx", "asm")
"""The output whose size a row shows: the last one made, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One result. number: its place among the requests. size: bytes of the main output; None without one.
    seconds: how long the compiler ran; None where it did not. detail: the first diagnostic of a failure.
    """

    number: int
    kernel: str
    target: str
    params: Mapping[str, ParamValue]
    state: State
    size: int | None = None
    metrics: Mapping[str, Metric] = field(default_factory=FrozenMap)
    seconds: float | None = None
    detail: str = ""


@dataclass(slots=True)
class Range:
    """The least and the most of some numbers, and their sum."""

    least: float = float("inf")
    most: float = float("-inf")
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.least = min(self.least, value)
        self.most = max(self.most, value)
        self.total += value
        self.count += 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class TargetTotals:
    """The results of one target."""

    states: Counter[State] = field(default_factory=Counter)
    size: Range = field(default_factory=Range)
    registers: Range = field(default_factory=Range)
    seconds: Range = field(default_factory=Range)

    def add(self, row: Row) -> None:
        self.states[row.state] += 1
        if row.size is not None:
            self.size.add(row.size)
        if row.seconds is not None:
            self.seconds.add(row.seconds)
        registers = row.metrics.get("registers")
        if isinstance(registers, int):
            self.registers.add(registers)


@dataclass(slots=True)
class FailureGroup:
    """Failures that say the same, but for numbers. first: the request that came first of them; failure: how it ended; path:
    its kernel's file, None where that is not known.
    """

    number: int
    first: str
    failure: Failure
    path: str | None
    count: int = 0


class Summary:
    """all_rows: keep a row for every result, not only for the first MAX_ROWS failures.

    paths: id of a kernel object -> its file, for kernels whose lines are the file's lines.
    """

    def __init__(self, *, all_rows: bool, paths: Mapping[int, str] | None = None) -> None:
        self.all_rows = all_rows
        self._paths = paths or {}
        self.states: Counter[State] = Counter()
        self.targets: dict[str, TargetTotals] = {}
        self.uncached: dict[str, str] = {}
        """Kernel name -> why its results are not kept in the cache."""
        self.kinds: set[FailureKind] = set()
        self.ungrouped = 0
        """Failures that say something else again, after the first hundred different ones."""
        self._rows: list[Row] = []
        self._groups: dict[tuple[FailureKind, str], FailureGroup] = {}

    def add(self, number: int, result: CompileResult) -> None:
        path = self._paths.get(id(result.request.kernel))
        row = row_of(number, result, None if path is None else os.path.basename(path))
        self.states[row.state] += 1
        self.targets.setdefault(row.target, TargetTotals()).add(row)
        if self.all_rows or (row.state == "failed" and self.states["failed"] <= MAX_ROWS):
            self._rows.append(row)
        if result.failure is not None:
            self._add_failure(row, result, path)
        if result.uncached is not None:
            self.uncached.setdefault(row.kernel, result.uncached)

    def _add_failure(self, row: Row, result: CompileResult, path: str | None) -> None:
        failure = result.failure
        assert failure is not None
        self.kinds.add(failure.kind)
        name = (failure.kind, without_numbers(row.detail))
        group = self._groups.get(name)
        if group is None and len(self._groups) >= _MAX_GROUPS:
            self.ungrouped += 1
            return
        if group is None or row.number < group.number:
            before = 0 if group is None else group.count
            group = FailureGroup(row.number, request_text(result.request), failure, path, before)
            self._groups[name] = group
        group.count += 1

    @property
    def done(self) -> int:
        return self.states.total()

    @property
    def rows(self) -> list[Row]:
        """The rows that were kept, in the order of the requests."""
        return sorted(self._rows, key=lambda row: row.number)

    @property
    def failures(self) -> list[FailureGroup]:
        """What went wrong, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: (-group.count, group.number))

    @property
    def exit_code(self) -> int:
        """The exit code that the results call for: the gravest of the failures'."""
        return max((POLICIES[kind].exit_code for kind in self.kinds), default=0)


def row_of(number: int, result: CompileResult, path: str | None = None) -> Row:
    """A result as a row of a table. path: what to call the kernel's file in its first error."""
    failure = result.failure
    state: State = result.source if failure is None else "failed"
    return Row(
        number=number,
        kernel=result.request.kernel.name,
        target=target_text(result.request),
        params=result.request.params,
        state=state,
        size=None if failure is not None else main_size(result.outputs),
        metrics=FrozenMap() if failure is not None else result.artifact.metrics,
        seconds=result.timings.ran if result.source == "compiled" and result.attempts else None,
        detail="" if failure is None else failure_text(failure, path),
    )


def main_size(outputs: Mapping[str, bytes]) -> int | None:
    """Bytes of the output that counts; of the first one where none is known."""
    for label in (*_MAIN_OUTPUTS, *outputs):
        if label in outputs:
            return len(outputs[label])
    return None
