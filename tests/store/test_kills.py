"""Writers that are killed at any moment: no wrong or partial entry, and nothing left after the next start."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import teeny_async.store.disk
from teeny_async.result import Artifact

from .kit import Faults, database, digest, worker

ROOT = Path(teeny_async.store.disk.__file__).parents[2]
KEYS = 40
NURSERY = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import teeny_async.store.raw_cache
from tests.store.kit import digest, entry, worker

def write(number):
    os.dup2(2, 1)
    chance = random.Random(number)
    store = worker(Path(sys.argv[2]), lambda *fault: print("fault", *fault, file=sys.stderr), size_limit=6 << 20)
    store.open()
    while True:
        some = [chance.randrange(int(sys.argv[3])) for _ in range(chance.choice((1, 1, 1, 5)))]
        match chance.randrange(8):
            case 0:
                store.delete(digest(some[0]))
            case 1:
                store.read([digest(one) for one in some])
            case 2:
                store.close()
                store.open()
            case _:
                body = [b"%064d" % one + bytes(chance.choice((100, 5_000, 260_000, 400_000))) for one in some]
                store.write([(digest(one), entry(data)) for one, data in zip(some, body)])

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for number, line in enumerate(sys.stdin):
    pid = os.fork()
    if not pid:
        write(number)
    print(pid, flush=True)
"""


class Nursery:
    """Makes writers quickly: a fork of a process that has everything imported."""

    def __init__(self, folder: Path, log: Path) -> None:
        command = [sys.executable, "-c", NURSERY, str(ROOT), str(folder), str(KEYS)]
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.alive: list[int] = []

    def start_one(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.alive.append(int(self._process.stdout.readline()))

    def kill_one(self, which: int) -> None:
        os.kill(self.alive.pop(which), signal.SIGKILL)

    def close(self) -> None:
        while self.alive:
            self.kill_one(0)
        self._process.communicate(timeout=10)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def nursery(fast_folder: Path, log: Path) -> Iterator[Nursery]:
    nursery = Nursery(fast_folder, log)
    try:
        yield nursery
    finally:
        nursery.close()


def check_entries(folder: Path, faults: Faults) -> int:
    """Opens the folder as the next session does; how many entries there are."""
    store = worker(folder, faults)
    store.open()
    try:
        found = store.read([digest(number) for number in range(KEYS)])
        for number, one in enumerate(found):
            if one is not None:
                assert isinstance(one.outcome, Artifact)
                body = one.outcome["ptx"]
                assert body[:64] == b"%064d" % number, "a wrong entry"
                assert body[64:] == bytes(len(body) - 64), "a partial entry"
        return KEYS - found.count(None)
    finally:
        store.close()


def strays(folder: Path) -> list[str]:
    """Value files without a row, and lock files of writers."""
    with database(folder) as connection:
        used = {name for (name,) in connection.execute("SELECT filename FROM Cache WHERE filename IS NOT NULL")}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    files = {path.name for path in (folder / "v1").iterdir()}
    assert used <= files
    left = {name for name in files if name.endswith(".val")} - used
    return sorted(left) + [path.name for path in (folder / "v1" / "writers").iterdir()]


def test_two_hundred_kills(fast_folder: Path, nursery: Nursery, log: Path, faults: Faults) -> None:
    chance = random.Random(1)
    for _ in range(8):
        nursery.start_one()
    most = 0
    for number in range(200):
        time.sleep(chance.uniform(0, 0.03))
        nursery.kill_one(chance.randrange(len(nursery.alive)))
        if number % 20 == 10:
            most = max(most, check_entries(fast_folder, faults))  # beside writers that live
        nursery.start_one()
    nursery.close()
    most = max(most, check_entries(fast_folder, faults))
    assert strays(fast_folder) == []
    assert most > KEYS / 4
    assert faults == []
    assert log.read_text() == ""


def test_what_a_killed_writer_left_goes_while_others_write(fast_folder: Path, nursery: Nursery, faults: Faults) -> None:
    nursery.start_one()
    writers = fast_folder / "v1" / "writers"
    for _ in range(100):
        nursery.start_one()
        time.sleep(0.02)
        nursery.kill_one(-1)
        if writers.is_dir() and len(list(writers.iterdir())) > 1:
            break
    else:
        pytest.fail("no writer was killed while it wrote")
    stray = fast_folder / "v1" / f"{next(path for path in writers.iterdir()).stem}{'0' * 16}.val"
    stray.write_bytes(b"")
    deadline = time.monotonic() + 5
    while stray.exists() and time.monotonic() < deadline:  # the living writer may be at it as well
        check_entries(fast_folder, faults)
    assert not stray.exists()
    assert len(list(writers.iterdir())) <= 1
    assert faults == []
