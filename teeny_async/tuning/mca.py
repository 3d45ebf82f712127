"""llvm-mca: an estimate of the cycles that a CPU needs for a kernel's hottest loop.

llvm-mca takes a loop body for an endless straight line, without caches and without branch misses. Its cycles
count for one trip of the loop, and configs differ in how much a trip does (unrolling, vectors); so they are
divided by the floating point operations of the body, read off its mnemonics. A loop without any cannot be
ranked. The tool must know the CPU: LLVM 14 knows no znver4, whatever the compiler made for it. Beyond some 3%
its order means nothing (its own models are not better), which is why that is the tolerance of the objective.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.execution.runner import RunLimits, Runner
from teeny_async.model import CompileRequest
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains.base import BASE_ENV, Driver, Host, Toolchain, ToolNotFound
from teeny_async.tuning.objectives import OBJECTIVES

ITERATIONS = 100
_NAMES = ("llvm-mca", *(f"llvm-mca-{version}" for version in range(30, 12, -1)))
_LIMITS = RunLimits(wall=60.0)
_LABEL = re.compile(r"^([.\w$]+):")
_X86_JUMP = re.compile(r"^\s*j[a-z]+\s+([.\w$]+)\s*$")
_ARM_JUMP = re.compile(r"^\s*(?:b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+([.\w$]+)\s*$")
_X86_FLOAT = re.compile(r"^\s*v?(fn?m(?:add|sub)\d*|(?:add|sub|mul|div|sqrt|min|max))([ps])([sdh])\b(.*)")
_ARM_FLOAT = re.compile(r"^\s*(fmla|fmls|fn?madd|fn?msub|fadd|fsub|fmul|fdiv|fmax|fmin|fsqrt)\s+([vzsdh][\w.]*)")
_BYTES = {"s": 4, "d": 8, "h": 2}
_FUSED = re.compile(r"fn?m(?:add|sub)|fml[as]")
_CYCLES = re.compile(r"^Total Cycles:\s+(\d+)", re.MULTILINE)
_TRIPS = re.compile(r"^Iterations:\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop: its instructions, and the floating point operations of one trip."""

    lines: Sequence[str]
    flops: int


def loops(assembly: str) -> Iterator[Loop]:
    """The innermost loops: from a label to a jump back to it, with no other such pair inside."""
    lines = [line.partition("#")[0].rstrip() if "#" in line and "%" in line else line for line in assembly.split("\n")]
    labels: dict[str, int] = {}
    last_end = -1
    for number, line in enumerate(lines):
        if match := _LABEL.match(line):
            labels[match[1]] = number
        elif (match := _jump(line)) and (start := labels.get(match[1], -1)) > last_end:
            body = [text for text in lines[start + 1 : number + 1] if _is_instruction(text)]
            last_end = number
            yield Loop(body, sum(flops(text) for text in body))


def flops(line: str) -> int:
    """Floating point operations of one instruction; a fused multiply-add is two for each lane."""
    if match := _X86_FLOAT.match(line):
        widest = 64 if "%zmm" in match[4] else 32 if "%ymm" in match[4] else 16
        lanes = widest // _BYTES[match[3]] if match[2] == "p" else 1
    elif match := _ARM_FLOAT.match(line):
        lanes = _arm_lanes(match[2])
    else:
        return 0
    return lanes * (2 if _FUSED.match(match[1]) else 1)


def _arm_lanes(register: str) -> int:
    """`v0.4s` has 4 lanes; `z0.s`, of unknown length, is taken for 128 bits; `s0` is one number."""
    if match := re.search(r"\.(\d+)[sdh]", register):
        return int(match[1])
    if match := re.search(r"^z\d+\.([sdh])", register):
        return 16 // _BYTES[match[1]]
    return 1


def hottest(assembly: str) -> Loop | None:
    """The innermost loop that does the most arithmetic in a trip; None when none does any."""
    found = [loop for loop in loops(assembly) if loop.flops]
    return max(found, key=lambda loop: loop.flops, default=None)


def read_cycles(text: str) -> float | None:
    """Cycles of one trip, from the summary that llvm-mca prints."""
    cycles, trips = _CYCLES.search(text), _TRIPS.search(text)
    return int(cycles[1]) / int(trips[1]) if cycles and trips and int(trips[1]) else None


class McaFinder(Driver):
    """Finds the newest llvm-mca there is; it compiles nothing."""

    name = "llvm-mca"
    languages = frozenset()

    async def find(self, host: Host) -> Toolchain:
        found: list[tuple[int, str, str]] = []
        for path in dict.fromkeys(path for name in _NAMES if (path := host.which(name))):
            probe = await host.run([path, "--version"])
            if match := re.search(r"LLVM version (\d+)(\S*)", probe.text):
                found.append((int(match[1]), path, f"llvm-mca {match[1]}{match[2]}"))
        if not found:
            raise ToolNotFound("llvm-mca: not installed; run: apt-get install llvm")
        _, path, version = max(found)
        fingerprint = await host.fingerprint(self.name, version, {"llvm-mca": Path(path)})
        return Toolchain(name=self.name, path=path, version=version, fingerprint=fingerprint)

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        raise RequestError("llvm-mca compiles nothing")

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        raise NotImplementedError


class Mca:
    """One llvm-mca that was found. version, caution (what its numbers are worth): for people."""

    def __init__(self, tool: Toolchain, runner: Runner) -> None:
        self._path = tool.path
        self._runner = runner
        self._known: dict[str, frozenset[str]] = {}
        self.version = tool.version
        self.caution = (
            f"mca: {tool.version} reckons a loop without caches and branch misses; it cannot rank configurations "
            f"within {OBJECTIVES['mca'].tolerance:.0%} of each other, which count as ties"
        )

    async def refusal(self, target: Target) -> str | None:
        """Why it cannot say anything about a target; None when it can."""
        if target.cpu is None:
            return f"{self.version} needs a CPU by name, not the compiler's default"
        if target.arch not in self._known:
            exit = await self._run(["-mtriple=" + target.arch, "-mcpu=help"], "")
            self._known[target.arch] = frozenset(re.findall(r"^\s+(\S+)\s+- Select the", exit, re.MULTILINE))
        if target.cpu not in self._known[target.arch]:
            return f"{self.version} does not know {target.cpu}; a newer LLVM may"
        return None

    async def cycles(self, assembly: str, target: Target) -> float | None:
        """Cycles for each floating point operation of the hottest loop; None when it cannot be said."""
        loop = hottest(assembly)
        if loop is None or target.cpu is None:
            return None
        argv = [f"-mtriple={target.arch}", f"-mcpu={target.cpu}", f"-iterations={ITERATIONS}"]
        argv += ["-instruction-info=0", "-resource-pressure=0", "loop.s"]
        found = read_cycles(await self._run(argv, "\n".join(loop.lines) + "\n"))
        return None if found is None else found / loop.flops

    async def _run(self, argv: Sequence[str], text: str) -> str:
        action = Action(
            argv=("llvm-mca", *argv), executable=self._path, neutral=BASE_ENV, inputs=(Input("loop.s", (text,)),)
        )
        return (await self._runner.run(action, {}, _LIMITS)).text


def _jump(line: str) -> re.Match[str] | None:
    return _X86_JUMP.match(line) or _ARM_JUMP.match(line)


def _is_instruction(line: str) -> bool:
    return line[:1] in (" ", "\t") and bool(line.strip()) and line.strip()[0] not in ".#/@"
