"""`LayeredStore`: several stores behind the protocol of one.

    LayeredStore([
        Layer("memory", MemoryStore(max_bytes=64 << 20, packed=False), notes="none"),
        Layer("shared", DiskStore("/usr/share/project/cache", read_only=True), notes="shared"),
        Layer("disk", DiskStore(settings.cache_dir)),
    ])

A look-up asks the layers in order, each for what the ones before it do not have. What a layer has is put
into every layer before it that can be written: what was found on disk is in memory the next time, and what
a remote store (the last layer, where there is one) has is then on disk. Results are put into every layer
that can be written.

Entries never change, so any layer's will do. Notes do change, and what another process has noted must be
seen: the folder's own are asked for first, then those that were shared, and none is kept in memory. One that holds
on every machine and was found in a remote is put into the folder. Where it does not help, as it may be old by then,
`further_notes` has what the others say.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import anyio

from teeny_async.store.base import Entry, OnFault, Store, StoreStats
from teeny_async.store.tally import Tally


class Layer(NamedTuple):
    """A store and its part. name: what its hits are counted under; layers may share one.

    notes: "own": this user's, all of them. "shared": somebody else's, of which only those that hold on every
        machine are taken. "none": none are kept there.
    """

    name: str
    store: Store
    notes: Literal["own", "shared", "none"] = "own"


class LayeredStore:
    """Stores that are asked one after the other; see the module.

    shared_notes: beginnings of the names of the notes that hold on every machine.

    A layer that fails is passed over, as it would be by itself. Opening it raises CacheError when a layer must
    not be used at all.
    """

    def __init__(self, layers: Sequence[Layer], *, shared_notes: Sequence[str] = ()) -> None:
        if not layers:
            raise ValueError("a LayeredStore needs a layer")
        self._names = tuple(layer.name for layer in layers)
        self._layers = tuple(layer.store for layer in layers)
        self._writable = tuple(store for store in self._layers if not store.read_only)
        self._own_notes = tuple(layer.store for layer in layers if layer.notes == "own")
        self._others_notes = tuple(layer.store for layer in layers if layer.notes == "shared")
        self._shared_notes = tuple(shared_notes)
        folders = [store for store in self._writable if hasattr(store, "folder_identity")]
        self._kept = (folders or self._writable or self._layers)[-1]
        """What the store as a whole is measured by: the user's own folder, whatever is behind it."""
        self._hits: Counter[str] = Counter()
        self._tally = Tally()

    def __repr__(self) -> str:
        return f"LayeredStore({list(self._layers)!r})"

    @property
    def layers(self) -> Sequence[Store]:
        return self._layers

    @property
    def hits_by_layer(self) -> Mapping[str, int]:
        """Look-ups that were answered, since the object was made, by the name of the layer that did."""
        return self._hits

    @property
    def folder_identity(self) -> str | None:
        """See `DiskStore.folder_identity`; of the folder that is written."""
        return getattr(self._kept, "folder_identity", None)

    def has_company(self) -> bool:
        """As `DiskStore.has_company`, of the same layer."""
        asked = getattr(self._kept, "has_company", None)
        return asked is not None and bool(asked())

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
            if hits:
                self._hits[self._names[number]] += len(hits)
            await self._promote(number, [(digests[index], entry) for index, entry in hits])
            missing = [index for index in missing if found[index] is None]
            if not missing:
                break
        self._tally.misses += len(missing)
        self._tally.hits += len(digests) - len(missing)
        return found

    async def look_many(self, digests: Sequence[str]) -> list[Entry | None]:
        """As `get_many`, without counting it as a use in the layers that keep count, and nothing is put anywhere."""
        found: list[Entry | None] = [None] * len(digests)
        for layer in self._layers:
            missing = [index for index, entry in enumerate(found) if entry is None]
            look = getattr(layer, "look_many", layer.get_many)
            for index, entry in zip(missing, await look([digests[index] for index in missing]), strict=True):
                found[index] = entry
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
        for number, layer in enumerate(self._own_notes):
            missing = [index for index, text in enumerate(found) if text is None]
            await _ask_for_notes(layer, names, missing, found)
            nearer = self._own_notes[:number]
            new = [(names[index], text) for index in missing if (text := found[index]) is not None]
            for near, (name, text) in itertools.product(nearer, new):
                if name.startswith(self._shared_notes):
                    await near.put_note(name, text)
        shared = [index for index, name in enumerate(names) if name.startswith(self._shared_notes)]
        for layer in self._others_notes:
            await _ask_for_notes(layer, names, shared, found)
        return found

    async def further_notes(self, names: Sequence[str]) -> list[list[str]]:
        """What the layers behind the first have under each name that holds on every machine, the nearest first."""
        found: list[list[str]] = [[] for _ in names]
        shared = [index for index, name in enumerate(names) if name.startswith(self._shared_notes)]
        for layer in (*self._own_notes[1:], *self._others_notes) if shared else ():
            for index, text in zip(shared, await layer.get_notes([names[index] for index in shared]), strict=True):
                if text is not None:
                    found[index].append(text)
        return found

    async def put_note(self, name: str, text: str) -> None:
        for layer in self._own_notes:
            await layer.put_note(name, text)

    async def stats(self) -> StoreStats:
        """Of all layers together; `layers` has each. Hits are look-ups that some layer answered."""
        layers = [await layer.stats() for layer in self._layers]
        kept = layers[self._layers.index(self._kept)]
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
        """Empty the layers that can be written; how many entries there were in the user's own folder.

        The last layer is emptied first: a remote, which is not cleared from here, says so before anything is gone.
        """
        removed = 0
        for layer in reversed(self._writable):
            count = await layer.clear()
            if layer is self._kept:
                removed = count
        return removed

    async def _promote(self, number: int, hits: Sequence[tuple[str, Entry]]) -> None:
        for layer in self._layers[:number]:
            if hits and not layer.read_only:
                await layer.put_many(hits)


async def _ask_for_notes(layer: Store, names: Sequence[str], wanted: Sequence[int], found: list[str | None]) -> None:
    """Fill in those of the wanted that are still missing, and that the layer has."""
    missing = [index for index in wanted if found[index] is None]
    if missing:
        for index, text in zip(missing, await layer.get_notes([names[index] for index in missing]), strict=True):
            found[index] = text


async def _close(layers: Sequence[Store]) -> None:
    """Close them all, the last one first, whatever the others do; raises the first error in the end."""
    with anyio.CancelScope(shield=True):
        async with contextlib.AsyncExitStack() as stack:
            for layer in layers:
                stack.push_async_callback(layer.aclose)
