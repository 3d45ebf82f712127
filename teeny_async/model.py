"""What is asked for and what is to be run: frozen data, no I/O.

A `CompileRequest` names a `Kernel`, a `Target` and the options of one compile. A toolchain's driver
plans it into `Action`s (what to run, on which files, in which environment); a runner turns an
action into an `Exit`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.prelude import read_prelude
from teeny_async.target import Target

if TYPE_CHECKING:
    from teeny_async.toolchains.base import Driver

LANGUAGES: dict[str, str] = {
    ".c": "c",
    ".cu": "cuda",
    ".hip": "hip",
    ".rs": "rust",
    ".zig": "zig",
    ".py": "triton",
    ".ttir": "ttir",
}
"""File suffix -> language."""

ParamValue = int | float | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel's source and how to read it.

    name: what results and file names call it; not in the cache key.
    language: "c", "cuda", "hip", "rust", "zig", "triton" (a kernel in Python) or "ttir".
    prelude: text put directly in front of the source (teenyc: the DSL; rustc: a no_core prelude), or the
        path of a file that has it; see `teeny_async.prelude`. None: for teenyc the one that TEENY_ASYNC_PRELUDE
        names, else none; "" is none, whatever that says.
    entry_point: the symbol that must be in the output; None: not checked.
    id: teenygrad's kernel id (`name__dtype__consts`); not in the cache key.
    defines: macros of every compile of this kernel, for C-like languages.
    include_dirs: folders searched for `#include`, in order.
    """

    name: str
    source: str = field(repr=False)
    language: str
    prelude: str | None = field(default=None, repr=False)
    entry_point: str | None = None
    id: str | None = None
    defines: Mapping[str, ParamValue] = field(default_factory=FrozenMap)
    include_dirs: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.prelude:
            object.__setattr__(self, "prelude", read_prelude(self.prelude))
        object.__setattr__(self, "defines", FrozenMap.of(self.defines))
        object.__setattr__(self, "include_dirs", tuple(str(folder) for folder in self.include_dirs))
        _check_text(f"kernel {self.name!r}", self.prelude or "", self.source)
        if self.language not in LANGUAGES.values():
            known = ", ".join(sorted(set(LANGUAGES.values())))
            raise RequestError(f"kernel {self.name!r}: unknown language {self.language!r}; known are {known}")

    @classmethod
    def from_file(cls, path: str | Path, **changes: Any) -> Kernel:
        """Read a kernel: name and language from the file name, its folder on the include path.

        Keyword arguments override any field. Raises RequestError for an unknown suffix, a file
        that cannot be read, or one that is not UTF-8.
        """
        path = Path(path)
        language = changes.pop("language", None) or LANGUAGES.get(path.suffix)
        if language is None:
            known = " ".join(LANGUAGES)
            raise RequestError(
                f"{path}: cannot tell the language from {path.suffix!r} (known: {known}); pass language="
            )
        try:
            source = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise RequestError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
        except OSError as error:
            raise RequestError(f"{path}: cannot read the kernel: {error.strerror}") from None
        fields: dict[str, Any] = {"name": path.stem, "source": source, "language": language}
        if "include_dirs" not in changes:
            fields["include_dirs"] = (str(path.resolve().parent),)
        return cls(**(fields | changes))


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One compile: a kernel for a target, by a toolchain.

    target: a Target, or its name; None is the compiler's default.
    toolchain: "auto", a name ("zig", "rustc", "teenyc", "nvcc", "triton"), or a driver of your own.
    emit: "ptx", "cubin", "fatbin", "object", "asm", "hsaco", "shared", and of triton "ttir", "ttgir", "llir"; None is
        PTX for NVIDIA targets, an object for CPUs, triton's hsaco for AMD, and what teenyc writes (PTX and the
        `.mlir` beside it) for teenyc.
    params: values substituted for the placeholders of the source (see `teeny_async.source`), or
        passed as `-D` macros where the language has them.
    timeout: wall seconds from the start of the process; None is the session's limit.
    cpu_timeout: the same in seconds of CPU, of the compiler and all its children.
    log_level: teenyc's log ("error" ... "trace"), which puts the IR of each stage in the result.
    """

    kernel: Kernel
    target: Target | None = None
    toolchain: str | Driver = field(default="auto", kw_only=True)
    emit: str | None = field(default=None, kw_only=True)
    opt_level: int | str = field(default=3, kw_only=True)
    flags: Sequence[str] = field(default=(), kw_only=True)
    params: Mapping[str, ParamValue] = field(default_factory=FrozenMap, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    cpu_timeout: float | None = field(default=None, kw_only=True)
    log_level: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        target: object = self.target
        if isinstance(target, str):  # the field is typed as what it becomes
            set_field("target", Target.parse(target))
        if isinstance(self.flags, str):
            raise RequestError(f"flags is a sequence of arguments, not one string: write flags=({self.flags!r},)")
        set_field("flags", tuple(self.flags))
        if isinstance(self.opt_level, str) and self.opt_level.isdecimal():
            set_field("opt_level", int(self.opt_level))
        set_field("params", FrozenMap.of(self.params))
        for name, value in self.params.items():
            if not isinstance(value, (str, int, float, Real)):
                raise RequestError(f"param {name!r} is a number, a text, or true or false, not {value!r}")
        _check_text("the request", *self.flags, *map(str, self.params.values()))
        for name, limit in (("timeout", self.timeout), ("cpu_timeout", self.cpu_timeout)):
            if limit is not None and not limit > 0:
                raise RequestError(f"{name} is a number of seconds above 0, not {limit!r}")


def check_request(value: object) -> None:
    """Raise a TypeError that teaches, for what is no request."""
    if isinstance(value, CompileRequest):
        return
    if isinstance(value, Kernel):
        advice = "wrap it, CompileRequest(kernel, target), or make a Sweep([kernel], targets)"
    elif isinstance(value, (str, Path)):
        advice = "read it, CompileRequest(Kernel.from_file(path), target)"
    else:
        advice = "give CompileRequest objects, or a Sweep, which makes them"
    raise TypeError(f"not a CompileRequest but {type(value).__name__}: {value!r}; {advice}")


def _check_text(where: str, *texts: str) -> None:
    """Raise RequestError for half of a surrogate pair, which no file and no argument can hold."""
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise RequestError(f"{where}: not a text: {error.reason} (character {error.start})") from None
