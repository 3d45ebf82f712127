"""`run`: one `compile` or `sweep`, from the options to the exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from importlib.util import find_spec
from typing import TextIO

import anyio
import click

from teeny_async import __version__
from teeny_async.api import Compiler
from teeny_async.cli.notes import notes_from_logging
from teeny_async.cli.options import Options
from teeny_async.cli.requests import Work, check, work_of
from teeny_async.cli.sessions import session_options
from teeny_async.cli.signals import Interrupts
from teeny_async.cli.sinks import Sink, stats_to_dict
from teeny_async.events import Event
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.failures import POLICIES
from teeny_async.files import LineLog
from teeny_async.model import CompileRequest
from teeny_async.pipeline.session import OnEvent
from teeny_async.pipeline.stats import CompilerStats
from teeny_async.plain import event_to_dict
from teeny_async.report.activity import Activity
from teeny_async.report.artifacts import ArtifactWriter
from teeny_async.report.closing import cost_line, count_line, failure_lines, uncached_lines
from teeny_async.report.progress import make_progress
from teeny_async.report.style import has_color
from teeny_async.report.summary import MAX_ROWS, Summary
from teeny_async.result import CompileResult


def run(options: Options, sink: Sink) -> int:
    """Do it all; the exit code. Raises RequestError, CacheError and click's exceptions for what is refused."""
    if options.backend == "trio" and find_spec("trio") is None:
        raise click.UsageError("--backend trio: trio is not installed; run: pip install 'teeny_async[trio]'")
    work = work_of(options)
    with Interrupts() as interrupts:
        return anyio.run(_Run(options, work, sink, interrupts).go, backend=options.backend)


