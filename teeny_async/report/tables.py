"""The tables of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teeny_async.report.grid import Cell, Grid
from teeny_async.report.style import STYLES
from teeny_async.report.summary import STATES, Range, Row, Summary
from teeny_async.report.text import seconds_text, size_text, value_text

_NONE = Cell("0", "dim")


def table_lines(summary: Summary, *, color: bool, width: int | None) -> Iterator[str]:
    """What there is to show: every row, or totals for each target and the rows that failed.

    width: of the terminal, which the first errors are cut to; None for a pipe, where nothing is cut.
    """
    if not summary.done:
        return
    rows = summary.rows
    if not summary.all_rows:
        yield from target_grid(summary).lines(color=color, width=width)
        if rows:
            yield ""
    if rows:
        yield from row_grid(rows).lines(color=color, width=width)


def row_grid(rows: Sequence[Row]) -> Grid:
    """A line for each result. Columns that no row has anything for are left out."""
    params = list(dict.fromkeys(name for row in rows for name in row.params))
    sizes = any(row.size is not None for row in rows)
    metrics = any("registers" in row.metrics for row in rows)
    times = any(row.seconds is not None for row in rows)
    errors = any(row.detail for row in rows)
    titles = ["kernel", "target", *(f">{name}" for name in params), "state"]
    titles += [">size"] if sizes else []
    titles += [">regs", ">spilled", ">shared"] if metrics else []
    titles += [">time"] if times else []
    grid = Grid([*titles, "first error"] if errors else titles, elastic=errors)
    for row in rows:
        cells = [Cell(row.kernel), Cell(row.target)]
        cells += [Cell(value_text(row.params[name]) if name in row.params else "") for name in params]
        cells.append(Cell(row.state, STYLES[row.state]))
        cells += [Cell("" if row.size is None else size_text(row.size))] if sizes else []
        cells += _metric_cells(row) if metrics else []
        cells += [Cell("" if row.seconds is None else seconds_text(row.seconds), "dim")] if times else []
        grid.add([*cells, Cell(row.detail)] if errors else cells)
    return grid


def _metric_cells(row: Row) -> list[Cell]:
    if "registers" not in row.metrics:
        return [Cell(), Cell(), Cell()]
    spilled = sum(_count(row, name) for name in ("spill_stores", "spill_loads"))
    shared = _count(row, "shared")
    return [
        Cell(str(row.metrics["registers"])),
        Cell(size_text(spilled), "yellow") if spilled else _NONE,
        Cell(size_text(shared)) if shared else _NONE,
    ]


def _count(row: Row, name: str) -> int:
    value = row.metrics.get(name)
    return value if isinstance(value, int) else 0


def target_grid(summary: Summary) -> Grid:
    """A line for each target: how its results came out, and between what bounds."""
    registers = any(totals.registers.count for totals in summary.targets.values())
    grid = Grid(
        ["target", *(f">{state}" for state in STATES), ">size", *([">regs"] if registers else []), ">mean time"]
    )
    for target, totals in summary.targets.items():
        cells = [Cell(target)]
        cells += [_count_cell(totals.states[state], STYLES[state]) for state in STATES]
        cells.append(Cell(_sizes(totals.size)))
        cells += [Cell(_bounds(totals.registers))] if registers else []
        cells.append(Cell(seconds_text(totals.seconds.mean) if totals.seconds.count else "", "dim"))
        grid.add(cells)
    return grid


def _count_cell(count: int, style: str) -> Cell:
    return Cell(f"{count:,}", style) if count else _NONE


def _sizes(sizes: Range) -> str:
    if not sizes.count:
        return ""
    least, most = size_text(int(sizes.least)), size_text(int(sizes.most))
    return least if least == most else f"{least} - {most}"


def _bounds(values: Range) -> str:
    if not values.count:
        return ""
    return f"{values.least:.0f}" if values.least == values.most else f"{values.least:.0f} - {values.most:.0f}"
