"""Whatever is wrong with the folder, the disk or the database: a miss and a fault, never an exception."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from teeny_async.errors import CacheError
from teeny_async.store.disk import DiskStore
from teeny_async.store.disk_worker import DiskWorker
from teeny_async.store.door import Door
from teeny_async.store.tally import Tally

from .kit import Faults, database, digest, entry, opened

pytestmark = pytest.mark.anyio

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user, or mount")
NOBODY = 65534


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
async def test_the_folder_is_private_whatever_the_umask(tmp_path: Path, faults: Faults, mask: int) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    with umask(mask):
        async with opened(folder, faults) as store:
            await store.put(digest(1), entry(bytes(300_000)))
            for path in (tmp_path / "not", folder.parent, folder, folder / "v1"):
                assert mode(path) == 0o700, path
            files = [path for path in folder.rglob("*") if path.is_file()]
            assert {"cache.db", "cache.db-wal", "cache.db-shm", "lock"} <= {path.name for path in files}
            for path in files:
                assert mode(path) & 0o077 == 0, path
            assert await store.get_many([digest(1)]) == [entry(bytes(300_000))]
    assert faults == []


async def test_a_linked_folder_is_refused(tmp_path: Path, faults: Faults) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(0o700)
    link.symlink_to(real)
    for name in (link, f"{link}/"):
        with pytest.raises(CacheError, match=r"symbolic link.*real"):
            await DiskStore(name).open(faults)
    async with opened(real, faults):
        pass
    (real / "v1").rename(tmp_path / "v1")
    (real / "v1").symlink_to(tmp_path / "v1")
    with pytest.raises(CacheError, match="symbolic link"):
        await DiskStore(real).open(faults)
    assert faults == []


@pytest.mark.parametrize("bits", [0o770, 0o702, 0o777, 0o1777])
async def test_a_folder_that_others_can_write_to_is_refused(folder: Path, faults: Faults, bits: int) -> None:
    folder.mkdir()
    folder.chmod(bits)
    store = DiskStore(folder)
    with pytest.raises(CacheError, match="chmod 700"):
        await store.open(faults)
    assert list(folder.iterdir()) == []
    folder.chmod(0o755)
    await store.open(faults)
    await store.aclose()


async def test_a_file_in_the_folders_place_is_refused(folder: Path, faults: Faults) -> None:
    folder.write_text("")
    with pytest.raises(CacheError, match="not a folder"):
        await DiskStore(folder).open(faults)


@as_root
async def test_another_users_folder_is_refused(folder: Path, faults: Faults) -> None:
    folder.mkdir(0o700)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(CacheError, match=f"belongs to user {NOBODY}"):
        await DiskStore(folder).open(faults)


async def test_a_folder_that_cannot_be_made_is_one_fault(tmp_path: Path, faults: Faults) -> None:
    (tmp_path / "file").write_text("")
    async with opened(tmp_path / "file" / "cache", faults) as store:
        assert faults.operations == ["open"]
        assert await store.get_many([digest(1)]) == [None]
        await store.put(digest(1), entry())
        await store.delete(digest(1))
        await store.put_note("n", "t")
        assert await store.get_note("n") is None
        stats = await store.stats()
        assert (stats.entries, stats.faults) == (0, 1)
        assert stats.trouble is not None
        with pytest.raises(CacheError, match="cannot be used"):
            await store.clear()
    assert len(faults) == 1


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anywhere: become somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_read_only_folder_is_one_fault(faults: Faults) -> None:
    importlib.import_module("teeny_async.store.raw_disk")  # while it can be read: nobody may not
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o777)
        folder = Path(parent) / "cache"
        with unprivileged():
            async with opened(folder, faults) as store:
                await store.put(digest(1), entry())
            assert faults == []
            for path in (folder / "v1" / "cache.db", folder / "v1", folder):
                path.chmod(0o500)
            async with opened(folder, faults) as store:
                assert faults.operations == ["open"]
                assert await store.get_many([digest(1)]) == [None]
                await store.put(digest(2), entry())
            folder.chmod(0o700)
            (folder / "v1").chmod(0o700)
            (folder / "v1" / "cache.db").chmod(0o600)
            async with opened(folder, faults) as store:
                assert await store.get_many([digest(1)]) == [entry()]
    assert len(faults) == 1


async def test_a_database_locked_by_another_process(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults, patience=0.05) as store:
        await store.put(digest(1), entry())
        with database(folder) as connection:
            connection.execute("BEGIN IMMEDIATE")
            await store.put(digest(2), entry())
            assert faults.operations == ["put"]
            assert "locked" in faults[0][1]
            await store.put(digest(3), entry())  # not waited for again
            assert await store.get_many([digest(1)]) == [entry()]
            async with opened(folder, faults, patience=0.05) as other:
                assert faults.operations == ["put", "open"]
                assert await other.get_many([digest(1)]) == [None]
            connection.execute("ROLLBACK")
        stats = await store.stats()
        assert (stats.faults, stats.skipped) == (1, 1)
    async with opened(folder, faults) as store:
        await store.put(digest(2), entry())
        assert await store.get_many([digest(1), digest(2), digest(3)]) == [entry(), entry(), None]
    assert len(faults) == 2


async def test_a_file_size_limit_is_a_fault_and_leaves_no_half_file(folder: Path, faults: Faults) -> None:
    """Like a quota: the write stops half-way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
        resource.setrlimit(resource.RLIMIT_FSIZE, (280_000, hard))
        try:
            await store.put(digest(2), entry(bytes(500_000)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert faults.operations == ["put"]
        assert list(folder.rglob("*.val")) == []
        assert await store.get_many([digest(1), digest(2)]) == [entry(), None]


@as_root
async def test_a_full_disk(tmp_path: Path, faults: Faults) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        async with opened(disk / "cache", faults) as store:
            kept = 0
            while not faults and kept < 1000:
                await store.put(digest(kept), entry(os.urandom(10_000)))
                kept += 1
            assert faults.operations == ["put"]
            found = await store.get_many([digest(number) for number in range(kept)])
            assert all(found[: kept - 1])
            assert found[kept - 1] is None
            await store.put(digest(kept), entry())
            assert len(faults) == 1
        async with opened(disk / "cache", faults) as store:
            assert (await store.stats()).quarantined == 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("content", [b"garbage" * 2000, b"SQLite format 3\0" + b"\xff" * 8192])
async def test_a_garbage_database_is_set_aside(folder: Path, faults: Faults, content: bytes) -> None:
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
    (folder / "v1" / "cache.db").write_bytes(content)
    async with opened(folder, faults) as store:
        assert faults.operations == ["quarantine"]
        assert await store.get_many([digest(1)]) == [None]
        await store.put(digest(1), entry())
        assert await store.get_many([digest(1)]) == [entry()]
    (aside,) = folder.glob("damaged-*")
    assert (aside / "cache.db").read_bytes() == content
    assert len(faults) == 1
    (folder / "v1" / "cache.db").write_bytes(content)
    async with opened(folder, faults) as store:
        assert len(list(folder.glob("damaged-*"))) == 1  # the latest only
        assert await store.clear() == 0
        assert list(folder.glob("damaged-*")) == []


async def test_another_programs_database_is_set_aside(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults):
        pass
    with database(folder) as connection:
        connection.execute("DROP TABLE Cache")
        connection.execute("CREATE TABLE Cache (something TEXT)")
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
        assert await store.get_many([digest(1)]) == [entry()]
    assert faults.operations == ["quarantine"]


async def test_a_linked_database_is_set_aside(folder: Path, tmp_path: Path, faults: Faults) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"")
    async with opened(folder, faults):
        pass
    (folder / "v1" / "cache.db").unlink()
    (folder / "v1" / "cache.db").symlink_to(target)
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
    assert faults.operations == ["quarantine"]
    assert target.read_bytes() == b""


async def test_damage_in_the_middle_of_a_session(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        for number in range(200):
            await store.put(digest(number), entry(bytes(4000)))
    async with opened(folder, faults) as store:
        assert faults == []
        size = (folder / "v1" / "cache.db").stat().st_size
        with open(folder / "v1" / "cache.db", "r+b") as file:
            file.seek(8192)
            file.write(b"\xa5" * (size - 8192))
        found = await store.get_many([digest(number) for number in range(200)])
        assert not any(found)
        await store.put(digest(1), entry())
        assert await store.get_many([digest(1)]) == [entry()]
    assert faults.operations == ["quarantine"]


async def test_a_value_file_that_is_gone_is_a_plain_miss(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry(bytes(300_000)))
        (value,) = folder.rglob("*.val")
        value.unlink()
        assert await store.get_many([digest(1)]) == [None]
        await store.put(digest(1), entry(bytes(300_000)))
        assert await store.get_many([digest(1)]) == [entry(bytes(300_000))]
    assert faults == []


async def test_info_that_is_not_json_is_a_fault_of_that_entry_only(folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry(thing=object()))
        await store.put(digest(2), entry())
        assert await store.get_many([digest(1), digest(2)]) == [None, entry()]
    assert faults.operations == ["put"]


async def test_a_stopped_holder_of_the_lock_does_not_stop_others(folder: Path, faults: Faults) -> None:
    from teeny_async.store.folder import opening_lock

    folder.mkdir(0o700)
    with opening_lock(folder, 0.01):
        async with opened(folder, faults, patience=0.05) as store:
            await store.put(digest(1), entry())
            assert await store.get_many([digest(1)]) == [entry()]
    assert faults == []


async def test_a_dollar_in_the_folders_name_is_a_fault(tmp_path: Path, faults: Faults) -> None:
    async with opened(tmp_path / "$HOME", faults):
        pass
    assert faults.operations == ["open"]


def test_writing_comes_back_after_a_pause(folder: Path, faults: Faults) -> None:
    tally = Tally()
    door = Door(folder, size_limit=1 << 30, count_limit=1000, patience=0.01, tally=tally, tell=faults, pause=0.1)
    worker = DiskWorker(door, tally=tally, tell=faults)
    worker.open()
    with database(folder) as connection:
        connection.execute("BEGIN IMMEDIATE")
        worker.write([(digest(1), entry())])
        connection.execute("ROLLBACK")
    worker.write([(digest(1), entry())])
    assert (tally.faults, tally.skipped) == (1, 1)
    time.sleep(0.15)
    worker.write([(digest(1), entry())])
    assert worker.read([digest(1)]) == [entry()]
    worker.close()
    assert faults.operations == ["put"]
