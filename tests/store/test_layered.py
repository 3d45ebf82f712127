"""Layers: who is asked, who is given what was found, and whose notes are believed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from teeny_async.errors import CacheError
from teeny_async.store.disk import DiskStore
from teeny_async.store.layered import Layer, LayeredStore
from teeny_async.store.memory import MemoryStore
from teeny_async.store.remote import RemoteStore

from .kit import Faults, digest, entry, opened

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def layered(faults: Faults, *layers: Layer) -> AsyncIterator[LayeredStore]:
    store = LayeredStore(layers, shared_notes=("closure:",))
    await store.open(faults)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture
async def shipped(tmp_path: Path) -> Path:
    """A folder with entry 1 and two notes, as somebody shipped it."""
    faults = Faults()
    async with opened(tmp_path / "shipped", faults) as store:
        await store.put(digest(1), entry(b"shipped"))
        await store.put_note("closure:1", "theirs")
        await store.put_note("probes-1", "theirs")
    assert faults == []
    return tmp_path / "shipped"


def layers_of(shipped: Path, own: Path) -> list[Layer]:
    return [
        Layer("memory", MemoryStore(packed=False), notes="none"),
        Layer("shared", DiskStore(shipped, read_only=True), notes="shared"),
        Layer("disk", DiskStore(own)),
    ]


async def test_a_hit_is_counted_for_its_layer_and_is_in_memory_the_next_time(
    shipped: Path, folder: Path, faults: Faults
) -> None:
    async with layered(faults, *layers_of(shipped, folder)) as store:
        await store.put(digest(2), entry(b"own"))
        assert await store.get_many([digest(1), digest(2), digest(3)]) == [entry(b"shipped"), entry(b"own"), None]
        assert store.hits_by_layer == {"memory": 1, "shared": 1}
        assert await store.get_many([digest(1)]) == [entry(b"shipped")]
        assert store.hits_by_layer == {"memory": 2, "shared": 1}
        state = await store.stats()
    assert (state.hits, state.misses) == (3, 1)
    assert [layer.entries for layer in state.layers] == [2, 1, 1]
    assert faults == []


async def test_what_another_session_kept_on_disk_is_found(shipped: Path, folder: Path, faults: Faults) -> None:
    async with layered(faults, *layers_of(shipped, folder)) as store, opened(folder, faults) as other:
        assert await store.get_many([digest(2)]) == [None]
        await other.put(digest(2), entry(b"other"))
        assert await store.get_many([digest(2)]) == [entry(b"other")]
        assert store.hits_by_layer == {"disk": 1}


async def test_a_shared_folder_is_never_written_to(shipped: Path, folder: Path, faults: Faults) -> None:
    before = {path: path.stat().st_mtime_ns for path in shipped.rglob("*")}
    async with layered(faults, *layers_of(shipped, folder)) as store:
        await store.get_many([digest(1)])
        await store.put(digest(1), entry(b"new"))
        await store.put_note("closure:1", "ours")
        await store.delete(digest(1))
        assert await store.clear() == 0
    assert {path: path.stat().st_mtime_ns for path in shipped.rglob("*")} == before


async def test_clear_counts_the_own_folder_and_leaves_nothing_half_done(folder: Path, faults: Faults) -> None:
    layers = [Layer("memory", MemoryStore(packed=False), notes="none"), Layer("disk", DiskStore(folder))]
    async with layered(faults, *layers) as store:
        await store.put_many([(digest(1), entry()), (digest(2), entry())])
        assert await store.clear() == 2
        assert await store.get_many([digest(1)]) == [None]
    async with layered(faults, *layers, Layer("remote", RemoteStore("memory:///"))) as store:
        await store.put(digest(1), entry())
        with pytest.raises(CacheError, match="not cleared from here"):
            await store.clear()
        assert await layers[1].store.get_many([digest(1)]) == [entry()]
    async with layered(faults, *layers, Layer("remote", RemoteStore("memory:///", read_only=True))) as store:
        assert await store.clear() == 1
    assert faults == []


async def test_own_notes_go_first_and_only_some_are_taken_from_others(
    shipped: Path, folder: Path, faults: Faults
) -> None:
    async with layered(faults, *layers_of(shipped, folder)) as store:
        assert await store.get_notes(["probes-1", "closure:1", "closure:2"]) == [None, "theirs", None]
        await store.put_note("closure:1", "ours")
        assert await store.get_note("closure:1") == "ours"


async def test_a_note_that_another_session_changes_is_seen(shipped: Path, folder: Path, faults: Faults) -> None:
    async with layered(faults, *layers_of(shipped, folder)) as store, opened(folder, faults) as other:
        await store.put_note("closure:1", "first")
        await other.put_note("closure:1", "second")
        assert await store.get_note("closure:1") == "second"


async def test_a_missing_shared_folder_is_passed_over(tmp_path: Path, folder: Path, faults: Faults) -> None:
    async with layered(faults, *layers_of(tmp_path / "nowhere", folder)) as store:
        await store.put(digest(1), entry())
        assert await store.get_many([digest(1)]) == [entry()]
    assert faults.operations == ["open"]


async def test_a_layer_that_must_not_be_used_closes_the_others(shipped: Path, folder: Path, faults: Faults) -> None:
    shipped.chmod(0o777)
    layers = layers_of(shipped, folder)
    with pytest.raises(CacheError, match="can be written by other users"):
        await LayeredStore(layers).open(faults)
    with pytest.raises(RuntimeError, match="not open"):
        await layers[0].store.get_many([])


async def test_the_identity_is_that_of_the_folder_that_is_written(shipped: Path, folder: Path, faults: Faults) -> None:
    async with layered(faults, *layers_of(shipped, folder)) as store:
        assert store.folder_identity == DiskStore(folder).folder_identity
        assert store.folder_identity is not None
    assert LayeredStore([Layer("disk", DiskStore(shipped, read_only=True))]).folder_identity is None
