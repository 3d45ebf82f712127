"""The live display of a tuning run on a terminal."""

from __future__ import annotations

from typing import TextIO

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from teeny_async.report.live import LiveProgress, bar, counts, failure, running
from teeny_async.report.text import seconds_text
from teeny_async.report.tune_progress import Busy, TuneActivity


class TuneLive(LiveProgress):
    """The verdicts, the compiles and measurements under way, and under them the best so far for each target."""

    def __init__(self, activity: TuneActivity, stream: TextIO) -> None:
        super().__init__(activity, stream)
        self._search = activity

    def refresh(self, now: float) -> None:
        self._live.update(tune_display(self._search, now), refresh=True)


def tune_display(activity: TuneActivity, now: float) -> RenderableType:
    """What is shown at a moment."""
    line = counts(activity)
    for status, count in activity.bad.items():
        line.append(f"   {status} ").append(f"{count:,}", "bold red")
    if activity.known:
        line.append(f"   known {activity.known:,}", "dim")
    # What comes and goes is below what stays, so that nothing jumps.
    parts: list[RenderableType] = [bar(activity, now), line]
    parts += [
        Text.assemble((" best ", "green"), text, no_wrap=True, overflow="ellipsis") for text in activity.leaders()
    ]
    if stage := activity.stage():
        parts.append(Text(f" {stage}", "cyan", no_wrap=True, overflow="ellipsis"))
    parts += failure(activity)
    if activity.measuring:
        parts.append(_measuring(activity.measuring, now))
    return Group(*parts, *running(activity, now))


def _measuring(busy: list[Busy], now: float) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    for each in busy:
        grid.add_row(
            Text(f"  {seconds_text(now - each.since)}", "dim"),
            Text.assemble(("measuring ", "cyan"), each.name, (f" on {each.device}", "dim")),
        )
    return grid
