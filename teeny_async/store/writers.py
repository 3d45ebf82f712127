"""Who is writing into a folder now, and which value files belong to nobody.

A large value is written to its file first and gets its row then; the file of a value that is replaced is
removed after the row. A writer that is killed in between leaves a file without a row. Whether such a file
is a leftover or about to get its row cannot be told from its age, so it is told from its writer:

    v1/writers/<16 hex>.lock         held by flock, from a writer's first write until it closes the folder
    v1/<16 hex><16 hex>.val          a value file: the writer's name, and a number of its own

A lock file that nobody holds is a writer that died. Whoever opens the folder next removes every value file
that has no row and no living writer, and then the dead writers' lock files. Without any of those there is
nothing to look for, and the look costs one listing of an empty folder.

If all this were wrong, a file would be missing from a row that is there: a miss.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from teeny_async.store.lockfile import remove_and_unlock, try_lock

FOLDER = "writers"
NAMELESS = "0" * 16
"""The name of a writer that could not have a lock; its files are leftovers when they are old."""
FILE_NAME = re.compile(r"[0-9a-f]{32}\.val")
_OLD = 3600.0
"""Seconds."""
_TRIES = 5
_STEP = 3_000_000_000
"""Nanoseconds, longer than the steps of any file system's clock."""


class Writer:
    """One writer into a layout folder. `name` goes into the names of its value files."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self._lock: tuple[Path, int] | None = None
        self.name = NAMELESS

    def announce(self) -> None:
        """Take a name, before the first write. Does nothing when there is one, or none is to be had."""
        if self._lock is not None:
            return
        for _ in range(_TRIES):
            # The name first: `Company` may look at any moment, and must know that it is ours.
            self.name = os.urandom(8).hex()
            path = self._folder / f"{self.name}.lock"
            with contextlib.suppress(OSError):
                self._folder.mkdir(0o700, exist_ok=True)
                self._folder.chmod(0o700)
                lock = try_lock(path)
                if lock is not None:  # or a process that looks for the dead has just looked at ours
                    self._lock = path, lock
                    return
        self.name = NAMELESS

    def leave(self) -> None:
        """Nothing of this writer is on its way any more."""
        if self._lock is not None:
            path, lock = self._lock
            self._lock, self.name = None, NAMELESS
            remove_and_unlock(path, lock)


class Company:
    """Whether others write into a layout folder too, as seen from outside, for a system call or two.

    A writer that came and went between two looks has changed the time of the folder that it announced itself in;
    and so has our own coming, which hides the like of it once. While the folder has the time that it had long
    before it was listed, the list holds: a file system's clock goes in steps, of seconds at most.
    """

    def __init__(self, directory: Path) -> None:
        self._folder = os.fspath(directory / FOLDER)
        self._changed: int | None = None
        self._mine = NAMELESS
        self._names: set[str] = set()
        self._listed_at = 0

    def look(self, mine: str) -> bool:
        """Whether there is anybody but `mine` (a writer's name), or anybody has come or gone since the last look."""
        own = f"{mine}.lock"
        try:
            changed = os.stat(self._folder).st_mtime_ns
            expected = self._changed is None or changed == self._changed or mine != self._mine
            if changed != self._changed or self._listed_at - changed < _STEP:
                self._listed_at = time.time_ns()
                self._names = set(os.listdir(self._folder))
                if own in self._names and mine != self._mine:  # we may have come since the time was taken
                    changed, self._mine = os.stat(self._folder).st_mtime_ns, mine
        except OSError:
            self._changed = 0
            return False  # nobody has written yet
        self._changed = changed
        return bool(self._names - {own}) or not expected


@dataclass(slots=True)
class _Census:
    """The writers of a folder. dead: their lock files, held by us; they are looked at by nobody else."""

    alive: set[str] = field(default_factory=set)
    dead: list[tuple[Path, int]] = field(default_factory=list)


def sweep_after_deaths(directory: Path, names_in_use: Callable[[], set[str]], mine: str = NAMELESS) -> int:
    """`sweep`, if a writer has died since the last one. Without one this costs a listing of `writers`."""
    with _census(directory / FOLDER, mine) as census:
        if not census.dead:
            return 0
    return sweep(directory, names_in_use, mine)


def sweep(directory: Path, names_in_use: Callable[[], set[str]], mine: str = NAMELESS) -> int:
    """Remove every value file that has neither a row nor a living writer; how many there were.

    names_in_use: the value files that rows refer to. mine: the caller's own name among the writers.
    Raises OSError, and whatever `names_in_use` raises.
    """
    # In this order: the writer of a file that is listed was announced before; and when it is gone by the
    # time that the writers are counted, then so are its rows there by the time that those are read.
    with os.scandir(directory) as entries:
        files = [entry.name for entry in entries if FILE_NAME.fullmatch(entry.name)]
    with _census(directory / FOLDER, mine) as census:
        used = names_in_use()
        removed = 0
        undecided = False
        for name in files:
            if name in used:
                continue
            if name[:16] in census.alive or (name[:16] == NAMELESS and not _is_old(directory / name)):
                undecided = True
            else:
                removed += _remove(directory / name)
        if not undecided:  # otherwise the dead stay, as a reason to look again the next time
            while census.dead:
                remove_and_unlock(*census.dead.pop())
    return removed


@contextlib.contextmanager
def _census(folder: Path, mine: str) -> Iterator[_Census]:
    found = _Census({mine} - {NAMELESS})
    try:
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".lock")
                if name in (mine, entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    lock = try_lock(entry.path, create=False)
                    if lock is None:
                        found.alive.add(name)
                    else:
                        found.dead.append((Path(entry.path), lock))
        yield found
    finally:
        for _, lock in found.dead:
            os.close(lock)


def _is_old(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime < time.time() - _OLD
    return False


def _remove(path: Path) -> int:
    try:
        path.unlink()
    except OSError:
        return 0
    return 1
