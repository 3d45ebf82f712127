"""MemoryStore: bounded, verified, shared by sessions."""

from __future__ import annotations

import pytest

from teeny_async.store.base import Store
from teeny_async.store.memory import MemoryStore

from .kit import Faults, digest, entry, failed_entry, rich_entry

pytestmark = pytest.mark.anyio


async def test_round_trip_over_sessions(faults: Faults) -> None:
    store: Store = MemoryStore()
    await store.open(faults)
    assert await store.get_many([digest(1)]) == [None]
    await store.put(digest(1), rich_entry())
    await store.put(digest(2), failed_entry())
    await store.put_note("zig", "fingerprint")
    await store.aclose()

    await store.open(faults)
    found = await store.get_many([digest(2), digest(9), digest(1), digest(1)])
    assert found[0] == failed_entry()
    assert found[1] is None
    assert found[2] is not None
    assert found[2].outcome.log == rich_entry().outcome.log
    assert found[2] == found[3]
    assert await store.get_note("zig") == "fingerprint"
    assert await store.get_note("rustc") is None
    await store.delete(digest(2))
    stats = await store.stats()
    assert (stats.entries, stats.hits, stats.misses, stats.quarantined) == (1, 3, 2, 0)
    assert await store.clear() == 1
    assert (await store.stats()).bytes == 0
    await store.aclose()
    assert faults == []


async def test_the_least_recently_used_goes_first(faults: Faults) -> None:
    store = MemoryStore(max_bytes=4000)
    await store.open(faults)
    for number in range(3):
        await store.put(digest(number), entry(b"x" * 1000))
    await store.get_many([digest(0)])
    await store.put(digest(3), entry(b"x" * 1000))
    assert [found is not None for found in await store.get_many([digest(n) for n in range(4)])] == [
        True,
        False,
        True,
        True,
    ]
    assert (await store.stats()).bytes <= 4000
    await store.put(digest(4), entry(b"x" * 5000))
    assert faults.operations == ["put"]
    assert (await store.stats()).entries == 3
    await store.aclose()


async def test_changed_bytes_are_dropped_and_reported(faults: Faults) -> None:
    store = MemoryStore()
    await store.open(faults)
    await store.put(digest(1), entry())
    kept = store._entries[digest(1)]
    assert isinstance(kept.what, bytes)
    store._entries[digest(1)] = kept._replace(what=kept.what[:-1] + b"?")
    assert await store.get_many([digest(1)]) == [None]
    assert faults.operations == ["quarantine"]
    assert (await store.stats()).quarantined == 1
    assert await store.get_many([digest(1)]) == [None]
    assert len(faults) == 1
    await store.aclose()


async def test_info_that_is_not_json_is_a_fault(faults: Faults) -> None:
    store = MemoryStore()
    await store.open(faults)
    await store.put(digest(1), entry(thing=object()))
    assert faults.operations == ["put"]
    await store.aclose()


async def test_a_closed_store_says_so() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        await MemoryStore().get_many([])
