"""The cache folder itself: made private, refused when it is not, and moved aside when damaged.

    <folder>/             0700; refused when it is a link, another user's, or writable by others
        lock              flock, held while the database is opened or replaced
        v1/               one layout version each, so that two versions can share the folder
            cache.db      diskcache's database, and its -wal and -shm
            <32 hex>.val  values that are too large for the database
            writers/      who is writing now; see `teeny_async.store.writers`
        damaged-<time>/   a v1 whose database was damaged; the latest one only

Whoever can write to the folder can put wrong artifacts into it, so it belongs to one user alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from teeny_async.errors import CacheError

LAYOUT = "v1"
"""Renamed with any change of the layout: a version never misreads another one's files."""
DATABASE = "cache.db"
MAX_VALUE = 1 << 30
"""Bytes. No value is larger; a file that claims to be is not read into memory."""
_DAMAGED = "damaged-"


def make_private(folder: Path) -> None:
    """Create a folder for this user alone, with its missing parents, all 0700 whatever the umask.

    Raises CacheError when there is a folder that must not be used, OSError when none can be made.
    """
    if not os.path.lexists(folder):
        missing = [parent for parent in folder.parents if not parent.exists()]
        for parent in (*reversed(missing), folder):
            _make(parent)
    _refuse_shared(folder)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        return  # as it is; or another process was faster
    folder.chmod(0o700)  # the umask may have taken bits away


def _refuse_shared(folder: Path) -> None:
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        problem, cure = "is a symbolic link", f"Give the folder itself, {folder.resolve()}"
    elif not stat.S_ISDIR(status.st_mode):
        problem, cure = "is not a folder", "Remove it"
    elif status.st_uid != os.geteuid():
        problem = f"belongs to user {status.st_uid}, and this is user {os.geteuid()}"
        cure = f"Give it to this user (chown {os.geteuid()} {folder})"
    elif status.st_mode & 0o022:
        problem = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
        cure = f"Make it private (chmod 700 {folder}) after a look at what is in it"
    else:
        return
    raise CacheError(f"the cache folder {folder} {problem}. {cure}, or choose another folder.")


@contextlib.contextmanager
def opening_lock(folder: Path, patience: float) -> Iterator[None]:
    """Hold the folder's lock, or go on without it after `patience` seconds.

    It keeps processes from creating or replacing the database at the same moment. That would cost
    entries, never correctness, so a lock that cannot be had (a file system without locks, a stopped
    holder) is no reason to stop. A holder's death releases it.
    """
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + patience
        while not _try_lock(lock) and time.monotonic() < deadline:
            time.sleep(0.005)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # no locks here; see opening_lock
    return True


def create_database(directory: Path) -> None:
    """An empty database file, 0600 whatever the umask; sqlite gives its other files the same mode."""
    try:
        file = os.open(directory / DATABASE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)


def identity(directory: Path) -> tuple[int, int] | None:
    """Device and inode of the database; None when there is none."""
    try:
        status = (directory / DATABASE).lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def move_aside(folder: Path) -> Path:
    """Take a damaged layout folder out of the way whole; where it is now.

    Only the latest is kept, for a look at what happened: a disk that goes bad must not fill up with
    copies. Call it under `opening_lock`.
    """
    remove_damaged(folder)
    aside = folder / f"{_DAMAGED}{time.time_ns()}"
    (folder / LAYOUT).rename(aside)
    return aside


def remove_damaged(folder: Path) -> None:
    """Remove the damaged databases that were set aside."""
    for damaged in folder.glob(_DAMAGED + "*"):
        remove_tree(damaged)


def remove_tree(path: Path) -> None:
    """Remove a folder as far as possible, or the link that stands in its place."""
    if path.is_symlink():
        with contextlib.suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
