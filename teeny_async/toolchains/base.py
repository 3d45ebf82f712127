"""What a toolchain is: a `Driver` plans and judges, a `Host` finds and runs.

A driver is pure: it says where its tool may be, turns a request into actions, and reads a verdict
from how a process ended. It runs nothing by itself; what it needs to know of the machine it asks a
`Host` for, which remembers the answers and can be faked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains import gpus

Rest = TypeVar("Rest", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler that was found and identified.

    path: the real executable (no shim, no link). It never enters a key.
    version: one line for people.
    fingerprint: hexadecimal digest of the version text and of the contents of the files that make
        up the compiler; it stands for the compiler in every key.
    search_path: folders that its helper programs are found in (the neutral PATH of its actions).
    settings: what the user's environment asked of this tool, checked; `plan` decides what it means.
    """

    name: str
    path: str
    version: str
    fingerprint: str
    search_path: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=FrozenMap)


class ToolNotFound(Exception):
    """Raised by `Driver.find`; its text says what was looked for and how to install it."""


class Host(Protocol):
    """The machine, as a driver sees it while it looks for its tool."""

    environ: Mapping[str, str]

    def which(self, name: str) -> str | None:
        """The absolute path of a program on PATH, links and `exec`-only shell wrappers followed."""

    def package_file(self, package: str, *names: str) -> str | None:
        """The path of a file inside an installed Python package, without importing it."""

    async def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, remember: bool = True) -> Exit:
        """Run a probe: argv[0] is a path; bounded in time, killed by group.

        env: added to a bare environment. remember: the answer depends on argv, env and the program's file
        alone, and may be taken from an earlier run.
        """

    async def fingerprint(self, name: str, version: str, files: Mapping[str, Path]) -> str:
        """Digest of a version text and of the contents of `files` (label -> path), wherever they lie.

        Raises ToolNotFound when one cannot be read.
        """


class Draft(NamedTuple, Generic[Rest]):
    """The part of a plan that hangs on the kernel's text; see `Driver.draft`. rest: such as its macros, and whether
    it reads files."""

    inputs: tuple[Input, ...]
    rest: Rest


class Driver(ABC):
    """One tool. Subclass it for a compiler of your own: `find`, `plan`, and if need be `judge`."""

    name: str
    languages: frozenset[str]
    emits: tuple[str, ...] = ()
    """Output kinds it can be asked for; the first is what `emit=None` means unless it says otherwise."""
    fat: bool = False
    """Whether it can put the code for several processors into one artifact (`Target.also`)."""
    shares_plans: ClassVar[bool] = False
    """Whether `draft` holds for this very class; set when a class is made."""

    @abstractmethod
    async def find(self, host: Host) -> Toolchain:
        """Locate and identify the tool. Raises ToolNotFound, saying how to install it."""

    @abstractmethod
    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        """The action that compiles `request` for `target` (resolved: never None, never "native").

        Raises RequestError for an option it does not have.
        """

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[Any] | None:
        """The inputs of the action, and whatever else of the kernel's text and macros decides about it.

        The actions of requests with an equal `rest`, which are equal themselves but for the kernel's text, name and
        id, for macros, params and time limits, must differ in their inputs alone: one plan then serves them all.
        None: each has its own.

        Raises RequestError.
        """
        return None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A plan of its own may look at more than the draft that is inherited has.
        if not {"draft", "plan", "finish"}.isdisjoint(vars(cls)):
            cls.shares_plans = "draft" in vars(cls)

    def chain(self, action: Action, outputs: Mapping[str, bytes]) -> Action:
        """The action of a second stage, once the outputs of the first are known."""
        return action

    @abstractmethod
    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        """The verdict: from the exit, our reason for stopping it, the text and the outputs."""

    def default_target(self, kernel: Kernel) -> Target:
        """What `target=None` means for this kernel: the compiler's default CPU."""
        raise RequestError(f"toolchain {self.name} has no default target: name one")

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        """The driver of a second stage, by name, which makes the output asked for out of this one's: "ptxas"
        (PTX to cubin), "lld" (object to hsaco or shared library). None: this one does it all; and so it does where
        the action that was planned writes that output."""
        return None

    def offers(self, request: CompileRequest) -> bool:
        """Whether "auto" may take this driver for a request of a language it has."""
        return True

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        """CPU names this compiler accepts for a triple; None when it cannot say."""
        return None

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        """`target` with "native" replaced by this machine's CPU and features, or its GPU. Raises RequestError."""
        if target.is_gpu:
            return await gpus.native(host, target)
        raise RequestError(f"toolchain {self.name} cannot tell what 'native' is: name the CPU (the GPU is native-gpu)")


BASE_ENV: Mapping[str, str] = FrozenMap({"LC_ALL": "C"})
"""Neutral variables of every action: messages in English, whatever the user's locale."""


def neutral_env(toolchain: Toolchain) -> FrozenMap[str]:
    """BASE_ENV and the PATH made of the toolchain's own folders."""
    if not toolchain.search_path:
        return FrozenMap.of(BASE_ENV)
    return FrozenMap({**BASE_ENV, "PATH": ":".join(toolchain.search_path)})


def kernel_file(name: str, prelude: str | None, text: str) -> tuple[Input]:
    """A kernel's source as the one input of an action."""
    return (Input(name, (prelude, text) if prelude else (text,)),)


def check_emit(driver: Driver, request: CompileRequest, allowed: Sequence[str], target: Target) -> None:
    """Raise RequestError unless `request.emit` is None or one of `allowed`."""
    if request.emit is not None and request.emit not in allowed:
        raise RequestError(
            f"toolchain {driver.name} cannot emit {request.emit!r} for {target}; it can emit {', '.join(allowed)}"
        )
