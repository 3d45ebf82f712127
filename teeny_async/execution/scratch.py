"""Scratch folders: one for each session, 0700, marked as in use by a lock that dies with its holders.

    <base>/                 one for each user, checked to be ours before it is trusted
        s-XXXXXXXX/         a session's; removed by its supervisor when the session ends, however it ends
            lock            flock held by the session and its supervisor
            1/              a job's: its working directory, HOME and TMPDIR

When both processes were killed the lock is free, and the next session's supervisor removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Scratch:
    """A session's scratch folder. lock: an open descriptor that holds its flock."""

    base: Path
    root: Path
    lock: int

    def release(self) -> None:
        """Give up the lock, once the folder is gone."""
        os.close(self.lock)


def make_scratch(parent: str) -> Scratch:
    """Make a session's scratch folder below `parent` (the system's folder for temporary files).

    Raises OSError when nothing can be written there.
    """
    base = _own_base(Path(parent)) or Path(tempfile.mkdtemp(prefix="teeny-async-", dir=parent))
    while True:
        root = Path(tempfile.mkdtemp(prefix="s-", dir=base))
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # a sweeper came between: it takes the folder away
            os.close(lock)
            continue
        return Scratch(base, root, lock)


def _own_base(parent: Path) -> Path | None:
    """The user's base folder, or None when something else goes by its name."""
    base = parent / f"teeny-async-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700)
        base.chmod(0o700)  # whatever the umask took away
    found = base.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return base if ours else None
