"""diskcache's way with values, with everything taken out that could run code or leave its folder.

diskcache 5.6.3 unpickles what it finds in its database, in keys, in values and in value files
(CVE-2025-69872), and opens and removes files under names that it read there. `RawDisk` stores bytes
and text as they are, and refuses any row or file name that is not exactly what it would have written.

The module is imported in the cache thread when a store is opened: diskcache alone takes 25 ms.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

import diskcache
from diskcache.core import MODE_BINARY, MODE_RAW

from teeny_async.store.folder import MAX_VALUE
from teeny_async.store.framing import CorruptEntry
from teeny_async.store.writers import FILE_NAME, NAMELESS

IN_DATABASE = 256 * 1024
"""Bytes. A value from this size on is a file of its own: the database stays quick to copy and check."""


class RefusedRow(CorruptEntry):
    """A row that this store did not write; the message says what is wrong with it."""


class RawDisk(diskcache.Disk):  # type: ignore[misc]  # the base class is untyped
    """Bytes and text, in the database or (bytes only) in a file directly below the folder."""

    def __init__(self, directory: str, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self.writer = NAMELESS
        """See `teeny_async.store.writers`."""
        self.unpublished: list[str] = []
        """Files that were written and whose rows are not committed yet."""

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

        The name of that file is added to `unpublished`.
        """
        value = _plain(value)
        if type(value) is not bytes or len(value) < self.min_file_size:
            return 0, MODE_RAW, None, value
        if len(value) > MAX_VALUE:
            raise ValueError(f"a value of {len(value)} bytes is over the limit of {MAX_VALUE}")
        name, path = self.filename()
        self.unpublished.append(name)
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
        name = f"{self.writer}{os.urandom(8).hex()}.val"
        return name, os.path.join(self._directory, name)

    def remove(self, file_path: object) -> None:
        """Remove a value file, if it is there; a name that is not ours is left alone."""
        if _is_ours(file_path):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(self._directory, str(file_path)))

    def size_of(self, filename: object) -> int:
        """Bytes of a value file, without reading it. Raises as `fetch` does."""
        if not _is_ours(filename):
            raise RefusedRow(f"its file name leaves the folder or is not one of ours ({filename!r})")
        return os.lstat(os.path.join(self._directory, str(filename))).st_size

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
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_VALUE:
                raise RefusedRow(f"its file is not a plain file, or too large ({filename})")
            return reader.read(status.st_size)


def _is_ours(filename: object) -> bool:
    return type(filename) is str and FILE_NAME.fullmatch(filename) is not None


def _plain(value: object) -> bytes | str:
    # Exact types: a subclass can pretend to be anything.
    if type(value) is bytes or type(value) is str:
        return value
    raise TypeError(f"only bytes and text are stored, not {type(value).__name__}")
