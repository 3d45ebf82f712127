"""The winners of a tuning run, as a table in text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from teeny_async.report.grid import Cell, Grid
from teeny_async.tuning.result import TuneResult, config_text, tied, value_text


def winner_lines(result: TuneResult, *, color: bool) -> Iterator[str]:
    """One line for each kernel and target. A value that is an estimate says so, and so do ties."""
    grid = Grid(["kernel", "target", "best", "value", "objective", ">ties"])
    for kernel, target in result.places:
        found = result.ranked(target, kernel)
        if not found:
            grid.add([Cell(kernel), Cell(target), Cell("nothing has a value", "red"), Cell(), Cell(), Cell()])
            continue
        best, ties = found[0], len(tied(found)) - 1
        grid.add(
            [
                Cell(kernel),
                Cell(target),
                Cell(config_text(best.config), "green"),
                Cell(value_text(best)),
                Cell(best.goal.label),
                Cell(str(ties) if ties else "none"),
            ]
        )
    yield from grid.lines(color=color, width=None)
