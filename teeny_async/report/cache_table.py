"""What a cache holds and has saved, by toolchain and target, as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from teeny_async.report.text import seconds_text, size_text

_HEADINGS = ("toolchain", "target", "entries", "bytes", "hits", "saved")
_TEXTS = 2
"""Columns of text, which begin at the left; numbers end at the right."""


def group_lines(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table's lines. groups: `GroupStats` as plain data."""
    ordered = sorted(groups, key=lambda group: (group["toolchain"], group["target"]))
    rows = [_HEADINGS, *map(_row, ordered)]
    if len(ordered) > 1:
        rows.append(_row({"toolchain": "all", "target": "", **_sums(ordered)}))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(
            cell.ljust(width) if place < _TEXTS else cell.rjust(width) for place, (cell, width) in enumerate(cells)
        )
        yield line.rstrip()


def _row(group: Mapping[str, Any]) -> tuple[str, ...]:
    hits = f"{group['hits']:,}"
    saved = seconds_text(group["seconds_saved"]) if group["hits"] else "-"
    known = group["toolchain"] or "unknown"
    return (known, group["target"], f"{group['entries']:,}", size_text(group["bytes"]), hits, saved)


def _sums(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: sum(group[name] for group in groups) for name in ("entries", "bytes", "hits", "seconds_saved")}
