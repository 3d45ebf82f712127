"""`LayeredStore`: several stores behind the protocol of one.

    LayeredStore([
        MemoryStore(max_bytes=64 << 20, packed=False),      # what this process has seen
        DiskStore("/usr/share/project/cache", read_only=True),  # a warm cache that was shipped
        DiskStore(settings.cache_dir),                      # the user's own
    ])

A look-up asks the layers in order, each for what the ones before it do not have. What a layer has is put
into every layer before it that can be written: what was found on disk is in memory the next time, and what
a remote store (the last layer, where there is one) has is then on disk. Results are put into every layer
that can be written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import anyio

from teeny_async.store.base import Entry, OnFault, Store, StoreStats
from teeny_async.store.tally import Tally


class LayeredStore:
    """Stores that are asked one after the other; see the module.

    shared_notes: beginnings of the names of the notes that are taken from read-only layers too. Only notes
        that hold on every machine belong there; all others come from the layers that this machine writes.

    A layer that fails is passed over, as it would be by itself. Opening it raises CacheError when a layer must
    not be used at all.
    """

    def __init__(self, layers: Sequence[Store], *, shared_notes: Sequence[str] = ()) -> None:
        if not layers:
            raise ValueError("a LayeredStore needs a layer")
        self._layers = tuple(layers)
        self._writable = tuple(layer for layer in self._layers if not layer.read_only)
        self._shared_notes = tuple(shared_notes)
        self._tally = Tally()

    def __repr__(self) -> str:
        return f"LayeredStore({list(self._layers)!r})"

    @property
    def layers(self) -> Sequence[Store]:
        return self._layers

    @property
    def read_only(self) -> bool:
        return not self._writable

    async def open(self, on_fault: OnFault) -> None:
        opened: list[Store] = []
        try:
            for layer in self._layers:
                await layer.open(on_fault)
                opened.append(layer)
        except BaseException:
            await _close(opened)
            raise

    async def aclose(self) -> None:
        await _close(self._layers)

    async def get_many(self, digests: Sequence[str]) -> list[Entry | None]:
        found: list[Entry | None] = [None] * len(digests)
        missing = list(range(len(digests)))
        for number, layer in enumerate(self._layers):
            entries = await layer.get_many([digests[index] for index in missing])
            hits = [(index, entry) for index, entry in zip(missing, entries, strict=True) if entry is not None]
            for index, entry in hits:
                found[index] = entry
            await self._promote(number, [(digests[index], entry) for index, entry in hits])
            missing = [index for index in missing if found[index] is None]
            if not missing:
                break
        self._tally.misses += len(missing)
        self._tally.hits += len(digests) - len(missing)
        return found

    async def put(self, digest: str, entry: Entry) -> None:
        await self.put_many([(digest, entry)])

    async def put_many(self, entries: Sequence[tuple[str, Entry]]) -> None:
        for layer in self._writable:
            await layer.put_many(entries)

    async def delete(self, digest: str) -> None:
        for layer in self._writable:
            await layer.delete(digest)

    async def get_note(self, name: str) -> str | None:
        return (await self.get_notes([name]))[0]

    async def get_notes(self, names: Sequence[str]) -> list[str | None]:
        found: list[str | None] = [None] * len(names)
        for layer in self._layers:
            missing = [index for index, text in enumerate(found) if text is None]
            if layer.read_only:
                missing = [index for index in missing if names[index].startswith(self._shared_notes)]
            if missing:
                texts = await layer.get_notes([names[index] for index in missing])
                for index, text in zip(missing, texts, strict=True):
                    found[index] = text
        return found

    async def put_note(self, name: str, text: str) -> None:
        for layer in self._writable:
            await layer.put_note(name, text)

    async def stats(self) -> StoreStats:
        """Of all layers together; `layers` has each. Hits are look-ups that some layer answered."""
        layers = [await layer.stats() for layer in self._layers]
        kept = layers[-1] if not self._writable else layers[self._layers.index(self._writable[-1])]
        return StoreStats(
            location=" > ".join(layer.location for layer in layers),
            entries=sum(layer.entries for layer in layers),
            bytes=sum(layer.bytes for layer in layers),
            size_limit=kept.size_limit,
            count_limit=kept.count_limit,
            hits=self._tally.hits,
            misses=self._tally.misses,
            quarantined=sum(layer.quarantined for layer in layers),
            faults=sum(layer.faults for layer in layers),
            skipped=sum(layer.skipped for layer in layers),
            trouble="; ".join(layer.trouble for layer in layers if layer.trouble) or None,
            groups=kept.groups,
            layers=tuple(layers),
        )

    async def clear(self) -> int:
        """Empty the layers that can be written; how many entries there were in the last of them."""
        removed = 0
        for layer in self._writable:
            removed = await layer.clear()
        return removed

    async def _promote(self, number: int, hits: Sequence[tuple[str, Entry]]) -> None:
        for layer in self._layers[:number]:
            if hits and not layer.read_only:
                await layer.put_many(hits)


async def _close(layers: Sequence[Store]) -> None:
    """Close them all, the last one first, whatever the others do; raises the first error in the end."""
    with anyio.CancelScope(shield=True):
        async with contextlib.AsyncExitStack() as stack:
            for layer in layers:
                stack.push_async_callback(layer.aclose)
