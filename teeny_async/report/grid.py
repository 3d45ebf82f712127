"""Text in columns: aligned, without borders, nothing after the last letter of a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teeny_async.report.style import styled

_GAPS = ("  ", " ")
"""Between columns; the second one where a terminal is too narrow for the first."""
_LEAST = 24
"""Characters that the last column must have room for to be of use."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and the name of its style."""

    text: str = ""
    style: str = ""


class Grid:
    """titles: of the columns; one that starts with ">" is aligned to the right.

    elastic: the last column is cut to what a terminal has room for, and left out when that is too little.
    """

    def __init__(self, titles: Sequence[str], *, elastic: bool = False) -> None:
        self._right = [title.startswith(">") for title in titles]
        self._rows: list[Sequence[Cell]] = [[Cell(title.removeprefix(">"), "bold") for title in titles]]
        self._elastic = elastic

    def add(self, cells: Sequence[Cell]) -> None:
        """Add a row; it has as many cells as there are titles."""
        self._rows.append(cells)

    def lines(self, *, color: bool, width: int | None) -> Iterator[str]:
        """The lines. width: of the terminal; None where there is no end to a line."""
        widths = [max(len(row[column].text) for row in self._rows) for column in range(len(self._right))]
        gap = self._fit(widths, width) if width is not None else _GAPS[0]
        for row in self._rows:
            last = max((column for column, cell in enumerate(row) if cell.text and widths[column]), default=0)
            columns = zip(row, widths, self._right, strict=True)
            padded = [self._padded(*column, color) for column in columns][: last + 1]
            if not self._right[last]:  # the padding of the last cell would be blanks at the end of the line
                padded[-1] = styled(_cut(row[last].text, widths[last]), row[last].style, color)
            yield gap.join(padded)

    def _fit(self, widths: list[int], width: int) -> str:
        """Make the columns fit, as far as they can; what comes between them."""
        gaps = len(widths) - 1
        if self._elastic:
            room = width - sum(widths[:-1]) - gaps * len(_GAPS[0])
            widths[-1] = 0 if room < min(_LEAST, widths[-1]) else min(room, widths[-1])
        return next((gap for gap in _GAPS if sum(widths) + gaps * len(gap) <= width), _GAPS[-1])

    @staticmethod
    def _padded(cell: Cell, width: int, right: bool, color: bool) -> str:
        text = _cut(cell.text, width)
        blank = " " * (width - len(text))
        return blank + styled(text, cell.style, color) if right else styled(text, cell.style, color) + blank


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
