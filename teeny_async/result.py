"""What came of a request: frozen data, no I/O.

`Exit` is what a runner saw, `Artifact` and `Failure` are the two verdicts, and `CompileResult` is
what a caller gets, with the attempts and what they cost.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from teeny_async import errors
from teeny_async.failures import POLICIES, FailureKind
from teeny_async.frozen import FrozenMap

if TYPE_CHECKING:
    from teeny_async.keys import CacheKey
    from teeny_async.model import CompileRequest

Source = Literal["compiled", "cached", "coalesced"]
Metric = int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a compile cost the machine, over its whole process tree.

    cpu_user, cpu_system: seconds, summed over the tree.
    max_rss: bytes; the largest resident set of any one process of the tree, so what the biggest
        compiler stage needed, not the sum of stages that ran one after another.
    peak: bytes; the most that all its processes held together, as far as looks a few times a second
        saw it; never below max_rss, except that 0 means not known.
    wall: seconds from the start of the first process to the end of the last.
    """

    cpu_user: float = 0.0
    cpu_system: float = 0.0
    max_rss: int = 0
    peak: int = 0
    wall: float = 0.0

    @property
    def cpu(self) -> float:
        """User and system seconds together."""
        return self.cpu_user + self.cpu_system

    def __add__(self, other: Usage) -> Usage:
        """Both, one after the other."""
        if self is NO_USAGE:
            return other
        return Usage(
            cpu_user=self.cpu_user + other.cpu_user,
            cpu_system=self.cpu_system + other.cpu_system,
            max_rss=max(self.max_rss, other.max_rss),
            peak=max(self.peak, other.peak),
            wall=self.wall + other.wall,
        )


Stop = Literal["timeout", "cpu_timeout", "cancelled", "lost"]
"""Why we ended a process ourselves; "lost": the supervisor died and took it along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended, as a runner saw it.

    code: exit status, negative for a signal, as in subprocess; None when it never started.
    stopped: set when the end was our doing.
    stdout, stderr: what was kept of them; `dropped` counts the bytes that were over the cap.
    outputs: label -> bytes, for the files that were there.
    depfile: what the tool said it read, where the action asked for it and it did.
    errno: of the failed spawn or scratch set-up when `code` is None, else of a failed read.
    survivors: processes of the group that outlived their leader and had to be stopped.
    scratch_full: the scratch file system had no free block or inode when the process ended.
    unreaped: a process of it did not go even after SIGKILL, and was left behind.
    """

    code: int | None
    stopped: Stop | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    dropped: int = 0
    outputs: Mapping[str, bytes] = field(default_factory=FrozenMap)
    depfile: bytes | None = None
    errno: int | None = None
    survivors: int = 0
    scratch_full: bool = False
    unreaped: bool = False
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """Standard error and standard output as text, the former first."""
        return (self.stderr + self.stdout).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One message of a compiler. line and column count from 1; None when it gave none."""

    severity: str
    message: str
    code: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        code = f"[{self.code}]" if self.code else ""
        return f"{place}: {self.severity}{code}: {self.message}" if place else f"{self.severity}{code}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of the toolchain. kind is None for the one that worked; delay is the back-off after it."""

    number: int
    kind: FailureKind | None
    exit: int | None
    usage: Usage
    delay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """The output of a compile.

    outputs: label ("ptx", "cubin", "object", "asm", "mlir") -> bytes.
    metrics: numbers the tools gave for free, such as ptxas's registers and spill bytes.
    log: the toolchain's log when one was asked for (`log_level`): the IR of each stage.
    """

    outputs: Mapping[str, bytes] = field(repr=False)
    metrics: Mapping[str, Metric] = field(default_factory=FrozenMap)
    diagnostics: Sequence[Diagnostic] = ()
    log: str | None = field(default=None, repr=False)
    log_level: str | None = None

    def __getitem__(self, label: str) -> bytes:
        return self.outputs[label]

    @property
    def digest(self) -> str:
        """SHA-256 over the labelled outputs, in hexadecimal."""
        state = hashlib.sha256()
        for label in sorted(self.outputs):
            data = self.outputs[label]
            state.update(b"%d:%s%d:" % (len(label), label.encode(), len(data)))
            state.update(data)
        return state.hexdigest()


class Origin(Protocol):
    """What a failure came of; enough to show it and to make it again, without holding any text."""

    @property
    def target(self) -> str:
        """The target's name."""

    def tool(self, name: str) -> str:
        """The version line of a tool that took part, or its name."""

    def bundle(self, failure: Failure, folder: Path) -> None:
        """Write what `Failure.bundle` promises."""


