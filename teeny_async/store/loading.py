"""From rows to verified entries and notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from teeny_async.store.base import Entry
from teeny_async.store.framing import CorruptEntry, LazyInfo, key_bytes, unpack, unpack_note, unpack_under

if TYPE_CHECKING:
    from teeny_async.store.raw_cache import RawCache


Key = bytes | str
Load = Callable[[Key], tuple[int, object, object] | None]


class Values(Protocol):
    """What fetches the value of a row: `RawDisk`."""

    def fetch(self, mode: object, filename: object, value: object, read: bool) -> object: ...


class Source(Protocol):
    """A database that can be read."""

    def snapshot(self) -> AbstractContextManager[Load]: ...

    def load(self, key: Key) -> tuple[int, object, object] | None: ...


def load_row(execute: Callable[..., sqlite3.Cursor], values: Values, key: Key) -> tuple[int, object, object] | None:
    """(row, file name, value) of a key; None when there is none, or when its file is gone. May raise RefusedRow.

    diskcache's `get` without its expiry, tags, statistics and policies: it takes two thirds of the time.
    """
    rows = execute("SELECT rowid, mode, filename, value FROM Cache WHERE key = ? AND raw = 1", (key,)).fetchall()
    if not rows:
        return None
    row, mode, filename, value = rows[0]
    try:
        return row, filename, values.fetch(mode, filename, value, False)
    except OSError:
        return None  # another process has just removed it


@dataclass(slots=True)
class Finds:
    """What a batch of look-ups came to.

    entries: in the order asked for. used: (row, bytes, info) of the hits. bad: name -> what was wrong.
    in_database: whether something bad lay in the database rather than in a file.
    """

    entries: list[Entry | None]
    used: list[tuple[int, int, LazyInfo]] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    in_database: bool = False


def read_into(source: Source, digests: Sequence[str], finds: Finds) -> None:
    """Fill `finds` as far as it goes: what was read before an error is still good."""
    entries, used = finds.entries, finds.used
    with source.snapshot() as load:
        for index, digest in enumerate(digests):
            file: object = None
            key = key_bytes(digest)
            try:
                row = load(key)
                if row is None:
                    continue
                number, file, data = row
                if type(data) is not bytes:
                    raise CorruptEntry("it is text")
                entry = unpack_under(key, data)
            except CorruptEntry as error:
                finds.bad[digest] = str(error)
                finds.in_database = finds.in_database or file is None
                continue
            entries[index] = entry
            used.append((number, len(data), cast("LazyInfo", entry.info)))


def load_entry(source: Source, digest: str) -> Entry | None:
    """An entry; None for a miss. Raises CorruptEntry."""
    row = source.load(key_bytes(digest))
    if row is None:
        return None
    if type(row[2]) is not bytes:
        raise CorruptEntry("it is text")
    return unpack(digest, row[2])


def load_note(source: Source, name: str) -> tuple[int, str] | None:
    """(row, text) of a note; None when there is none. Raises CorruptEntry."""
    row = source.load(name)
    if row is None:
        return None
    if type(row[2]) is not bytes:
        raise CorruptEntry("it is not packed")
    return row[0], unpack_note(name, row[2])


def drop_bad(
    cache: RawCache,
    names: Iterable[str],
    load: Callable[[RawCache, str], object],
    key: Callable[[str], bytes | str],
) -> None:
    """Remove what is still bad."""
    with cache.transact():
        for name in names:
            try:
                load(cache, name)  # another process may have replaced it with a good one
            except CorruptEntry:
                cache.delete(key(name))
