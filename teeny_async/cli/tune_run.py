"""From the options of `tune` to the exit code, and what `report` and `best` do."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import click

from teeny_async.cli.notes import Notes, notes_from_logging
from teeny_async.cli.options import Options
from teeny_async.cli.requests import work_of
from teeny_async.cli.sessions import session_options
from teeny_async.cli.signals import Interrupts
from teeny_async.cli.tune import TuneOptions
from teeny_async.cli.values import parse_params, split_list
from teeny_async.events import Event
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.report.html import page
from teeny_async.report.style import has_color
from teeny_async.report.trace import chrome_trace
from teeny_async.report.tune_progress import TuneActivity, make_tune_progress
from teeny_async.report.tune_tables import closing_line, failed_lines, winner_lines
from teeny_async.tuning.expressions import constraint
from teeny_async.tuning.measurement import Measurer
from teeny_async.tuning.prepare import Plan
from teeny_async.tuning.result import TuneResult, load_result
from teeny_async.tuning.run import tune
from teeny_async.tuning.signature import Signature
from teeny_async.tuning.sweep import Sweep
from teeny_async.tuning.values import expand_range


def run(options: Options, own: TuneOptions) -> int:
    """Search and report. Raises RequestError, CacheError and click's exceptions for what is refused."""
    if options.backend == "trio" and find_spec("trio") is None:
        raise click.UsageError("--backend trio: trio is not installed; run: pip install 'teeny_async[trio]'")
    sweep = sweep_of(options, own)
    if own.dry_run:
        click.echo(sweep.describe())
        return 0
    if own.run is None:
        raise click.UsageError("--run DIR is missing: the folder that the run is kept in")
    measurer = _measurer(own, sweep)
    with Interrupts() as interrupts:
        run = _Run(options, own, own.run, sweep, measurer, interrupts=interrupts)
        return anyio.run(run.go, backend=options.backend)


class _Run:
    def __init__(
        self,
        options: Options,
        own: TuneOptions,
        folder: Path,
        sweep: Sweep,
        measurer: Measurer | None,
        *,
        interrupts: Interrupts,
    ) -> None:
        self._options = options
        self._own = own
        self._folder = folder
        self._sweep = sweep
        self._measurer = measurer
        self._interrupts = interrupts
        self._activity = TuneActivity(time.monotonic())
        self._progress = make_tune_progress(self._activity, quiet=options.quiet, environ=os.environ)

    async def go(self) -> int:
        """Search, then report; what a signal leaves is reported too."""
        result: TuneResult | None = None
        with notes_from_logging(self._progress.note) as notes:
            async with self._showing():
                with anyio.CancelScope() as scope, self._interrupts.cancelling(scope):
                    result = await self._tune(notes)
        if result is None:
            click.echo(f"stopped; go on with --resume --run {self._folder}", err=True)
            result = load_result(self._folder)
        paths = write_report(self._folder, result)
        code = show_best(result, as_json=self._options.format == "json")
        if not self._options.quiet:
            for line in failed_lines(result, color=has_color(sys.stderr, os.environ)):
                click.echo(line, err=True)
            click.echo(closing_line(result), err=True)
            click.echo(f"report: {paths[0]}", err=True)
        return self._interrupts.exit_code or code

    async def _tune(self, notes: Notes) -> TuneResult:
        options, own = self._options, self._own

        def on_event(event: Event) -> None:
            self._activity.see(event)
            notes.see(event)

        return await tune(
            self._sweep,
            split_list([own.objective]),
            measure=self._measurer,
            strategy=own.strategy,
            seed=own.seed,
            budget=own.budget,
            run=self._folder,
            resume=own.resume,
            confirm=own.confirm,
            rounds=own.rounds,
            threads=own.threads or _threads(own),
            shared=own.shared,
            on_plan=self._planned,
            on_verdict=self._activity.verdict,
            on_step=self._activity.step,
            on_event=on_event,
            **session_options(options),
        )

    def _planned(self, plan: Plan) -> None:
        self._activity.total = plan.total
        self._activity.seconds = plan.seconds
        self._activity.places = list(plan.objectives)
        if not self._options.quiet:
            for text in (plan.describe, *plan.notes):
                self._progress.note(text)

    @asynccontextmanager
    async def _showing(self) -> AsyncIterator[None]:
        self._progress.start()
        try:
            async with ServiceGroup() as group:
                group.start(self._show)
                yield
        finally:
            self._progress.stop()

    async def _show(self) -> None:
        told = False
        while True:
            if self._interrupts.received is not None and not told:
                told = True
                self._progress.note(f"{self._interrupts.received.name}: stopping; once more to leave at once")
            self._progress.refresh(time.monotonic())
            await anyio.sleep(self._progress.interval)


