"""Small pieces of SVG, as text. Pure. Colours are classes of the page's style, so that dark pages work too."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

BUCKETS = 16
"""Colours of a heat map."""
_STOPS = ((253, 231, 37), (94, 201, 98), (33, 145, 140), (59, 82, 139), (68, 1, 84))
"""Of the scale "viridis", the best first; source: matplotlib, CC0."""


def heat_styles() -> str:
    """The style rules of a heat map's classes, `h0` (best) and so on."""
    rules = []
    for bucket in range(BUCKETS):
        place = bucket / (BUCKETS - 1) * (len(_STOPS) - 1)
        low = min(int(place), len(_STOPS) - 2)
        pairs = zip(_STOPS[low], _STOPS[low + 1], strict=True)
        mixed = "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in pairs)
        rules.append(f".h{bucket}{{fill:#{mixed}}}")
    return "".join(rules)


def number(value: float) -> str:
    """A coordinate, as short as will do."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "") -> str:
    """kind: a class of the page's style. anchor: "middle" or "end"."""
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{number(x)}" y="{number(y)}"{attributes}>{html.escape(content)}</text>'


def rect(place: tuple[float, float], width: float, height: float, kind: str, title: str = "") -> str:
    """place: of the left upper corner. title: the tip that a browser shows."""
    shape = f'<rect x="{number(place[0])}" y="{number(place[1])}" width="{number(width)}" height="{number(height)}" class="{kind}"'
    return f"{shape}><title>{html.escape(title)}</title></rect>" if title else f"{shape}/>"


def boxes(places: Iterable[tuple[float, float]], width: float, height: float, kind: str) -> str:
    """Many equal rectangles of one colour as one path: a tenth of their size as single ones."""
    edge, down = number(width), number(height)
    path = "".join(f"M{number(x)} {number(y)}h{edge}v{down}h-{edge}z" for x, y in places)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{number(x)},{number(y)}" for x, y in points)}"/>'


def chart(width: float, height: float, parts: Iterable[str], label: str) -> str:
    """A wide `svg`: on a narrow screen it is scrolled, and not made so small that nobody can read it."""
    return f"<div class=scroll>{svg(width, height, parts, label)}</div>"


def svg(width: float, height: float, parts: Iterable[str], label: str) -> str:
    """label: what it shows, for those who do not see it."""
    size = f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}"'
    return f'<svg {size} role="img" aria-label="{html.escape(label)}">{"".join(parts)}</svg>'


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, about `count` of them."""
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next((factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= count), 10)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]
