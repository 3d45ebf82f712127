"""Numbers that `ptxas -v` prints for free: registers, spills, memory, barriers.

One function's lines, as ptxas 13.0 prints them (older ones leave parts out):

    ptxas info    : 0 bytes gmem, 256 bytes cmem[3]
    ptxas info    : Compiling entry function 'k2' for 'sm_75'
    ptxas info    : Function properties for k2
        400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
    ptxas info    : Used 22 registers, used 1 barriers, 400 bytes cumulative stack size, 512 bytes smem, ...

Functions that are called and not inlined have properties, but use their caller's registers; the
first line is of the whole module. From sm_90 on no constant bank is printed. Compile time is left
out: it differs from run to run, and metrics are kept with the artifact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from teeny_async.frozen import FrozenMap

_ENTRY = re.compile(r"Compiling entry function '([^']*)' for '([^']*)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_MODULE = re.compile(r"ptxas info\s*: \d+ bytes gmem")
_COUNTS: Mapping[str, re.Pattern[str]] = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "stack": re.compile(r"(\d+) bytes (?:stack frame|cumulative stack size)"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "shared": re.compile(r"(\d+) bytes smem"),
}
_CONSTANT = re.compile(r"(\d+) bytes cmem\[(\d+)\]")
_SUMMED = ("spill_stores", "spill_loads")


@dataclass(slots=True)
class FunctionInfo:
    """One function: its counts by metric name, bytes by constant bank; arch is None for one that is no entry."""

    name: str
    arch: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    banks: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class ModuleInfo:
    """What a text says: the functions in order, and the constant banks of the module."""

    functions: list[FunctionInfo] = field(default_factory=list)
    banks: dict[int, int] = field(default_factory=dict)

    @property
    def entries(self) -> list[FunctionInfo]:
        return [function for function in self.functions if function.arch is not None]


def read(text: str) -> ModuleInfo:
    """Read the text of `ptxas -v`; lines of other tools around it do no harm."""
    module = ModuleInfo()
    function: FunctionInfo | None = None
    for line in text.split("\n"):
        if match := _ENTRY.search(line):
            function = FunctionInfo(match[1], match[2])
            module.functions.append(function)
        elif match := _FUNCTION.search(line):
            if function is None or function.name != match[1]:
                function = FunctionInfo(match[1])
                module.functions.append(function)
        elif _MODULE.match(line):
            _read_banks(line, module.banks)
        elif function and (line.startswith("    ") or "Used " in line):
            _read_counts(line, function)
    return module


def metrics(text: str, entry_point: str | None = None) -> FrozenMap[int]:
    """The numbers of one kernel, or of a module; empty when the text has none.

    With `entry_point`, when the text has it: that kernel's own numbers. Otherwise over the module:

    registers, barriers: the largest of any kernel (it bounds occupancy).
    stack, shared: bytes, the largest of any function. shared is the static part, 0 when not printed.
    spill_stores, spill_loads: bytes of spill code, summed over all functions.
    constant: bytes of the constant banks, the module's and the largest of any kernel; absent from
        sm_90 on, where ptxas does not print it.
    """
    module = read(text)
    chosen = [entry for entry in module.entries if entry.name == entry_point] or module.functions
    if not chosen:
        return FrozenMap()
    values = {name: _combined(name, chosen) for name in _COUNTS}
    if module.banks or any(function.banks for function in chosen):
        own = max(sum(function.banks.values()) for function in chosen)
        values["constant"] = sum(module.banks.values()) + own
    return FrozenMap(values)


def _combined(name: str, functions: Sequence[FunctionInfo]) -> int:
    counts = [function.counts.get(name, 0) for function in functions]
    return sum(counts) if name in _SUMMED else max(counts)


def _read_counts(line: str, function: FunctionInfo) -> None:
    for name, pattern in _COUNTS.items():
        for match in pattern.finditer(line):
            function.counts[name] = max(function.counts.get(name, 0), int(match[1]))
    _read_banks(line, function.banks)


def _read_banks(line: str, banks: dict[int, int]) -> None:
    for match in _CONSTANT.finditer(line):
        banks[int(match[2])] = int(match[1])
