"""What is kept of a run, and what is said at its end."""

from __future__ import annotations

from dataclasses import replace

from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.stats import CompilerStats
from teeny_async.report.closing import cost_line, count_line, failure_lines, uncached_lines
from teeny_async.report.summary import MAX_ROWS, Summary, main_size
from teeny_async.result import Artifact
from tests.report.kit import KERNEL, bad, good, request_for


def test_rows_are_in_the_order_of_the_requests() -> None:
    summary = Summary(all_rows=True)
    for number in (2, 0, 1):
        summary.add(number, good(request_for(params={"N": number})))
    assert [row.params["N"] for row in summary.rows] == [0, 1, 2]
    assert summary.states == {"compiled": 3}
    assert (summary.done, summary.exit_code) == (3, 0)


def test_a_row_says_what_came_of_a_request() -> None:
    summary = Summary(all_rows=True)
    artifact = Artifact(outputs=FrozenMap({"ptx": b"text", "cubin": b"binary"}), metrics=FrozenMap({"registers": 18}))
    summary.add(0, good(request_for(), outcome=artifact))
    summary.add(1, good(request_for(), source="cached", attempts=()))
    summary.add(2, bad(request_for()))
    compiled, cached, failed = summary.rows
    assert (compiled.state, compiled.size, compiled.metrics["registers"], compiled.seconds) == ("compiled", 6, 18, 0.25)
    assert (cached.state, cached.size, cached.seconds) == ("cached", 10, None)
    assert (failed.state, failed.size, failed.detail) == ("failed", None, "kernel.c:3:7: error: no such thing")


def test_a_huge_run_keeps_totals_and_a_bounded_number_of_failures() -> None:
    summary = Summary(all_rows=False)
    for number in range(3 * MAX_ROWS):
        request = request_for("sm_80" if number % 2 else "sm_90")
        summary.add(number, good(request) if number % 3 else bad(request, f"reason_{number}"))
    assert summary.states == {"compiled": 2 * MAX_ROWS, "failed": MAX_ROWS}
    assert [row.state for row in summary.rows] == ["failed"] * MAX_ROWS
    assert summary.targets["sm_80"].states == {"compiled": MAX_ROWS, "failed": MAX_ROWS // 2}
    assert summary.targets["sm_90"].size.most == 10
    assert (len(summary.failures), summary.ungrouped) == (100, MAX_ROWS - 100)
    assert list(failure_lines(summary))[-1] == f"and {MAX_ROWS - 10} more failures, for other reasons"


def test_equal_failures_are_told_once_by_their_first_request() -> None:
    summary = Summary(all_rows=True, paths={id(KERNEL): "src/saxpy.c"})
    for number in (5, 2, 9):
        summary.add(number, bad(request_for(params={"N": number})))
    summary.add(1, bad(request_for("sm_80"), "something else", FailureKind.INFEASIBLE))
    assert list(failure_lines(summary)) == [
        "saxpy sm_90 N=2 (and 2 more): diagnostic: src/saxpy.c:3:7: error: no such thing",
        "    command: zig clang 'a b'",
        "    The compiler refused its input; mend the kernel, or the flags and macros it was given.",
        "saxpy sm_80: infeasible: src/saxpy.c:3:7: error: something else",
        "    command: zig clang 'a b'",
        "    This target cannot hold this configuration; use smaller tiles or leave the pair out.",
    ]
    assert summary.rows[0].detail == "saxpy.c:3:7: error: something else"


def test_the_gravest_failure_decides_the_exit_code() -> None:
    summary = Summary(all_rows=True)
    summary.add(0, bad(request_for()))
    assert summary.exit_code == 1
    summary.add(1, bad(request_for(), kind=FailureKind.TOOL_MISSING))
    assert summary.exit_code == 3


def test_the_size_is_that_of_the_last_stage() -> None:
    assert main_size({"ptx": b"12", "cubin": b"123"}) == 3
    assert main_size({"hsaco": b"1234"}) == 4
    assert main_size({}) is None


def test_closing_lines() -> None:
    summary = Summary(all_rows=True)
    summary.add(0, good(request_for()))
    summary.add(1, good(request_for(), source="cached", uncached="it reads the clock"))
    stats = CompilerStats(runs=1, slots=2, busy=1.5, wall=1.0, cpu=0.5, max_rss=2**26)
    assert count_line(summary, stats, 2) == "2 results in 1.00 s: 1 compiled, 1 cached"
    assert count_line(summary, stats, 1000) == "2 of 1,000 results in 1.00 s: 1 compiled, 1 cached"
    assert cost_line(stats) == "2 slots, 75% busy; 0.50 s of CPU; the largest compiler took 64.0 MiB"
    assert cost_line(CompilerStats()) is None
    retried = replace(stats, retries=FrozenMap({"spawn": 2}), cache_faults=1)
    assert str(cost_line(retried)).endswith("; 2 attempts repeated (spawn 2); 1 cache fault")
    assert list(uncached_lines(summary)) == ["not cached: saxpy: it reads the clock"]
