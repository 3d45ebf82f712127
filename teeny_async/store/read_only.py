"""A cache folder that is only read: one that was shipped, or one on a read-only file system.

Nothing in it is created, locked or changed, not even sqlite's side files; diskcache, which writes when it
opens, is not used. What fails its check is passed over, as a miss.

A folder that nobody writes to is opened as `immutable`, which asks nothing of its file system. One with a
write-ahead log is in use, or was left in the middle: it is read together with the log where sqlite can do
that without writing, and otherwise as it was before. (What sqlite gives for a database that changes while it
is taken to be immutable may be wrong or an error; entries are verified, and an error opens it anew.)
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from teeny_async.errors import CacheError
from teeny_async.store import folder as folders
from teeny_async.store.base import Entry, GroupStats, OnFault
from teeny_async.store.framing import CorruptEntry
from teeny_async.store.loading import Finds, Key, Load, load_note, load_row, read_into
from teeny_async.store.tally import Tally

T = TypeVar("T")

_PRAGMAS = ("query_only = 1", "trusted_schema = 0", "cell_size_check = 1", "mmap_size = 0", "cache_size = 1024")


class ReadOnlyCache:
    """A database and its value files, read without a trace. Raises sqlite3.Error, OSError."""

    def __init__(self, directory: Path) -> None:
        from teeny_async.store.raw_disk import RawDisk

        self._disk = RawDisk(str(directory))
        self._connection = connect(directory)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Load]:
        """One read transaction for many loads."""
        self._connection.execute("BEGIN")
        yield self.load
        self._connection.execute("COMMIT")

    def load(self, key: Key) -> tuple[int, object, object] | None:
        """See `teeny_async.store.loading.load_row`."""
        return load_row(self._connection.execute, self._disk, key)

    def keys_after(self, key: bytes, count: int) -> list[bytes]:
        """As `RawCache.keys_after`."""
        found = self._connection.execute(
            "SELECT key FROM Cache WHERE raw = 1 AND key > ? AND typeof(key) = 'blob' ORDER BY key LIMIT ?",
            (key, count),
        )
        return [row[0] for row in found.fetchall()]

    def count_entries(self) -> int:
        """Rows under a key of bytes."""
        query = "SELECT COUNT(*) FROM Cache WHERE raw = 1 AND typeof(key) = 'blob'"
        ((count,),) = self._connection.execute(query).fetchall()
        return int(count)

    def volume(self) -> int:
        """Bytes of the database and of the value files."""
        ((pages,),) = self._connection.execute("PRAGMA page_count").fetchall()
        ((size,),) = self._connection.execute("PRAGMA page_size").fetchall()
        ((files,),) = self._connection.execute("SELECT TOTAL(size) FROM Cache").fetchall()
        return int(pages * size + files)


class ReadOnlyWorker:
    """As `DiskWorker`, for a folder that is not written to. Lives in the cache thread; never raises, but for `open`."""

    def __init__(self, folder: Path, *, tally: Tally, tell: OnFault) -> None:
        self._folder = folder
        self._directory = folder / folders.LAYOUT
        self._tally = tally
        self._tell = tell
        self._cache: ReadOnlyCache | None = None
        self._told = False
        self.trouble: str | None = "it is not open"

    def open(self) -> None:
        """Open the folder, if it is not open. Raises CacheError when it must not be used."""
        if self._cache is not None:
            return
        self._told = False
        try:
            check_read_only(self._folder)
            self._cache = ReadOnlyCache(self._directory)
            self.trouble = None
        except CacheError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the session goes on without this folder
            self._give_up("open", error)

    def close(self) -> None:
        """Close the database."""
        if self._cache is not None:
            self._cache.close()
        self._cache = None
        self.trouble = "it is not open"

    def read(self, digests: Sequence[str]) -> list[Entry | None]:
        """Entries by digest; None for a miss."""
        entries = self.look(digests)
        misses = entries.count(None)
        self._tally.misses += misses
        self._tally.hits += len(digests) - misses
        return entries

    def look(self, digests: Sequence[str]) -> list[Entry | None]:
        """As `read`, without counting it as a use."""
        finds = Finds([None] * len(digests))
        self._attempt("get", lambda cache: read_into(cache, digests, finds), None)
        self._pass_over(finds)
        return finds.entries

    def keys_after(self, key: bytes, count: int) -> list[bytes]:
        """The next keys of entries, in order."""
        return self._attempt("scan", lambda cache: cache.keys_after(key, count), [])

    def read_notes(self, names: Sequence[str]) -> list[str | None]:
        """Notes by name; None where there is none."""
        texts: list[str | None] = [None] * len(names)
        finds = Finds([])

        def work(cache: ReadOnlyCache) -> None:
            for index, name in enumerate(names):
                try:
                    found = load_note(cache, name)
                except CorruptEntry as error:
                    finds.bad[name] = str(error)
                else:
                    texts[index] = None if found is None else found[1]

        self._attempt("get_note", work, None)
        self._pass_over(finds)
        return texts

    def write(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Nothing."""

    def delete(self, digest: str) -> None:
        """Nothing."""

    def write_note(self, name: str, text: str) -> None:
        """Nothing."""

    def measure(self) -> tuple[int, int, list[GroupStats]]:
        """Number of entries, bytes in all; a read-only folder is not grouped."""
        return self._attempt("stats", lambda cache: (cache.count_entries(), cache.volume(), []), (0, 0, []))

    def clear(self) -> int:
        """Raises CacheError."""
        raise CacheError(f"the cache in {self._folder} is open for reading only")

    def _attempt(self, operation: str, work: Callable[[ReadOnlyCache], T], otherwise: T) -> T:
        """Do it; where that fails, open the folder anew and do it again, once."""
        if self._cache is None:
            self._tally.skipped += 1
            return otherwise
        try:
            return work(self._cache)
        except Exception:  # noqa: BLE001  # a cache that fails, in whatever way, fails no compile
            self._cache.close()
        try:
            self._cache = ReadOnlyCache(self._directory)
            return work(self._cache)
        except Exception as error:  # noqa: BLE001  # as above
            self._give_up(operation, error)
            return otherwise

    def _give_up(self, operation: str, error: Exception) -> None:
        if self._cache is not None:
            self._cache.close()
            self._cache = None
        self.trouble = f"{error} ({type(error).__name__})"
        self._tally.faults += 1
        self._tell(operation, f"{self.trouble}; the read-only cache folder is {self._folder}; going on without it")

    def _pass_over(self, finds: Finds) -> None:
        """Count what failed its check; it is told once in an opening, since it stays there and is met again."""
        if not finds.bad:
            return
        self._tally.quarantined += len(finds.bad)
        if not self._told:
            self._told = True
            name, reason = next(iter(finds.bad.items()))
            self._tell(
                "get", f"damaged entries in the read-only folder {self._folder} are passed over; {name}: {reason}"
            )


