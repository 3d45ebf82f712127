"""Tables: whole in a pipe, cut to fit on a terminal."""

from __future__ import annotations

import io

import pytest

from teeny_async.frozen import FrozenMap
from teeny_async.report.grid import Cell, Grid
from teeny_async.report.style import has_color, styled
from teeny_async.report.summary import Summary
from teeny_async.report.tables import table_lines
from teeny_async.result import Artifact
from tests.report.kit import bad, good, request_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(summary: Summary, width: int | None = None) -> list[str]:
    return list(table_lines(summary, color=False, width=width))


def test_a_row_for_each_result() -> None:
    summary = Summary(all_rows=True)
    summary.add(0, good(request_for("sm_80", {"TILE": 16})))
    summary.add(1, good(request_for("sm_90", {"TILE": 128}), source="cached", attempts=()))
    assert lines(summary) == [
        "kernel  target  TILE  state     size    time",
        "saxpy   sm_80     16  compiled  10 B  0.25 s",
        "saxpy   sm_90    128  cached    10 B",
    ]


def test_metrics_and_first_errors_have_columns_when_there_are_any() -> None:
    summary = Summary(all_rows=True)
    metrics = FrozenMap({"registers": 40, "spill_stores": 8, "spill_loads": 16, "shared": 2048})
    summary.add(0, good(request_for(), outcome=Artifact(outputs=FrozenMap({"cubin": b"x"}), metrics=metrics)))
    summary.add(1, bad(request_for(), "x" * 300))
    assert lines(summary) == [
        "kernel  target  state     size  regs  spilled   shared    time  first error",
        "saxpy   sm_90   compiled   1 B    40     24 B  2.0 KiB  0.25 s",
        f"saxpy   sm_90   failed                                  0.25 s  kernel.c:3:7: error: {'x' * 300}",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_first_errors_are_cut_to_the_terminal_or_left_out(width: int) -> None:
    summary = Summary(all_rows=True)
    summary.add(0, bad(request_for(), "x" * 300))
    found = lines(summary, width)
    assert max(map(len, found)) == (width if width > 50 else len("saxpy   sm_90   failed  0.25 s"))


def test_a_narrow_terminal_gets_narrow_gaps() -> None:
    grid = Grid(["one", ">two"])
    grid.add([Cell("1"), Cell("2")])
    assert list(grid.lines(color=False, width=8)) == ["one  two", "1      2"]
    assert list(grid.lines(color=False, width=7)) == ["one two", "1     2"]


def test_a_huge_run_has_totals_for_each_target_and_the_rows_that_failed() -> None:
    summary = Summary(all_rows=False)
    for number in range(300):
        summary.add(number, good(request_for("sm_80" if number % 2 else "sm_90", {"N": number})))
    summary.add(300, bad(request_for("sm_80", {"N": 300})))
    assert lines(summary) == [
        "target  compiled  cached  coalesced  failed  size  mean time",
        "sm_90        150       0          0       0  10 B     0.25 s",
        "sm_80        150       0          0       1  10 B     0.25 s",
        "",
        "kernel  target    N  state     time  first error",
        "saxpy   sm_80   300  failed  0.25 s  kernel.c:3:7: error: no such thing",
    ]


def test_nothing_done_is_no_table() -> None:
    assert lines(Summary(all_rows=True)) == []


def test_colour_is_for_terminals_whose_user_wants_it() -> None:
    assert has_color(Terminal(), {"TERM": "xterm"})
    assert not has_color(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert not has_color(Terminal(), {"TERM": "dumb"})
    assert not has_color(io.StringIO(), {"TERM": "xterm"})
    assert styled("x", "bold red", True) == "\x1b[1;31mx\x1b[0m"
    assert styled("x", "bold red", False) == "x"


def test_coloured_lines_are_the_plain_ones_with_codes() -> None:
    summary = Summary(all_rows=True)
    summary.add(0, bad(request_for()))
    [_, row] = table_lines(summary, color=True, width=None)
    assert "\x1b[1;31mfailed\x1b[0m" in row
