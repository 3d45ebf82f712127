"""Colours of a terminal, by the names that rich has for them; tables need no more of rich than that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from teeny_async.report.summary import State

STYLES: dict[State, str] = {"compiled": "green", "cached": "cyan", "coalesced": "blue", "failed": "bold red"}
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def styled(text: str, style: str, color: bool) -> str:
    """A text between the codes that switch a style on and off; as it is when there is none to show."""
    if not color or not style or not text:
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def moves_cursor(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal that does as it is told."""
    return stream.isatty() and environ.get("TERM") not in (None, "", "dumb", "unknown")


def has_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """A terminal of a user who has not said NO_COLOR; see https://no-color.org."""
    return moves_cursor(stream, environ) and not environ.get("NO_COLOR")