def check_read_only(folder: Path) -> None:
    """Refuse a folder whose entries somebody else may have written: anyone but root and this user.

    On a file system that is mounted read-only nobody can. Links are followed: whoever named the folder
    named what is there. Raises CacheError; OSError when there is no such folder.
    """
    for path in (folder, folder / folders.LAYOUT):
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise CacheError(f"the read-only cache folder {path} is not a folder. Name another one.")
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            continue
        if status.st_uid not in (0, os.geteuid()):
            problem = f"belongs to user {status.st_uid}, neither root nor this one ({os.geteuid()})"
        elif status.st_mode & 0o022:
            problem = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
        else:
            continue
        raise CacheError(f"the read-only cache folder {path} {problem}. Make it private, or copy it, to use it.")


def connect(directory: Path) -> sqlite3.Connection:
    """A connection to the database of a layout folder, for reading. Raises sqlite3.Error when it cannot be used."""
    path = directory / folders.DATABASE
    ways = ["immutable=1"]
    with contextlib.suppress(OSError):
        if os.stat(f"{path}-wal").st_size:
            ways.insert(0, "mode=ro&readonly_shm=1")
    for way in ways:
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(path))}?{way}", uri=True, isolation_level=None, timeout=0.1
        )
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("SELECT rowid FROM Cache LIMIT 1").fetchall()
        except BaseException:
            connection.close()
            if way is ways[-1]:
                raise
        else:
            return connection
    raise AssertionError("the last way returns or raises")
