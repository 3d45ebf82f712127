"""Bytes that change under the store: never a wrong artifact, never an exception, everything made again at most once."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from teeny_async.store.disk_worker import DiskWorker

from .kit import Faults, digest, entry, worker

ENTRIES = {
    digest(number): entry(bytes([number]) * (300_000 if number % 20 == 7 else 300 * number), toolchain="zig")
    for number in range(40)
}
ROUNDS = 125
"""Of eight changes each."""


@contextlib.contextmanager
def open_worker(folder: Path, faults: Faults) -> Iterator[DiskWorker]:
    store = worker(folder, faults)
    store.open()
    try:
        yield store
    finally:
        store.close()


def make_again(store: DiskWorker, made: Counter[str], *, one_by_one: bool) -> None:
    """What a session does: look up, compile what is not there, keep it."""
    for batch in ([one] for one in ENTRIES) if one_by_one else (list(ENTRIES),):
        for key, found in zip(batch, store.read(batch), strict=True):
            if found is None:
                made[key] += 1
                store.write([(key, ENTRIES[key])])
            else:
                assert found.outcome == ENTRIES[key].outcome, "a wrong artifact"
                assert dict(found.info) == dict(ENTRIES[key].info)


def damage(chance: random.Random, folder: Path) -> str:
    """One change to a file of the folder, larger ones the likelier."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    path = chance.choices(files, [path.stat().st_size + 5000 for path in files])[0]
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data))
    match chance.randrange(10):
        case 0:
            del data[place:]
            what = "cut off"
        case 1:
            data[place : place + 512] = bytes(len(data[place : place + 512]))
            what = "zeroed"
        case _:
            data[place] ^= chance.randrange(1, 256)
            what = "flipped"
    path.write_bytes(data)
    return f"{path.name} {what} at {place}"


@pytest.fixture(scope="module", params=["closed", "in use"])
def pristine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all entries; "in use": as it is while a session is open, with a log to replay."""
    live, copy = tmp_path_factory.mktemp("live") / "cache", tmp_path_factory.mktemp("copy") / "cache"
    faults = Faults()
    with open_worker(live, faults) as store:
        store.write(list(ENTRIES.items()))
        if request.param == "in use":
            shutil.copytree(live, copy)
    if request.param == "closed":
        shutil.copytree(live, copy)
    assert faults == []
    return copy


def survive(pristine: Path, folder: Path, seed: int, changes: int) -> None:
    chance = random.Random(seed)
    shutil.copytree(pristine, folder)
    done = [damage(chance, folder) for _ in range(changes)]
    made: Counter[str] = Counter()
    faults = Faults()
    try:
        for _ in range(3):
            with open_worker(folder, faults) as store:
                make_again(store, made, one_by_one=seed % 2 == 0)
        assert made.total() == len(made), f"made more than once: {made.most_common(1)}"
        with open_worker(folder, faults) as store:
            assert None not in store.read(list(ENTRIES))
    except BaseException:
        print(seed, done, faults)
        raise
    finally:
        shutil.rmtree(folder)


COLUMNS = [
    *("key BLOB,", "raw INTEGER,", "store_time REAL,", "access_count INTEGER ", "tag BLOB,", "size INTEGER DEFAULT"),
    *("filename TEXT,", "value BLOB)", "used REAL, ", " KEY, key", "bytes INTEGER, ", "NEW.rowid,", "value + 1 "),
]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_schema_that_is_sound_and_has_another_name_in_it_is_replaced(fast_folder: Path, column: str) -> None:
    few = dict(list(ENTRIES.items())[1:4])
    new = {digest(1): entry(b"another"), digest(1000): entry(b"new")}
    faults = Faults()
    with open_worker(fast_folder, faults) as store:
        store.write(list(few.items()))
    database = fast_folder / "v1" / "cache.db"
    content, old = database.read_bytes(), column.encode()
    assert old in content
    database.write_bytes(content.replace(old, bytes([old[0] ^ 0x80]) + old[1:], 1))  # as good a letter as any
    with open_worker(fast_folder, faults) as store:
        there = [key for key, found in zip(few, store.read(list(few)), strict=True) if found is not None]
        store.write(list(new.items()))
    with open_worker(fast_folder, faults) as store:
        assert None not in store.read(there)
        assert store.read(list(new)) == list(new.values())


@pytest.mark.parametrize("part", range(5))
def test_a_thousand_changes(pristine: Path, fast_folder: Path, part: int) -> None:
    for seed in range(part, ROUNDS, 5):
        survive(pristine, fast_folder, seed, 8)