class _Traced:
    """Holds an `Origin` beside a dataclass: where a verdict came from is no part of it, and is not kept."""

    __slots__ = ("_origin",)
    _origin: Origin | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Traced):
    """Why there is no artifact.

    kind: see `teeny_async.failures`.
    message: one line; the first error of the tool where it gave one.
    exit: status of the last attempt, negative for a signal; None when nothing ran.
    command: argv of the tool that failed, relative to its scratch folder.
    log: the tail of what it printed.
    """

    kind: FailureKind
    message: str
    exit: int | None = None
    diagnostics: Sequence[Diagnostic] = ()
    attempts: Sequence[Attempt] = ()
    tool: str = ""
    command: Sequence[str] = ()
    log: str = field(default="", repr=False)

    @property
    def hint(self) -> str:
        """What to do about it, in a sentence."""
        return POLICIES[self.kind].hint

    @property
    def origin(self) -> Origin | None:
        """What it came of; None for one that no compile led to."""
        return getattr(self, "_origin", None)

    def of(self, origin: Origin) -> Failure:
        """The same failure, with what it came of."""
        traced = replace(self)
        object.__setattr__(traced, "_origin", origin)
        return traced

    def bundle(self, folder: str | os.PathLike[str]) -> Path:
        """Write all that it takes to see this failure again into a folder, which is made; the folder.

            reproduce.sh     runs what failed, with the same status (a signal N as 128 + N), without teeny_async
            files/           the sources, as the tool read them
            failure.json     the verdict, the request, and of each tool: argv, environment, version, fingerprint
            log.txt          what the tool printed, its end at least

        It writes files and so may block; from async code, call it in a thread. Raises ValueError when no
        compile led to this failure, OSError when the folder cannot be written.
        """
        if self.origin is None:
            raise ValueError(f"no compile led to this failure, so there is nothing to run again: {self.message}")
        path = Path(folder)
        self.origin.bundle(self, path)
        return path

    def __str__(self) -> str:
        """The first error; then the tool and the target, and the command, where they are known."""
        lines = [f"{self.kind.value}: {self._first_error()}"]
        origin = self.origin
        tool = origin.tool(self.tool) if origin else self.tool
        if tool:
            lines.append(f"  tool: {tool}" + (f", for {origin.target}" if origin else ""))
        if self.command:
            lines.append(f"  command: {shlex.join(self.command)}")
        return "\n".join(lines)

    def _first_error(self) -> str:
        error = next((one for one in self.diagnostics if "error" in one.severity), None)
        return str(error) if error is not None and error.message in self.message else self.message

    def error(self, request: CompileRequest, key: CacheKey | None) -> errors.FailedCompile:
        """A new exception for this failure; its class says who is to blame."""
        target = f" for {request.target}" if request.target else ""
        first, *more = str(self).splitlines()
        others = [f"  {text}" for one in self.diagnostics[:3] if (text := str(one)) not in first]
        lines = [f"{request.kernel.name}{target}: {first}", *others, *more, f"  {self.hint}"]
        return _ERRORS[self.kind]("\n".join(lines), failure=self, request=request, key=key)


_ERRORS: dict[FailureKind, type[errors.FailedCompile]] = {
    FailureKind.DIAGNOSTIC: errors.CompileError,
    FailureKind.INFEASIBLE: errors.CompileError,
    FailureKind.CRASH: errors.ToolchainCrashError,
    FailureKind.OUT_OF_MEMORY: errors.ResourceError,
    FailureKind.TIMEOUT: errors.CompileTimeoutError,
    FailureKind.DISK_FULL: errors.ResourceError,
    FailureKind.SPAWN: errors.ResourceError,
    FailureKind.INFRA: errors.ToolchainError,
    FailureKind.BAD_OUTPUT: errors.ToolchainError,
    FailureKind.TOOL_MISSING: errors.ToolchainNotFoundError,
    FailureKind.CANCELLED: errors.ToolchainError,
    FailureKind.NOT_CACHED: errors.NotCachedError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Seconds a request spent: waiting for a slot, running (all attempts), and in all."""

    waited: float = 0.0
    ran: float = 0.0
    total: float = 0.0


NO_TIME = Timings()
NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """One request and its verdict.

    key: None when nothing was keyed (the toolchain is missing).
    source: "compiled" here, "cached" from the store, "coalesced" with an equal request.
    uncached: why the result could not be kept in the cache; None when it could.
    """

    request: CompileRequest
    key: CacheKey | None
    outcome: Artifact | Failure = field(repr=False)
    source: Source
    attempts: Sequence[Attempt] = ()
    timings: Timings = NO_TIME
    usage: Usage = NO_USAGE
    uncached: str | None = None

    @property
    def ok(self) -> bool:
        return isinstance(self.outcome, Artifact)

    @property
    def artifact(self) -> Artifact:
        """The artifact; raises the failure as an exception when there is none."""
        if isinstance(self.outcome, Failure):
            raise self.outcome.error(self.request, self.key)
        return self.outcome

    @property
    def outputs(self) -> Mapping[str, bytes]:
        """The artifact's outputs; raises as `artifact` does."""
        return self.artifact.outputs

    @property
    def failure(self) -> Failure | None:
        return self.outcome if isinstance(self.outcome, Failure) else None
