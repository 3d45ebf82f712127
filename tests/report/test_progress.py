"""Progress: what it knows, when it speaks, and that it keeps to standard error."""

from __future__ import annotations

import io
from typing import Any

import pytest

from teeny_async.events import Event, Finished, Queued, Retried, Started
from teeny_async.failures import FailureKind
from teeny_async.report.activity import Activity
from teeny_async.report.live import LiveProgress
from teeny_async.report.progress import LineProgress, NoProgress, make_progress, progress_line
from teeny_async.result import CompileResult
from tests.report.kit import bad, good, key_of, request_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def finished(result: CompileResult, time: float = 0.0) -> Event:
    return Finished(time=time, result=result)


def about(event_type: type[Any], number: int, time: float = 0.0, **fields: Any) -> Event:
    request = request_for(params={"N": number})
    event: Event = event_type(time=time, request=request, key=key_of(request).digest, **fields)
    return event


def activity_at(done: int, total: int | None = 100) -> Activity:
    activity = Activity(total, 0.0)
    for number in range(done):
        activity.see(finished(good(request_for(params={"N": number}))))
    return activity


def test_a_compile_is_waiting_then_running_then_done() -> None:
    activity = Activity(1, 0.0)
    activity.see(about(Queued, 1))
    assert (activity.waiting, activity.running) == (1, [])
    activity.see(about(Started, 1, 2.0, attempt=1))
    assert (activity.waiting, [(run.name, run.since) for run in activity.running]) == (0, [("saxpy sm_90 N=1", 2.0)])
    retried = {"attempt": 1, "kind": FailureKind.SPAWN, "message": "", "delay": 1.0}
    activity.see(about(Retried, 1, 3.0, **retried))
    assert (activity.waiting, activity.running, activity.retries) == (1, [], 1)
    activity.see(about(Started, 1, 4.0, attempt=2))
    activity.see(finished(good(request_for(params={"N": 1}))))
    assert (activity.done, activity.waiting, activity.running) == (1, 0, [])


def test_failures_count_as_failed_whatever_their_source() -> None:
    activity = Activity(None, 0.0)
    activity.see(finished(bad(request_for())))
    activity.see(finished(good(request_for(), source="cached")))
    assert activity.states == {"failed": 1, "cached": 1}
    assert activity.last_failure == "saxpy sm_90: kernel.c:3:7: error: no such thing"


def test_the_time_left_comes_from_the_latest_speed() -> None:
    activity = Activity(1100, 0.0)
    assert activity.seconds_left(1.0) is None
    for number in range(1000):  # hits, all at once
        activity.see(finished(good(request_for(params={"N": number}), source="cached")))
    for second in range(1, 51):
        activity.see(finished(good(request_for(params={"N": 1000 + second}))))
        left = activity.seconds_left(float(second))
    assert left == pytest.approx(50, rel=0.1)


def test_nobody_knows_the_end_of_an_unknown_number() -> None:
    assert activity_at(10, None).seconds_left(5.0) is None
    assert progress_line(activity_at(10, None), 5.0) == "10 in 5.00 s: 10 compiled"


def test_lines_come_for_every_tenth_but_not_too_often() -> None:
    stream, activity = io.StringIO(), Activity(100, 0.0)
    progress = LineProgress(activity, stream)
    said = []
    for second in range(20):
        for number in range(5):
            activity.see(finished(good(request_for(params={"N": second * 5 + number}))))
        progress.refresh(float(second))
        said.append(len(stream.getvalue().splitlines()))
    assert said == sorted(said)
    assert said[-1] == 9  # at 15, 25, ... 95 percent: two seconds apart
    assert stream.getvalue().splitlines()[0].startswith("15 of 100 (15%) in 2.00 s, about")


def test_a_run_that_stands_still_says_so_now_and_then() -> None:
    stream, activity = io.StringIO(), Activity(100, 0.0)
    progress = LineProgress(activity, stream)
    activity.see(about(Started, 1, 0.0, attempt=1))
    for second in range(130):
        progress.refresh(float(second))
    first, second_line = stream.getvalue().splitlines()
    assert first == "0 of 100 (0%) in 1:00; 1 running, the oldest (saxpy sm_90 N=1) for 1:00"
    assert second_line.startswith("0 of 100 (0%) in 2:00")


def test_the_display_suits_the_stream() -> None:
    activity = Activity(1, 0.0)
    terminal = {"TERM": "xterm-256color"}
    assert isinstance(make_progress(activity, quiet=False, environ=terminal, stream=Terminal()), LiveProgress)
    assert isinstance(make_progress(activity, quiet=False, environ={"TERM": "dumb"}, stream=Terminal()), LineProgress)
    assert isinstance(make_progress(activity, quiet=False, environ=terminal, stream=io.StringIO()), LineProgress)
    quiet = make_progress(activity, quiet=True, environ=terminal, stream=Terminal())
    assert type(quiet) is NoProgress


def test_the_live_display_shows_what_runs_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stream, activity = Terminal(), activity_at(25)
    for number in range(8):
        activity.see(about(Started, 100 + number, float(number), attempt=1))
    activity.see(finished(bad(request_for())))
    progress = LiveProgress(activity, stream)
    progress.start()
    progress.refresh(20.0)
    shown = stream.getvalue()
    progress.note("warning: [not markup]")
    progress.stop()
    for expected in ("26/100", "26%", "N=100", "20.0 s", "and 2 more", "last failure", "no such thing"):
        assert expected in shown
    assert "N=107" not in shown
    assert "warning: [not markup]" in stream.getvalue()
    assert stream.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))
    assert capsys.readouterr() == ("", "")
