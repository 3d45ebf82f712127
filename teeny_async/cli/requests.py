"""From the options to the requests."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from teeny_async.cli.options import Options
from teeny_async.cli.values import parse_defines, parse_params, parse_ptx_versions, parse_targets
from teeny_async.errors import RequestError
from teeny_async.model import LANGUAGES, CompileRequest, Kernel, ParamValue
from teeny_async.pipeline.session import Session
from teeny_async.toolchains.base import ToolNotFound
from teeny_async.toolchains.registry import driver_named
from teeny_async.tuning.sweep import Sweep


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be compiled.

    samples: one request for each kernel and target, to try the planning on. paths: id of a kernel -> its
    file, where the compiler's line numbers are the file's.
    """

    sweep: Sweep
    samples: Sweep
    total: int
    paths: Mapping[int, str]


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
    folders = (path.resolve().parent, *(Path(folder).resolve() for folder in options.include))
    changes["include_dirs"] = tuple(str(folder) for folder in folders)
    # A prelude in Rust is for the Rust kernels among others.
    if options.prelude is not None and LANGUAGES.get(options.prelude.suffix, language) == language:
        changes["prelude"] = options.prelude
    return Kernel.from_file(path, **changes)


def _no_such_kernel(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a folder; name the files in it, as in {path}/*.c"
    folder = path.parent
    siblings = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, siblings, n=3)
    return f"{path}: no such file" + (
        f"; did you mean {', '.join(str(folder / name) for name in close)}?" if close else ""
    )


async def check(session: Session, samples: Sweep) -> list[CompileRequest]:
    """Plan a request of every kernel for every target before anything is compiled.

    Returns those whose toolchain is missing. Raises RequestError with all that is refused.
    """
    missing: list[CompileRequest] = []
    refused: list[str] = []
    for request in samples:
        try:
            await session.plan(request)
        except RequestError as error:
            refused.append(str(error))
        except ToolNotFound:
            missing.append(request)
    if refused:
        raise RequestError("\n       ".join(dict.fromkeys(refused)))
    return missing
