"""The door to aiofiles: whole files, whole lines, on every backend, cancelled or not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from teeny_async.errors import RequestError
from teeny_async.files import LineLog, write_whole
from teeny_async.frozen import FrozenMap
from teeny_async.report.artifacts import ArtifactWriter
from teeny_async.result import Artifact
from tests.report.kit import bad, good, request_for

pytestmark = pytest.mark.anyio


def read(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


async def test_a_file_is_written_whole_and_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "out.ptx"
    path.write_bytes(b"old")
    data = os.urandom(3 << 20)
    await write_whole(path, data)
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


async def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        await write_whole(tmp_path / "taken", b"data")
    with pytest.raises(FileNotFoundError):
        await write_whole(tmp_path / "missing" / "out.ptx", b"data")
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


async def test_a_cancelled_write_is_whole_or_not_there(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    for delay in (0.0, 0.0005, 0.001, 0.002):
        path = tmp_path / f"{delay}"
        with anyio.move_on_after(delay):
            await write_whole(path, data)
        assert not path.exists() or path.read_bytes() == data
    assert not list(tmp_path.glob("*.tmp"))


async def test_lines_are_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    async with LineLog(path) as log:
        for number in range(20_000):
            log.write({"n": number})
            if number % 100 == 0:
                await log.room()
    assert log.error is None
    assert read(path) == list(range(20_000))


async def test_lines_can_be_read_while_the_log_is_open(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    async with LineLog(path) as log:
        log.write({"n": 1})
        with anyio.fail_after(5):
            while not path.read_text():
                await anyio.sleep(0.005)
        assert read(path) == [1]


async def test_a_cancelled_run_keeps_every_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with anyio.CancelScope() as scope:
        async with LineLog(path) as log:
            for number in range(1000):
                log.write({"n": number})
            scope.cancel()
            await anyio.sleep(1)
    assert read(path) == list(range(1000))


async def test_room_waits_for_the_disk(tmp_path: Path) -> None:
    async with LineLog(tmp_path / "log.jsonl") as log:
        for number in range(10_000):
            log.write({"n": number})
        with anyio.fail_after(5):
            await log.room()
        assert len(log._lines) < 10_000


async def test_append_and_replace(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for append in (False, True, True):
        async with LineLog(path, append=append) as log:
            log.write({"n": 1})
    assert read(path) == [1, 1, 1]
    async with LineLog(path):
        pass
    assert read(path) == []


async def test_a_log_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with LineLog(tmp_path / "missing" / "log.jsonl"):
            pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_stops_the_log_and_nothing_else() -> None:
    async with LineLog("/dev/full") as log:
        for number in range(10_000):
            log.write({"n": number})
            await log.room()
        await anyio.sleep(0)
    assert log.error is not None


async def test_the_error_of_the_block_passes_unchanged(tmp_path: Path) -> None:
    async def run() -> None:
        async with LineLog(tmp_path / "log.jsonl") as log:
            log.write({"n": 1})
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await run()
    assert read(tmp_path / "log.jsonl") == [1]


async def test_every_output_of_a_result_is_written(tmp_path: Path) -> None:
    outputs = FrozenMap({"ptx": b"text", "mlir": b"module"})
    result = good(request_for("sm_90"), outcome=Artifact(outputs=outputs, log="ir\n", log_level="info"))
    paths = await ArtifactWriter(tmp_path).write(result)
    assert [Path(path).suffix for path in paths] == [".ptx", ".mlir", ".log"]
    assert [Path(path).read_bytes() for path in paths] == [b"text", b"module", b"ir\n"]
    assert await ArtifactWriter(tmp_path).write(bad(request_for())) == []


async def test_unkeyed_results_do_not_overwrite_each_other(tmp_path: Path) -> None:
    writer = ArtifactWriter(tmp_path)
    one = good(request_for(), uncached="it reads the clock")
    other = good(request_for(), uncached="it reads the clock", outcome=Artifact(outputs=FrozenMap({"ptx": b"other"})))
    await writer.write(one)
    await writer.write(one)
    with pytest.raises(RequestError, match="different contents"):
        await writer.write(other)
