"""Lock files that come and go, held by `flock`.

A lock belongs to the open file, not to its name. So whoever removes the name while another process has
the file open leaves that process with a lock that nobody else will ever see: the classic race. Two rules
end it. A holder removes its file before it lets go, never after; and whoever has got a lock looks whether
the name still leads to the file it locked, and otherwise begins again.

`flock` is gone with its last descriptor, however the holder died. Descriptors are closed on exec, so no
compiler inherits one; a process that forks without exec shares its locks with the child.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

_TRIES = 100
"""Each try that comes to nothing means that another process got the lock and let go of it."""


def try_lock(path: str | os.PathLike[str], *, create: bool = True) -> int | None:
    """A descriptor that holds the lock of this name; None when another holds it.

    create: make the file, 0600, when there is none; otherwise that raises FileNotFoundError.
    Raises OSError when there can be no such lock: the folder is gone, or its file system has no locks.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    for _ in range(_TRIES):
        file = os.open(path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_called(file, path):
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        os.close(file)
    return None


def remove_and_unlock(path: str | os.PathLike[str], file: int) -> None:
    """Remove the lock's file and let go of it. The descriptor is closed whatever happens."""
    try:
        with contextlib.suppress(OSError):
            os.unlink(path)
    finally:
        os.close(file)


def _is_called(file: int, path: str | os.PathLike[str]) -> bool:
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(file))
