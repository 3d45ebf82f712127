"""diskcache's `Cache` for bytes and text, with limits, uses and sweeping of our own.

For its values see `teeny_async.store.raw_disk`, for its database `teeny_async.store.database`, for what is
kept beside the values `teeny_async.store.shelf`, for value files without a row `teeny_async.store.writers`.

Everything here blocks, is bound to the thread that made the `RawCache`, and raises sqlite3.Error and OSError;
`database.is_damage` says which of those mean that the database itself is broken.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import diskcache

from teeny_async.store import shelf
from teeny_async.store.database import SETTINGS, RefusedDatabase, blames_content, check_database, look_for_damage
from teeny_async.store.folder import DATABASE
from teeny_async.store.loading import Key, Load, load_row
from teeny_async.store.raw_disk import RawDisk
from teeny_async.store.usage import Usage
from teeny_async.store.writers import Writer, sweep, sweep_after_deaths

_CULLED_AT_ONCE = 64
"""Rows that one step of `prune` removes at most. A row takes some 20 us."""
_CULLED_FOR_EACH = 64
"""Rows that make room for one new row, at most."""
_ADVISORY_PATIENCE = 0.1
"""Seconds to wait for a lock with what may as well be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a folder may hold. size: bytes, files and database together; count: rows, notes included."""

    size: int
    count: int


class Row(NamedTuple):
    """A row as it is, with nothing believed of it. size: bytes of the value that is in the database."""

    id: int
    key: object
    raw: object
    mode: object
    filename: object
    stored_size: object
    size: object


class RawCache(diskcache.Cache):  # type: ignore[misc]  # the base class is untyped
    """A diskcache of bytes and text that gives up after `patience` seconds of a lock.

    Raises RefusedDatabase when it is made from a file whose content is to blame.
    """

    def __init__(self, directory: Path, *, limits: Limits, patience: float) -> None:
        if "$" in str(directory):
            raise OSError(f"diskcache would read the $ in {directory} as a variable")
        self._path = directory
        self._patience = patience
        self._limits = limits
        self._counted = False
        self._stored_at = 0.0
        self._let_go: list[object] | None = None
        """The files to remove when the transaction that is open is committed."""
        self._writer = Writer(directory)
        try:
            check_database(directory / DATABASE, patience)
            super().__init__(str(directory), timeout=patience, disk=RawDisk, **{**SETTINGS, "size_limit": limits.size})
            shelf.create(self._sql_retry)
        except BaseException as error:
            if hasattr(self, "_local"):
                self.close()  # or its connection would be left to the garbage collector
            if not isinstance(error, RefusedDatabase) and blames_content(error):
                raise RefusedDatabase(f"it cannot be opened: {error}") from error
            raise

    @property
    def _sql_retry(self) -> Callable[..., sqlite3.Cursor]:
        """As in the base class, with our patience in place of a minute for each statement."""
        execute: Callable[..., sqlite3.Cursor] = self._sql

        def patiently(*statement: Any) -> sqlite3.Cursor:
            deadline = time.monotonic() + self._patience
            while True:
                try:
                    return execute(*statement)
                except sqlite3.OperationalError as error:
                    if str(error) != "database is locked" or time.monotonic() > deadline:
                        raise
                time.sleep(0.001)

        return patiently

    @contextlib.contextmanager
    def _transact(
        self, retry: bool = False, filename: object = None
    ) -> Iterator[tuple[shelf.Execute, Callable[[object], None]]]:
        """As in the base class; but files that an inner transaction lets go of stay until the outer one is committed,
        and what keeps a transaction from beginning is raised as it is.
        """
        sql = self._sql
        if self._let_go is not None:
            yield sql, self._let_go.append
            return
        try:
            sql("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            self._disk.remove(filename)
            raise
        let_go: list[object] = []
        self._let_go = let_go
        try:
            yield sql, let_go.append
        except BaseException:
            self._let_go = None
            with contextlib.suppress(sqlite3.Error):  # sqlite has done so already, when the disk is full
                sql("ROLLBACK")
            raise
        self._let_go = None
        sql("COMMIT")
        for name in let_go:
            self._disk.remove(name)

    @property
    def writer(self) -> str:
        """Our name among the writers of the folder."""
        return self._writer.name

    def close(self) -> None:
        """Close the connection, which ends whatever transaction is open. It comes back when it is needed."""
        self._writer.leave()
        super().close()

    # Reading

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Load]:
        """One read transaction for many loads: consistent, and it saves a third of each."""
        connection = self._con
        connection.execute("BEGIN")
        yield partial(load_row, connection.cursor().execute, self._disk)
        connection.execute("COMMIT")  # after an error the owner closes the connection, which ends it as well

    def load(self, key: Key) -> tuple[int, object, object] | None:
        """See `teeny_async.store.loading.load_row`."""
        return load_row(self._sql, self._disk, key)

    def has(self, key: Key) -> bool:
        """Whether there is such a row, whatever is in it."""
        return bool(self._sql("SELECT 1 FROM Cache WHERE key = ? AND raw = 1", (key,)).fetchall())

    def fetch(self, row: int) -> object:
        """The value of a row; None when the row is gone. Raises RefusedRow, and OSError for a lost file."""
        rows = self._sql("SELECT mode, filename, value FROM Cache WHERE rowid = ?", (row,)).fetchall()
        return self._disk.fetch(*rows[0], False) if rows else None

    def file_size(self, filename: object) -> int:
        """Bytes of a value file. Raises RefusedRow for a name that is not ours, OSError."""
        size: int = self._disk.size_of(filename)
        return size

    def rows(self, after: int, count: int) -> list[Row]:
        """The next rows, without their values, in the order of their numbers."""
        found = self._sql(
            "SELECT rowid, key, raw, mode, filename, size, LENGTH(value) FROM Cache WHERE rowid > ?"
            " ORDER BY rowid LIMIT ?",
            (after, count),
        )
        return [Row(*row) for row in found.fetchall()]

    def keys_after(self, key: bytes, count: int) -> list[bytes]:
        """The next keys of entries, in order."""
        found = self._sql(
            "SELECT key FROM Cache WHERE raw = 1 AND key > ? AND typeof(key) = 'blob' ORDER BY key LIMIT ?",
            (key, count),
        )
        return [row[0] for row in found.fetchall()]

    def note_names(self, prefix: str) -> list[str]:
        """The names of the notes that begin so, in order."""
        found = self._sql(
            "SELECT key FROM Cache WHERE raw = 1 AND key >= ? AND typeof(key) = 'text' AND substr(key, 1, ?) = ?"
            " ORDER BY key",
            (prefix, len(prefix), prefix),
        )
        return [row[0] for row in found.fetchall()]

    def count_entries(self) -> int:
        """Rows under a key of bytes."""
        ((count,),) = self._sql("SELECT COUNT(*) FROM Cache WHERE raw = 1 AND typeof(key) = 'blob'").fetchall()
        return int(count)

    def volume(self) -> int:
        """Bytes in use: pages of the database that hold something, and value files."""
        return self._in_pages() + shelf.totals(self._sql)[1]

    def _in_pages(self) -> int:
        ((pages,),) = self._sql("PRAGMA page_count").fetchall()
        ((free,),) = self._sql("PRAGMA freelist_count").fetchall()
        return int(self._page_size * (pages - free))

    def groups(self) -> dict[str, shelf.Group]:
        """What there is, and what was saved, by label."""
        return shelf.groups(self._sql)

    def look_for_damage(self, *, deep: bool, seconds: float | None = None) -> None:
        """See `teeny_async.store.database.look_for_damage`."""
        look_for_damage(self._con, deep=deep, seconds=seconds)

    # Writing

    def publish(self, items: Iterable[tuple[Key, bytes, str | None]]) -> None:
        """Store values under keys with their labels, all or none: the files first, then the rows."""
        items = tuple(items)
        self._announce()
        unpublished = self._disk.unpublished
        try:
            with self._transact() as (sql, cleanup):
                for key, value, label in items:
                    self.set(key, value, tag=label)
                self._make_room(len(items), sql, cleanup)
        except BaseException:
            for name in unpublished:
                self._disk.remove(name)
            raise
        finally:
            unpublished.clear()

    def delete(self, key: Key, retry: bool = False) -> bool:
        """Remove a row and its file; whether there was one."""
        self._announce()
        return bool(super().delete(key, retry))

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows by number, and their files once that is committed."""
        self._announce()
        with self._transact() as (sql, cleanup):
            for row in rows:
                for (filename,) in sql("SELECT filename FROM Cache WHERE rowid = ?", (row,)).fetchall():
                    cleanup(filename)
                shelf.remove(sql, (row,))

    def clear(self, retry: bool = False) -> int:
        """Remove every row and value file, and what is known of savings; how many rows there were."""
        self._announce()
        removed: int = super().clear(retry)
        self._sql_retry("DELETE FROM Savings")
        return removed

    def prune(self, max_bytes: int | None, max_count: int | None, before: float | None) -> tuple[int, int]:
        """Remove some of the least recently used rows; (rows, bytes) removed, (0, 0) when there is no more to do.

        max_bytes, max_count: until no more bytes, and rows, than this are in use. before: all that was not used
        since this `time.time()`.
        """
        self._announce()
        with self._transact() as (sql, cleanup):
            self._count_once(sql)
            excess_bytes = 0 if max_bytes is None else self.volume() - max_bytes
            excess_rows = 0 if max_count is None else shelf.totals(sql)[0] - max_count
            chosen = []
            for row in shelf.oldest(sql, _CULLED_AT_ONCE):
                if excess_bytes <= 0 and excess_rows <= 0 and (before is None or row.used >= before):
                    break
                excess_bytes -= row.bytes
                excess_rows -= 1
                chosen.append(row)
            self._forget(chosen, sql, cleanup)
        return len(chosen), sum(row.bytes for row in chosen)

    def note_usage(self, usage: Usage, now: float) -> None:
        """Note what was used and what that saved, if that takes no waiting."""
        self._sql(f"PRAGMA busy_timeout = {int(_ADVISORY_PATIENCE * 1000)}")
        try:
            stale = shelf.stale(self._sql, usage.ids, now)
            if stale or usage.saved:
                with self._transact() as (sql, _):
                    shelf.note(sql, stale, usage.saved, now)
        finally:
            self._sql(f"PRAGMA busy_timeout = {int(self._patience * 1000)}")

    def repair_counts(self) -> None:
        """Make everything that is counted or kept beside the rows what the rows say."""
        with self._transact() as (sql, _):
            shelf.repair(sql)

    def sweep(self, *, always: bool) -> int:
        """Remove value files that belong to nobody; how many. always: even when no writer was killed."""
        return (sweep if always else sweep_after_deaths)(self._path, self._file_names, self._writer.name)

    def _file_names(self) -> set[str]:
        return {name for (name,) in self._sql("SELECT filename FROM Cache WHERE filename IS NOT NULL").fetchall()}

    def _announce(self) -> None:
        self._writer.announce()
        self._disk.writer = self._writer.name

    def _cull(
        self, now: float, sql: shelf.Execute, cleanup: Callable[[object], None], limit: int | None = None
    ) -> None:
        """Nothing, where the base class makes room after each row: `publish` does it once for all of its own."""
        self._stored_at = now

    def _make_room(self, stored: int, sql: shelf.Execute, cleanup: Callable[[object], None]) -> None:
        """Keep to the limits: what was used least recently goes, but not what was stored last. stored: rows."""
        if not self._is_over(sql):
            return
        if self._count_once(sql) and not self._is_over(sql):
            return
        rows, _ = shelf.totals(sql)
        excess_rows, excess_bytes = rows - self._limits.count, self.volume() - self._limits.size
        chosen = []
        for row in shelf.oldest(sql, stored * _CULLED_FOR_EACH):
            if excess_rows <= 0 and excess_bytes <= 0:
                break
            if row.used != self._stored_at:
                chosen.append(row)
                excess_rows -= 1
                excess_bytes -= row.bytes
        self._forget(chosen, sql, cleanup)

    def _count_once(self, sql: shelf.Execute) -> bool:
        """Count anew before the first removal, which the counts decide about: one flipped bit would empty the folder."""
        if self._counted:
            return False
        self._counted = True
        shelf.repair_totals(sql)
        return True

    def _is_over(self, sql: shelf.Execute) -> bool:
        rows, in_files = shelf.totals(sql)
        return rows > self._limits.count or self._in_pages() + in_files > self._limits.size

    def _forget(self, rows: Sequence[shelf.Shelved], sql: shelf.Execute, cleanup: Callable[[object], None]) -> None:
        if rows:
            shelf.remove(sql, (row.id for row in rows))
            for row in rows:
                cleanup(row.filename)
