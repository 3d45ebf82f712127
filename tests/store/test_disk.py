"""DiskStore: what goes in comes out, for sessions, objects and processes that share a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

import teeny_async.store.disk
from teeny_async.store.base import Store
from teeny_async.store.disk import DiskStore

from .kit import Faults, database, digest, entry, failed_entry, opened, rich_entry

pytestmark = pytest.mark.anyio

LARGE = b"\x7fELF" + bytes(300_000)
ROOT = Path(teeny_async.store.disk.__file__).parents[2]


async def test_round_trip_over_openings(folder: Path, faults: Faults) -> None:
    store: Store = DiskStore(folder)
    await store.open(faults)
    assert await store.get_many([]) == []
    assert await store.get_many([digest(1)]) == [None]
    await store.put(digest(1), entry(kernel="add"))
    await store.put(digest(2), failed_entry())
    await store.put(digest(3), entry(LARGE))
    await store.put(digest(4), rich_entry())
    await store.aclose()

    await store.open(faults)
    found = await store.get_many([digest(2), digest(9), digest(1), digest(3), digest(1), digest(4)])
    assert [one is None for one in found] == [False, True, False, False, False, False]
    assert found[0] == failed_entry()
    assert found[2] == found[4] == entry(kernel="add")
    assert found[3] == entry(LARGE)
    assert found[5] is not None
    assert found[5].info == rich_entry().info
    await store.delete(digest(2))
    await store.delete(digest(2))
    assert await store.get_many([digest(2)]) == [None]
    await store.aclose()
    assert faults == []


async def test_a_later_put_replaces_the_earlier_one_and_its_file(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry(LARGE))
        assert len(list(folder.rglob("*.val"))) == 1
        await store.put(digest(1), entry(LARGE + b"2"))
        assert len(list(folder.rglob("*.val"))) == 1
        assert await store.get_many([digest(1)]) == [entry(LARGE + b"2")]
        await store.put(digest(1), entry())
        assert list(folder.rglob("*.val")) == []
        await store.put(digest(1), entry(LARGE))
        await store.delete(digest(1))
        assert list(folder.rglob("*.val")) == []
    assert faults == []


async def test_more_digests_than_one_batch(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        for number in range(0, 1200, 100):
            await store.put(digest(number), entry(b"%d" % number))
        found = await store.get_many([digest(number) for number in range(1200)])
        assert [number for number, one in enumerate(found) if one] == list(range(0, 1200, 100))
        assert found[700] == entry(b"700")


async def test_notes(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        assert await store.get_note("zig") is None
        await store.put_note("zig", "one")
        await store.put_note("zig", "two \N{SNOWMAN}")
        await store.put_note(digest(1), "named like a key")
        assert await store.get_note("zig") == "two \N{SNOWMAN}"
        assert await store.get_many([digest(1)]) == [None]
        assert (await store.stats()).entries == 0
        await store.put_note("large", "x" * 300_000)
    async with opened(folder, faults) as store:
        assert await store.get_note("zig") == "two \N{SNOWMAN}"
        assert await store.get_note("large") == "x" * 300_000
        with database(folder) as connection:
            connection.execute("UPDATE Cache SET value = CAST(replace(value, 'two', 'ten') AS BLOB) WHERE key = 'zig'")
        assert await store.get_note("zig") is None
        assert faults.operations == ["quarantine"]
        assert await store.get_note("zig") is None
        assert len(faults) == 1


async def test_stats_and_clear(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults, size_limit=1 << 30) as store:
        for number in range(3):
            await store.put(digest(number), entry(LARGE if number == 2 else b"small"))
        await store.put_note("n", "t")
        await store.get_many([digest(0), digest(7)])
        stats = await store.stats()
        assert (stats.location, stats.entries, stats.size_limit) == (str(folder), 3, 1 << 30)
        assert (stats.hits, stats.misses, stats.faults, stats.quarantined, stats.skipped) == (1, 1, 0, 0, 0)
        assert stats.bytes > len(LARGE)
        assert stats.trouble is None
        stray = folder / "v1" / f"{'a' * 32}.val"
        stray.write_bytes(b"left by a writer that was killed")
        os.utime(stray, (0, 0))
        (folder / "damaged-1").mkdir()
        assert await store.clear() == 3
        assert list(folder.rglob("*.val")) == list(folder.glob("damaged-*")) == []
        assert (await store.stats()).entries == 0
        assert await store.get_many([digest(0)]) == [None]
        assert await store.get_note("n") is None
    assert faults == []


async def test_the_oldest_entries_go_when_the_limit_is_passed(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults, size_limit=2 << 20) as store:
        for number in range(200):
            await store.put(digest(number), entry(os.urandom(20_000)))
        stats = await store.stats()
        assert stats.bytes < 3 << 20
        assert 50 < stats.entries < 150
        kept = [one is not None for one in await store.get_many([digest(number) for number in range(200)])]
        assert kept == sorted(kept)
        await store.put(digest(999), entry(bytes(3 << 20)))
        assert faults.operations == ["put"]
        assert "limit" in faults[0][1]


async def test_a_closed_store_says_so(folder: Path, faults: Faults) -> None:
    store = DiskStore(folder)
    with pytest.raises(RuntimeError, match="not open"):
        await store.get_many([digest(1)])
    async with opened(folder, faults) as store:
        with pytest.raises(ValueError, match="hexa"):
            await store.put("ab", entry())
    with pytest.raises(RuntimeError, match="not open"):
        await store.stats()


async def test_no_thread_and_no_connection_is_left(folder: Path, faults: Faults) -> None:
    before = set(threading.enumerate())
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) <= before
    files = sorted(path.name for path in (folder / "v1").iterdir())
    assert files == ["cache.db", "writers"]  # sqlite removes its -wal and -shm with the last connection
    assert list((folder / "v1" / "writers").iterdir()) == []


async def test_sessions_share_one_store_object(folder: Path) -> None:
    store = DiskStore(folder)
    first, second = Faults(), Faults()
    in_first, in_second = anyio.Event(), anyio.Event()

    async def session(faults: Faults, mine: anyio.Event, other: anyio.Event, number: int) -> None:
        await store.open(faults)
        mine.set()
        await other.wait()
        await store.put(digest(number), entry())
        await store.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session, first, in_first, in_second, 1)
        tasks.start_soon(session, second, in_second, in_first, 2)
    with pytest.raises(RuntimeError, match="not open"):
        await store.stats()
    async with opened(folder, first) as other:
        assert (await other.stats()).entries == 2
    assert first == second == []


async def test_a_fault_reaches_the_sessions_that_are_open(folder: Path) -> None:
    store = DiskStore(folder, size_limit=1000)
    outer, inner = Faults(), Faults()
    await store.open(outer)
    await store.open(inner)
    await store.put(digest(1), entry(bytes(5000)))
    assert outer.operations == inner.operations == ["put"]
    await store.aclose()
    await store.put(digest(1), entry(bytes(5000)))
    assert (len(outer), len(inner)) == (2, 1)
    await store.aclose()


def test_sessions_of_several_event_loops_share_one_store_object(folder: Path) -> None:
    store = DiskStore(folder)
    faults = [Faults() for _ in range(4)]

    async def session(number: int) -> None:
        await store.open(faults[number])
        for step in range(5):
            await store.put(digest(10 * number + step), entry(b"%d" % number))
        found = await store.get_many([digest(10 * number + step) for step in range(5)])
        assert found == [entry(b"%d" % number)] * 5
        await store.aclose()

    loops = [
        threading.Thread(target=anyio.run, args=(session, number), kwargs={"backend": ("asyncio", "trio")[number % 2]})
        for number in range(4)
    ]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    assert faults == [[], [], [], []]

    async def count() -> None:
        async with opened(folder, faults[0]) as other:
            assert (await other.stats()).entries == 20

    anyio.run(count)


async def test_two_stores_on_one_folder(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as one, opened(folder, faults) as other:
        await one.put(digest(1), entry(b"from one"))
        assert await other.get_many([digest(1)]) == [entry(b"from one")]
        await other.put(digest(1), entry(b"from the other"))
        assert await one.get_many([digest(1)]) == [entry(b"from the other")]
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon((one, other)[number % 2].put, digest(number), entry(b"%d" % number))
        assert await one.get_many([digest(n) for n in range(40)]) == [entry(b"%d" % n) for n in range(40)]
    assert faults == []


async def test_a_cancelled_put_is_whole_or_absent_and_the_store_goes_on(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        for number in range(20):
            with anyio.move_on_after(0.0005 * (number % 4)):
                await store.put(digest(number), entry(LARGE))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.get_many([digest(0)])
        assert scope.cancelled_caught
        found = await store.get_many([digest(number) for number in range(20)])
        assert set(map(repr, found)) <= {"None", repr(entry(LARGE))}
    assert faults == []


async def test_a_cancelled_opening_leaves_nothing_behind(folder: Path, faults: Faults) -> None:
    before = set(threading.enumerate())
    store = DiskStore(folder)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.open(faults)
    assert scope.cancelled_caught
    assert set(threading.enumerate()) <= before
    await store.open(faults)
    await store.put(digest(1), entry())
    await store.aclose()
    assert faults == []


WRITER = """
import sys, anyio
sys.path.insert(0, sys.argv[1])
from teeny_async.result import Artifact
from teeny_async.store.base import Entry
from teeny_async.store.disk import DiskStore

