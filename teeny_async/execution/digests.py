"""Digests of files as they are now, for closures: read when they changed, else remembered.

A file's digest is remembered by what the kernel says of it (see `probe.file_identity`). A `Snapshot` looks
at each file once: all requests that are looked up together see the files in one state, and pay for one
`stat` of a header that all of them include.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from teeny_async.execution.probe import digest_file, file_identity

_RACY = 2_000_000_000
"""Nanoseconds. A file that changed this shortly before it was read may change again within the resolution of
its time stamps, unseen: its digest is used, but not remembered."""


_FILE_CLOCK = 5 if sys.platform == "linux" else None
_TICK = 10_000_000


class FileDigests:
    """The memory behind snapshots; one for a session. Blocking: call it in a thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[int], str]] = {}

    def digest(self, path: str, now_ns: int) -> str | None:
        """SHA-256 in hexadecimal; None when there is no regular file that can be read."""
        identity = file_identity(path)
        if not identity or not stat.S_ISREG(os.stat(path).st_mode):
            return None
        known = self._known.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        try:
            digest = digest_file(path)
        except OSError:
            return None
        if identity == file_identity(path) and now_ns - max(identity[3:]) > _RACY:
            self._known[path] = (identity, digest)
        return digest


class Snapshot:
    """Files as they are at one moment; each is looked at once."""

    def __init__(self, digests: FileDigests, now_ns: int) -> None:
        self._digests = digests
        self._now = now_ns
        self._seen: dict[str, str | None] = {}

    def digest(self, path: str) -> str | None:
        if path not in self._seen:
            try:
                self._seen[path] = self._digests.digest(path, self._now)
            except OSError:  # it vanished between two looks
                self._seen[path] = None
        return self._seen[path]

    def is_there(self, path: str) -> bool:
        """Whether anything is there, a folder included."""
        return os.path.lexists(path)


def file_clock_ns() -> int:
    """Now, by the clock that the kernel stamps files with (nanoseconds).

    Linux stamps them with a clock that stands still for a tick of up to 10 ms (CLOCK_REALTIME_COARSE, 5):
    by the fine clock, a file could be changed after a moment and be stamped before it.
    """
    return time.time_ns() - _TICK if _FILE_CLOCK is None else time.clock_gettime_ns(_FILE_CLOCK)


def changed_since(path: str, moment_ns: int) -> bool:
    """Whether a file may have changed at or after a moment of `file_clock_ns`, or is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return True
    return max(found.st_mtime_ns, found.st_ctime_ns) >= moment_ns
