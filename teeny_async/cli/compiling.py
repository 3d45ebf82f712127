"""`teeny-async compile` and `teeny-async sweep`: one engine, two ways to show what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from teeny_async.cli.options import Options, SectionCommand, SectionOption, compile_options

if TYPE_CHECKING:
    from teeny_async.cli.sinks import Sink


@click.command(
    "compile",
    cls=SectionCommand,
    epilog="Example:  teeny-async compile saxpy.c -t sm_80,sm_90,znver4 -o build",
    short_help="Compile kernels and write the outputs.",
)
@compile_options
def compile_command(**values: Any) -> int:
    """Compile kernels for every target given, and write the outputs into a folder.

    Standard output lists the files written, one a line. Their names say what they are:
    KERNEL.TARGET[.PARAM-VALUE...]-KEY.ptx
    """
    options = Options.read(values)
    if options.out is None:
        options = replace(options, out=Path())
    from teeny_async.cli.running import run
    from teeny_async.cli.sinks import JsonLinesSink, JsonSink, PathsSink

    sinks: dict[str, Callable[[], Sink]] = {"text": PathsSink, "json": JsonSink, "jsonl": JsonLinesSink}
    return run(options, sinks[options.format]())


@click.command(
    cls=SectionCommand,
    epilog="Example:  teeny-async sweep matmul.c -t sm_80,sm_90 -p TILE=16,32 -p ROWS=2,4,8 --emit cubin",
    short_help="Compile the product of kernels, targets and params; show a table.",
)
@compile_options
@click.option("--all-rows", is_flag=True, cls=SectionOption, section="Output", help="Every result, however many.")
def sweep(**values: Any) -> int:
    """Compile every kernel for every target and every combination of params, and show what came of it.

    Standard output has the table: each result, or totals for each target when there are more than 200.
    Nothing is written unless --out names a folder.
    """
    options = Options.read(values)
    from teeny_async.cli.running import run
    from teeny_async.cli.sinks import JsonLinesSink, JsonSink, TableSink

    sinks: dict[str, Callable[[], Sink]] = {"text": TableSink, "json": JsonSink, "jsonl": JsonLinesSink}
    return run(options, sinks[options.format]())
