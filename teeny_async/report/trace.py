"""When what ran in a tuning run: spans in lanes, and the same as a Chrome trace, which Perfetto opens. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from teeny_async.tuning.result import config_text, spans_of
from teeny_async.tuning.verdict import Verdict

_COMPILE, _MEASURE = 1, 2
"""Process numbers of the trace."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took from `start` to `end`, seconds of the run. lane: 0 for the first of its row."""

    row: str
    start: float
    end: float
    verdict: Verdict
    lane: int = 0


def compile_spans(verdicts: Iterable[Verdict]) -> list[Span]:
    """The compiles that ran, in as few lanes as hold them: the slots."""
    spans = [
        Span("slot", verdict.compile["started"], verdict.compile["ended"], verdict)
        for verdict in verdicts
        if verdict.compile.get("source") == "compiled" and verdict.phase == "search"
    ]
    return in_lanes(spans)


def measure_spans(verdicts: Iterable[Verdict]) -> list[Span]:
    """The measurements; each device is a row of its own."""
    return [
        Span(
            str(verdict.measurement.get("device", "device")),
            start,
            end,
            verdict,
        )
        for verdict in verdicts
        for start, end in spans_of(verdict.measurement)
    ]


def in_lanes(spans: Sequence[Span]) -> list[Span]:
    """Each span in the first lane that is free when it starts."""
    free: list[float] = []
    placed = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        lane = next((lane for lane, end in enumerate(free) if end <= span.start), len(free))
        free[lane : lane + 1] = [span.end]
        placed.append(Span(span.row, span.start, span.end, span.verdict, lane))
    return placed


def chrome_trace(verdicts: Sequence[Verdict]) -> str:
    """JSON in the Trace Event Format: complete events, microseconds; a thread for each slot and device."""
    events: list[dict[str, Any]] = [_name("process_name", _COMPILE, 0, "compiles")]
    compiles, measures = compile_spans(verdicts), measure_spans(verdicts)
    lanes = sorted({span.lane for span in compiles})
    events += [_name("thread_name", _COMPILE, lane, f"slot {lane}") for lane in lanes]
    devices = list(dict.fromkeys(span.row for span in measures))
    if devices:
        events.append(_name("process_name", _MEASURE, 0, "measurements"))
        events += [_name("thread_name", _MEASURE, number, device) for number, device in enumerate(devices)]
    events += [_event(span, "compile", _COMPILE, span.lane) for span in compiles]
    events += [_event(span, "measure", _MEASURE, devices.index(span.row)) for span in measures]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _event(span: Span, category: str, process: int, thread: int) -> dict[str, Any]:
    verdict = span.verdict
    return {
        "name": f"{verdict.target} {config_text(verdict.config)}",
        "cat": category,
        "ph": "X",
        "ts": round(span.start * 1e6, 1),
        "dur": round(max(0.0, span.end - span.start) * 1e6, 1),
        "pid": process,
        "tid": thread,
        "args": {"kernel": verdict.kernel, "status": verdict.status, verdict.objective: verdict.value},
    }


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
