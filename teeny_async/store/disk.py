"""`DiskStore`: entries in a folder, shared safely by threads, sessions and processes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

import anyio

from teeny_async.errors import CacheError
from teeny_async.store import caretaking
from teeny_async.store.base import Entry, GroupStats, OnFault, StoreStats
from teeny_async.store.disk_worker import DiskWorker
from teeny_async.store.door import Door
from teeny_async.store.folder import LAYOUT
from teeny_async.store.framing import key_bytes
from teeny_async.store.openers import Openers, Opening
from teeny_async.store.read_only import ReadOnlyWorker
from teeny_async.store.reports import ArchiveReport, PruneReport, VerifyReport
from teeny_async.store.tally import Tally
from teeny_async.store.thread import CacheThread
from teeny_async.store.writers import Company

T = TypeVar("T")
P = ParamSpec("P")

SIZE_LIMIT = 10 * 2**30
"""Bytes; the entries that were not used for the longest time are removed when a folder has grown past it."""
COUNT_LIMIT = 1_000_000
"""Entries and notes, likewise: a file system can run out of files before it is full."""
_BATCH = 512
"""Entries read in one go: enough to make the hop to the thread cheap, few enough to let others in between."""
_WRITTEN = 64
"""Entries written in one transaction, which others wait for."""
_SCANNED = 64
"""Entries in memory at a time when all are gone through."""


class _Worker(Protocol):
    """The blocking half: `DiskWorker`, `ReadOnlyWorker`."""

    @property
    def trouble(self) -> str | None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def read(self, digests: Sequence[str]) -> list[Entry | None]: ...
    def look(self, digests: Sequence[str]) -> list[Entry | None]: ...
    def keys_after(self, key: bytes, count: int) -> list[bytes]: ...
    def write(self, entries: Sequence[tuple[str, Entry]]) -> None: ...
    def delete(self, digest: str) -> None: ...
    def read_notes(self, names: Sequence[str]) -> list[str | None]: ...
    def write_note(self, name: str, text: str) -> None: ...
    def measure(self) -> tuple[int, int, list[GroupStats]]: ...
    def clear(self) -> int: ...


@dataclass(slots=True)
class _Opening:
    """From the first opener's coming to the last one's going."""

    thread: CacheThread
    worker: _Worker


class DiskStore:
    """A store in a folder, on diskcache; see `teeny_async.store.folder` for what is in it.

    folder: created 0700 when the store is opened; refused when others could write to it.
    size_limit, count_limit: bytes, and entries with notes. Past either, each new entry removes a few dozen of
        those that were not used for the longest time, at most. A use is noted once in some hours.
    patience: seconds to wait for another process's lock before an operation is given up.
    read_only: never write to the folder, not even a lock, nor remove what is damaged; it may then be root's.

    `verify`, `prune`, `export` and `import_` are asked for by a person: they raise CacheError when they
    cannot be done.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        size_limit: int = SIZE_LIMIT,
        count_limit: int = COUNT_LIMIT,
        patience: float = 5.0,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._read_only = read_only
        self._size_limit = size_limit
        self._count_limit = count_limit
        self._patience = patience
        self._company = Company(self.folder / LAYOUT)
        self._tally = Tally()
        self._openers = Openers()
        self._shared = Opening(lambda: _Opening(CacheThread(), self._new_worker()))

    def __repr__(self) -> str:
        return f"DiskStore({str(self.folder)!r}{', read_only=True' if self._read_only else ''})"

    @property
    def read_only(self) -> bool:
        return self._read_only

    @property
    def folder_identity(self) -> str | None:
        """What two processes that write into one folder agree on, by whatever path; None for one that is only read,
        or is not there."""
        if self._read_only:
            return None
        try:
            status = os.stat(self.folder)
        except OSError:
            return None
        return f"{status.st_dev}:{status.st_ino}"

    def has_company(self) -> bool:
        """Whether others write into the folder too, or have done so since the last time that this was asked."""
        opening = self._opening
        return (
            opening is not None
            and isinstance(opening.worker, DiskWorker)
            and self._company.look(opening.worker.door.writer)
        )

    async def open(self, on_fault: OnFault) -> None:
        opening = self._join()
        self._openers.join(on_fault)
        try:
            # The thread works in order: a second opener waits here for the first one's opening.
            await opening.thread.call(opening.worker.open)
            self._openers.deliver()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        opening = self._shared.leave()
        try:
            if opening is not None:
                with anyio.CancelScope(shield=True):
                    await opening.thread.call(opening.worker.close)
                    await opening.thread.aclose()
        finally:
            self._openers.leave()

    async def get_many(self, digests: Sequence[str]) -> list[Entry | None]:
        for digest in digests:
            key_bytes(digest)
        found: list[Entry | None] = []
        for start in range(0, len(digests), _BATCH):
            found += await self._call(self._worker.read, digests[start : start + _BATCH])
        return found

    async def look_many(self, digests: Sequence[str]) -> list[Entry | None]:
        """As `get_many`, without counting it as a use."""
        found: list[Entry | None] = []
        for start in range(0, len(digests), _BATCH):
            found += await self._call(self._worker.look, digests[start : start + _BATCH])
        return found

    async def put(self, digest: str, entry: Entry) -> None:
        key_bytes(digest)
        await self._call(self._worker.write, [(digest, entry)])

    async def put_many(self, entries: Sequence[tuple[str, Entry]]) -> None:
        for digest, _ in entries:
            key_bytes(digest)
        for start in range(0, len(entries), _WRITTEN):
            await self._call(self._worker.write, entries[start : start + _WRITTEN])

    async def delete(self, digest: str) -> None:
        key_bytes(digest)
        await self._call(self._worker.delete, digest)

    async def get_note(self, name: str) -> str | None:
        return (await self.get_notes([name]))[0]

    async def get_notes(self, names: Sequence[str]) -> list[str | None]:
        found: list[str | None] = []
        for start in range(0, len(names), _BATCH):
            found += await self._call(self._worker.read_notes, names[start : start + _BATCH])
        return found

    async def put_note(self, name: str, text: str) -> None:
        await self._call(self._worker.write_note, name, text)

    async def stats(self) -> StoreStats:
        entries, size, groups = await self._call(self._worker.measure)
        return StoreStats(
            location=str(self.folder),
            entries=entries,
            bytes=size,
            size_limit=None if self._read_only else self._size_limit,
            count_limit=None if self._read_only else self._count_limit,
            trouble=self._worker.trouble,
            groups=tuple(groups),
            **asdict(self._tally),
        )

    async def clear(self) -> int:
        return await self._call(self._worker.clear)

    async def verify(self, *, deep: bool = True) -> VerifyReport:
        """Check everything: the database, each entry and note, that every value file belongs to one.

        What is bad is dropped, what belongs to nothing is removed, what is counted is counted anew; a broken
        database is set aside. Others may use the store meanwhile.
        deep: read every value and check it; otherwise only look whether the files are there, and as long as
            they should be.

        Raises CacheError.
        """
        check = caretaking.Verification(self._caretaken(), deep=deep)
        await self._call(check.begin)
        while await self._call(check.step):
            pass
        return await self._call(check.end)

    async def prune(
        self, *, max_bytes: int | None = None, max_count: int | None = None, older_than: float | None = None
    ) -> PruneReport:
        """Remove entries and notes, those first that were not used for the longest time; and databases that
        were set aside as damaged.

        max_bytes, max_count: until no more bytes, and no more entries and notes, than this are left. older_than:
            seconds; whatever was not used for so long. A use is noted once in some hours, so this is no more exact.

        Raises CacheError.
        """
        pruning = caretaking.Pruning(self._caretaken(), max_bytes=max_bytes, max_count=max_count, older_than=older_than)
        while await self._call(pruning.step):
            pass
        return pruning.report

    async def export(self, path: str | os.PathLike[str], *, notes: Sequence[str] = ()) -> ArchiveReport:
        """Write every entry into one archive, for `import_` to read; whole or not at all.

        notes: what the names of the notes begin with that go into it as well. Only notes that hold on every
            machine belong there: a memoised fingerprint of a compiler does not.

        Equal contents give equal archives. Damaged entries are left out, and dropped. Raises CacheError.
        """
        exporting = caretaking.Exporting(self._caretaken(), Path(path), notes)
        try:
            while await self._call(exporting.step):
                pass
        finally:
            exporting.abandon()
        return exporting.report

    async def import_(self, path: str | os.PathLike[str]) -> ArchiveReport:
        """Take in an archive that `export` wrote. What is in the store already stays.

        The whole archive is verified before anything of it is taken in. Raises CacheError, with nothing
        taken in, for one that is damaged, cut short, or no archive of ours; and when writing fails half-way,
        with what was taken in until then.
        """
        importing = caretaking.Importing(self._caretaken(), Path(path))
        try:
            while await self._call(importing.check):
                pass
            while await self._call(importing.step):
                pass
        finally:
            importing.close()
        return importing.report

    async def scan(self, toolchain: str | None = None) -> AsyncIterator[tuple[str, Entry]]:
        """Every entry with its digest, in the order of the digests, verified as when it is looked up.

        toolchain: only those whose info names this one.
        """
        last = b""
        while keys := await self._call(self._worker.keys_after, last, _SCANNED):
            last = keys[-1]
            digests = [key.hex() for key in keys if len(key) == 32]
            for digest, entry in zip(digests, await self._call(self._worker.look, digests), strict=True):
                if entry is not None and toolchain in (None, entry.info.get("toolchain")):
                    yield digest, entry

    @property
    def _worker(self) -> _Worker:
        if self._opening is None:
            raise RuntimeError(f"{self!r} is not open")
        return self._opening.worker

    def _caretaken(self) -> DiskWorker:
        worker = self._worker
        if not isinstance(worker, DiskWorker):
            raise CacheError(f"the cache in {self.folder} is open for reading only")
        return worker

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        opening = self._opening
        if opening is None:
            raise RuntimeError(f"{self!r} is not open")
        try:
            return await opening.thread.call(function, *args, **kwargs)
        finally:
            self._openers.deliver()

    def _join(self) -> _Opening:
        return self._shared.join()

    @property
    def _opening(self) -> _Opening | None:
        return self._shared.current

    def _new_worker(self) -> _Worker:
        if self._read_only:
            return ReadOnlyWorker(self.folder, tally=self._tally, tell=self._openers.tell)
        door = Door(
            self.folder,
            size_limit=self._size_limit,
            count_limit=self._count_limit,
            patience=self._patience,
            tally=self._tally,
            tell=self._openers.tell,
        )
        return DiskWorker(door, tally=self._tally, tell=self._openers.tell)
