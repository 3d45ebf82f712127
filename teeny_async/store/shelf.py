"""What a folder knows about its rows beside their values: when each was last used, how large it is, whose it is.

    Shelf    (id, used, bytes, label)        one short row for each row of diskcache's table, by triggers
    Savings  (label, hits, bytes, seconds)   what hits have saved, over all sessions

diskcache keeps the time of the last use in the row of the value, so that noting a hit rewrites a page for each
value of some kilobytes, and an index besides. Here a few thousand rows share a page, a hit costs nothing, and
the uses of a whole session are noted in one transaction, each entry once in some hours.

A label says which toolchain an entry is by and which target it is for (`framing.label`); a note has none.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from teeny_async.store.database import RefusedDatabase, note_schema
from teeny_async.store.usage import Saved

Execute = Callable[..., sqlite3.Cursor]

_COARSE = 4 * 3600.0
"""Seconds. A use is noted when the last one that was noted is older."""
_IDS_AT_ONCE = 500


def _on(change: str, does: str) -> str:
    return f"CREATE TRIGGER IF NOT EXISTS Shelf_{change} AFTER {change} ON Cache FOR EACH ROW BEGIN {does}; END"


_SHELVE = (
    "INSERT OR REPLACE INTO Shelf VALUES"
    " (NEW.rowid, NEW.store_time, NEW.size + COALESCE(LENGTH(NEW.value), 0), NEW.tag)"
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS Shelf (id INTEGER PRIMARY KEY, used REAL, bytes INTEGER, label TEXT)",
    "CREATE INDEX IF NOT EXISTS Shelf_used ON Shelf (used)",
    "CREATE INDEX IF NOT EXISTS Cache_filename ON Cache (filename) WHERE filename IS NOT NULL",
    _on("INSERT", _SHELVE),
    _on("UPDATE", _SHELVE),
    _on("DELETE", "DELETE FROM Shelf WHERE id = OLD.rowid"),
    "CREATE TABLE IF NOT EXISTS Savings (label TEXT PRIMARY KEY, hits INTEGER, bytes INTEGER, seconds REAL)",
)
_REPAIRS = (
    "DELETE FROM Shelf WHERE id NOT IN (SELECT rowid FROM Cache)",
    "INSERT OR IGNORE INTO Shelf SELECT rowid, store_time, size + COALESCE(LENGTH(value), 0), tag FROM Cache",
    "UPDATE Settings SET value = (SELECT COUNT(*) FROM Cache) WHERE key = 'count'",
    "UPDATE Settings SET value = (SELECT COALESCE(SUM(size), 0) FROM Cache) WHERE key = 'size'",
)


class Shelved(NamedTuple):
    """A row of the shelf, with the file of its value. used: seconds of `time.time()`."""

    id: int
    filename: object
    bytes: int
    used: float


class Group(NamedTuple):
    """What there is, and was, of one label."""

    entries: int
    bytes: int
    saved: Saved


def create(sql: Execute) -> None:
    """Make what is not there yet, and note what the schema is then."""
    for statement in _SCHEMA:
        sql(statement)
    note_schema(sql)


def repair(sql: Execute) -> None:
    """Make the shelf and diskcache's own counts what the rows say; inside a transaction."""
    for statement in _REPAIRS:
        sql(statement)


def totals(sql: Execute) -> tuple[int, int]:
    """(rows, bytes in value files), as diskcache keeps count of them. Raises RefusedDatabase when it does not."""
    counts = dict(sql("SELECT key, CAST(value AS INTEGER) FROM Settings WHERE key IN ('count', 'size')").fetchall())
    if len(counts) != 2 or None in counts.values():
        raise RefusedDatabase("it has lost count of its rows")
    return counts["count"], counts["size"]


def repair_totals(sql: Execute) -> None:
    """Make diskcache's own counts what the rows say; inside a transaction."""
    for statement in _REPAIRS[-2:]:
        sql(statement)


def oldest(sql: Execute, count: int) -> list[Shelved]:
    """So many rows at most, the least recently used first."""
    rows = sql(
        "SELECT Shelf.id, Cache.filename, CAST(COALESCE(Shelf.bytes, 0) AS INTEGER),"
        " CAST(COALESCE(Shelf.used, 0) AS REAL)"
        " FROM Shelf CROSS JOIN Cache ON Cache.rowid = Shelf.id ORDER BY Shelf.used LIMIT ?",
        (count,),
    )
    return [Shelved(*row) for row in rows.fetchall()]


def remove(sql: Execute, ids: Iterable[int]) -> None:
    """Remove rows; their files are the caller's to remove once this is committed."""
    sql(f"DELETE FROM Cache WHERE rowid IN ({','.join(str(int(row)) for row in ids)})")  # noqa: S608  # integers


def stale(sql: Execute, ids: Iterable[int], now: float) -> list[int]:
    """Those whose use was not noted for some hours. now: seconds of `time.time()`."""
    found: list[int] = []
    for some in _batches(ids):
        wanted = ",".join(map(str, some))
        query = f"SELECT id FROM Shelf WHERE id IN ({wanted}) AND used < ?"  # noqa: S608  # integers
        found += [row for (row,) in sql(query, (now - _COARSE,))]
    return found


def note(sql: Execute, used: Iterable[int], saved: Mapping[str, Saved], now: float) -> None:
    """Note uses and savings; inside a transaction."""
    for some in _batches(used):
        sql(f"UPDATE Shelf SET used = ? WHERE id IN ({','.join(map(str, some))})", (now,))  # noqa: S608  # integers
    for name, more in saved.items():
        sql(
            "INSERT INTO Savings VALUES (?, ?, ?, ?) ON CONFLICT (label) DO UPDATE SET"
            " hits = hits + excluded.hits, bytes = bytes + excluded.bytes, seconds = seconds + excluded.seconds",
            (name, more.hits, more.bytes, more.seconds),
        )


def groups(sql: Execute) -> dict[str, Group]:
    """By label: what there is, and what its hits have saved."""
    there = {
        name: (count, size)
        for name, count, size in sql(
            "SELECT label, COUNT(*), SUM(bytes) FROM Shelf WHERE typeof(label) = 'text' GROUP BY label"
        )
    }
    saved = {
        name: Saved(hits, size, seconds)
        for name, hits, size, seconds in sql("SELECT label, hits, bytes, seconds FROM Savings")
        if type(name) is str and type(hits) is int and type(size) is int and type(seconds) in (int, float)
    }
    return {name: Group(*there.get(name, (0, 0)), saved.get(name, Saved())) for name in sorted({*there, *saved})}


def _batches(ids: Iterable[int]) -> Iterator[list[int]]:
    remaining: Iterator[Any] = iter(ids)
    while some := list(itertools.islice(remaining, _IDS_AT_ONCE)):
        yield some
