"""Where results go: what each output format writes to standard output, and when."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol

from teeny_async.pipeline.stats import CompilerStats
from teeny_async.plain import result_to_dict
from teeny_async.report.style import has_color
from teeny_async.report.summary import Summary
from teeny_async.report.tables import table_lines
from teeny_async.result import CompileResult

SCHEMA = 1


class Sink(Protocol):
    """Takes results as they come; their numbers say how they were asked for.

    counts_too: the closing counts belong to the data.
    """

    counts_too: ClassVar[bool]

    def add(self, number: int, result: CompileResult, files: Sequence[str]) -> None: ...

    def end(self, summary: Summary, stats: CompilerStats, stopped: str | None) -> None:
        """stopped: why there are fewer results than requests; None when there are not."""


class JsonSink:
    """One object. Results are kept as the text they will be, in the order of the requests."""

    counts_too: ClassVar[bool] = False

    def __init__(self) -> None:
        self._results: list[tuple[int, str]] = []

    def add(self, number: int, result: CompileResult, files: Sequence[str]) -> None:
        self._results.append((number, _result_text(result, files)))

    def end(self, summary: Summary, stats: CompilerStats, stopped: str | None) -> None:
        write = sys.stdout.write
        write(f'{{"schema": {SCHEMA}, "results": [')
        separator = "\n"
        for _, text in sorted(self._results):
            write(f"{separator}{text}")
            separator = ",\n"
        write(f'\n], "stats": {json.dumps(stats_to_dict(stats))}, "stopped": {json.dumps(stopped)}}}\n')
        sys.stdout.flush()


class JsonLinesSink:
    """One object a line, at once."""

    counts_too: ClassVar[bool] = False

    def add(self, number: int, result: CompileResult, files: Sequence[str]) -> None:
        sys.stdout.write(_result_text(result, files) + "\n")
        sys.stdout.flush()

    def end(self, summary: Summary, stats: CompilerStats, stopped: str | None) -> None: ...


class PathsSink:
    """The paths of the files that were written, in the order of the requests: `ptxas $(teeny-async ...)`."""

    counts_too: ClassVar[bool] = False

    def __init__(self) -> None:
        self._paths: list[tuple[int, Sequence[str]]] = []

    def add(self, number: int, result: CompileResult, files: Sequence[str]) -> None:
        self._paths.append((number, files))

    def end(self, summary: Summary, stats: CompilerStats, stopped: str | None) -> None:
        paths = dict.fromkeys(path for _, files in sorted(self._paths) for path in files)
        sys.stdout.writelines(f"{path}\n" for path in paths)
        sys.stdout.flush()


class TableSink:
    """A table for people."""

    counts_too: ClassVar[bool] = True

    def add(self, number: int, result: CompileResult, files: Sequence[str]) -> None: ...

    def end(self, summary: Summary, stats: CompilerStats, stopped: str | None) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        color = has_color(sys.stdout, os.environ)
        sys.stdout.writelines(f"{line}\n" for line in table_lines(summary, color=color, width=width))
        sys.stdout.flush()


def _result_text(result: CompileResult, files: Sequence[str]) -> str:
    return json.dumps({**result_to_dict(result), "files": list(files)})


def stats_to_dict(stats: CompilerStats) -> dict[str, Any]:
    """The counts as plain JSON data."""
    values = {field.name: getattr(stats, field.name) for field in fields(stats)}
    plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    return {**plain, "utilisation": stats.utilisation}
