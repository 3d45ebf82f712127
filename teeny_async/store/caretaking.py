"""What a person asks of a cache folder: verify, prune, export, import. In steps, each a job for the cache thread,
so that sessions that use the same store get their turn in between.

Everything here raises CacheError when it cannot be done, and nothing else.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from teeny_async.errors import CacheError
from teeny_async.store import folder as folders
from teeny_async.store.disk_worker import DiskWorker
from teeny_async.store.framing import CorruptEntry, label, pack, pack_note, unpack, unpack_note
from teeny_async.store.loading import Finds, read_into
from teeny_async.store.reports import ArchiveReport, PruneReport, VerifyReport

if TYPE_CHECKING:
    from teeny_async.store.archive import ArchiveWriter, Member
    from teeny_async.store.raw_cache import RawCache, Row

_ROWS = 64
"""Rows in a step."""
_TOLD = 100
"""Bad entries that a report names."""


class Verification:
    """`DiskStore.verify`: begin, step until it says False, end."""

    def __init__(self, worker: DiskWorker, *, deep: bool) -> None:
        self._worker = worker
        self._deep = deep
        self._began = time.monotonic()
        self._last = 0
        self._entries = self._notes = self._bytes = self._dropped = 0
        self._bad: list[tuple[str, str]] = []
        self._database: str | None = None

    def begin(self) -> None:
        """Have sqlite check its pages."""
        self._guarded(lambda cache: cache.look_for_damage(deep=self._deep))

    def step(self) -> bool:
        """Check some rows; whether there are more."""
        return self._guarded(self._check_some)

    def end(self) -> VerifyReport:
        """Remove what belongs to nothing, and count anew."""

        def work(cache: RawCache) -> int:
            cache.repair_counts()
            return cache.sweep(always=True)

        strays = self._worker.door.insist("verify", "writing", work)
        return VerifyReport(
            deep=self._deep,
            entries=self._entries,
            notes=self._notes,
            bytes=self._bytes,
            bad=tuple(self._bad),
            dropped=self._dropped,
            strays=strays,
            database=self._database,
            seconds=time.monotonic() - self._began,
        )

    def _guarded(self, work: Callable[[RawCache], bool | None]) -> bool:
        """Do it. A broken database is set aside, and the check begins again with the one in its place, once."""
        from teeny_async.store.database import is_damage

        try:
            return bool(self._worker.door.insist("verify", "reading", work))
        except CacheError as error:
            if self._database is not None or error.__cause__ is None or not is_damage(error.__cause__):
                raise
            self._database = str(error.__cause__)
            self._last = self._entries = self._notes = self._bytes = 0
            return True

    def _check_some(self, cache: RawCache) -> bool:
        rows = cache.rows(self._last, _ROWS)
        bad: dict[int, tuple[str, str]] = {}
        for row in rows:
            self._last = row.id
            try:
                size = self._check(cache, row)
            except CorruptEntry as error:
                bad[row.id] = (_name(row.key), str(error))
                continue
            self._bytes += size
            if isinstance(row.key, bytes):
                self._entries += 1
            else:
                self._notes += 1
        if bad:
            self._drop(cache, bad)
        return len(rows) == _ROWS

    def _check(self, cache: RawCache, row: Row) -> int:
        """The size of a row's value, in bytes. Raises CorruptEntry."""
        if row.raw != 1 or type(row.key) not in (bytes, str) or (type(row.key) is bytes and len(row.key) != 32):
            raise CorruptEntry("its key is none of ours")
        if not self._deep:
            return _outside(cache, row)
        try:
            value = cache.fetch(row.id)
        except OSError as error:
            raise CorruptEntry(f"its file cannot be read ({error.strerror})") from None
        if value is None:
            return 0  # removed a moment ago
        if type(value) is not bytes:
            raise CorruptEntry("its value is text")
        if isinstance(row.key, bytes):
            unpack(row.key.hex(), value)
        else:
            unpack_note(str(row.key), value)
        return len(value)

    def _drop(self, cache: RawCache, bad: dict[int, tuple[str, str]]) -> None:
        with cache.transact():
            # Another process may have put something good into the same row.
            still = [
                row for row in bad if any(now.id == row and self._is_bad(cache, now) for now in cache.rows(row - 1, 1))
            ]
            cache.remove(still)
        if still:
            self._dropped += len(still)
            self._bad += [bad[row] for row in still][: _TOLD - len(self._bad)]
            self._worker.report_bad("entries", dict(bad[row] for row in still))

    def _is_bad(self, cache: RawCache, row: Row) -> bool:
        try:
            self._check(cache, row)
        except CorruptEntry:
            return True
        return False


