"""A remote that is down, silent, slow, wrong or forbidden: what it costs, and what is told of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from teeny_async.store import remote as remote_module
from teeny_async.store.remote import RemoteStore

from .kit import Faults, digest, entry
from .remote_servers import S3_OPTIONS, Answering, Silent, plain_files, s3_server, webdav_server

pytestmark = pytest.mark.anyio

MANY = [digest(number) for number in range(100)]
NOTHING = [None] * len(MANY)


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


async def test_a_stopped_s3_server_costs_one_batch(faults: Faults) -> None:
    with s3_server() as (endpoint, stop):
        store = RemoteStore("s3://kernels/x", options={**S3_OPTIONS, "endpoint": endpoint})
        await store.open(faults)
        await store.put(digest(1), entry())
        await store.aclose()
        assert store.uploaded == 1
        stop()
        await _costs_little(store, faults)


async def test_a_stopped_webdav_server_costs_one_batch(faults: Faults, tmp_path: Path) -> None:
    with webdav_server(tmp_path / "dav") as (url, stop):
        stop()
        await _costs_little(RemoteStore(url), faults)


async def _costs_little(store: RemoteStore, faults: Faults) -> None:
    with anyio.fail_after(30):
        await store.open(faults)
        for _ in range(20):
            assert await store.get_many(MANY) == NOTHING
        stats = await store.stats()
        await store.put(digest(2), entry())
        await store.aclose()
    assert stats.trouble
    assert stats.skipped >= 19 * len(MANY)
    assert faults.operations == ["get"]
    assert "left alone for 30 s" in faults[0][1]


async def test_a_silent_server_costs_one_time_limit(silent: Silent, faults: Faults) -> None:
    store = RemoteStore(silent.url, timeout=0.3, flush_timeout=20)
    with anyio.fail_after(30):
        await store.open(faults)
        assert await store.get_many(MANY) == NOTHING
        asked = silent.connections
        assert 1 <= asked <= 2 * 32  # each reader, and its second try
        for _ in range(20):
            assert await store.get_many(MANY) == NOTHING
            assert await store.get_notes(["closure:x"]) == [None]
        assert faults.operations == ["get"]
        for number in range(20):
            await store.put(digest(number), entry())
        await store.aclose()
    # Reading asked no more; writing has a breaker of its own, and ends with it long before `flush_timeout`.
    assert silent.connections - asked <= 2 * 4 + 2
    assert faults.operations[1:] == ["put"]
    assert store.uploaded == 0


async def test_closing_waits_for_uploads_no_longer_than_it_was_told(silent: Silent, faults: Faults) -> None:
    store = RemoteStore(silent.url, timeout=1.0, flush_timeout=0.05)
    await store.open(faults)
    for number in range(20):
        await store.put(digest(number), entry())
    with anyio.fail_after(10):
        await store.aclose()
    assert faults.operations == ["put"]
    assert "20 uploads" in faults[0][1]


async def test_a_silent_server_holds_up_notes_once(silent: Silent, faults: Faults) -> None:
    store = RemoteStore(silent.url, timeout=0.2)
    with anyio.fail_after(30):
        await store.open(faults)
        names = [f"closure:{number}" for number in range(100)]
        assert await store.get_notes(names) == [None] * 100
        assert await store.get_notes(names) == [None] * 100
        await store.aclose()
    assert faults.operations == ["get_note"]


async def test_a_page_of_somebody_else_is_no_entry(faults: Faults) -> None:
    server = Answering(lambda *_: (200, b"<html>please log in</html>"))
    store = RemoteStore(server.url)
    await store.open(faults)
    others = [digest(1000 + number) for number in range(len(MANY))]
    assert await store.get_many(MANY) == NOTHING
    assert await store.get_many(others) == NOTHING
    assert {operation for operation, _ in faults} == {"get", "quarantine"}
    assert (await store.stats()).quarantined >= 3
    await store.aclose()
    server.close()
    # By the names: requests of the first look-up may arrive when it is over.
    asked = " ".join(path for _, path in server.requests)
    assert any(name[-32:] in asked for name in MANY)
    assert not any(name[-32:] in asked for name in others)


async def test_who_may_not_write_may_read(faults: Faults) -> None:
    files, serve = plain_files()
    server = Answering(lambda method, path, body: (403, b"") if method == "PUT" else serve(method, path, body))
    store = RemoteStore(server.url)
    await store.open(faults)
    for number in range(50):
        await store.put(digest(number), entry())
    await store.aclose()
    assert faults.operations == ["put"]
    assert sum(method == "PUT" for method, _ in server.requests) <= 4  # one of each writer
    await store.open(faults)
    assert await store.get_many(MANY) == NOTHING
    assert (await store.stats()).misses == len(MANY)
    await store.aclose()
    server.close()
    assert not files


async def test_a_damaged_entry_is_a_miss_and_is_replaced(faults: Faults, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/shared"
    store = RemoteStore(url)
    await store.open(faults)
    await store.put(digest(1), entry())
    await store.aclose()
    [file] = [path for path in (tmp_path / "shared" / "v1" / "ac").rglob("*") if path.is_file()]
    file.write_bytes(file.read_bytes()[:-1] + b"?")

    await store.open(faults)
    assert await store.get_many([digest(1)]) == [None]
    assert faults.operations == ["quarantine"]
    await store.put(digest(1), entry())
    await store.aclose()
    await store.open(faults)
    assert await store.get_many([digest(1)]) == [entry()]
    await store.aclose()


async def test_a_full_queue_drops_and_says_so_once(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "_QUEUE_LENGTH", 8)
    files, serve = plain_files()
    may_answer = threading.Event()

    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        may_answer.wait(10)
        return serve(method, path, body)

    server = Answering(answer)
    store = RemoteStore(server.url)
    await store.open(faults)
    for number in range(20):
        await store.put(digest(number), entry())
    assert faults.operations == ["put"]
    assert "further ones are dropped" in faults[0][1]
    assert (await store.stats()).skipped == 12
    may_answer.set()
    await store.aclose()
    server.close()
    assert len(files) == store.uploaded == 8


async def test_a_cancelled_look_up_leaves_nobody_waiting(silent: Silent, faults: Faults) -> None:
    store = RemoteStore(silent.url, timeout=0.5)
    await store.open(faults)
    with anyio.move_on_after(0.05) as scope:
        await store.get_many(MANY)
    assert scope.cancelled_caught
    with anyio.fail_after(10):
        await store.aclose()
