"""The half of a `DiskStore` that lives in the cache thread: blocking, and never raising.

Every operation goes through `_attempt`, the one door at which trouble becomes a fault. After that:

* the connection is closed, which ends whatever transaction was open; diskcache opens another;
* a database that is itself broken is moved aside, and an empty one takes its place;
* otherwise operations of that kind (reading, writing) are left out for a while. A lock is waited
  for `patience` seconds, so a thousand results would else wait a thousand times, and a full disk
  would give a thousand warnings.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from teeny_async.errors import CacheError
from teeny_async.store import folder as folders
from teeny_async.store.base import Entry, OnFault
from teeny_async.store.framing import CorruptEntry, key_bytes, pack, pack_note, unpack, unpack_note

if TYPE_CHECKING:
    from teeny_async.store.raw_disk import RawCache

T = TypeVar("T")
Kind = Literal["reading", "writing"]


@dataclass(slots=True)
class Tally:
    """What a store object has seen, over all its openings."""

    hits: int = 0
    misses: int = 0
    quarantined: int = 0
    faults: int = 0
    skipped: int = 0


class DiskWorker:
    """One opening of a folder. Made anywhere; everything else happens in the cache thread.

    patience: seconds to wait for a lock. pause: seconds for which a kind of operation is left out
    after it failed. tell: called in the cache thread.
    """

    def __init__(
        self, folder: Path, *, size_limit: int, patience: float, tally: Tally, tell: OnFault, pause: float = 5.0
    ) -> None:
        self._folder = folder
        self._directory = folder / folders.LAYOUT
        self._size_limit = size_limit
        self._patience = patience
        self._pause = pause
        self._tally = tally
        self._tell = tell
        self._cache: RawCache | None = None
        self._identity: tuple[int, int] | None = None
        self._resume: dict[Kind, float] = {"reading": 0.0, "writing": 0.0}
        self.trouble: str | None = "it is not open"

    def open(self) -> None:
        """Open the folder, if it is not open. Raises CacheError when it must not be used."""
        if self._cache is not None:
            return
        try:
            folders.make_private(self._folder)
            self._start(None)
        except CacheError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the session goes on uncached
            self._give_up("open", error)

    def close(self) -> None:
        """Close the database."""
        if self._cache is not None:
            self._disconnect(self._cache)
        self._cache = None
        self.trouble = "it is not open"

    def read(self, digests: Sequence[str]) -> list[Entry | None]:
        """Entries by digest; None for a miss."""
        found: list[Entry | None] = [None] * len(digests)
        bad: dict[str, str] = {}
        self._attempt("get", "reading", lambda cache: _read_into(cache, digests, found, bad), None)
        self._drop("entries", bad, _load_entry, key_bytes)
        misses = found.count(None)
        self._tally.misses += misses
        self._tally.hits += len(found) - misses
        return found

    def write(self, digest: str, entry: Entry) -> None:
        """Store an entry whole."""

        def work(cache: RawCache) -> None:
            data = pack(digest, entry)
            if len(data) > self._size_limit:
                raise ValueError(f"an entry of {len(data)} bytes is over the cache's limit of {self._size_limit}")
            cache.publish(key_bytes(digest), data)

        self._attempt("put", "writing", work, None)

    def delete(self, digest: str) -> None:
        """Remove an entry."""
        self._attempt("delete", "writing", lambda cache: cache.delete(key_bytes(digest)), None)

    def read_note(self, name: str) -> str | None:
        """A note; None when there is none."""
        bad: dict[str, str] = {}

        def work(cache: RawCache) -> str | None:
            try:
                return _load_note(cache, name)
            except CorruptEntry as error:
                bad[name] = str(error)
                return None

        text = self._attempt("get_note", "reading", work, None)
        self._drop("notes", bad, _load_note, str)
        return text

    def write_note(self, name: str, text: str) -> None:
        """Store a note."""
        self._attempt("put_note", "writing", lambda cache: cache.publish(name, pack_note(name, text)), None)

    def measure(self) -> tuple[int, int]:
        """Number of entries, and bytes in all."""
        return self._attempt("stats", "reading", lambda cache: (cache.count_entries(), int(cache.volume())), (0, 0))

    def clear(self) -> int:
        """Remove everything; the number of entries removed. Raises CacheError when that fails."""
        if self._cache is None:
            raise CacheError(f"the cache in {self._folder} cannot be cleared: {self.trouble}")
        try:
            entries = self._cache.count_entries()
            self._cache.clear()
            folders.remove_leftovers(self._folder)
        except Exception as error:
            self._recover("clear", "writing", self._cache, error)
            raise CacheError(f"the cache in {self._folder} was not cleared: {_describe(error)}") from error
        return entries

    # What happens when something goes wrong.

    def _attempt(self, operation: str, kind: Kind, work: Callable[[RawCache], T], otherwise: T) -> T:
        cache = self._cache
        if cache is None or time.monotonic() < self._resume[kind]:
            self._tally.skipped += 1
            return otherwise
        try:
            return work(cache)
        except Exception as error:  # noqa: BLE001  # a cache that fails, in whatever way, fails no compile
            self._recover(operation, kind, cache, error)
            return otherwise

    def _recover(self, operation: str, kind: Kind, cache: RawCache, error: Exception) -> None:
        from teeny_async.store.raw_disk import Timeout, is_damage

        self._disconnect(cache)
        if is_damage(error):
            self._cache = None
            try:
                self._start(error)
            except Exception as worse:  # noqa: BLE001  # as above
                self._give_up(operation, worse)
            return
        if isinstance(error, (OSError, sqlite3.Error, Timeout)):
            self._resume[kind] = time.monotonic() + self._pause
        self._fault(operation, f"{_describe(error)}; the cache folder is {self._folder}")

    def _start(self, damage: Exception | None) -> None:
        """Connect to the database; move it aside first, and start an empty one, if it is damaged."""
        from teeny_async.store.raw_disk import RawCache, is_damage

        with folders.opening_lock(self._folder, self._patience):
            # Another process may have replaced the database that was found damaged.
            if damage is not None and folders.identity(self._directory) == self._identity:
                self._set_aside(damage)
            for last in (False, True):
                folders.make_private(self._directory)
                folders.create_database(self._directory)
                try:
                    self._cache = RawCache(self._directory, size_limit=self._size_limit, patience=self._patience)
                    break
                except Exception as error:
                    if last or not is_damage(error):
                        raise
                    self._set_aside(error)
            self._identity = folders.identity(self._directory)
        self.trouble = None

    def _set_aside(self, damage: Exception) -> None:
        place = folders.move_aside(self._folder)
        self._fault("quarantine", f"the cache database was damaged ({damage}); it is in {place}, the cache is empty")

    def _give_up(self, operation: str, error: Exception) -> None:
        self.trouble = _describe(error)
        self._fault(operation, f"{self.trouble}; the cache folder is {self._folder}; going on without a cache")

    def _drop(
        self,
        what: str,
        bad: Mapping[str, str],
        load: Callable[[RawCache, str], object],
        key: Callable[[str], bytes | str],
    ) -> None:
        """Remove what failed its check, and say so once."""
        if not bad:
            return
        self._tally.quarantined += len(bad)
        name, reason = next(iter(bad.items()))
        self._tell(
            "quarantine",
            f"{len(bad)} of the {what} in {self._folder} damaged, and dropped; the first is {name}: {reason}",
        )
        self._attempt("quarantine", "writing", lambda cache: _drop_bad(cache, bad, load, key), None)

    def _fault(self, operation: str, message: str) -> None:
        self._tally.faults += 1
        self._tell(operation, message)

    def _disconnect(self, cache: RawCache) -> None:
        with contextlib.suppress(sqlite3.Error):
            cache.close()


def _read_into(cache: RawCache, digests: Sequence[str], found: list[Entry | None], bad: dict[str, str]) -> None:
    """Fill `found` as far as it goes: what was read before an error is still good."""
    with cache.snapshot():
        for index, digest in enumerate(digests):
            try:
                found[index] = _load_entry(cache, digest)
            except CorruptEntry as error:
                bad[digest] = str(error)


def _load_entry(cache: RawCache, digest: str) -> Entry | None:
    data = cache.load(key_bytes(digest))
    if data is None:
        return None
    if type(data) is not bytes:
        raise CorruptEntry("it is text")
    return unpack(digest, data)


def _load_note(cache: RawCache, name: str) -> str | None:
    data = cache.load(name)
    if data is None:
        return None
    if type(data) is not bytes:
        raise CorruptEntry("it is not packed")
    return unpack_note(name, data)


def _drop_bad(
    cache: RawCache,
    names: Iterable[str],
    load: Callable[[RawCache, str], object],
    key: Callable[[str], bytes | str],
) -> None:
    with cache.transact():
        for name in names:
            try:
                load(cache, name)  # another process may have replaced it with a good one
            except CorruptEntry:
                cache.delete(key(name))


def _describe(error: BaseException) -> str:
    # diskcache raises its Timeout, without a text, in place of whatever kept a transaction from starting.
    reason = error if str(error) or error.__context__ is None else error.__context__
    return f"{reason} ({type(reason).__name__})"
