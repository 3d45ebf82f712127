"""The one door to a cache database, at which trouble becomes a fault. Blocking; lives in the cache thread.

Every operation goes through `Door.attempt`. When one fails,

* the connection is closed, which ends whatever transaction was open; diskcache opens another;
* a database that is itself broken is moved aside, a new one takes its place with the entries that are
  still good, and what was to be done is done there;
* otherwise operations of that kind (reading, writing) are left out for a while. A lock is waited
  for `patience` seconds, so a thousand results would else wait a thousand times, and a full disk
  would give a thousand warnings.

What a person asks for goes through `Door.insist`, which does the same and then raises CacheError.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from teeny_async.errors import CacheError
from teeny_async.store import folder as folders
from teeny_async.store.base import OnFault
from teeny_async.store.tally import Tally
from teeny_async.store.writers import NAMELESS

if TYPE_CHECKING:
    from teeny_async.store.raw_cache import RawCache

T = TypeVar("T")
Kind = Literal["reading", "writing"]

_SALVAGE_FOR = 5.0
"""Seconds spent on saving entries from a damaged database."""


class Door:
    """The connection to the database of one folder, and what happens when something goes wrong with it.

    patience: seconds to wait for a lock. pause: seconds for which a kind of operation is left out
    after it failed. tell: called in the cache thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        size_limit: int,
        count_limit: int,
        patience: float,
        tally: Tally,
        tell: OnFault,
        pause: float = 5.0,
    ) -> None:
        self.folder = folder
        self._size_limit = size_limit
        self.trouble: str | None = "it is not open"
        self._count_limit = count_limit
        self._directory = folder / folders.LAYOUT
        self._patience = patience
        self._pause = pause
        self._tally = tally
        self._tell = tell
        self._cache: RawCache | None = None
        self._identity: tuple[int, int] | None = None
        self._aside: tuple[Path, Exception] | None = None
        self._resume: dict[Kind, float] = {"reading": 0.0, "writing": 0.0}

    @property
    def largest(self) -> int:
        """Bytes of the largest value that is stored."""
        return min(folders.MAX_VALUE, self._size_limit)

    @property
    def writer(self) -> str:
        """Our name among the writers of the folder."""
        return NAMELESS if self._cache is None else self._cache.writer

    def open(self) -> bool:
        """Open the folder, if it is not open; whether it was opened. Raises CacheError when it must not be used."""
        if self._cache is not None:
            return False
        try:
            folders.make_private(self.folder)
            self._start(None)
        except CacheError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the session goes on uncached
            self._give_up("open", error)
            return False
        return True

    def close(self) -> None:
        """Close the database."""
        if self._cache is not None:
            self._disconnect(self._cache)
        self._cache = None
        self.trouble = "it is not open"

    def attempt(self, operation: str, kind: Kind, work: Callable[[RawCache], T], otherwise: T) -> T:
        """What `work` returns, or `otherwise` when it fails or is left out."""
        for last in (False, True):
            cache = self._cache
            if cache is None or time.monotonic() < self._resume[kind]:
                self._tally.skipped += 1
                return otherwise
            try:
                return work(cache)
            except Exception as error:  # noqa: BLE001  # a cache that fails, in whatever way, fails no compile
                replaced = self._recover(operation, kind, cache, error)
                if last or not replaced:
                    return otherwise
        return otherwise

    def insist(self, operation: str, kind: Kind, work: Callable[[RawCache], T]) -> T:
        """Do something that was asked for. Raises CacheError, from what was in the way, when it fails."""
        if self._cache is None:
            raise CacheError(f"{operation}: the cache in {self.folder} cannot be used: {self.trouble}")
        try:
            return work(self._cache)
        except CacheError:
            raise
        except Exception as error:
            self._recover(operation, kind, self._cache, error)
            raise CacheError(f"{operation} failed in the cache in {self.folder}: {describe(error)}") from error

    def advise(self, work: Callable[[RawCache], object]) -> None:
        """Do something that may as well be left undone: whatever is in the way is no fault, and waited for briefly."""
        if self._cache is not None and time.monotonic() >= self._resume["writing"]:
            with contextlib.suppress(Exception):
                work(self._cache)

    def _recover(self, operation: str, kind: Kind, cache: RawCache, error: Exception) -> bool:
        """Whether there is another database now, in which it can be tried again."""
        from teeny_async.store.database import is_damage

        self._disconnect(cache)
        if is_damage(error):
            return self._restart(operation, error)
        if isinstance(error, (OSError, sqlite3.Error)):
            self._resume[kind] = time.monotonic() + self._pause
        self.fault(operation, f"{describe(error)}; the cache folder is {self.folder}")
        return False

    def _restart(self, operation: str, damage: Exception | None) -> bool:
        self._cache = None
        try:
            self._start(damage)
        except Exception as worse:  # noqa: BLE001  # as above
            self._give_up(operation, worse)
            return False
        return True

    def _start(self, damage: Exception | None) -> None:
        """Connect to the database; move it aside first, and start an empty one, if it is damaged."""
        from teeny_async.store.database import is_damage
        from teeny_async.store.raw_cache import Limits, RawCache

        limits = Limits(size=self._size_limit, count=self._count_limit)
        with folders.opening_lock(self.folder, self._patience):
            # Another process may have replaced the database that was found damaged.
            if damage is not None and folders.identity(self._directory) == self._identity:
                self._set_aside(damage)
            for last in (False, True):
                folders.make_private(self._directory)
                folders.create_database(self._directory)
                try:
                    self._cache = RawCache(self._directory, limits=limits, patience=self._patience)
                    break
                except Exception as error:
                    if last or not is_damage(error):
                        raise
                    self._set_aside(error)
            self._identity = folders.identity(self._directory)
        self.trouble = None
        self._save_what_is_good()

    def follow(self) -> None:
        """Go where the folder's database is now: another process may have set ours aside, or removed the folder."""
        if self._cache is not None and folders.identity(self._directory) != self._identity:
            self._disconnect(self._cache)
            self._restart("open", None)

    def _set_aside(self, damage: Exception) -> None:
        self._aside = (folders.move_aside(self.folder), damage)

    def _save_what_is_good(self) -> None:
        """After a database was set aside: take over what is good in it, and say what happened."""
        from teeny_async.store.database import ForeignDatabase
        from teeny_async.store.salvage import salvage

        if self._aside is None:
            return
        (place, damage), self._aside = self._aside, None
        saved = 0
        if self._cache is not None and not isinstance(damage, ForeignDatabase):
            try:
                saved = salvage(place, self._cache, _SALVAGE_FOR)
            except Exception:  # noqa: BLE001  # the next one to write will say what is wrong
                self._disconnect(self._cache)
        left = f"{saved} entries and notes were saved from it" if saved else "the cache is empty"
        self.fault("quarantine", f"the cache database was damaged ({damage}); it is in {place}, {left}")

    def _give_up(self, operation: str, error: Exception) -> None:
        self.trouble = describe(error)
        self.fault(operation, f"{self.trouble}; the cache folder is {self.folder}; going on without a cache")

    def fault(self, operation: str, message: str) -> None:
        """Count and tell that something went wrong."""
        self._tally.faults += 1
        self._tell(operation, message)

    def _disconnect(self, cache: RawCache) -> None:
        with contextlib.suppress(sqlite3.Error):
            cache.close()


def describe(error: BaseException) -> str:
    """An error in a line."""
    return f"{error} ({type(error).__name__})"