async def main():
    store = DiskStore(sys.argv[2])
    await store.open(lambda *fault: print("fault", *fault, flush=True))
    print("open", flush=True)
    for step in range(int(sys.argv[3])):
        number = step % 50
        body = b"%064x" % number + bytes(300_000 if number % 10 == 0 else 2_000)
        await store.put("%064x" % number, Entry(Artifact(outputs={"ptx": body})))
    await store.aclose()

anyio.run(main)
"""


def start_writer(folder: Path, puts: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(ROOT), str(folder), str(puts)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_processes_share_a_folder(folder: Path, faults: Faults) -> None:
    writers = [start_writer(folder, 50) for _ in range(3)]
    outputs = [writer.communicate(timeout=60)[0] for writer in writers]
    assert outputs == ["open\n"] * 3
    async with opened(folder, faults) as store:
        found = await store.get_many([digest(number) for number in range(50)])
    for number, one in enumerate(found):
        assert one is not None
        assert one.outcome["ptx"].startswith(b"%064x" % number)  # type: ignore[index]
    assert faults == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_killed_writer_leaves_whole_entries(folder: Path, faults: Faults) -> None:
    for _ in range(3):
        writer = start_writer(folder, 1_000_000)
        assert writer.stdout is not None
        with writer, writer.stdout:
            assert writer.stdout.readline() == "open\n"
            await anyio.sleep(0.1)
            writer.kill()
    async with opened(folder, faults) as store:
        found = await store.get_many([digest(number) for number in range(50)])
        assert any(found)
        await store.put(digest(99), entry())
        assert await store.get_many([digest(99)]) == [entry()]
    for number, one in enumerate(found):
        assert one is None or one.outcome["ptx"].startswith(b"%064x" % number)  # type: ignore[index]
    assert faults == []
