"""An `Explanation` as people read it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from teeny_async.nearest import Neighbour
from teeny_async.pipeline.explaining import Explanation
from teeny_async.report.text import params_text, seconds_text

_DAY = 86_400.0


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """The verdict, the nearest entry of a miss with what differs, and the components of the key."""
    request = explanation.request
    params = params_text(request.params)
    name = " ".join(filter(None, (request.kernel.name, str(explanation.target), params)))
    yield f"{name}: {_verdict(explanation)}"
    yield f"    key {explanation.key.digest}"
    if explanation.result_key not in (None, explanation.key.digest):
        yield f"    with the files that are read: {explanation.result_key}"
    if explanation.nearest is not None:
        yield from _nearest_lines(explanation.nearest)
    elif explanation.state == "miss":
        yield "    no stored entry is like it"
    yield "    components of the key:"
    yield from _table(explanation.components)


def _verdict(explanation: Explanation) -> str:
    if explanation.state == "unkeyable":
        return f"not cached, compiled each time: {explanation.why}"
    if explanation.state == "miss":
        return "miss" + (f": {explanation.why}" if explanation.why else "")
    what = "hit" if explanation.failure is None else f"hit: a remembered refusal: {explanation.failure.message}"
    seconds, created = explanation.stored.get("seconds"), explanation.stored.get("created")
    if isinstance(seconds, int | float) and isinstance(created, int | float):
        what += f" (compiled in {seconds_text(seconds)}, {_age_text(time.time() - created)} ago)"
    return what


def _nearest_lines(nearest: Neighbour) -> Iterator[str]:
    params = params_text(nearest.params)
    name = " ".join(filter(None, (nearest.kernel, nearest.target, params)))
    yield f"    nearest entry: {name}, by {nearest.toolchain}"
    yield f"        key {nearest.digest}"
    if not nearest.differs:
        yield "        no known component of its key differs"
        return
    yield "        which differs in:"
    for label, (asked, stored) in nearest.differs.items():
        yield f"        {label}"
        yield f"            asked for  {_value(asked)}"
        yield f"            stored     {_value(stored)}"


def _table(components: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, components), default=0)
    for label, value in components.items():
        yield f"        {label:{width}}  {value}".rstrip()


def _value(value: str | None) -> str:
    return "(absent)" if value is None else value


def _age_text(seconds: float) -> str:
    days = int(seconds // _DAY)
    if days:
        return "1 day" if days == 1 else f"{days:,} days"
    return seconds_text(max(seconds, 0.0))
