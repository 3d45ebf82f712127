"""The live display of a tuning run on a terminal."""

from __future__ import annotations

from typing import TextIO

from rich.console import Group, RenderableType
from rich.text import Text

from teeny_async.report.activity import Activity
from teeny_async.report.live import LiveProgress, display
from teeny_async.report.tune_progress import Leaders


class TuneLive(LiveProgress):
    """The compiles, and under them the best so far for each target."""

    def __init__(self, activity: Activity, leaders: Leaders, stream: TextIO) -> None:
        super().__init__(activity, stream)
        self._leaders = leaders

    def refresh(self, now: float) -> None:
        lines: list[RenderableType] = [
            Text.assemble((" best ", "green"), line, no_wrap=True, overflow="ellipsis")
            for line in self._leaders.lines()
        ]
        verdicts = Text(f" verdicts {self._leaders.done:,}", "dim")
        self._live.update(Group(display(self._activity, now), verdicts, *lines), refresh=True)