class _Run:
    def __init__(self, options: Options, work: Work, sink: Sink, interrupts: Interrupts) -> None:
        self._options = options
        self._work = work
        self._sink = sink
        self._interrupts = interrupts
        self._writer = _writer(options)
        self._summary = Summary(all_rows=options.all_rows or work.total <= MAX_ROWS, paths=work.paths)
        self._stats = CompilerStats()
        self._activity = Activity(work.total, time.monotonic())
        # On one terminal, lines of data and a display that is redrawn would overwrite each other.
        quiet = options.quiet or (options.format == "jsonl" and sys.stdout.isatty())
        self._progress = make_progress(self._activity, quiet=quiet, environ=os.environ)
        self._stopped: str | None = None
        self._trouble: str | None = None

    async def go(self) -> int:
        """Compile and report."""
        with notes_from_logging(self._progress.note) as notes:
            async with self._event_log() as log:

                def on_event(event: Event) -> None:
                    self._activity.see(event)
                    if log is not None:
                        log.write(event_to_dict(event))
                    notes.see(event)

                await self._compile(self._compiler(on_event), log)
                if log is not None:
                    log.write(self._ended())
            if log is not None and log.error is not None:
                notes.say(f"warning: {self._options.events} is incomplete: {log.error.strerror}")
        self._report()
        if self._interrupts.exit_code is not None:
            return self._interrupts.exit_code
        return max(self._summary.exit_code, 1 if self._trouble else 0)

    def _compiler(self, on_event: OnEvent) -> Compiler:
        return Compiler(**session_options(self._options), on_event=on_event)

    async def _compile(self, compiler: Compiler, log: LineLog | None) -> None:
        async with self._showing():
            with anyio.CancelScope() as scope, self._interrupts.cancelling(scope):
                async with compiler:
                    try:
                        await self._collect(compiler, log)
                    finally:
                        self._stats = compiler.stats
        if self._interrupts.received is not None:
            self._stopped = self._interrupts.received.name

    async def _collect(self, compiler: Compiler, log: LineLog | None) -> None:
        checked = await check(compiler, self._work, skip_refused=self._options.skip_refused)
        for note in checked.notes:
            self._progress.note(note)
        missing = checked.missing
        self._work = checked.accepted(self._work)
        self._activity.total = self._work.total
        requests = Numbered(missing or self._work)
        async with compiler.as_completed(requests) as results:
            async for result in results:
                files = await self._write(result)
                number = requests.take(result.request)
                self._summary.add(number, result)
                self._sink.add(number, result, files)
                if log is not None:
                    await log.room()
                self._stopped = self._stopped or self._reason_to_stop(result)
                # Where tools are missing nothing else is asked for, so that each is named.
                if self._stopped is not None and not missing:
                    break

    async def _write(self, result: CompileResult) -> list[str]:
        if self._writer is None:
            return []
        try:
            return await self._writer.write(result)
        except OSError as error:
            self._trouble = f"cannot write into {self._options.out}: {error.strerror}"
            return []

    def _reason_to_stop(self, result: CompileResult) -> str | None:
        if self._trouble is not None:
            return "output"
        failure = result.failure
        if failure is None:
            return None
        if POLICIES[failure.kind].on_sweep == "stop":
            return failure.kind.value
        return "fail_fast" if self._options.fail_fast else None

    @contextlib.asynccontextmanager
    async def _event_log(self) -> AsyncIterator[LineLog | None]:
        path = self._options.events
        if path is None:
            yield None
            return
        async with contextlib.AsyncExitStack() as stack:
            try:
                log = await stack.enter_async_context(LineLog(path))
            except OSError as error:
                raise click.BadParameter(f"{path}: {error.strerror}", param_hint="'--events'") from None
            log.write({"event": "Began", "time": time.monotonic(), "unix": time.time(), "version": __version__})
            yield log

    def _ended(self) -> dict[str, object]:
        return {
            "event": "Ended",
            "time": time.monotonic(),
            "stopped": self._stopped,
            "stats": stats_to_dict(self._stats),
        }

    @contextlib.asynccontextmanager
    async def _showing(self) -> AsyncIterator[None]:
        """Progress, until the last compiler is gone."""
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

    def _report(self) -> None:
        options, summary = self._options, self._summary
        self._sink.end(summary, self._stats, self._stopped)
        self._report_failures()
        if options.quiet:
            return
        _say(uncached_lines(summary), sys.stderr)
        closing: list[str | None] = [count_line(summary, self._stats, self._work.total), cost_line(self._stats)]
        if self._stopped is not None:
            closing.insert(0, _STOPPED.get(self._stopped, f"stopped by {self._stopped}"))
        whole = self._stopped is None and self._sink.counts_too
        _say(["", *filter(None, closing)] if whole else filter(None, closing), sys.stdout if whole else sys.stderr)

    def _report_failures(self) -> None:
        color = has_color(sys.stderr, os.environ)
        lines = list(failure_lines(self._summary, color=color))
        if lines and sys.stdout.isatty() and not self._options.quiet:
            click.echo(err=True)
        _say(lines, sys.stderr)
        if self._trouble is not None:
            _say([f"Error: {self._trouble}"], sys.stderr)


_STOPPED = {
    "fail_fast": "stopped at the first failure",
    "output": "stopped: the outputs could not be written",
    "tool_missing": "stopped: a toolchain is missing",
    "disk_full": "stopped: the disk is full",
}


class Numbered:
    """Requests, and the place of each among them; forgotten once it was asked for."""

    def __init__(self, requests: Iterable[CompileRequest]) -> None:
        self._requests = requests
        self._numbers: dict[int, int] = {}

    def __iter__(self) -> Iterator[CompileRequest]:
        for number, request in enumerate(self._requests):
            self._numbers[id(request)] = number
            yield request

    def take(self, request: CompileRequest) -> int:
        return self._numbers.pop(id(request))


def _writer(options: Options) -> ArtifactWriter | None:
    if options.out is None:
        return None
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{options.out}: {error.strerror}", param_hint="'--out'") from None
    return ArtifactWriter(options.out)


def _say(lines: Iterable[str], stream: TextIO) -> None:
    for line in lines:
        click.echo(line, file=stream)
