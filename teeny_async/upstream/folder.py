"""teenygrad's cache folder on disk, by its own protocol. Blocking; call it in a thread.

Who writes a kernel's files holds an exclusive flock on its `.lock`, looks again for the `.o`, writes temporary
files and renames them. A program takes a kernel as there when its `.o` is, so that comes last. A `.lock` is never
removed: who waits for it would hold another file than the next one to come.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from teeny_async.upstream.layout import LOCK, MLIR, OBJECT, SOURCE, split_stem

Outcome = Literal["written", "same", "different", "busy"]
"""different: there is another `.o`, which was left. busy: someone else writes it now."""

LARGEST = 256 << 20
"""Bytes of a file that is read."""
_TEMPORARY = ".teeny-async-"


class UpstreamFolder:
    """One such folder. It is made by the first write; its mode and its files' are by the umask, for it may be shared."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self._strays: defaultdict[str, list[str]] = defaultdict(list)

    def prepare(self) -> None:
        """Make the folder, and look for what killed writers of ours have left. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._strays.clear()
        for name in os.listdir(self.path):
            if name.startswith(_TEMPORARY):
                self._strays[name.rpartition("-")[0] + "-"].append(name)

    def stems(self, suffix: str) -> list[str]:
        """The stems of all files of a kind, in order. Raises OSError."""
        names = (name.removesuffix(suffix) for name in os.listdir(self.path) if name.endswith(suffix))
        return sorted(name for name in names if split_stem(name) is not None)

    def read(self, stem: str, suffix: str) -> bytes | None:
        """A file's bytes; None when there is none. Raises OSError, also for what is no plain file."""
        path = self.path / (stem + suffix)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                raise OSError(errno.EINVAL, "not a plain file, or too large", str(path))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)

    def publish(self, stem: str, files: Mapping[str, bytes], *, replace: bool) -> Outcome:
        """Put a kernel's files there, by suffix; the `.o` among them. Never waits for a lock. Raises OSError.

        A different `.o` stays, and everything beside it, unless `replace`. What is there and equal is not written.
        """
        with self._locked(stem) as held:
            if not held:
                return "busy"
            self._sweep(stem)
            there = self.read(stem, OBJECT)
            if there is not None and there != files[OBJECT] and not replace:
                return "different"
            wrote = [self._put(stem, suffix, files.get(suffix)) for suffix in (SOURCE, MLIR, OBJECT)]
            if there is not None and there != files[OBJECT]:
                for suffix in {SOURCE, MLIR} - set(files):  # they belonged to what was replaced
                    (self.path / (stem + suffix)).unlink(missing_ok=True)
            return "written" if any(wrote) else "same"

    @contextlib.contextmanager
    def _locked(self, stem: str) -> Iterator[bool]:
        path = self.path / (stem + LOCK)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)

    def _put(self, stem: str, suffix: str, data: bytes | None) -> bool:
        """Write one file, if there is one to be written and it is not there; whether that was so."""
        if data is None or self.read(stem, suffix) == data:
            return False
        self._write(stem, self.path / (stem + suffix), data)
        return True

    def _write(self, stem: str, path: Path, data: bytes) -> None:
        temporary = self.path / f"{temporary_prefix(stem)}{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)  # a power cut must not leave an empty `.o`, which a program would take
            temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _sweep(self, stem: str) -> None:
        """Remove what a killed writer of these files has left; the lock is held, so none is at work."""
        for name in self._strays.pop(temporary_prefix(stem), ()):
            with contextlib.suppress(OSError):
                (self.path / name).unlink()


def temporary_prefix(stem: str) -> str:
    """What the names of a kernel's temporary files begin with; its own may be too long to be part of them."""
    return f"{_TEMPORARY}{hashlib.sha256(stem.encode()).hexdigest()[:32]}-"
