"""The other charts of the report: convergence, compile times, the timeline of slots and devices. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from teeny_async.report.html_svg import chart, line, number, rect, text, ticks
from teeny_async.report.trace import Span, compile_spans, measure_spans
from teeny_async.tuning.result import config_text, number_text
from teeny_async.tuning.verdict import Verdict

_WIDTH, _LEFT, _RIGHT = 860.0, 56.0, 130.0
_HEIGHT = 230.0
_MAX_LINES = 10
"""Different colours of lines."""
_MAX_RATIO = 10.0
_BINS = 40
_LANE = 13.0
_MAX_LANES = 24
_FITS = 9
"""Characters beside a lane."""


def convergence(verdicts: Sequence[Verdict], names: Mapping[tuple[str, str], str]) -> str | None:
    """The best so far of each search, by the seconds of the run, as a ratio to what it was in the end.

    names: of the searches, in order: (kernel, target) -> text.
    """
    curves = {}
    for search, name in names.items():
        points = best_so_far([v for v in verdicts if (v.kernel, v.target) == search])
        if points:
            curves[name] = points
    if not curves:
        return None
    if all(len(points) == 1 for points in curves.values()):
        return "<p>Every search met a best one with its first configuration that has a value.</p>"
    end = max(verdict.at for verdict in verdicts) or 1.0
    top = min(_MAX_RATIO, max(1.05, *(ratio for points in curves.values() for _, ratio in points)))
    right = _WIDTH - _RIGHT

    def place(at: float, ratio: float) -> tuple[float, float]:
        share = math.log(min(ratio, top)) / math.log(top)
        return _LEFT + (right - _LEFT) * at / end, _HEIGHT - 30 - share * (_HEIGHT - 50)

    parts = [_seconds_axis(end, right, _HEIGHT - 30)]
    marks = _apart(
        [ratio for ratio in (1, 10, 2, 5, 3, 1.5, 1.25, 1.1) if ratio <= top], lambda ratio: place(0, ratio)[1]
    )
    for ratio in marks:
        y = place(0, ratio)[1]
        more = "+" if ratio == _MAX_RATIO else ""  # what was worse is drawn there as well
        parts += [line([(_LEFT, y), (right, y)], "grid"), text(_LEFT - 6, y + 4, f"{ratio:g}x{more}", "tick", "end")]
    lowest = 0.0
    for index, (name, points) in enumerate(list(curves.items())[:_MAX_LINES]):
        steps = [place(*points[0])]
        for at, ratio in points[1:]:
            x, y = place(at, ratio)
            steps += [(x, steps[-1][1]), (x, y)]
        steps.append((right, steps[-1][1]))
        lowest = 16.0 + index * 15
        parts += [line(steps, f"curve c{index}"), rect((right + 12, lowest - 8), 9, 9, f"k{index}")]
        parts.append(text(right + 26, lowest, _cut(name, 15), "tick"))
    return chart(_WIDTH, _HEIGHT, parts, "best result so far, as a ratio to the final one, by time")


def _apart(marks: Sequence[float], y_of: Callable[[float], float]) -> list[float]:
    """Those, the first ones first, whose labels do not touch."""
    kept: list[float] = []
    for mark in marks:
        if all(abs(y_of(mark) - y_of(other)) >= 13 for other in kept):
            kept.append(mark)
    return kept


def best_so_far(verdicts: Sequence[Verdict]) -> list[tuple[float, float]]:
    """(seconds of the run, ratio to the final best) at each improvement of the search."""
    scored = sorted(
        (verdict.at, verdict.score)
        for verdict in verdicts
        if verdict.score is not None and verdict.phase == "search" and verdict.fidelity == 1.0
    )
    points: list[tuple[float, float]] = []
    best = math.inf
    for at, score in scored:
        if score < best:
            best = score
            points.append((at, score))
    return [(at, _ratio(score, best)) for at, score in points]


def _ratio(score: float, final: float) -> float:
    """How many times worse a score is than the final one; a higher-is-better one has a negative score."""
    if score == final:
        return 1.0
    if final > 0:
        return score / final
    if score < 0:
        return final / score
    return _MAX_RATIO


def histogram(verdicts: Sequence[Verdict]) -> str | None:
    """How long compiles took, on a logarithmic scale."""
    seconds = sorted(
        v.compile["seconds"] for v in verdicts if v.compile.get("source") == "compiled" and v.phase == "search"
    )
    seconds = [each for each in seconds if each > 0]
    if not seconds:
        return None
    low, high = math.log10(seconds[0]), math.log10(seconds[-1])
    low, high = (low, high) if high - low > 0.05 else (low - 0.1, high + 0.1)
    counts = [0] * _BINS
    for each in seconds:
        counts[min(_BINS - 1, int((math.log10(each) - low) / (high - low) * _BINS))] += 1
    right, floor, most = _WIDTH - 30, _HEIGHT - 30, max(counts)
    step = (right - _LEFT) / _BINS
    parts = []
    for mark in ticks(0, most, 4):
        y = floor - mark / most * (floor - 16)
        parts += [line([(_LEFT, y), (right, y)], "grid"), text(_LEFT - 6, y + 4, f"{mark:g}", "tick", "end")]
    for index, count in enumerate(counts):
        height = count / most * (floor - 16)
        if count:
            begin, end = (10 ** (low + (high - low) * (index + side) / _BINS) for side in (0, 1))
            title = f"{count} compiles of {number_text(begin, 's')} to {number_text(end, 's')}"
            parts.append(rect((_LEFT + index * step, floor - height), step - 1, height, "bar", title))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LEFT + share * (right - _LEFT)
        parts.append(text(x, floor + 15, number_text(10 ** (low + (high - low) * share), "s"), "tick", "middle"))
    median = seconds[len(seconds) // 2]
    x = _LEFT + (math.log10(median) - low) / (high - low) * (right - _LEFT)
    parts += [line([(x, 12), (x, floor)], "mark"), text(x + 4, 12, f"median {number_text(median, 's')}", "tick")]
    return chart(_WIDTH, _HEIGHT, parts, "distribution of compile times")


def timeline(verdicts: Sequence[Verdict], *, single: bool) -> str | None:
    """What each slot compiled and each device measured, by the seconds of the run.

    single: each span is a shape of its own, with what it was as a tip.
    """
    compiles, measures = compile_spans(verdicts), measure_spans(verdicts)
    if not compiles and not measures:
        return None
    end = max(span.end for span in (*compiles, *measures)) or 1.0
    rows = [f"slot {lane}" for lane in sorted({span.lane for span in compiles})][:_MAX_LANES]
    devices = list(dict.fromkeys(span.row for span in measures))
    right = _WIDTH - 20
    left = _LEFT + 8
    floor = 10 + _LANE * len(rows) + (8 if devices and rows else 0) + _LANE * 1.6 * len(devices)
    parts = [_seconds_axis(end, right, floor + 4, left)]
    scale = (right - left) / end
    for row, name in enumerate(rows):
        parts.append(text(left - 6, 10 + row * _LANE + 9, name, "tick", "end"))
    shown = [span for span in compiles if span.lane < len(rows)]
    parts += _Bars("compile", left, scale, _LANE - 2, single).of(shown, lambda span: 10 + span.lane * _LANE)
    start = 10 + _LANE * len(rows) + (8 if rows else 0)
    for row, name in enumerate(devices):
        parts.append(text(left - 6, start + row * _LANE * 1.6 + 12, device_names(verdicts)[name], "tick", "end"))
    bars = _Bars("measure", left, scale, _LANE * 1.6 - 3, single)
    parts += bars.of(measures, lambda span: start + devices.index(span.row) * _LANE * 1.6)
    return chart(_WIDTH, floor + 30, parts, "what ran when, on each slot and device")


@dataclass(frozen=True, slots=True)
class _Bars:
    """kind: their class. left: of second 0; scale: of a second. single: each a shape of its own, with a tip."""

    kind: str
    left: float
    scale: float
    height: float
    single: bool

    def of(self, spans: Sequence[Span], y_of: Callable[[Span], float]) -> list[str]:
        """The shapes of some spans."""
        parts = []
        merged: dict[tuple[str, float], list[tuple[float, float]]] = defaultdict(list)
        for span in spans:
            y, failed = y_of(span), span.verdict.status not in ("ok", "unranked")
            x, width = self.left + span.start * self.scale, max(0.6, (span.end - span.start) * self.scale)
            name = f"{self.kind} bad" if failed else self.kind
            if self.single:
                took = number_text(span.end - span.start, "s")
                title = f"{span.verdict.target} {config_text(span.verdict.config)}: {took}"
                parts.append(rect((x, y), max(0.6, width - 0.3), self.height, name, title))
            else:
                _join(merged[name, y], x, x + width)
        for (name, y), pieces in merged.items():
            parts.append(f'<path class="{name}" d="{"".join(self._box(a, b, y) for a, b in pieces)}"/>')
        return parts

    def _box(self, start: float, end: float, y: float) -> str:
        return f"M{number(start)} {number(y)}h{number(end - start)}v{number(self.height)}h-{number(end - start)}z"


def _join(pieces: list[tuple[float, float]], start: float, end: float) -> None:
    """Add a piece; what would touch the one before it on a screen becomes part of it."""
    if pieces and start - pieces[-1][1] < 0.4:
        pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
    else:
        pieces.append((start, end))


def _seconds_axis(end: float, right: float, y: float, left: float = _LEFT) -> str:
    parts = [line([(left, y), (right, y)], "axisline")]
    for mark in ticks(0, end, 8):
        x = left + (right - left) * mark / end
        parts += [line([(x, y), (x, y + 4)], "axisline"), text(x, y + 16, f"{mark:g} s", "tick", "middle")]
    return "".join(parts)


def device_names(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Devices that something was measured on -> a name that fits beside a lane."""
    names = dict.fromkeys(span.row for span in measure_spans(verdicts))
    return {name: name if len(name) <= _FITS else f"device {row}" for row, name in enumerate(names)}


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
