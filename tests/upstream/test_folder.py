"""The folder's protocol: the lock, the second look, the rename; alone, and beside a program in C that speaks it too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from teeny_async.upstream.folder import UpstreamFolder, temporary_prefix
from teeny_async.upstream.layout import LOCK, MLIR, OBJECT, SOURCE
from tests.upstream.kit import build_program, files, holder

STEM = "k0_" + "0" * 64
SIZE = 20_000
STEMS = 2
ROUNDS = 400


def contents(letter: str) -> dict[str, bytes]:
    return {OBJECT: letter.encode() * SIZE, SOURCE: letter.encode() * SIZE, MLIR: b"module {}"}


@pytest.fixture
def folder(tmp_path: Path) -> UpstreamFolder:
    place = UpstreamFolder(tmp_path / "below" / "cache")
    place.prepare()
    return place


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory.mktemp("program"))


def test_what_is_there_and_equal_is_not_written_again(folder: UpstreamFolder) -> None:
    assert folder.publish(STEM, contents("a"), replace=False) == "written"
    before = {path.name: path.stat() for path in folder.path.iterdir()}
    assert set(before) == {STEM + suffix for suffix in (OBJECT, SOURCE, MLIR, LOCK)}
    assert folder.publish(STEM, contents("a"), replace=True) == "same"
    assert {path.name: path.stat().st_ino for path in folder.path.iterdir()} == {
        name: status.st_ino for name, status in before.items()
    }


def test_another_object_stays_and_all_that_is_beside_it(folder: UpstreamFolder) -> None:
    folder.publish(STEM, contents("a"), replace=False)
    before = files(folder.path)
    assert folder.publish(STEM, contents("b"), replace=False) == "different"
    assert files(folder.path) == before


def test_replacing_replaces_all_three(folder: UpstreamFolder) -> None:
    folder.publish(STEM, contents("a"), replace=False)
    assert folder.publish(STEM, {OBJECT: b"b", SOURCE: b"b"}, replace=True) == "written"
    assert files(folder.path) == {STEM + OBJECT: b"b", STEM + SOURCE: b"b"}
    # What lies beside an equal object belongs to it.
    assert folder.publish(STEM, {OBJECT: b"b"}, replace=True) == "same"
    assert files(folder.path) == {STEM + OBJECT: b"b", STEM + SOURCE: b"b"}


def test_a_missing_source_is_put_beside_an_equal_object(folder: UpstreamFolder) -> None:
    (folder.path / (STEM + OBJECT)).write_bytes(contents("a")[OBJECT])
    assert folder.publish(STEM, contents("a"), replace=False) == "written"
    assert folder.read(STEM, SOURCE) == contents("a")[SOURCE]


def test_the_lock_outlives_its_holders(folder: UpstreamFolder) -> None:
    folder.publish(STEM, contents("a"), replace=False)
    lock = (folder.path / (STEM + LOCK)).stat()
    folder.publish(STEM, contents("b"), replace=True)
    assert (folder.path / (STEM + LOCK)).stat().st_ino == lock.st_ino
    assert lock.st_size == 0


def test_what_a_killed_writer_left_is_swept_by_the_next(folder: UpstreamFolder) -> None:
    class Killed(BaseException):
        pass

    class Dying(UpstreamFolder):
        """Is killed before its second rename: the temporary file stays, as nobody is left to remove it."""

        def _write(self, stem: str, path: Path, data: bytes) -> None:
            super()._write(stem, path, data)
            if path.suffix == MLIR:
                (self.path / f"{temporary_prefix(stem)}0.tmp").write_bytes(data[:100])
                raise Killed

    with pytest.raises(Killed):
        Dying(folder.path).publish(STEM, contents("a"), replace=False)
    other = folder.path / f"{temporary_prefix('another')}0.tmp"
    other.touch()
    assert folder.read(STEM, OBJECT) is None
    folder.prepare()
    folder.publish(STEM, contents("a"), replace=False)
    assert set(files(folder.path)) == {other.name, *(STEM + suffix for suffix in (OBJECT, SOURCE, MLIR))}


def test_a_failed_write_leaves_nothing(folder: UpstreamFolder) -> None:
    (folder.path / (STEM + MLIR)).mkdir()
    with pytest.raises(OSError, match="plain file"):
        folder.publish(STEM, contents("a"), replace=True)
    # The source was written before it, the object would have been after it.
    assert sorted(os.listdir(folder.path)) == sorted(STEM + suffix for suffix in (LOCK, MLIR, SOURCE))


@pytest.mark.parametrize("suffix", [OBJECT, LOCK])
def test_links_are_not_followed(folder: UpstreamFolder, tmp_path: Path, suffix: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (folder.path / (STEM + suffix)).symlink_to(outside)
    with pytest.raises(OSError, match="symbolic links"):
        folder.publish(STEM, contents("a"), replace=True)
    assert outside.read_text() == "mine"


def test_files_are_listed_by_their_names(folder: UpstreamFolder) -> None:
    folder.publish(STEM, contents("a"), replace=False)
    (folder.path / "notes.o").write_text("")
    (folder.path / f"{STEM}.o.tmp").write_text("")
    assert folder.stems(OBJECT) == folder.stems(SOURCE) == [STEM]


def test_a_kernel_that_a_program_compiles_is_left_to_it(folder: UpstreamFolder, program: Path) -> None:
    with holder(program, folder.path, STEM) as held:
        assert folder.publish(STEM, contents("a"), replace=True) == "busy"
        assert files(folder.path) == {}
        _, errors = held.communicate("\n")
        assert (held.returncode, errors) == (0, "")
    assert folder.publish(STEM, contents("a"), replace=False) == "different"
    assert folder.read(STEM, OBJECT) == b"p" * SIZE


def test_programs_at_the_same_time_corrupt_nothing(folder: UpstreamFolder, program: Path) -> None:
    """Two programs make, check and remove kernels; we write the same ones, over theirs and beside them."""
    command = [str(program), str(folder.path), "work", str(STEMS), str(ROUNDS)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    outcomes: set[str] = set()
    turn = 0
    while any(process.poll() is None for process in running):
        stem = f"k{turn % STEMS}_{turn % STEMS:064}"
        outcomes.add(folder.publish(stem, contents("ab"[turn % 3 % 2]), replace=turn % 2 == 0))
        seen = folder.read(stem, OBJECT)
        assert seen is None or seen in (b"a" * SIZE, b"b" * SIZE, b"p" * SIZE)
        turn += 1
    for process in running:
        output, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        assert sum(map(int, output.split())) == ROUNDS
    assert "written" in outcomes
    assert not [name for name in os.listdir(folder.path) if name.startswith(".teeny-async-")]


WRITER = """
import sys
from teeny_async.upstream.folder import UpstreamFolder
folder, stem = UpstreamFolder(sys.argv[1]), sys.argv[2]
folder.prepare()
while True:
    for letter in (b"a", b"b"):
        folder.publish(stem, {suffix: letter * 200_000 for suffix in (".o", ".rs", ".mlir")}, replace=True)
        print(flush=True)
"""


def test_killed_writers_leave_whole_files_and_no_lock(folder: UpstreamFolder) -> None:
    whole = (b"a" * 200_000, b"b" * 200_000)
    for kill in range(5):
        command = [sys.executable, "-c", WRITER, str(folder.path), STEM]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(1 + 3 * kill):
                writer.stdout.readline()
            writer.kill()
        assert all(folder.read(STEM, suffix) in whole for suffix in (OBJECT, SOURCE, MLIR))
    folder.prepare()
    # The lock has died with its holders, and what they left goes.
    assert folder.publish(STEM, contents("c"), replace=True) == "written"
    assert set(files(folder.path)) == {STEM + suffix for suffix in (OBJECT, SOURCE, MLIR)}
