"""diskcache with everything taken out that could run code or leave its folder.

diskcache 5.6.3 unpickles what it finds in its database, in keys, in values and in value files
(CVE-2025-69872), opens and removes files under names that it read there, and sets attributes and
pragmas from a settings table there. `RawDisk` and `RawCache` store bytes and text as they are, and
refuse any row, file name or setting that is not exactly what they would have written.

The module is imported in the cache thread when a store is opened: diskcache alone takes 25 ms.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import DEFAULT_SETTINGS, METADATA, MODE_BINARY, MODE_RAW

from teeny_async.store.folder import DATABASE
from teeny_async.store.framing import CorruptEntry

Timeout = diskcache.Timeout

_FILE_NAME = re.compile(r"[0-9a-f]{32}\.val")
_MAX_VALUE = 1 << 30
"""Bytes. No value is larger; a file that claims to be is not read into memory."""
_IN_DATABASE = 256 * 1024
"""Bytes. A value from this size on is a file of its own: the database stays quick to copy and check."""

_SETTINGS: dict[str, Any] = {
    **DEFAULT_SETTINGS,
    "statistics": 0,  # a write for each hit
    "eviction_policy": "least-recently-stored",  # of the policies that remove, the one with no write on a hit
    "disk_min_file_size": _IN_DATABASE,
    # A file that is cut short while it is mapped kills the process with SIGBUS. Reading costs 1 us more.
    "sqlite_mmap_size": 0,
    "sqlite_trusted_schema": 0,  # with the next: sqlite's advice for files that may be damaged or hostile
    "sqlite_cell_size_check": 1,
}


class RefusedRow(CorruptEntry):
    """A row that this store did not write; the message says what is wrong with it."""


class RefusedDatabase(Exception):
    """A database that this store did not write; the message says what is wrong with it."""


class RawDisk(diskcache.Disk):  # type: ignore[misc]  # the base class is untyped
    """Bytes and text, in the database or (bytes only) in a file directly below the folder."""

    def __init__(self, directory: str, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self.unpublished: str | None = None

    def put(self, key: object) -> tuple[object, bool]:
        """A key as the database has it. Raises TypeError for anything but bytes and text."""
        return _plain(key), True

    def get(self, key: object, raw: object) -> object:
        """A key of the database. Raises RefusedRow where diskcache would unpickle it."""
        if raw != 1 or type(key) not in (bytes, str):
            raise RefusedRow("its key is not plain bytes or text")
        return key

    def store(self, value: object, read: bool, key: object = None) -> tuple[int, int, str | None, object]:
        """Columns (size, mode, file name, value) of a value; a large one is written to its file.

        The name of that file stays in `unpublished` until the row is committed.
        """
        value = _plain(value)
        if type(value) is not bytes or len(value) < self.min_file_size:
            return 0, MODE_RAW, None, value
        if len(value) > _MAX_VALUE:
            raise ValueError(f"a value of {len(value)} bytes is over the limit of {_MAX_VALUE}")
        name, path = self.filename()
        self.unpublished = name
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as writer:
            writer.write(value)
        return len(value), MODE_BINARY, name, None

    def fetch(self, mode: object, filename: object, value: object, read: bool) -> object:
        """The value of a row. Raises RefusedRow for a row of another kind, OSError for a lost file."""
        if mode == MODE_RAW and filename is None and type(value) in (bytes, str):
            return value
        if mode == MODE_BINARY and value is None:
            return self._read(filename)
        raise RefusedRow(f"its value is not plain bytes or text (mode {mode!r})")

    def filename(self, key: object = None, value: object = None) -> tuple[str, str]:
        """A new name and its path; flat, so that no folder on the way can be a link."""
        name = f"{os.urandom(16).hex()}.val"
        return name, os.path.join(self._directory, name)

    def remove(self, file_path: object) -> None:
        """Remove a value file, if it is there; a name that is not ours is left alone."""
        if _is_ours(file_path):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(self._directory, str(file_path)))

    def _read(self, filename: object) -> bytes:
        if not _is_ours(filename):
            raise RefusedRow(f"its file name leaves the folder or is not one of ours ({filename!r})")
        path = os.path.join(self._directory, str(filename))
        if os.path.islink(path):
            raise RefusedRow(f"its file is a symbolic link ({filename})")
        # Not blocking, for the sake of a named pipe that somebody put there.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(file, "rb") as reader:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_VALUE:
                raise RefusedRow(f"its file is not a plain file, or too large ({filename})")
            return reader.read(status.st_size)


class RawCache(diskcache.Cache):  # type: ignore[misc]  # the base class is untyped
    """A diskcache of bytes and text that gives up after `patience` seconds of a lock.

    Bound to the thread that made it. Raises sqlite3.Error, Timeout, OSError; and RefusedDatabase
    when it is made from a file whose content is to blame.
    """

    def __init__(self, directory: Path, *, size_limit: int, patience: float) -> None:
        if "$" in str(directory):
            raise OSError(f"diskcache would read the $ in {directory} as a variable")
        self._patience = patience
        settings = {**_SETTINGS, "size_limit": size_limit}
        try:
            _check_database(directory / DATABASE, patience)
            super().__init__(str(directory), timeout=patience, disk=RawDisk, **settings)
        except BaseException as error:
            if hasattr(self, "_local"):
                self.close()  # or its connection would be left to the garbage collector
            if _blames_content(error):
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
    def snapshot(self) -> Iterator[None]:
        """One read transaction for many gets: consistent, and it saves a third of each get."""
        self._sql("BEGIN")
        yield
        self._sql("COMMIT")  # after an error the owner closes the connection, which ends it as well

    def load(self, key: bytes | str) -> object:
        """The value of a key; None when there is none, or when its file is gone. May raise RefusedRow.

        `get` without its expiry, tags, statistics and policies: it takes two thirds of the time.
        """
        rows = self._sql("SELECT mode, filename, value FROM Cache WHERE key = ? AND raw = 1", (key,)).fetchall()
        if not rows:
            return None
        mode, filename, value = rows[0]
        try:
            found: object = self._disk.fetch(mode, filename, value, False)
        except OSError:
            return None  # another process has just removed it
        return found

    def publish(self, key: bytes | str, value: bytes) -> None:
        """Store a value whole: its file first, then its row; a file without a row is taken back."""
        self._disk.unpublished = None
        try:
            self.set(key, value)
        except BaseException:
            self._disk.remove(self._disk.unpublished)
            raise

    def count_entries(self) -> int:
        """Rows under a key of bytes."""
        ((count,),) = self._sql("SELECT COUNT(*) FROM Cache WHERE raw = 1 AND typeof(key) = 'blob'").fetchall()
        return int(count)


def is_damage(error: BaseException) -> bool:
    """Whether the database itself is broken, rather than busy, full or out of reach."""
    if isinstance(error, (RefusedDatabase, UnicodeDecodeError)):
        return True  # the latter: a name in the schema that is no text, quoted in sqlite's message
    # sqlite3 raises the bare class for SQLITE_CORRUPT and SQLITE_NOTADB, subclasses for the rest.
    # A table or column that is missing, or whose text is no text, is damage by another name.
    return type(error) is sqlite3.DatabaseError or (
        isinstance(error, sqlite3.OperationalError) and str(error).startswith(("no such", "Could not decode"))
    )


def _blames_content(error: BaseException) -> bool:
    """Whether an error while opening comes from what is in the file, rather than from what is around it.

    With damaged settings or a damaged schema diskcache fails in ways of its own (a missing row is a
    ValueError); a file that is damaged in such a way would otherwise never be replaced.
    """
    if isinstance(error, sqlite3.OperationalError):
        # Python's own errors have no code; SQLITE_ERROR is a statement that does not fit the schema.
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR
    return isinstance(error, (sqlite3.DatabaseError, ValueError, TypeError, LookupError, AttributeError))


def _check_database(path: Path, patience: float) -> None:
    """Refuse a file that diskcache must not be let near: it believes its settings table."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise RefusedDatabase("it is not a plain file of this user")
    with contextlib.closing(sqlite3.connect(path, timeout=patience, isolation_level=None)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if not tables:
            return
        for name, value in connection.execute("SELECT key, value FROM Settings"):
            if not _is_our_setting(name, value):
                raise RefusedDatabase(f"its setting {name!r} is {value!r}")


def _is_our_setting(name: object, value: object) -> bool:
    if name not in _SETTINGS and name not in METADATA:
        return False
    return type(value) is int or value == _SETTINGS.get(str(name))


def _is_ours(filename: object) -> bool:
    return type(filename) is str and _FILE_NAME.fullmatch(filename) is not None


def _plain(value: object) -> bytes | str:
    # Exact types: a subclass can pretend to be anything.
    if type(value) is bytes or type(value) is str:
        return value
    raise TypeError(f"only bytes and text are stored, not {type(value).__name__}")
