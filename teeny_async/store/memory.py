"""`MemoryStore`: the same promises as on disk, for a process's life."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from anyio.lowlevel import checkpoint

from teeny_async.result import Artifact
from teeny_async.store.base import Entry, OnFault, StoreStats
from teeny_async.store.framing import CorruptEntry, LazyInfo, key_bytes, pack, unpack
from teeny_async.store.openers import Openers
from teeny_async.store.tally import Tally

_OVERHEAD = 1024
"""Bytes that an entry takes beside its texts and outputs, roughly."""
_MAX_NOTES = 100_000


class _Kept(NamedTuple):
    size: int
    what: Entry | bytes


class MemoryStore:
    """Entries in memory, the least recently used removed first. What it holds outlives the sessions that use it.

    max_bytes: of the entries.
    packed: keep entries as the bytes that they would be on disk: they are verified when they are read, and each
        reader has an object of its own. Otherwise entries are kept as the objects they are (they cannot be
        changed), and a look-up costs a microsecond: what a layer in front of a store on disk is for.
    """

    def __init__(self, *, max_bytes: int = 256 * 2**20, packed: bool = True) -> None:
        self._max_bytes = max_bytes
        self._packed = packed
        self._bytes = 0
        self._entries: OrderedDict[str, _Kept] = OrderedDict()
        self._notes: dict[str, str] = {}
        self._lock = threading.Lock()
        """Sessions of different event loops may share the store; nothing is awaited under it."""
        self._openers = Openers()
        self._tally = Tally()

    @property
    def read_only(self) -> bool:
        return False

    async def open(self, on_fault: OnFault) -> None:
        await checkpoint()
        self._openers.join(on_fault)

    async def aclose(self) -> None:
        self._openers.leave()

    async def get_many(self, digests: Sequence[str]) -> list[Entry | None]:
        await self._ready()
        with self._lock:
            found = [self._get(digest) for digest in digests]
        self._openers.deliver()
        return found

    async def look_many(self, digests: Sequence[str]) -> list[Entry | None]:
        """As `get_many`, without counting it as a use."""
        await self._ready()
        with self._lock:
            found = [self._get(digest, use=False) for digest in digests]
        self._openers.deliver()
        return found

    async def put(self, digest: str, entry: Entry) -> None:
        await self.put_many([(digest, entry)])

    async def put_many(self, entries: Sequence[tuple[str, Entry]]) -> None:
        for digest, _ in entries:
            key_bytes(digest)
        await self._ready()
        with self._lock:
            for digest, entry in entries:
                self._put(digest, entry)
        self._openers.deliver()

    async def delete(self, digest: str) -> None:
        await self._ready()
        with self._lock:
            self._remove(digest)

    async def get_note(self, name: str) -> str | None:
        await self._ready()
        return self._notes.get(name)

    async def get_notes(self, names: Sequence[str]) -> list[str | None]:
        await self._ready()
        return [self._notes.get(name) for name in names]

    async def put_note(self, name: str, text: str) -> None:
        await self._ready()
        with self._lock:
            if len(self._notes) >= _MAX_NOTES:
                self._notes.clear()
            self._notes[name] = text

    async def stats(self) -> StoreStats:
        await self._ready()
        with self._lock:
            return StoreStats(
                location="memory",
                entries=len(self._entries),
                bytes=self._bytes,
                size_limit=self._max_bytes,
                **asdict(self._tally),
            )

    async def clear(self) -> int:
        await self._ready()
        with self._lock:
            entries = len(self._entries)
            self._entries.clear()
            self._notes.clear()
            self._bytes = 0
        return entries

    async def _ready(self) -> None:
        if not len(self._openers):
            raise RuntimeError("the MemoryStore is not open")
        await checkpoint()

    def _get(self, digest: str, *, use: bool = True) -> Entry | None:
        kept = self._entries.get(digest)
        if kept is None:
            key_bytes(digest)  # none that is malformed has ever been put
            self._tally.misses += use
            return None
        entry = kept.what
        if isinstance(entry, bytes):
            try:
                entry = unpack(digest, entry)
            except CorruptEntry as error:
                self._remove(digest)
                self._tally.quarantined += 1
                self._tally.misses += use
                self._openers.tell("quarantine", f"1 damaged entry dropped from memory, {digest}: {error}")
                return None
        if use:
            self._entries.move_to_end(digest)
        self._tally.hits += use
        return entry

    def _put(self, digest: str, entry: Entry) -> None:
        try:
            kept = self._kept(digest, entry)
            if kept.size > self._max_bytes:
                raise ValueError(f"an entry of {kept.size} bytes is over the limit of {self._max_bytes}")
        except (TypeError, ValueError, RecursionError) as error:  # its info is not plain JSON, or it is large
            self._tally.faults += 1
            self._openers.tell("put", str(error))
            return
        self._remove(digest)
        self._entries[digest] = kept
        self._bytes += kept.size
        while self._bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def _kept(self, digest: str, entry: Entry) -> _Kept:
        if not self._packed:
            return _Kept(_size(entry), entry)
        data = pack(digest, entry)
        return _Kept(len(data), data)

    def _remove(self, digest: str) -> None:
        kept = self._entries.pop(digest, None)
        if kept is not None:
            self._bytes -= kept.size


def _size(entry: Entry) -> int:
    """About how many bytes an entry takes as an object."""
    outcome, info = entry.outcome, entry.info
    size = _OVERHEAD + (len(info.text) if isinstance(info, LazyInfo) else 0)
    size += len(outcome.log or "")
    if isinstance(outcome, Artifact):
        size += sum(map(len, outcome.outputs.values()))
    return size
