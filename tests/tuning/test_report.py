"""The report of a run: sections, size, escaping; the trace; the tables and the progress."""

from __future__ import annotations

import html.parser
import io
import itertools
import json
import re
from typing import Any

import pytest
from rich.console import Console

from teeny_async.frozen import FrozenMap
from teeny_async.report.html import LIMIT, page
from teeny_async.report.html_charts import best_so_far
from teeny_async.report.html_heat import axes_of, shade
from teeny_async.report.html_svg import ticks
from teeny_async.report.trace import chrome_trace, compile_spans
from teeny_async.report.tune_live import tune_display
from teeny_async.report.tune_progress import TuneActivity, make_tune_progress
from teeny_async.report.tune_tables import winner_lines
from teeny_async.tuning.result import TuneResult, number_text, stats_of
from teeny_async.tuning.steps import Confirming, Known, Measured, Measuring
from teeny_async.tuning.verdict import Verdict


def verdict(x: int, y: int, target: str = "sm_90", **changes: Any) -> Verdict:
    start = 0.1 * (10 * y + x)
    fields: dict[str, Any] = {
        "objective": "time",
        "status": "ok",
        "value": 1e-4 * (1 + abs(x - 4) + y),
        "compile": {"source": "compiled", "seconds": 0.05 + 0.01 * x, "started": start, "ended": start + 0.15},
        "measurement": {"device": "H200", "started": start + 0.15, "ended": start + 0.2, "p20": 1e-9, "p80": 2e-9},
        "at": start + 0.2,
    }
    config: FrozenMap[Any] = FrozenMap({"X": x, "Y": y, "Z": 1})
    return Verdict(kernel="k", target=target, config=config, **{**fields, **changes})


def failed(x: int, message: str) -> Verdict:
    failure = {
        "kind": "diagnostic",
        "message": message,
        "diagnostics": [{"severity": "error", "message": message, "file": "k.c", "line": 3, "column": 1, "code": None}],
    }
    return verdict(x, 9, status="failed", value=None, failure=failure, measurement={})


def result(*verdicts: Verdict) -> TuneResult:
    return TuneResult(verdicts=verdicts, elapsed=12.0, stats=FrozenMap(stats_of(verdicts)), notes=("no mca: <why>",))


SMALL = [verdict(x, y) for x in range(8) for y in range(5)]


