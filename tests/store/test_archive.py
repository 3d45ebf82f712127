"""Archives: everything there is, in one file, and nothing of a bad one."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from teeny_async.errors import CacheError

from .kit import Faults, digest, entry, failed_entry, opened, rich_entry

pytestmark = pytest.mark.anyio

CONTENT = {digest(1): rich_entry(), digest(2): failed_entry(), digest(3): entry(bytes(300_000), toolchain="zig")}


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """All of CONTENT and one of two notes."""
    faults = Faults()
    async with opened(tmp_path / "source", faults) as store:
        await store.put_many(list(CONTENT.items()))
        await store.put_note("closure:1", "a manifest")
        await store.put_note("probes-1", "of this machine")
        report = await store.export(tmp_path / "archive.tar", notes=["closure:"])
    assert faults == []
    assert (report.entries, report.notes) == (3, 1)
    assert report.bytes == (tmp_path / "archive.tar").stat().st_size
    return tmp_path / "archive.tar"


async def test_what_was_exported_is_imported(archive: Path, folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry(b"ours"))
        report = await store.import_(archive)
        assert (report.entries, report.notes, report.present) == (2, 1, 1)
        assert await store.get_many([digest(1), digest(2), digest(3)]) == [
            entry(b"ours"),
            CONTENT[digest(2)],
            CONTENT[digest(3)],
        ]
        assert await store.get_notes(["closure:1", "probes-1"]) == ["a manifest", None]
        assert (await store.verify()).ok
        assert (await store.import_(archive)).present == 4
    assert faults == []


async def test_equal_contents_give_equal_archives(archive: Path, folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        await store.import_(archive)
        await store.export(archive.with_name("again.tar"), notes=["closure:"])
    assert archive.with_name("again.tar").read_bytes() == archive.read_bytes()


def member(name: str, data: bytes = b"") -> bytes:
    """An archive of ours with one member more in front of its end."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for one, text in (("teeny_async", b"archive 1\n"), (name, data), ("end", b'{"entries": 0, "notes": 0}')):
            header = tarfile.TarInfo(one)
            header.size = len(text)
            tar.addfile(header, io.BytesIO(text))
    return buffer.getvalue()


BAD: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut before its end": lambda data: data[: data.rindex(b"end" + bytes(97))] + bytes(1024),
    "flipped": lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
    "another format": lambda data: data.replace(b"archive 1\n", b"archive 2\n"),
    "a path that leaves": lambda data: member("../../etc/passwd", b"x"),
    "another member": lambda data: member("entries/readme", b"x"),
    "an empty entry": lambda data: member(f"entries/{digest(1)}"),
}


@pytest.mark.parametrize("how", BAD)
async def test_nothing_of_a_bad_archive_is_taken_in(how: str, archive: Path, folder: Path, faults: Faults) -> None:
    archive.write_bytes(BAD[how](archive.read_bytes()))
    async with opened(folder, faults) as store:
        with pytest.raises(CacheError, match="cannot be imported"):
            await store.import_(archive)
        assert (await store.stats()).entries == 0
    assert faults == []


async def test_a_missing_archive_and_a_missing_folder_are_said(tmp_path: Path, folder: Path, faults: Faults) -> None:
    async with opened(folder, faults) as store:
        with pytest.raises(CacheError, match="No such file"):
            await store.import_(tmp_path / "none.tar")
        with pytest.raises(CacheError, match="cannot be written"):
            await store.export(tmp_path / "nowhere" / "archive.tar")


async def test_an_export_that_fails_leaves_nothing(folder: Path, tmp_path: Path, faults: Faults) -> None:
    target = tmp_path / "out" / "archive.tar"
    target.mkdir(parents=True)
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
        with pytest.raises(CacheError):
            await store.export(target)
    assert [path.name for path in target.parent.iterdir()] == ["archive.tar"]
