"""The live display of a terminal: a bar, the counts, and the compiles that have been running longest."""

from __future__ import annotations

from typing import ClassVar, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from teeny_async.report.activity import Activity
from teeny_async.report.style import STYLES
from teeny_async.report.summary import STATES
from teeny_async.report.text import seconds_text

_MOST_RUNNING = 6
"""Lines for single compiles; on a large machine the rest is counted."""
_OLD = 10.0
"""Seconds after which an age is shown in another colour."""
_BAR = 40


class LiveProgress:
    """Redrawn in place, and gone when the run has ended: what remains is the table."""

    interval: ClassVar[float] = 0.1

    def __init__(self, activity: Activity, stream: TextIO) -> None:
        self._activity = activity
        self._console = Console(file=stream, highlight=False)
        # No thread of its own, and no hands on sys.stdout: that may be a pipe of data.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def start(self) -> None:
        self._live.start()

    def refresh(self, now: float) -> None:
        self._live.update(display(self._activity, now), refresh=True)

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def stop(self) -> None:
        self._live.stop()


def display(activity: Activity, now: float) -> RenderableType:
    """What is shown at a moment."""
    return Group(bar(activity, now), counts(activity), *running(activity, now), *failure(activity))


def bar(activity: Activity, now: float) -> RenderableType:
    """How much is done, and how long it took and will take."""
    done, total = activity.done, activity.total
    grid = Table.grid(padding=(0, 1))
    strip = ProgressBar(total=total, completed=done, width=_BAR, pulse=total is None, complete_style="green")
    share = f"{done:,}" if total is None else f"{done:,}/{total:,}  {done * 100 // (total or 1)}%"
    clock = seconds_text(now - activity.began)
    left = activity.seconds_left(now)
    clock += f", about {seconds_text(left)} left" if left and done != total else ""
    grid.add_row("", strip, Text(share, "bold"), Text(clock, "dim"))
    return grid


def counts(activity: Activity) -> Text:
    """What came of the compiles."""
    text = Text(" ", no_wrap=True, overflow="ellipsis")
    for state in STATES:
        count = activity.states[state]
        text.append(f"{state} ", "dim" if not count else "")
        text.append(f"{count:,}", STYLES[state] if count else "dim")
        text.append("   ")
    if activity.waiting:
        text.append(f"waiting {activity.waiting:,}   ", "dim")
    if activity.retries:
        text.append(f"retries {activity.retries:,}", "yellow")
    return text


def running(activity: Activity, now: float) -> list[RenderableType]:
    """The compiles under way, the oldest first; nothing when there are none."""
    shown = activity.running[:_MOST_RUNNING]
    more = len(activity.running) - len(shown)
    if not shown:
        return []
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    for compile in shown:
        age = now - compile.since
        grid.add_row(Text(f"  {seconds_text(age)}", "yellow" if age > _OLD else "dim"), Text(compile.name))
    if more > 0:
        grid.add_row("", Text(f"and {more:,} more", "dim"))
    return [grid]


def failure(activity: Activity) -> list[RenderableType]:
    """The last failure, on one line."""
    if not activity.last_failure:
        return []
    return [Text.assemble((" last failure ", "red"), activity.last_failure, no_wrap=True, overflow="ellipsis")]
