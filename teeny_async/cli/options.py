"""The options that `compile` and `sweep` share, and how their help is laid out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])
Backend = Literal["asyncio", "trio"]
Mode = Literal["normal", "cached_only", "refresh", "no_cache"]
Unkeyable = Literal["run", "refuse"]
Format = Literal["text", "json", "jsonl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was said on the command line, checked as far as that goes without the compilers."""

    kernels: Sequence[Path]
    target_cpu: Sequence[str]
    ptx_version: Sequence[str]
    param: Sequence[str]
    toolchain: str
    emit: str | None
    opt_level: int | str
    flag: Sequence[str]
    define: Sequence[str]
    include: Sequence[str]
    language: str | None
    prelude: Path | Literal[""] | None
    entry_point: str | None
    log_level: str | None
    out: Path | None
    format: Format
    events: Path | None
    quiet: bool
    jobs: int | None
    memory: str | None
    wait_for_others: float | None
    timeout: float | None
    cpu_timeout: float | None
    retries: int | None
    retry_failed: bool
    fail_fast: bool
    skip_refused: bool
    backend: Backend
    mode: Mode
    unkeyable: Unkeyable
    cache_dir: Path | None
    shared_cache: Sequence[Path]
    remote: str | None
    remote_read_only: bool
    all_rows: bool

    @classmethod
    def read(cls, values: dict[str, Any]) -> Options:
        """From click's values. Raises UsageError for those that do not go together."""
        as_json, as_lines = values.pop("json"), values.pop("jsonl")
        if as_json and as_lines:
            raise click.UsageError("--json and --jsonl do not go together.")
        values["format"] = "json" if as_json else "jsonl" if as_lines else "text"
        values["mode"] = _mode(values)
        level = values["opt_level"]
        values["opt_level"] = int(level) if level.isdigit() else level
        values.setdefault("all_rows", False)
        return cls(**values)


def _mode(values: dict[str, Any]) -> Mode:
    given = [name for name in ("cached_only", "refresh", "no_cache") if values.pop(name)]
    if values["mode"] is not None:
        given.append(values["mode"].replace("-", "_"))
    if len(set(given)) > 1:
        raise click.UsageError(f"these do not go together: {', '.join(dict.fromkeys(given))}.")
    return cast("Mode", given[0] if given else "normal")


SECTIONS = _KERNEL, _RUN, _CACHE, _OUTPUT = "What to compile", "How to run", "Cache", "Output"


class SectionOption(click.Option):
    """An option that knows the heading its help comes under."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionCommand(click.Command):
    """A command whose help has its options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections[getattr(param, "section", _OUTPUT)].append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def _option(section: str, *names: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, cls=SectionOption, section=section, **settings)


class NamedPath(click.Path):
    """A path that has a name.

    The empty text, which an unset variable of a script leaves, is no folder; `-` is no file called that, and there
    is nothing here that reads standard input or could share standard output. empty: takes "" all the same, as "".
    """

    def __init__(self, *, empty: bool = False) -> None:
        super().__init__(path_type=Path)
        self._empty = empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = os.fspath(value)
        if text == "" and self._empty:
            return ""
        if text == "":
            self.fail("it is empty; name a path, or leave the option out.", param, ctx)
        if text == "-":
            self.fail("'-' does not stand for a standard stream here; './-' is a file of that name.", param, ctx)
        return super().convert(value, param, ctx)


