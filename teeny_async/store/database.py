"""The sqlite file: what may be opened, what counts as damage, and looking for damage.

diskcache believes a settings table in its database: it sets attributes of itself and sqlite's pragmas from
it. A database with a setting that we would not have written is refused before diskcache sees it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diskcache.core import DEFAULT_SETTINGS, METADATA

from teeny_async.store.raw_disk import IN_DATABASE

SETTINGS: dict[str, Any] = {
    **DEFAULT_SETTINGS,
    "statistics": 0,  # a write for each hit
    "eviction_policy": "none",  # see teeny_async.store.shelf
    "disk_min_file_size": IN_DATABASE,
    # A file that is cut short while it is mapped kills the process with SIGBUS. Reading costs 1 us more.
    "sqlite_mmap_size": 0,
    # Pages (4 MB): room for the upper levels of the index. Values are read once and then kept by the layer in front, so that
    # keeping them here as well is memory, and two page faults a hit: a third of what sqlite takes.
    "sqlite_cache_size": 1024,
    "sqlite_trusted_schema": 0,  # with the next: sqlite's advice for files that may be damaged or hostile
    "sqlite_cell_size_check": 1,
}
_LOOK_EVERY = 100_000
"""Instructions of sqlite's machine between two looks at the clock; some milliseconds."""


class RefusedDatabase(Exception):
    """A database that is not what it was; the message says how."""


class ForeignDatabase(RefusedDatabase):
    """One that is not this user's own file: nothing of it is used."""


def is_damage(error: BaseException) -> bool:
    """Whether the database itself is broken, rather than busy, full or out of reach."""
    if isinstance(error, (RefusedDatabase, UnicodeDecodeError)):
        return True  # the latter: a name in the schema that is no text, quoted in sqlite's message
    # A row that is there twice: nothing else that we write could violate a constraint.
    if isinstance(error, sqlite3.IntegrityError):
        return True
    # sqlite3 raises the bare class for SQLITE_CORRUPT and SQLITE_NOTADB, subclasses for the rest.
    if isinstance(error, sqlite3.OperationalError):
        return _blames_schema(error)
    return type(error) is sqlite3.DatabaseError


def _blames_schema(error: sqlite3.OperationalError) -> bool:
    """Whether a table or column is missing, has another name, or is there once more: our statements do not change.

    SQLITE_ERROR is a statement that does not fit the schema, or a sum over numbers that cannot be right; but also one
    about a transaction that sqlite has ended by itself.
    """
    text = str(error)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
        return "transaction" not in text
    return text.startswith(("no such", "Could not decode"))


def blames_content(error: BaseException) -> bool:
    """Whether an error while opening comes from what is in the file, rather than from what is around it.

    With damaged settings or a damaged schema diskcache fails in ways of its own (a missing row is a
    ValueError); a file that is damaged in such a way would otherwise never be replaced.
    """
    if isinstance(error, sqlite3.OperationalError):
        # Python's own errors have no code; SQLITE_ERROR is a statement that does not fit the schema.
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR
    return isinstance(error, (sqlite3.DatabaseError, ValueError, TypeError, LookupError, AttributeError))


def check_database(path: Path, patience: float) -> None:
    """Refuse a file that diskcache must not be let near."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise ForeignDatabase("it is not a plain file of this user")
    with contextlib.closing(sqlite3.connect(path, timeout=patience, isolation_level=None)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if not tables:
            return
        noted, now = _schema_sums(connection.execute)
        if noted not in (0, now):
            raise RefusedDatabase("its schema is not what it was")
        for name, value in connection.execute("SELECT key, value FROM Settings"):
            if not _is_our_setting(name, value):
                raise RefusedDatabase(f"its setting {name!r} is {value!r}")


def note_schema(execute: Callable[..., sqlite3.Cursor]) -> None:
    """Note what the schema is, for `check_database`: a flipped bit can leave one that means something else."""
    noted, now = _schema_sums(execute)
    if noted != now:
        execute(f"PRAGMA user_version = {now}")


def _schema_sums(execute: Callable[..., sqlite3.Cursor]) -> tuple[int, int]:
    """The checksum of the schema that was noted (0: none), and that of the schema as it is."""
    ((noted,),) = execute("PRAGMA user_version").fetchall()
    rows = execute("SELECT CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master ORDER BY rowid").fetchall()
    return noted, zlib.crc32(repr(rows).encode()) & 0x7FFFFFFF or 1


def look_for_damage(connection: sqlite3.Connection, *, deep: bool, seconds: float | None = None) -> None:
    """Have sqlite go through its pages: does none belong to two rows, is every row where it should be?

    deep: compare the indices with the table as well. seconds: give up after so long, as if nothing had been
    found. Raises RefusedDatabase, or sqlite's own error, for a database that is broken.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    if deadline is not None:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _LOOK_EVERY)
    try:
        ((answer,),) = connection.execute(f"PRAGMA {'integrity' if deep else 'quick'}_check(1)").fetchall()
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        return
    finally:
        connection.set_progress_handler(None, 0)
    if answer != "ok":
        raise RefusedDatabase(str(answer).replace("\n", " ").removeprefix("*** in database main *** "))


def _is_our_setting(name: object, value: object) -> bool:
    if name not in SETTINGS and name not in METADATA:
        return False
    return type(value) is int or value == SETTINGS.get(str(name))
