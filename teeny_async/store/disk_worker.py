"""The half of a `DiskStore` that lives in the cache thread: blocking, and never raising.

What goes wrong becomes a fault in `teeny_async.store.door`. What a person asks for (`clear`, and all of
`teeny_async.store.caretaking`) raises CacheError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from teeny_async.store import folder as folders
from teeny_async.store.base import Entry, GroupStats, OnFault
from teeny_async.store.door import Door, describe
from teeny_async.store.framing import CorruptEntry, key_bytes, label, pack, pack_note, read_label
from teeny_async.store.loading import Finds, drop_bad, load_entry, load_note, read_into
from teeny_async.store.tally import Tally
from teeny_async.store.usage import Usage

if TYPE_CHECKING:
    from teeny_async.store.raw_cache import RawCache

_LOOK_FOR = 2.0
"""Seconds that are spent on looking for damage in the database when an entry in it was damaged."""
_FLUSH_AFTER = 600.0
"""Seconds after which uses are noted by a session that goes on; it would be for nothing to do it often."""
_FLUSH_AT = 8192
"""Rows used, likewise."""


class DiskWorker:
    """One opening of a folder. Made anywhere; everything else happens in the cache thread.

    tell: called in the cache thread.
    """

    def __init__(self, door: Door, *, tally: Tally, tell: OnFault) -> None:
        self.door = door
        self._tally = tally
        self._tell = tell
        self._usage = Usage()
        self._flushed = 0.0
        self._looked = False

    @property
    def trouble(self) -> str | None:
        """Why the folder does not work now."""
        return self.door.trouble

    def open(self) -> None:
        """Open the folder, if it is not open. Raises CacheError when it must not be used."""
        if self.door.open():
            self._flushed = time.monotonic()
            self.door.attempt("sweep", "writing", lambda cache: cache.sweep(always=False), 0)

    def close(self) -> None:
        """Note what was used, and close the database."""
        self.flush()
        self.door.close()

    def read(self, digests: Sequence[str]) -> list[Entry | None]:
        """Entries by digest; None for a miss."""
        finds = self._look(digests)
        used, hit = self._usage.ids, self._usage.hit
        for row, size, info in finds.used:
            used.add(row)
            hit(info.label, size, info.seconds)
        misses = finds.entries.count(None)
        self._tally.misses += misses
        self._tally.hits += len(digests) - misses
        self._flush_when_due()
        return finds.entries

    def look(self, digests: Sequence[str]) -> list[Entry | None]:
        """As `read`, without counting it as a use."""
        return self._look(digests).entries

    def keys_after(self, key: bytes, count: int) -> list[bytes]:
        """The next keys of entries, in order."""
        return self.door.attempt("scan", "reading", lambda cache: cache.keys_after(key, count), [])

    def write(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Store entries whole, all or none; but for one that cannot be packed, or is too large."""
        items = [item for digest, entry in entries if (item := self._packed(digest, entry)) is not None]
        self.door.follow()
        if items:
            self.door.attempt("put", "writing", lambda cache: cache.publish(items), None)
        self._flush_when_due()

    def delete(self, digest: str) -> None:
        """Remove an entry."""
        self.door.attempt("delete", "writing", lambda cache: cache.delete(key_bytes(digest)), None)

    def read_notes(self, names: Sequence[str]) -> list[str | None]:
        """Notes by name; None where there is none."""
        texts: list[str | None] = [None] * len(names)
        finds = Finds([])

        def work(cache: RawCache) -> None:
            with cache.snapshot():
                for index, name in enumerate(names):
                    try:
                        found = load_note(cache, name)
                    except CorruptEntry as error:
                        finds.bad[name] = str(error)
                        continue
                    if found is not None:
                        row, texts[index] = found
                        self._usage.ids.add(row)

        self.door.attempt("get_note", "reading", work, None)
        self._drop("notes", finds, load_note, str)
        return texts

    def write_note(self, name: str, text: str) -> None:
        """Store a note."""
        item = (name, pack_note(name, text), None)
        self.door.follow()
        self.door.attempt("put_note", "writing", lambda cache: cache.publish([item]), None)

    def measure(self) -> tuple[int, int, list[GroupStats]]:
        """Number of entries, bytes in all, and both by toolchain and target."""
        self.flush()

        def work(cache: RawCache) -> tuple[int, int, list[GroupStats]]:
            return cache.count_entries(), int(cache.volume()), _groups(cache)

        nothing: tuple[int, int, list[GroupStats]] = (0, 0, [])
        return self.door.attempt("stats", "reading", work, nothing)

    def clear(self) -> int:
        """Remove everything; the number of entries removed. Raises CacheError when that fails."""

        def work(cache: RawCache) -> int:
            entries = cache.count_entries()
            cache.clear()
            cache.sweep(always=True)
            folders.remove_damaged(self.door.folder)
            return entries

        self._usage = Usage()
        return self.door.insist("clear", "writing", work)

    def drop_entries(self, finds: Finds) -> None:
        """Remove the entries that failed their check."""
        self._drop("entries", finds, load_entry, key_bytes)

    def report_bad(self, what: str, bad: Mapping[str, str]) -> None:
        """Count and tell what failed its check."""
        self._tally.quarantined += len(bad)
        name, reason = next(iter(bad.items()))
        self._tell(
            "quarantine",
            f"{len(bad)} of the {what} in {self.door.folder} damaged, and dropped; the first is {name}: {reason}",
        )

    def flush(self) -> None:
        """Note what was used until now. It is not worth a fault, let alone a wait, when that cannot be done."""
        usage, self._usage, self._flushed = self._usage, Usage(), time.monotonic()
        if usage:
            self.door.advise(lambda cache: cache.note_usage(usage, time.time()))

    def _flush_when_due(self) -> None:
        if len(self._usage.ids) >= _FLUSH_AT or time.monotonic() > self._flushed + _FLUSH_AFTER:
            self.flush()

    def _look(self, digests: Sequence[str]) -> Finds:
        finds = Finds([None] * len(digests))
        self.door.attempt("get", "reading", lambda cache: read_into(cache, digests, finds), None)
        self.drop_entries(finds)
        return finds

    def _packed(self, digest: str, entry: Entry) -> tuple[bytes, bytes, str] | None:
        try:
            data = pack(digest, entry)
            if len(data) > self.door.largest:
                raise ValueError(f"an entry of {len(data)} bytes is over the cache's limit of {self.door.largest}")
        except (TypeError, ValueError, RecursionError) as error:  # its info is not plain JSON data, or it is large
            self.door.fault("put", describe(error))
            return None
        return key_bytes(digest), data, label(entry.info)

    def _drop(
        self,
        what: str,
        finds: Finds,
        load: Callable[[RawCache, str], object],
        key: Callable[[str], bytes | str],
    ) -> None:
        """Remove what failed its check, and say so once."""
        if not finds.bad:
            return
        self.report_bad(what, finds.bad)

        def work(cache: RawCache) -> None:
            # Where a page of the database has come to belong to two rows, removing one row would give away
            # pages of the other. So look before anything is removed.
            if finds.in_database and not self._looked:
                self._looked = True
                cache.look_for_damage(deep=True, seconds=_LOOK_FOR)
            drop_bad(cache, finds.bad, load, key)

        self.door.attempt("quarantine", "writing", work, None)


def _groups(cache: RawCache) -> list[GroupStats]:
    return [
        GroupStats(
            toolchain=read_label(name)[0],
            target=read_label(name)[1],
            entries=group.entries,
            bytes=group.bytes,
            hits=group.saved.hits,
            hit_bytes=group.saved.bytes,
            seconds_saved=group.saved.seconds,
        )
        for name, group in cache.groups().items()
    ]