def sweep_of(options: Options, own: TuneOptions) -> Sweep:
    """The search space of the command line. Raises RequestError and UsageError."""
    base = work_of(replace(options, param=[_expanded(text) for text in options.param])).sweep
    taken = ("kernels", "targets", "params", "constraints", "flag_choices", "overrides")
    rest: dict[str, Any] = {each.name: getattr(base, each.name) for each in fields(base) if each.name not in taken}
    return Sweep(
        base.kernels,
        base.targets,
        base.params,
        [constraint(text) for text in own.constraint],
        flag_choices=own.flag_choice,
        overrides=_overrides(own.override),
        **rest,
    )


def _expanded(text: str) -> str:
    """`TILE=8..64*2` as `TILE=8,16,32,64`."""
    name, equals, values = text.partition("=")
    parts = [expand_range(part) or (part,) for part in values.split(",")]
    return f"{name}{equals}{','.join(str(value) for part in parts for value in part)}"


def _overrides(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        pattern, colon, param = text.partition(":")
        if not colon or not pattern:
            raise click.BadParameter(f"{text!r}: write TARGET:NAME=V1,V2,...", param_hint="'--override'")
        found.setdefault(pattern, {}).update(parse_params([_expanded(param)]))
    return found


def _measurer(own: TuneOptions, sweep: Sweep) -> Measurer | None:
    """What the options say to measure with; None for estimates alone."""
    if own.measure is not None and own.call is not None:
        raise click.UsageError("--measure and --call do not go together.")
    if own.measure is not None:
        from teeny_async.tuning.command import CommandMeasurer

        return CommandMeasurer(own.measure, os.environ, devices=own.device or ("default",))
    if own.call is None:
        return None
    [symbol, *others] = list(dict.fromkeys(kernel.entry_point or kernel.name for kernel in sweep.kernels))
    if others:
        raise click.UsageError("--call measures one kernel.")
    call = {"reference": own.reference, "grid": own.grid, "block": own.block, "shared": own.shared}
    signature = Signature.parse(symbol, own.call, _sizes(own.size), **call)
    targets = [target for target in sweep.targets if target is not None and not isinstance(target, str)]
    # With a processor and a GPU among the targets, a launch (--grid) says which of them the call is for.
    if any(target.is_nvidia for target in targets) and (own.grid or all(target.is_gpu for target in targets)):
        from teeny_async.tuning.cuda import CudaMeasurer

        return CudaMeasurer(signature, devices=[int(number) for number in own.device or ("0",)])
    from teeny_async.tuning.cpu import CpuMeasurer

    return CpuMeasurer(signature)


def _sizes(texts: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in split_list(texts):
        name, _, number = text.partition("=")
        if not name.isidentifier() or not number.isdecimal():
            raise click.BadParameter(f"{text!r}: write NAME=NUMBER", param_hint="'--size'")
        sizes[name] = int(number)
    return sizes


def _threads(own: TuneOptions) -> str | None:
    """The threads of a block, where --block says them by the configuration alone."""
    if own.block is None:
        return None
    return " * ".join(f"({part})" for part in own.block.split(",")) if "(" not in own.block else None


def show_best(result: TuneResult, *, as_json: bool) -> int:
    """Print the winners; 0 when every search has one, else 1."""
    if as_json:
        click.echo(json.dumps(_best_json(result)))
    else:
        for line in winner_lines(result, color=has_color(sys.stdout, os.environ)):
            click.echo(line)
    found = all(result.ranked(target, kernel) for kernel, target in result.places)
    return 0 if found and result.places else 1


def _best_json(result: TuneResult) -> Mapping[str, Any]:
    entries = []
    for kernel, target in result.places:
        found = result.ranked(target, kernel)
        ties = [dict(verdict.config) for verdict in result.ties(target, kernel)[1:]]
        entries.append(
            {"kernel": kernel, "target": target, "best": found[0].to_dict() if found else None, "ties": ties}
        )
    return {
        "schema": 1,
        "best": entries,
        "elapsed": result.elapsed,
        "stats": dict(result.stats),
        "notes": list(result.notes),
    }


def write_report(folder: Path, result: TuneResult | None = None) -> list[Path]:
    """Write report.html and trace.json; their paths. Raises RequestError for a folder that is none of a run."""
    result = result or load_result(folder)
    contents = {"report.html": page(result), "trace.json": chrome_trace(result.verdicts)}
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in contents]
