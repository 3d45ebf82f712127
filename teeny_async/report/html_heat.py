"""Heat maps: how good each pair of values of the two params that matter most is, for each target. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from teeny_async.report.html_svg import BUCKETS, boxes, rect, svg, text
from teeny_async.tuning.result import config_text, number_text, ranked
from teeny_async.tuning.verdict import Verdict

_CELL = 26.0
_SMALL = 15.0
_LEFT, _TOP, _BOTTOM = 62.0, 26.0, 34.0
_MAX_EDGE = 48
_NO_VALUE = "none"

Cells = dict[tuple[Any, Any], Verdict]


def heat_map(verdicts: Sequence[Verdict], *, single: bool) -> tuple[str, str] | None:
    """(SVG, caption) for the verdicts of one kernel on one target; None with fewer than two values to compare.

    single: cells are shapes of their own, with the value as a tip. A cell shows the best of all configurations that
    have its two values; its colour is how much worse than the best of the map that is, on a logarithmic scale.
    """
    found = ranked(verdicts)
    axes = axes_of(found)
    if not axes:
        return None
    x_name, y_name = axes
    x_values = _values(verdicts, x_name)
    y_values = _values(verdicts, y_name) if y_name else [""]
    cells: Cells = {}
    for verdict in found:
        cells.setdefault((verdict.config[x_name], verdict.config.get(y_name, "")), verdict)
    tried = {(verdict.config[x_name], verdict.config.get(y_name, "")) for verdict in verdicts}
    edge = _CELL if max(len(x_values), len(y_values)) <= 16 else _SMALL
    parts = [*_labels(x_name, y_name, x_values, y_values, edge)]
    parts += _cells(cells, tried, (x_values, y_values), edge, single)
    width, height = _LEFT + edge * len(x_values) + 10, _TOP + edge * len(y_values) + _BOTTOM
    label = f"{found[0].target}: {found[0].goal.label} by {x_name}" + (f" and {y_name}" if y_name else "")
    worst = max(cells.values(), key=lambda verdict: verdict.score or 0.0)
    unit = found[0].goal.unit
    caption = f"best {number_text(found[0].value or 0, unit)}, worst cell {number_text(worst.value or 0, unit)}"
    return svg(max(width, 190), height, parts, label), caption


def axes_of(found: Sequence[Verdict]) -> tuple[str, str] | None:
    """The two params whose values change the best result most; the second is "" when there is only one."""
    effects: dict[str, float] = {}
    for name in found[0].config if found else ():
        best: dict[Any, float] = {}
        for verdict in found:
            score = verdict.score or 0.0
            value = verdict.config.get(name)
            best[value] = min(score, best.get(value, score))
        if len(best) > 1 and len(best) <= _MAX_EDGE:
            effects[name] = max(best.values()) - min(best.values())
    most = sorted(effects, key=lambda name: -effects[name])[:2]
    names = [name for name in effects if name in most]  # the maps of all targets lie the same way
    return (names[0], names[1] if len(names) > 1 else "") if names else None


def shade(score: float, best: float, worst: float) -> int:
    """The bucket of a score, 0 for the best; logarithmic where the scores allow it."""
    if worst <= best:
        return 0
    logarithmic = best > 0
    share = math.log(score / best) / math.log(worst / best) if logarithmic else (score - best) / (worst - best)
    return min(BUCKETS - 1, max(0, round(share * (BUCKETS - 1))))


def _cells(
    cells: Cells, tried: set[tuple[Any, Any]], axes: tuple[Sequence[Any], Sequence[Any]], edge: float, single: bool
) -> list[str]:
    xs, ys = axes
    scores = [verdict.score or 0.0 for verdict in cells.values()]
    best, worst = min(scores), max(scores)
    winner = next(iter(cells.values()))  # they came in order
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    parts = []
    for column, x in enumerate(xs):
        for row, y in enumerate(ys):
            place = (_LEFT + column * edge, _TOP + row * edge)
            verdict = cells.get((x, y))
            if verdict is None:
                if (x, y) in tried:
                    groups[_NO_VALUE].append(place)
                continue
            kind = f"h{shade(verdict.score or 0.0, best, worst)}"
            if single:
                title = f"{config_text(verdict.config)}: {number_text(verdict.value or 0, verdict.goal.unit)}"
                parts.append(rect(place, edge - 1, edge - 1, kind, title))
            else:
                groups[kind].append(place)
            if verdict is winner:
                parts.append(rect((place[0] + 1, place[1] + 1), edge - 3, edge - 3, "winner"))
    return [*(boxes(places, edge - 1, edge - 1, kind) for kind, places in groups.items()), *parts]


def _labels(x_name: str, y_name: str, xs: Sequence[Any], ys: Sequence[Any], edge: float) -> list[str]:
    parts = [text(_LEFT + len(xs) * edge / 2, _TOP + len(ys) * edge + 29, x_name, "axis", "middle")]
    if y_name:
        parts.append(text(_LEFT - 6, _TOP - 9, y_name, "axis", "end"))
    widest = max(len(_short(value)) for value in xs)
    every = max(1, math.ceil((widest * 6.2 + 4) / edge))
    for column in range(0, len(xs), every):
        place = (_LEFT + (column + 0.5) * edge, _TOP + len(ys) * edge + 13)
        parts.append(text(*place, _short(xs[column]), "tick", "middle"))
    parts += [
        text(_LEFT - 6, _TOP + (row + 0.65) * edge, _short(y), "tick", "end") for row, y in enumerate(ys) if y_name
    ]
    return parts


def _short(value: Any) -> str:
    shown = str(value) if value != "" else "(none)"
    return shown if len(shown) <= 10 else shown[:9] + "…"


def _values(verdicts: Sequence[Verdict], name: str) -> list[Any]:
    """The values of a param, numbers by size."""
    values: Mapping[Any, None] = dict.fromkeys(verdict.config.get(name) for verdict in verdicts)
    return sorted(values, key=lambda value: (isinstance(value, str), value))
