"""From the options to the requests."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from teeny_async.cli.options import Options
from teeny_async.cli.values import parse_defines, parse_params, parse_ptx_versions, parse_targets
from teeny_async.errors import RequestError
from teeny_async.model import LANGUAGES, CompileRequest, Kernel, ParamValue
from teeny_async.pipeline.session import Session
from teeny_async.target import Target
from teeny_async.toolchains.base import ToolNotFound
from teeny_async.toolchains.registry import driver_named
from teeny_async.tuning.sweep import Sweep


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be compiled.

    samples: one request for each kernel and target, to try the planning on. paths: id of a kernel -> its
    file, where the compiler's line numbers are the file's. skipped: see `Checked.refused`. total: without these.
    """

    sweep: Sweep
    samples: Sweep
    total: int
    paths: Mapping[int, str]
    skipped: Mapping[tuple[int, Target | None], str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[CompileRequest]:
        """The requests, one at a time."""
        return (one for one in self.sweep if (id(one.kernel), one.target) not in self.skipped)


def work_of(options: Options) -> Work:
    """Read the kernels and lay out the product. Raises RequestError and UsageError."""
    if options.toolchain != "auto":
        driver_named(options.toolchain)
    paths = list(dict.fromkeys(options.kernels))
    kernels = [_kernel(path, options) for path in paths]
    targets = parse_targets(options.target_cpu, parse_ptx_versions(options.ptx_version))
    params = parse_params(options.param)
    samples: Mapping[str, Sequence[ParamValue]] = {name: values[:1] for name, values in params.items()}
    fields: dict[str, Any] = {
        "toolchain": options.toolchain,
        "emit": options.emit,
        "opt_level": options.opt_level,
        "flags": tuple(options.flag),
        "timeout": options.timeout,
        "log_level": options.log_level,
    }
    return Work(
        Sweep(kernels, targets, params, **fields),
        Sweep(kernels, targets, samples, **fields),
        len(kernels) * len(targets) * math.prod(len(values) for values in params.values()),
        {id(kernel): str(path) for path, kernel in zip(paths, kernels, strict=True) if not kernel.prelude},
    )


def _kernel(path: Path, options: Options) -> Kernel:
    if not path.is_file():
        raise click.BadParameter(_no_such_kernel(path), param_hint="'KERNEL...'")
    changes: dict[str, Any] = {"defines": parse_defines(options.define), "entry_point": options.entry_point}
    language = options.language or LANGUAGES.get(path.suffix)
    if options.language is not None:
        changes["language"] = options.language
    folders = (_folder_of(path), *(Path(folder).resolve() for folder in options.include))
    changes["include_dirs"] = tuple(str(folder) for folder in folders)
    if options.prelude == "":
        changes["prelude"] = ""
    # A prelude in Rust is for the Rust kernels among others.
    elif options.prelude is not None and LANGUAGES.get(options.prelude.suffix, language) == language:
        changes["prelude"] = options.prelude
    return Kernel.from_file(path, **changes)


def _folder_of(path: Path) -> Path:
    """Where a kernel's file lies, through links. Most lie in a few folders, whose links are followed once."""
    return path.resolve().parent if path.is_symlink() else _resolved(path.parent.absolute())


@functools.lru_cache
def _resolved(folder: Path) -> Path:
    return folder.resolve()


def _no_such_kernel(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a folder; name the files in it, as in {path}/*.c"
    if path.exists():
        return f"{path} is no regular file; copy what it gives into one"
    import difflib

    folder = path.parent
    siblings = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, siblings, n=3)
    return f"{path}: no such file" + (
        f"; did you mean {', '.join(str(folder / name) for name in close)}?" if close else ""
    )


@dataclass(frozen=True, slots=True)
class Checked:
    """What planning the samples has shown.

    missing: those whose toolchain is missing. refused: (id of the kernel, target) -> why that pair is left out.
    """

    missing: Sequence[CompileRequest]
    refused: Mapping[tuple[int, Target | None], str]

    def accepted(self, work: Work) -> Work:
        """The work without what is left out."""
        if not self.refused:
            return work
        pairs = len(work.sweep.kernels) * len(work.sweep.targets)
        return replace(work, skipped=self.refused, total=work.total // pairs * (pairs - len(self.refused)))

    @property
    def notes(self) -> list[str]:
        """What is left out and why, each reason once."""
        counts = Counter(self.refused.values())
        return [f"skipped{f' {count} times' if count > 1 else ''}: {why}" for why, count in counts.items()]


async def check(session: Session, work: Work, *, skip_refused: bool = False) -> Checked:
    """Plan a request of every kernel for every target before anything is compiled.

    Raises RequestError with all that is refused: unless it is to be skipped, and something is left then.
    """
    missing: list[CompileRequest] = []
    refused: dict[tuple[int, Target | None], str] = {}
    good = 0
    for request in work.samples:
        try:
            await session.plan(request)
            good += 1
        except RequestError as error:
            refused[id(request.kernel), request.target] = str(error)
        except ToolNotFound:
            missing.append(request)
    others = good + len(missing)
    if refused and not (skip_refused and others):
        reasons = list(dict.fromkeys(refused.values()))
        advice = [f"--skip-refused leaves these out, and compiles for the other {others}"] if others else []
        raise RequestError("\n       ".join([*reasons, *advice]))
    return Checked(missing, refused)
