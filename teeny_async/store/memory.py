"""`MemoryStore`: the same promises as on disk, for a process's life."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from anyio.lowlevel import checkpoint

from teeny_async.store.base import Entry, OnFault, StoreStats
from teeny_async.store.framing import CorruptEntry, key_bytes, pack, unpack
from teeny_async.store.openers import Openers


class MemoryStore:
    """Packed entries in memory, the least recently used removed first.

    max_bytes: of packed entries. What it holds outlives the sessions that use it. It verifies
    entries as a store on disk does, and gives each reader an object of its own.
    """

    def __init__(self, *, max_bytes: int = 256 * 2**20) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._notes: dict[str, str] = {}
        self._lock = threading.Lock()
        """Sessions of different event loops may share the store; nothing is awaited under it."""
        self._openers = Openers()
        self._hits = self._misses = self._quarantined = self._faults = 0

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

    async def put(self, digest: str, entry: Entry) -> None:
        key_bytes(digest)
        await self._ready()
        with self._lock:
            self._put(digest, entry)
        self._openers.deliver()

    async def delete(self, digest: str) -> None:
        await self._ready()
        with self._lock:
            self._remove(digest)

    async def get_note(self, name: str) -> str | None:
        await self._ready()
        return self._notes.get(name)

    async def put_note(self, name: str, text: str) -> None:
        await self._ready()
        self._notes[name] = text

    async def stats(self) -> StoreStats:
        await self._ready()
        with self._lock:
            return StoreStats(
                location="memory",
                entries=len(self._entries),
                bytes=self._bytes,
                size_limit=self._max_bytes,
                hits=self._hits,
                misses=self._misses,
                quarantined=self._quarantined,
                faults=self._faults,
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

    def _get(self, digest: str) -> Entry | None:
        key_bytes(digest)
        data = self._entries.get(digest)
        if data is None:
            self._misses += 1
            return None
        try:
            entry = unpack(digest, data)
        except CorruptEntry as error:
            self._remove(digest)
            self._quarantined += 1
            self._misses += 1
            self._openers.tell("quarantine", f"1 damaged entry dropped from memory, {digest}: {error}")
            return None
        self._entries.move_to_end(digest)
        self._hits += 1
        return entry

    def _put(self, digest: str, entry: Entry) -> None:
        try:
            data = pack(digest, entry)
            if len(data) > self._max_bytes:
                raise ValueError(f"an entry of {len(data)} bytes is over the limit of {self._max_bytes}")
        except (TypeError, ValueError, RecursionError) as error:  # its info is not plain JSON, or it is large
            self._faults += 1
            self._openers.tell("put", str(error))
            return
        self._remove(digest)
        self._entries[digest] = data
        self._bytes += len(data)
        while self._bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def _remove(self, digest: str) -> None:
        self._bytes -= len(self._entries.pop(digest, b""))
