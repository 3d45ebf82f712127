"""Files and processes: the system calls of the supervisor, each behind a small function."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def open_output(folder: bytes, name: bytes, limit: int) -> tuple[int, int]:
    """(descriptor, size) of an output; (-1, 0) when it is missing, no regular file, or over the limit."""
    try:
        fd = os.open(b"%s/%s" % (folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return -1, 0
    found = os.fstat(fd)
    if found.st_mode & 0o170000 != 0o100000 or found.st_size > limit:
        os.close(fd)
        return -1, 0
    return fd, found.st_size


def read_exactly(fd: int, size: int) -> bytes:
    data = os.read(fd, size)
    while len(data) < size:
        more = os.read(fd, size - len(data))
        data += more or bytes(size - len(data))
    return data


def write_file(name: bytes, data: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        at = os.write(fd, data)
        while at < len(data):
            at += os.write(fd, memoryview(data)[at:])
    finally:
        os.close(fd)


def is_full(folder: bytes) -> int:
    """1 when the file system has no free block or inode for us."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return int(found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0))


def remove_tree(folder: bytes) -> None:
    """Remove a folder whatever is in it; what cannot be removed is left, silently."""
    try:
        os.chmod(folder, 0o700)
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            pass
    try:
        os.rmdir(folder)
    except OSError:
        pass


def sweep(base: bytes) -> None:
    """Remove the scratch folders of sessions that are gone: those whose lock nobody holds."""
    import fcntl

    for entry in os.scandir(base):
        try:
            fd = os.open(os.path.join(entry.path, b"lock"), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kill_below(entry.path)  # session and supervisor were both killed: nobody else will
            remove_tree(entry.path)
        except OSError:
            pass
        finally:
            os.close(fd)


def kill_below(root: bytes) -> None:
    """Kill the groups of processes that work in a folder below `root`, or were given a TMPDIR there (Linux)."""
    if sys.platform != "linux":
        return
    below = root + b"/"
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.readlink(b"/proc/%s/cwd" % name.encode()).startswith(below) or has_tmp_below(int(name), root):
                group = os.getpgid(int(name))
                if group != os.getpgrp():
                    os.killpg(group, signal.SIGKILL)
        except OSError:
            continue


def has_tmp_below(pid: int, folder: bytes) -> bool:
    """Whether a process was given a folder, or one below it, as TMPDIR; where that cannot be seen, it was not."""
    return (tmpdir_of(pid) + b"/").startswith(folder + b"/")


def tmpdir_of(pid: int) -> bytes:
    """The TMPDIR that a process was started with; empty where it has none, or that cannot be seen: it is
    another user's, or in the midst of exec, where it has no environment for a moment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            variables = environ.read().split(b"\0")
    except OSError:
        return b""
    return next((found[7:] for found in variables if found.startswith(b"TMPDIR=")), b"")


def birth_of(pid: int) -> int:
    """When a process was forked, in the kernel's ticks; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def children() -> list[int]:
    """Our children, zombies included, where the system lists them. It is asked at each job's end: the file stays
    open."""
    me = os.getpid()
    listed = b""
    try:
        if me not in _listings:
            _listings[me] = os.open(f"/proc/self/task/{me}/children", os.O_RDONLY)
        while more := os.pread(_listings[me], _LISTING, len(listed)):
            listed += more
            if len(more) < _LISTING // 2:  # the kernel fills what it is given, but for the last
                break
    except OSError:
        return []
    return [int(word) for word in listed.split()]


_listings: dict[int, int] = {}
_LISTING = 1 << 12


def limit_cpu(pid: int, seconds: float) -> None:
    """SIGXCPU for any one process of the job that is well over a limit of CPU seconds (Linux; elsewhere none).

    Looking at the job ends it sooner and counts all its processes; this holds where a look comes too late.
    """
    import resource

    if hasattr(resource, "prlimit"):
        whole = int(seconds) + 2
        try:
            resource.prlimit(pid, resource.RLIMIT_CPU, (whole, whole + 2))
        except ProcessLookupError:
            pass


class Nursery:
    """Where processes are born: each in a session of its own, and so that the kernel kills it before the session's
    when memory runs out (Linux). That score is inherited: ours is that of a child for a moment, which is cheaper than
    to look up the child's."""

    def __init__(self) -> None:
        self._fd = -1
        try:
            self._fd = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            self._own = os.pread(self._fd, 16, 0).strip()
            if int(self._own) >= KILL_FIRST:
                self._fd = -1
        except (OSError, ValueError):
            self._fd = -1

    def spawn(
        self, executable: bytes, argv: list[bytes], env: dict[bytes, bytes], stdio: tuple[int | None, ...]
    ) -> int:
        """The pid of a new process. stdio: what its descriptors 0, 1 and 2 are; None is /dev/null. Raises OSError."""
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, at, "/dev/null", os.O_RDWR, 0) if fd is None else (os.POSIX_SPAWN_DUP2, fd, at)
            for at, fd in enumerate(stdio)
        ]
        self._set(b"%d" % KILL_FIRST)
        try:
            return os.posix_spawn(
                executable, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=SIGNALS
            )
        finally:
            self._set(self._own)

    def _set(self, score: bytes) -> None:
        if self._fd >= 0:
            try:
                os.pwrite(self._fd, score, 0)
            except OSError:  # we were made unkillable, or may not
                self._fd = -1


def reset_peak_memory() -> None:
    """Forget our own peak, which the compilers started next would inherit as theirs (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def become_subreaper() -> bool:
    """Adopt orphaned descendants (Linux's PR_SET_CHILD_SUBREAPER); False where that cannot be."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes
    except ImportError:
        return False
    return int(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)) == 0


def close_inherited(keep: set[int]) -> None:
    """Close every descriptor that the session's process let through, but for those in `keep`."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass


KILL_FIRST = 500
"""Of 1000: as if a compiler held half of the machine's memory more than it does."""
MAX_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of ru_maxrss."""
SIGNALS = [getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGHUP", "SIGTERM")]
