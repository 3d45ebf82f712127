"""What can still be read of a damaged database goes into the one that takes its place.

A few flipped bytes make a database unfit to be written to, and leave nearly every entry in it whole; each
entry proves itself. The ones that were stored last come first: they are what this session has just made,
and would otherwise make twice. Then come those that only the index leads to, in the order of their keys: a row between two
bad pages that the first walk stepped over, and one whose own copy of its key is damaged.
"""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from teeny_async.store.framing import CorruptEntry, label, unpack_note, unpack_under
from teeny_async.store.raw_cache import RawCache
from teeny_async.store.raw_disk import RawDisk
from teeny_async.store.read_only import connect

Item = tuple[bytes | str, bytes, str | None]
"""Key, value, label."""

_ROWS_AT_ONCE = 64
_FAILURES = 64
"""Places at which reading may fail before it is given up. What follows one is reached in growing steps."""


def salvage(damaged: Path, cache: RawCache, seconds: float) -> int:
    """Store the good entries and notes of a damaged layout folder; how many. At most so many seconds long.

    Raises what writing raises; whatever fails in reading is an end, or a gap.
    """
    deadline = time.monotonic() + seconds
    saved = 0
    items = _items(damaged, lambda: time.monotonic() < deadline)
    while some := list(itertools.islice(items, _ROWS_AT_ONCE)):
        new = [item for item in some if not cache.has(item[0])]
        cache.publish(new)
        saved += len(new)
    return saved


def _items(damaged: Path, goes_on: Callable[[], bool]) -> Iterator[Item]:
    disk = RawDisk(str(damaged))
    try:
        connection = connect(damaged)
    except sqlite3.Error:
        return
    good: set[object] = set()
    try:
        for key, mode, filename, value in itertools.chain(_rows(connection), _rows_of_index(connection, good)):
            if not goes_on():
                return
            try:
                item = _verified(key, disk.fetch(mode, filename, value, False))
            except (CorruptEntry, OSError):
                continue
            if item is not None:
                good.add(key)
                yield item
    finally:
        connection.close()


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[object, object, object, object]]:
    """(key, mode, file name, value), the latest row first, around the places that cannot be read."""
    query = "SELECT rowid, key, mode, filename, value FROM Cache WHERE raw = 1 AND rowid < ? ORDER BY rowid DESC"
    try:
        ((before,),) = connection.execute("SELECT MAX(rowid) + 1 FROM Cache").fetchall()
    except sqlite3.Error:
        return
    step = 1
    for _ in range(_FAILURES):
        if type(before) is not int:
            return
        try:
            for row, *columns in connection.execute(query, (before,)):
                before, step = row, 1
                yield columns[0], columns[1], columns[2], columns[3]
        except (sqlite3.Error, UnicodeDecodeError):
            before -= step
            step *= 2
        else:
            return


def _rows_of_index(
    connection: sqlite3.Connection, known: Container[object]
) -> Iterator[tuple[object, object, object, object]]:
    """As `_rows`, for the keys that are not known yet: each row by itself, as far as the index goes from either end."""
    for order in ("ASC", "DESC"):
        query = f"SELECT key, rowid FROM Cache INDEXED BY Cache_key_raw WHERE raw = 1 ORDER BY key {order}"  # noqa: S608
        try:
            for key, row in connection.execute(query):
                if key not in known:
                    yield from ((key, *columns) for columns in _row(connection, row))
        except (sqlite3.Error, UnicodeDecodeError):
            continue
        return


def _row(connection: sqlite3.Connection, row: object) -> list[tuple[object, object, object]]:
    """(mode, file name, value) of a row; none when it cannot be read."""
    try:
        return connection.execute("SELECT mode, filename, value FROM Cache WHERE rowid = ?", (row,)).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return []


def _verified(key: object, value: object) -> Item | None:
    """An entry or a note that is what it should be. Raises CorruptEntry."""
    if type(value) is not bytes:
        return None
    if type(key) is bytes:
        return key, value, label(unpack_under(key, value).info)
    if type(key) is str:
        unpack_note(key, value)
        return key, value, None
    return None