_FILE = NamedPath()
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _option(
        *(_KERNEL, "--target-cpu", "-t"),
        multiple=True,
        metavar="CPU[,CPU...]",
        help="Processors: sm_90, sm_120+ptx87, gfx942, znver4, neoverse-v2, h100, mi300x, zen4, native, native-gpu. "
        "Default: the compiler's own.",
    ),
    _option(
        *(_KERNEL, "--ptx-version"),
        multiple=True,
        metavar="N[,N...]",
        help="PTX versions to write for every NVIDIA target: 86 is 8.6.",
    ),
    _option(
        *(_KERNEL, "--param", "-p"),
        multiple=True,
        metavar="NAME=V[,V...]",
        help="Values for a `NAME` placeholder of the source, a macro, or an argument or option of Triton's; every "
        "combination is compiled.",
    ),
    _option(
        _KERNEL,
        "--toolchain",
        default="auto",
        show_default=True,
        metavar="NAME",
        help="zig, cc, nvcc, rustc, teenyc, triton.",
    ),
    _option(
        *(_KERNEL, "--emit"),
        metavar="KIND",
        help="ptx, cubin, fatbin, object, asm, hsaco or shared. Default: PTX for NVIDIA, an object for CPUs.",
    ),
    _option(
        *(_KERNEL, "--opt-level", "-O"),
        type=click.Choice(["0", "1", "2", "3", "s", "z", "fast"]),
        default="3",
        show_default=True,
        help="Optimisation level.",
    ),
    _option(_KERNEL, "--flag", multiple=True, metavar="FLAG", help="One more argument for the compiler; repeat it."),
    _option(_KERNEL, "--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="A macro of every compile."),
    _option(_KERNEL, "--include", "-I", multiple=True, metavar="DIR", help="A folder to look for headers in."),
    _option(
        *(_KERNEL, "--language"),
        type=click.Choice(["c", "cuda", "hip", "rust", "zig", "triton", "ttir"]),
        help="Of all the kernels. Default: by their suffix.",
    ),
    _option(
        *(_KERNEL, "--prelude"),
        type=NamedPath(empty=True),
        metavar="FILE",
        help="Text to put in front of every kernel (teenyc's DSL); '' is none, whatever TEENY_ASYNC_PRELUDE says.",
    ),
    _option(_KERNEL, "--entry-point", metavar="SYMBOL", help="A kernel that the output must have."),
    _option(
        *(_KERNEL, "--log-level"),
        type=click.Choice(["error", "warn", "info", "debug", "trace"]),
        help="teenyc's log, with the IR of every stage; written beside the outputs.",
    ),
    _option(
        _RUN, "--jobs", "-j", type=click.IntRange(min=1), metavar="N", help="Compilers at a time. Default: the CPUs."
    ),
    _option(
        *(_RUN, "--memory"),
        metavar="SIZE",
        help="What compilers may be expected to hold together, as in 8GiB. Default: what the machine leaves.",
    ),
    _option(
        *(_RUN, "--timeout"),
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Of one compile. Default: 600.",
    ),
    _option(
        *(_RUN, "--cpu-timeout"),
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="CPU time of one compile and all that it runs. Default: no limit.",
    ),
    _option(
        *(_RUN, "--retries"),
        type=click.IntRange(min=0),
        metavar="N",
        help="Further attempts when the machine failed, not the kernel. Default: 3.",
    ),
    _option(_RUN, "--retry-failed", is_flag=True, help="Compile again what is remembered as failed."),
    _option(_RUN, "--fail-fast", is_flag=True, help="Stop at the first failure."),
    _option(
        *(_RUN, "--skip-refused"),
        is_flag=True,
        help="Leave out a kernel's target that its compiler does not know, instead of refusing all of it.",
    ),
    _option(_RUN, "--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", help="Event loop."),
    _option(_CACHE, "--cached-only", is_flag=True, help="Compile nothing: what is not in the cache fails."),
    _option(_CACHE, "--refresh", is_flag=True, help="Compile everything anew and keep it."),
    _option(_CACHE, "--no-cache", is_flag=True, help="Neither read nor write the cache."),
    _option(
        *(_CACHE, "--mode"),
        type=click.Choice(["normal", "cached_only", "refresh", "no_cache", "cached-only", "no-cache"]),
        metavar="MODE",
        help="normal, or one of the above by name.",
    ),
    _option(
        *(_CACHE, "--unkeyable"),
        type=click.Choice(["run", "refuse"]),
        default="run",
        show_default=True,
        help="What to do with a source that no key can cover (__TIME__, a flag that reads a file): compile it each "
        "time, or refuse it.",
    ),
    _option(
        *(_CACHE, "--cache-dir"),
        type=_FILE,
        metavar="DIR",
        help="The cache folder. Default: see `teeny-async cache path`.",
    ),
    _option(
        *(_CACHE, "--shared-cache"),
        type=_FILE,
        multiple=True,
        metavar="DIR",
        help="A cache folder to look into as well, and never write to; repeat it.",
    ),
    _option(
        *(_CACHE, "--remote"),
        metavar="URL",
        help="A cache that machines share, asked after the folder: s3://, gs://, az://, https:// (WebDAV), file://. "
        "Default: TEENY_ASYNC_REMOTE.",
    ),
    _option(
        *(_CACHE, "--wait-for-others"),
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="How long to wait for another process that compiles the same into the same folder, before it is compiled "
        "here as well. Default: 60.",
    ),
    _option(_CACHE, "--remote-read-only", is_flag=True, help="Write nothing into the shared cache."),
    _option(_OUTPUT, "--out", "-o", type=_FILE, metavar="DIR", help="Folder to write the outputs into."),
    _option(_OUTPUT, "--json", is_flag=True, help="One JSON object at the end."),
    _option(_OUTPUT, "--jsonl", is_flag=True, help="One JSON object a line for each result, as they come."),
    _option(_OUTPUT, "--events", type=_FILE, metavar="FILE", help="Write every event of the run there, as JSON lines."),
    _option(_OUTPUT, "--quiet", "-q", is_flag=True, help="No progress, no summary."),
)


def compile_options(function: F) -> F:
    """Give a command the KERNEL arguments and all the options above."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return click.argument("kernels", nargs=-1, required=True, type=_FILE, metavar="KERNEL...")(function)
