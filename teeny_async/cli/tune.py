"""`teeny-async tune`, `report` and `best`: search, look at it, take what was found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from teeny_async.cli.options import SECTIONS, Options, SectionCommand, SectionOption, compile_options

_SEARCH, _MEASURE = "Search", "Measurement"
_LEFT_OUT = {"emit", "out", "jsonl", "events", "fail_fast", "skip_refused", "log_level"}
"""Options of a compile that mean nothing to a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """What was said on the command line besides the options of a compile."""

    objective: str
    strategy: str
    seed: int
    budget: str | None
    run: Path | None
    resume: bool
    constraint: tuple[str, ...]
    flag_choice: tuple[str, ...]
    override: tuple[str, ...]
    threads: str | None
    confirm: int
    rounds: int
    measure: str | None
    call: str | None
    size: tuple[str, ...]
    reference: str | None
    grid: str | None
    block: str | None
    shared: str | None
    device: tuple[str, ...]
    dry_run: bool


class TuneCommand(SectionCommand):
    """A command whose help has headings of its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {name: [] for name in (_SEARCH, _MEASURE, *SECTIONS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                records[getattr(param, "section", SECTIONS[-1])].append(record)
        for section, found in records.items():
            with formatter.section(section):
                formatter.write_dl(found)


def _option(section: str, *names: str, **settings: Any) -> Any:
    return click.option(*names, cls=SectionOption, section=section, **settings)


_OPTIONS = (
    _option(
        *(_SEARCH, "--objective"),
        default="time,occupancy,mca,size",
        show_default=True,
        metavar="NAME[,NAME...]",
        help="registers, spills, shared, occupancy, mca (estimates), size, compile-time, time (measured). Each "
        "target takes the first that can be had for it.",
    ),
    _option(
        *(_SEARCH, "--strategy"),
        default="grid",
        show_default=True,
        metavar="NAME",
        help="grid, random, halving, optuna, optuna-SAMPLER (tpe, cmaes, nsga2, gp, qmc).",
    ),
    _option(_SEARCH, "--seed", type=int, default=0, metavar="N", help="Of the strategy. Default: 0."),
    _option(_SEARCH, "--budget", metavar="N|TIME", help="200 (configurations of each target), 10m, or 200,10m."),
    _option(
        *(_SEARCH, "--run"),
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Folder of the run: journal.jsonl, best.json, report.html, trace.json.",
    ),
    _option(_SEARCH, "--resume", is_flag=True, help="Go on with what the folder's journal has."),
    _option(
        *(_SEARCH, "--constraint"),
        multiple=True,
        metavar="EXPR",
        help="Must hold for a configuration, as in 'TILE % ROWS == 0'; repeat it.",
    ),
    _option(
        *(_SEARCH, "--flag-choice"), multiple=True, metavar="FLAGS", help="Flags to try, one of all that are given."
    ),
    _option(
        *(_SEARCH, "--override"),
        multiple=True,
        metavar="TARGET:NAME=V[,V...]",
        help="Other values of a param for some targets: a name, a pattern, nvidia, amd or cpu.",
    ),
    _option(_SEARCH, "--threads", metavar="EXPR", help="Of a block, for the estimate of occupancy."),
    _option(_SEARCH, "--dry-run", is_flag=True, help="Count and describe the search, and do no more."),
    _option(
        *(_MEASURE, "--measure"),
        metavar="COMMAND",
        help="'bench {artifact} {config}': a program that prints one JSON object, {\"time\": seconds}.",
    ),
    _option(
        *(_MEASURE, "--call"),
        metavar="ARGS",
        help="How to call the kernel, to time it ourselves: 'a: in f32[m,k]; c: out f32[m]; m: i32'.",
    ),
    _option(_MEASURE, "--size", multiple=True, metavar="NAME=N[,...]", help="Sizes of the problem, for --call."),
    _option(_MEASURE, "--reference", metavar="EXPR", help="What it must compute, in numpy: 'c = a @ b'."),
    _option(_MEASURE, "--grid", metavar="EXPR", help="Blocks of a GPU launch: 'ceil(n / TILE), 4'."),
    _option(_MEASURE, "--block", metavar="EXPR", help="Threads of a block: 'TILE, TILE // ROWS'."),
    _option(_MEASURE, "--shared", metavar="EXPR", help="Bytes of dynamic shared memory of a block."),
    _option(_MEASURE, "--device", multiple=True, metavar="N", help="CUDA devices to measure on. Default: 0."),
    _option(
        *(_MEASURE, "--confirm"),
        type=click.IntRange(min=0),
        default=3,
        metavar="N",
        help="How many of the best to measure again at the end. Default: 3.",
    ),
    _option(
        *(_MEASURE, "--rounds"),
        type=click.IntRange(min=1),
        default=5,
        metavar="N",
        help="How often each of them is measured then, in turns. Default: 5.",
    ),
)


@click.command(
    "tune",
    cls=TuneCommand,
    epilog="Example:  teeny-async tune matmul.c -t sm_80,sm_90 -p TILE=8..64*2 -p ROWS=1,2,4 --run matmul-run",
    short_help="Search params for the best configuration on each target.",
)
@compile_options
def tune(**values: Any) -> int:
    """Search every kernel's params for the best configuration on each target.

    Values of --param may be ranges: 1..8, 0..64+16 (steps of 16), 16..256*2 (doubling). Standard output has the
    winners. What is stopped, or killed, goes on with --resume.
    """
    own = {name: values.pop(name) for name in TuneOptions.__dataclass_fields__}
    for name in _LEFT_OUT:
        values.setdefault(name, False if name in ("jsonl", "fail_fast", "skip_refused") else None)
    from teeny_async.cli.tune_run import run

    return run(Options.read(values), TuneOptions(**own))


tune.params = [param for param in tune.params if param.name not in _LEFT_OUT]
for _decorate in _OPTIONS:
    _decorate(tune)


@click.command(short_help="Write the report of a tuning run.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
def report(folder: Path) -> int:
    """Write report.html and trace.json (for Perfetto) of a run's folder from its journal, finished or not."""
    from teeny_async.cli.tune_run import write_report

    for path in write_report(folder):
        click.echo(path)
    return 0


@click.command(short_help="Show the winners of a tuning run.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def best(folder: Path, as_json: bool) -> int:
    """Show the winner of each target so far, from the journal of a run's folder, finished or not."""
    from teeny_async.cli.tune_run import show_best
    from teeny_async.tuning.result import load_result

    return show_best(load_result(folder), as_json=as_json)
