"""A folder that is only read: no trace is left, and nobody else's word is taken."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from teeny_async.errors import CacheError

from .kit import Faults, database, digest, entry, opened

pytestmark = pytest.mark.anyio

LARGE = bytes(300_000)


@pytest.fixture
async def shipped(tmp_path: Path) -> Path:
    faults = Faults()
    async with opened(tmp_path / "shipped", faults) as store:
        await store.put(digest(1), entry())
        await store.put(digest(2), entry(LARGE))
        await store.put_note("closure:1", "text")
    assert faults == []
    return tmp_path / "shipped"


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in (folder, *folder.rglob("*"))}


async def test_it_is_read_and_left_as_it_is(shipped: Path, faults: Faults) -> None:
    before = state(shipped)
    async with opened(shipped, faults, read_only=True) as store:
        assert await store.get_many([digest(1), digest(2), digest(3)]) == [entry(), entry(LARGE), None]
        assert await store.get_notes(["closure:1", "closure:2"]) == ["text", None]
        assert {key async for key, _ in store.scan()} == {digest(1), digest(2)}
        await store.put(digest(3), entry())
        await store.delete(digest(1))
        await store.put_note("closure:2", "text")
        assert await store.get_many([digest(1), digest(3)]) == [entry(), None]
        found = await store.stats()
    assert (found.entries, found.size_limit, found.trouble) == (2, None, None)
    assert state(shipped) == before
    assert faults == []


async def test_a_folder_without_write_permission_is_read(shipped: Path, faults: Faults) -> None:
    for path in (shipped / "v1", shipped):
        path.chmod(0o555)
    try:
        async with opened(shipped, faults, read_only=True) as store:
            assert await store.get_many([digest(1), digest(2)]) == [entry(), entry(LARGE)]
    finally:
        for path in (shipped, shipped / "v1"):
            path.chmod(0o700)
    assert faults == []


async def test_one_that_was_copied_while_it_was_in_use_is_read(tmp_path: Path, faults: Faults) -> None:
    async with opened(tmp_path / "live", faults) as store:
        await store.put(digest(1), entry())
        shutil.copytree(tmp_path / "live", tmp_path / "copy")
    before = state(tmp_path / "copy")
    async with opened(tmp_path / "copy", faults, read_only=True) as store:
        assert (await store.get_many([digest(1)]))[0] in (entry(), None)
    assert state(tmp_path / "copy").keys() == before.keys()
    assert "quarantine" not in faults.operations


async def test_what_is_damaged_is_passed_over_told_once_and_stays(shipped: Path, faults: Faults) -> None:
    with database(shipped) as connection:
        connection.execute("UPDATE Cache SET value = zeroblob(200) WHERE key = ?", (bytes.fromhex(digest(1)),))
    [file] = shipped.glob("v1/*.val")
    file.write_bytes(LARGE)
    before = state(shipped)
    async with opened(shipped, faults, read_only=True) as store:
        for _ in range(2):
            assert await store.get_many([digest(1), digest(2)]) == [None, None]
        assert (await store.stats()).quarantined == 4
    assert faults.operations == ["get"]
    assert state(shipped) == before


@pytest.mark.parametrize("size", [0, 100, 5000])
async def test_a_database_that_was_cut_short_is_a_fault_not_an_error(size: int, shipped: Path, faults: Faults) -> None:
    os.truncate(shipped / "v1" / "cache.db", size)
    async with opened(shipped, faults, read_only=True) as store:
        assert await store.get_many([digest(1)]) == [None]
        assert (await store.stats()).trouble is not None
    assert len(faults) == 1


@pytest.mark.parametrize("inside", [False, True])
async def test_one_that_others_can_write_to_is_refused(shipped: Path, faults: Faults, inside: bool) -> None:
    (shipped / "v1" if inside else shipped).chmod(0o777)
    with pytest.raises(CacheError, match="can be written by other users"):
        async with opened(shipped, faults, read_only=True):
            pytest.fail("it was opened")


async def test_one_that_is_not_there_is_not_made(tmp_path: Path, faults: Faults) -> None:
    async with opened(tmp_path / "none", faults, read_only=True) as store:
        assert await store.get_many([digest(1)]) == [None]
    assert not (tmp_path / "none").exists()
    assert faults.operations == ["open"]