class Tags(html.parser.HTMLParser):
    """Counts elements, and fails for what the page must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        assert tag not in ("script", "link", "img", "iframe")
        assert not any(name in ("src", "href", "onload") for name, _ in attrs)


def test_a_page_has_all_sections_and_needs_no_network() -> None:
    text = page(result(*SMALL, failed(1, "bad <b>tile</b>"), failed(2, "bad <b>tile</b>")))
    for heading in ("Winners", "Heat maps", "Convergence", "Compile times", "Failures", "Timeline", "Notes"):
        assert f"<h2>{heading}</h2>" in text
    tags = Tags()
    tags.feed(text)
    assert tags.found.count("svg") == 4
    assert "http" not in text.replace("http-equiv", "")
    assert "bad &lt;b&gt;tile" in text
    assert "<b>tile" not in text
    assert "k.c:3:1: error" in text
    assert "X=4 Y=0 Z=1" in text
    assert "measured on H200" in text


def test_a_page_without_anything_is_a_page() -> None:
    assert "<h1>tuning</h1>" in page(result())
    assert "no configuration has a value" in page(result(failed(1, "no")))


def test_a_page_of_a_large_run_is_small() -> None:
    targets = [f"sm_{number}" for number in range(75, 95)]
    many = [verdict(x, y, target) for target in targets for x in range(24) for y in range(24)]
    text = page(result(*many))
    assert len(text.encode()) <= LIMIT < 200_000
    assert "Heat maps" in text


def test_estimates_are_called_estimates_everywhere() -> None:
    guess = [verdict(x, 0, objective="occupancy", value=x / 8, measurement={}) for x in range(8)]
    assert "occupancy <span class=tag>estimate" in page(result(*guess))
    assert "occupancy (estimate)" in "\n".join(winner_lines(result(*guess), color=False))


def test_the_trace_is_one_that_perfetto_opens() -> None:
    trace = json.loads(chrome_trace(SMALL))
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 80
    assert all(
        event["dur"] >= 0 and event["ts"] >= 0 and {"pid", "tid", "name", "cat"} <= set(event) for event in spans
    )
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} >= {"compiles", "slot 0", "slot 1", "H200"}


def test_spans_of_a_lane_do_not_overlap() -> None:
    spans = compile_spans(SMALL)
    assert {span.lane for span in spans} == {0, 1}
    for lane in (0, 1):
        own = [span for span in spans if span.lane == lane]
        assert all(first.end <= second.start for first, second in itertools.pairwise(own))


def test_the_axes_are_the_params_that_matter() -> None:
    assert axes_of(result(*SMALL).ranked()) == ("X", "Y")
    assert axes_of([]) is None
    assert axes_of([verdict(1, 1)]) is None


def test_shades() -> None:
    assert (shade(1.0, 1.0, 100.0), shade(100.0, 1.0, 100.0), shade(10.0, 1.0, 100.0)) == (0, 15, 8)
    assert shade(-1.0, -1.0, -0.5) == 0
    assert shade(-0.5, -1.0, -0.5) == 15


def test_convergence_is_a_ratio_to_the_end() -> None:
    points = best_so_far([verdict(0, 0, at=1.0), verdict(7, 4, at=2.0), verdict(4, 0, at=3.0)])
    assert points == [(1.0, pytest.approx(5.0)), (3.0, 1.0)]


def test_numbers_for_people() -> None:
    assert [number_text(value, "s") for value in (2.5, 1.5e-3, 2e-6, 3e-9)] == ["2.5 s", "1.5 ms", "2 us", "3 ns"]
    assert number_text(96, "registers") == "96 registers"
    assert number_text(0.75, "") == "0.75"
    assert ticks(0, 75, 8) == [0, 10, 20, 30, 40, 50, 60, 70]


def test_progress_says_the_best_so_far() -> None:
    stream, activity = io.StringIO(), TuneActivity(0.0)
    activity.total = 10
    progress = make_tune_progress(activity, quiet=False, environ={}, stream=stream)
    for x in (0, 4, 5):
        activity.verdict(verdict(x, 0))
    progress.refresh(100.0)
    assert "3 of 10 (30%)" in stream.getvalue()
    assert re.search(r"best so far: sm_90: 100 us \(.*\), measured, at X=4 Y=0 Z=1", stream.getvalue())
    activity.step(Confirming(target="sm_90", configs=3, rounds=5))
    progress.refresh(101.0)
    assert stream.getvalue().endswith("confirming the best 3 of sm_90, in 5 rounds\n")


def test_a_resumed_run_goes_on_from_where_it_was() -> None:
    """What is known counts as done and says nothing about the speed; the best of it is the best."""
    activity = TuneActivity(0.0)
    activity.total = 100
    for x in range(50):
        activity.step(Known(verdict=verdict(x, 0)))
    assert (activity.done, activity.seconds_left(0.0)) == (50, None)
    for x in range(50, 60):
        activity.verdict(verdict(x, 0))
    assert activity.done == 60
    assert activity.seconds_left(10.0) == pytest.approx(40.0)
    assert "X=4 Y=0" in activity.leaders()[0]
    activity.seconds = 12.0
    assert activity.seconds_left(10.0) == pytest.approx(2.0)


def test_the_live_display_has_what_is_compiled_and_what_is_measured() -> None:
    activity = TuneActivity(0.0)
    activity.total = 40
    activity.step(Measuring(device="H200 (cuda 0)", target="sm_90", config=verdict(1, 2).config, time=1.0))
    activity.verdict(verdict(0, 0))
    activity.verdict(verdict(1, 1, status="wrong", value=None))
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(tune_display(activity, 3.5))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2/40  5%" in text
    assert "2.50 s measuring sm_90 X=1 Y=2 Z=1 on H200 (cuda 0)" in text
    assert "wrong 1" in text
    assert "best sm_90: 500 us" in text
    activity.step(Measured(device="H200 (cuda 0)"))
    assert activity.measuring == []
