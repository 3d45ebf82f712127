"""The tables of a run: with colours and cut to its width on a terminal, aligned and whole in a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from teeny_async.report.live import STYLES
from teeny_async.report.summary import STATES, Range, Row, Summary
from teeny_async.report.text import seconds_text, size_text, value_text

_ENDLESS = 100_000
"""Characters of a line that is nobody's screen: nothing is cut off in a pipe or a file."""


def print_tables(summary: Summary, stream: TextIO | None = None) -> None:
    """Print what there is to show: every row, or totals for each target and the rows that failed."""
    stream = stream or sys.stdout
    console = Console(file=stream, highlight=False)
    if console.is_terminal:
        for table in tables(summary):
            console.print(table)
        return
    text = io.StringIO()
    wide = Console(file=text, width=_ENDLESS, highlight=False, color_system=None, force_terminal=False)
    for table in tables(summary):
        wide.print(table)
    stream.writelines(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def tables(summary: Summary) -> list[Table | Padding]:
    """The tables for a summary; none for an empty one."""
    if not summary.done:
        return []
    rows = summary.rows
    if summary.all_rows:
        return [row_table(rows)]
    found: list[Table | Padding] = [target_table(summary)]
    return [*found, Padding(row_table(rows), (1, 0, 0, 0))] if rows else found


def row_table(rows: Sequence[Row]) -> Table:
    """A line for each result. Columns that no row has anything for are left out."""
    params = list(dict.fromkeys(name for row in rows for name in row.params))
    metrics = any("registers" in row.metrics for row in rows)
    sizes = any(row.size is not None for row in rows)
    failed = any(row.detail for row in rows)
    table = _table()
    table.add_column("kernel", no_wrap=True)
    table.add_column("target", no_wrap=True)
    for name in params:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    if sizes:
        table.add_column("size", justify="right", no_wrap=True)
    if metrics:
        for name in ("regs", "spilled", "shared"):
            table.add_column(name, justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    if failed:
        table.add_column("first error", ratio=1, no_wrap=True, overflow="ellipsis", min_width=20)
    for row in rows:
        cells = [Text(row.kernel), Text(row.target)]
        cells += [Text(value_text(row.params[name]) if name in row.params else "") for name in params]
        cells.append(Text(row.state, STYLES[row.state]))
        cells += [Text("" if row.size is None else size_text(row.size))] if sizes else []
        cells += _metric_cells(row) if metrics else []
        cells.append(Text("" if row.seconds is None else seconds_text(row.seconds), "dim"))
        table.add_row(*cells, *([Text(row.detail)] if failed else []))
    return table


def _metric_cells(row: Row) -> list[Text]:
    registers = row.metrics.get("registers")
    spilled = [row.metrics.get(name) for name in ("spill_stores", "spill_loads")]
    shared = row.metrics.get("shared")
    if registers is None:
        return [Text(), Text(), Text()]
    total = sum(count for count in spilled if isinstance(count, int))
    return [
        Text(str(registers)),
        Text(size_text(total), "yellow") if total else Text("0", "dim"),
        Text(size_text(shared)) if isinstance(shared, int) and shared else Text("0", "dim"),
    ]


def target_table(summary: Summary) -> Table:
    """A line for each target: how its results came out, and between what bounds."""
    registers = any(totals.registers.count for totals in summary.targets.values())
    table = _table()
    table.add_column("target", no_wrap=True)
    for state in STATES:
        table.add_column(state, justify="right", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    if registers:
        table.add_column("regs", justify="right", no_wrap=True)
    table.add_column("mean time", justify="right", no_wrap=True)
    for target, totals in summary.targets.items():
        cells = [Text(target)]
        for state in STATES:
            count = totals.states[state]
            cells.append(Text(f"{count:,}", STYLES[state] if count else "dim"))
        cells.append(Text(_sizes(totals.size)))
        cells += [Text(_bounds(totals.registers))] if registers else []
        cells.append(Text(seconds_text(totals.seconds.mean) if totals.seconds.count else "", "dim"))
        table.add_row(*cells)
    return table


def _sizes(sizes: Range) -> str:
    if not sizes.count:
        return ""
    least, most = size_text(int(sizes.least)), size_text(int(sizes.most))
    return least if least == most else f"{least} - {most}"


def _bounds(values: Range) -> str:
    if not values.count:
        return ""
    return f"{values.least:.0f}" if values.least == values.most else f"{values.least:.0f} - {values.most:.0f}"


def _table() -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
