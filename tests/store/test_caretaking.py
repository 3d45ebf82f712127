"""verify and prune: what is bad goes, what belongs to nobody goes, and what was used last stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teeny_async.errors import CacheError
from teeny_async.store.disk import DiskStore

from .kit import Faults, database, digest, entry, opened

pytestmark = pytest.mark.anyio

LARGE = bytes(300_000)


async def fill(store: DiskStore) -> None:
    await store.put_many([(digest(number), entry(b"%d" % number)) for number in range(100)])
    await store.put(digest(200), entry(LARGE))
    await store.put_note("note", "text")


async def test_a_sound_folder_is_ok(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
        for deep in (True, False):
            report = await store.verify(deep=deep)
            assert report.ok
            assert (report.deep, report.entries, report.notes, report.dropped, report.strays) == (deep, 101, 1, 0, 0)
            assert report.bytes > len(LARGE)
    assert faults == []


async def test_a_flipped_value_is_dropped_and_named(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
        with database(folder) as connection:
            connection.execute(
                "UPDATE Cache SET value = zeroblob(LENGTH(value)) WHERE key = ?", (bytes.fromhex(digest(7)),)
            )
        assert (await store.verify(deep=False)).ok
        report = await store.verify()
        assert not report.ok
        assert [name for name, _ in report.bad] == [digest(7)]
        assert (report.entries, report.dropped) == (100, 1)
        assert (await store.verify()).ok
        assert (await store.get_many([digest(7)])) == [None]
    assert faults.operations == ["quarantine"]


@pytest.mark.parametrize("how", ["gone", "short", "flipped", "link"])
async def test_a_bad_value_file_is_dropped(how: str, folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
        [file] = folder.glob("v1/*.val")
        match how:
            case "gone":
                file.unlink()
            case "short":
                os.truncate(file, 100)
            case "flipped":
                file.write_bytes(file.read_bytes()[:-1] + b"\1")
            case "link":
                file.rename(folder / "elsewhere")
                file.symlink_to(folder / "elsewhere")
        report = await store.verify()
        assert [name for name, _ in report.bad] == [digest(200)]
        assert list(folder.glob("v1/*.val")) == []


async def test_strays_are_removed_and_are_nothing_wrong(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
        stray = folder / "v1" / f"{'ab' * 16}.val"
        stray.write_bytes(b"left by a writer that was killed")
        report = await store.verify()
        assert (report.ok, report.strays) == (True, 1)
        assert not stray.exists()
        assert (await store.get_many([digest(200)])) == [entry(LARGE)]


async def test_a_broken_database_is_set_aside_and_what_is_good_in_it_is_saved(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
    path = folder / "v1" / "cache.db"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :: 4096] = bytes(b ^ 0xFF for b in data[len(data) // 2 :: 4096])
    path.write_bytes(data)
    async with opened(folder, faults) as store:
        await store.verify()
        assert (await store.verify()).ok
        found = await store.get_many([digest(number) for number in range(100)])
    assert all(one in (None, entry(b"%d" % number)) for number, one in enumerate(found))


async def test_prune_removes_what_was_used_longest_ago(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
        with database(folder) as connection:
            connection.execute("UPDATE Shelf SET used = used - 100000 - id")
        await store.get_many([digest(3), digest(5)])
        report = await store.prune(older_than=50_000)
        assert report.removed == 100
        assert (await store.stats()).entries == 2
        assert None not in await store.get_many([digest(3), digest(5)])
        assert list(folder.glob("v1/*.val")) == []
    assert faults == []


async def test_prune_stops_at_the_size_asked_for(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await store.put_many([(digest(number), entry(LARGE)) for number in range(10)])
        await store.prune(max_bytes=5 * len(LARGE))
        state = await store.stats()
        assert 3 <= state.entries <= 5
        assert state.bytes <= 5 * len(LARGE)
        await store.prune(max_bytes=0)
        assert (await store.stats()).entries == 0
        assert (await store.prune()).removed == 0


async def test_prune_stops_at_the_count_asked_for(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
        with database(folder) as connection:
            connection.execute("UPDATE Shelf SET used = used - 1000 + id")
            # The counts are made anew before they decide what goes.
            connection.execute("UPDATE Settings SET value = value + 64 WHERE key = 'count'")
        assert (await store.prune(max_count=102)).removed == 0
        assert (await store.prune(max_count=10)).removed == 92
        assert (await store.stats()).entries == 9  # and the note
        assert None not in await store.get_many([digest(number) for number in (92, 99, 200)])
        assert (await store.prune(max_count=0)).removed == 10


async def test_a_read_only_folder_is_not_cared_for(folder: Path, faults: Faults, tmp_path: Path) -> None:
    async with opened(folder, faults) as store:
        await fill(store)
    async with opened(folder, faults, read_only=True) as store:
        for work in (store.verify(), store.prune(), store.import_(tmp_path / "archive"), store.clear()):
            with pytest.raises(CacheError, match="reading only"):
                await work