class Pruning:
    """`DiskStore.prune`: step until it says False; then see `report`."""

    def __init__(
        self, worker: DiskWorker, *, max_bytes: int | None, max_count: int | None, older_than: float | None
    ) -> None:
        self._worker = worker
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._before = None if older_than is None else time.time() - older_than
        self._begun = False
        self.report = PruneReport()

    def step(self) -> bool:
        """Remove some; whether there may be more to remove."""
        if not self._begun:
            self._begun = True
            self._worker.flush()  # what this process has used a moment ago is not old
            folders.remove_damaged(self._worker.door.folder)
        rows, size = self._worker.door.insist(
            "prune", "writing", lambda cache: cache.prune(self._max_bytes, self._max_count, self._before)
        )
        self.report = PruneReport(removed=self.report.removed + rows, bytes=self.report.bytes + size)
        return rows > 0


class Exporting:
    """`DiskStore.export`: step until it says False; `abandon` in any case; then see `report`."""

    def __init__(self, worker: DiskWorker, path: Path, notes: Sequence[str]) -> None:
        self._worker = worker
        self._path = path
        self._notes = notes
        self._writer: ArchiveWriter | None = None
        self._last = b""
        self.report = ArchiveReport()

    def step(self) -> bool:
        """Write some entries; whether there are more."""
        try:
            return self._step()
        except OSError as error:
            raise CacheError(f"the archive {self._path} cannot be written: {error.strerror}") from error

    def abandon(self) -> None:
        """Leave no half archive behind."""
        if self._writer is not None:
            self._writer.abandon()

    def _step(self) -> bool:
        if self._writer is None:
            from teeny_async.store.archive import ArchiveWriter  # few runs need it, or `tarfile`

            self._writer = ArchiveWriter(self._path)
        keys, finds = self._worker.door.insist("export", "reading", self._read_some)
        self._worker.drop_entries(finds)
        for digest, entry in zip(_digests(keys), finds.entries, strict=True):
            if entry is not None:
                self._writer.add_entry(digest, pack(digest, entry))
                self.report = replace(self.report, entries=self.report.entries + 1)
        if keys:
            self._last = keys[-1]
            return True
        for name in self._worker.door.insist("export", "reading", self._names):
            [text] = self._worker.read_notes([name])
            if text is not None:
                self._writer.add_note(name, pack_note(name, text))
                self.report = replace(self.report, notes=self.report.notes + 1)
        self.report = replace(self.report, bytes=self._writer.finish())
        return False

    def _read_some(self, cache: RawCache) -> tuple[list[bytes], Finds]:
        keys = cache.keys_after(self._last, _ROWS)
        finds = Finds([None] * len(_digests(keys)))
        read_into(cache, _digests(keys), finds)
        return keys, finds

    def _names(self, cache: RawCache) -> list[str]:
        return sorted({name for prefix in self._notes for name in cache.note_names(prefix)})


class Importing:
    """`DiskStore.import_`: check until it says False, step until it says False; `close` in any case."""

    def __init__(self, worker: DiskWorker, path: Path) -> None:
        from teeny_async.store.archive import read_archive

        self._worker = worker
        self._path = path
        self._checking = read_archive(path)
        self._taking = read_archive(path)
        self.report = ArchiveReport()

    def check(self) -> bool:
        """Verify some members; whether there are more."""
        return bool(list(itertools.islice(self._checking, _ROWS)))

    def step(self) -> bool:
        """Take in some members; whether there are more."""
        members = list(itertools.islice(self._taking, _ROWS))
        if not members:
            with contextlib.suppress(OSError):
                self.report = replace(self.report, bytes=self._path.stat().st_size)
            return False
        new = self._worker.door.insist("import", "writing", lambda cache: _take_in(cache, members))
        notes = sum(member.is_note for member in new)
        self.report = ArchiveReport(
            entries=self.report.entries + len(new) - notes,
            notes=self.report.notes + notes,
            present=self.report.present + len(members) - len(new),
        )
        return True

    def close(self) -> None:
        """Close the archive."""
        self._checking.close()
        self._taking.close()


def _take_in(cache: RawCache, members: Sequence[Member]) -> list[Member]:
    """Store those that are not there, and say which."""
    new = [member for member in members if not cache.has(_key(member))]
    cache.publish((_key(member), member.data, _label(member)) for member in new)
    return new


def _key(member: Member) -> bytes | str:
    return member.name if member.is_note else bytes.fromhex(member.name)


def _label(member: Member) -> str | None:
    return None if member.is_note else label(unpack(member.name, member.data).info)


def _digests(keys: Sequence[bytes]) -> list[str]:
    return [key.hex() for key in keys if len(key) == 32]


def _outside(cache: RawCache, row: Row) -> int:
    """The size of a value, as far as can be told without reading it. Raises CorruptEntry."""
    if row.filename is None:
        if row.mode != 1 or not isinstance(row.size, int):
            raise CorruptEntry("it has no value")
        return row.size
    try:
        size = cache.file_size(row.filename)
    except OSError as error:
        raise CorruptEntry(f"its file cannot be read ({error.strerror})") from None
    if size != row.stored_size:
        raise CorruptEntry(f"its file has {size} bytes, not {row.stored_size}")
    return size


def _name(key: object) -> str:
    return key.hex() if isinstance(key, bytes) else str(key)
