"""`DiskStore`: entries in a folder, shared safely by threads, sessions and processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import anyio

from teeny_async.store.base import Entry, OnFault, StoreStats
from teeny_async.store.disk_worker import DiskWorker, Tally
from teeny_async.store.framing import key_bytes
from teeny_async.store.openers import Openers
from teeny_async.store.thread import CacheThread

T = TypeVar("T")
P = ParamSpec("P")

SIZE_LIMIT = 10 * 2**30
"""Bytes; the oldest entries are removed when a folder has grown past it."""
_BATCH = 512
"""Entries read in one go: enough to make the hop to the thread cheap, few enough to let others in between."""


@dataclass(slots=True)
class _Opening:
    """From the first opener's coming to the last one's going."""

    thread: CacheThread
    worker: DiskWorker
    users: int = 0


class DiskStore:
    """A store in a folder, on diskcache; see `teeny_async.store.folder` for what is in it.

    folder: created 0700 when the store is opened; refused when others could write to it.
    size_limit: bytes; past it, each new entry removes up to ten of the oldest.
    patience: seconds to wait for another process's lock before an operation is given up.
    """

    def __init__(self, folder: str | os.PathLike[str], *, size_limit: int = SIZE_LIMIT, patience: float = 5.0) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._size_limit = size_limit
        self._patience = patience
        self._tally = Tally()
        self._openers = Openers()
        self._joining = threading.Lock()
        self._opening: _Opening | None = None

    def __repr__(self) -> str:
        return f"DiskStore({str(self.folder)!r})"

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
        opening = self._leave()
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
            found += await self._call(DiskWorker.read, digests[start : start + _BATCH])
        return found

    async def put(self, digest: str, entry: Entry) -> None:
        key_bytes(digest)
        await self._call(DiskWorker.write, digest, entry)

    async def delete(self, digest: str) -> None:
        key_bytes(digest)
        await self._call(DiskWorker.delete, digest)

    async def get_note(self, name: str) -> str | None:
        return await self._call(DiskWorker.read_note, name)

    async def put_note(self, name: str, text: str) -> None:
        await self._call(DiskWorker.write_note, name, text)

    async def stats(self) -> StoreStats:
        entries, size = await self._call(DiskWorker.measure)
        return StoreStats(
            location=str(self.folder),
            entries=entries,
            bytes=size,
            size_limit=self._size_limit,
            trouble=self._opening.worker.trouble if self._opening else None,
            **asdict(self._tally),
        )

    async def clear(self) -> int:
        return await self._call(DiskWorker.clear)

    async def _call(self, method: Callable[..., T], *args: object) -> T:
        opening = self._opening
        if opening is None:
            raise RuntimeError(f"{self!r} is not open")
        try:
            return await opening.thread.call(method, opening.worker, *args)
        finally:
            self._openers.deliver()

    def _join(self) -> _Opening:
        # Sessions of different event loops come here from different threads.
        with self._joining:
            if self._opening is None:
                worker = DiskWorker(
                    self.folder,
                    size_limit=self._size_limit,
                    patience=self._patience,
                    tally=self._tally,
                    tell=self._openers.tell,
                )
                self._opening = _Opening(CacheThread(), worker)
            self._opening.users += 1
            return self._opening

    def _leave(self) -> _Opening | None:
        """The opening, when its last user has left."""
        with self._joining:
            opening = self._opening
            if opening is None:
                return None
            opening.users -= 1
            if opening.users:
                return None
            self._opening = None
            return opening
