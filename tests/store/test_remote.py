"""RemoteStore against real servers: a round trip, what a second machine sees, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from teeny_async.errors import CacheError, RequestError
from teeny_async.result import Artifact
from teeny_async.store.base import Entry, Store
from teeny_async.store.framing import pack, unpack
from teeny_async.store.remote import RemoteStore
from teeny_async.store.remote_layout import INLINE

from .kit import Faults, digest, entry, failed_entry, rich_entry
from .remote_servers import S3_OPTIONS, Answering, plain_files, s3_server, webdav_server

pytestmark = pytest.mark.anyio

LARGE = Entry(Artifact(outputs={"object": bytes(range(256)) * (INLINE // 200)}), {})
RICH = unpack(digest(1), pack(digest(1), rich_entry()))
"""As it comes back from any store: what was a list is a tuple."""
Place = dict[str, Any]
PATIENT = {"timeout": 30.0, "flush_timeout": 60.0}
"""A busy machine is no trouble of the remote's."""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as (endpoint, _):
        yield endpoint


@pytest.fixture(scope="module")
def webdav(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder, and the URL of the server for it."""
    folder = tmp_path_factory.mktemp("dav")
    with webdav_server(folder) as (url, _):
        yield folder, url


@pytest.fixture(params=["s3", "webdav", "http", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Arguments of a RemoteStore that nobody has written to."""
    match request.param:
        case "s3":
            endpoint = request.getfixturevalue("s3")
            options = {**S3_OPTIONS, "endpoint": endpoint}
            yield {"url": f"s3://kernels/{tmp_path.name}", "options": options, **PATIENT}
        case "webdav":
            folder, url = request.getfixturevalue("webdav")
            (folder / tmp_path.name).mkdir()
            yield {"url": f"{url}/{tmp_path.name}", **PATIENT}
        case "http":
            server = Answering(plain_files()[1])
            yield {"url": f"{server.url}/cache", **PATIENT}
            server.close()
        case _:
            yield {"url": f"file://{tmp_path}/shared"}


async def test_another_machine_finds_what_was_put(place: Place, faults: Faults) -> None:
    entries = {digest(1): RICH, digest(2): LARGE, **{digest(n): entry(b"%d" % n) for n in range(10, 50)}}
    store: Store = RemoteStore(**place)
    await store.open(faults)
    assert await store.get_many([digest(1), digest(2)]) == [None, None]
    for key, item in entries.items():
        await store.put(key, item)
    await store.put(digest(3), failed_entry())
    await store.put_note("closure:x", "what it read")
    await store.put_note("probes-1", "this machine's own")
    await store.aclose()

    other = RemoteStore(**place)
    await other.open(faults)
    found = await other.get_many([*entries, digest(3), digest(9), digest(1)])
    assert found == [*entries.values(), None, None, RICH]
    assert await other.get_note("closure:x") == "what it read"
    assert await other.get_note("probes-1") is None
    stats = await other.stats()
    assert (stats.hits, stats.misses, stats.faults, stats.trouble) == (43, 2, 0, None)
    await other.delete(digest(1))
    assert await other.get_many([digest(1), digest(2)]) == [None, LARGE]
    await other.aclose()
    assert faults == []


async def test_the_first_author_stays_where_the_server_can_say_so(place: Place, faults: Faults) -> None:
    for text in (b"first", b"second"):
        store = RemoteStore(**place)
        await store.open(faults)
        await store.put(digest(1), entry(text))
        await store.aclose()
    await store.open(faults)
    stays = not place["url"].startswith("http")
    assert await store.get_many([digest(1)]) == [entry(b"first" if stays else b"second")]
    await store.aclose()
    assert store.uploaded == 1
    assert faults == []


async def test_read_only_writes_nothing(place: Place, faults: Faults) -> None:
    writer, reader = RemoteStore(**place), RemoteStore(**place, read_only=True)
    await writer.open(faults)
    await writer.put(digest(1), entry())
    await writer.aclose()
    await reader.open(faults)
    await reader.put(digest(2), entry())
    await reader.put_note("closure:x", "x")
    await reader.delete(digest(1))
    await reader.aclose()
    await reader.open(faults)
    assert await reader.get_many([digest(1), digest(2)]) == [entry(), None]
    assert await reader.get_note("closure:x") is None
    await reader.aclose()
    assert reader.uploaded == 0


async def test_sessions_share_it_and_the_last_one_flushes(faults: Faults) -> None:
    store = RemoteStore("memory:///")
    await store.open(faults)
    await store.open(faults)
    await store.put(digest(1), entry())
    await store.aclose()
    await store.put(digest(2), entry())
    await store.aclose()
    await store.open(faults)
    assert await store.get_many([digest(1), digest(2)]) == [entry(), entry()]
    assert await store.get_many([]) == []
    await store.aclose()
    with pytest.raises(RuntimeError, match="not open"):
        await store.get_many([])
    assert faults == []


async def test_a_digest_is_checked_and_a_shared_store_is_not_cleared(faults: Faults) -> None:
    store = RemoteStore("memory:///")
    await store.open(faults)
    for operation in (store.get_many(["../x"]), store.put("x", entry()), store.delete("x")):
        with pytest.raises(ValueError, match=r"hexadecimal|key digest"):
            await operation
    with pytest.raises(CacheError, match="not cleared from here"):
        await store.clear()
    await store.put(digest(1), entry(thing=object()))
    await store.aclose()
    assert faults.operations == ["put"]


@pytest.mark.parametrize("url", ["/a/folder", "ftp://host/x", "sqlite://x", ""])
def test_what_is_no_remote_is_refused(url: str) -> None:
    with pytest.raises(RequestError, match="URL"):
        RemoteStore(url)
    with pytest.raises(RequestError, match="timeout"):
        RemoteStore("memory:///", timeout=0)


async def test_secrets_of_a_url_are_not_shown(faults: Faults) -> None:
    store = RemoteStore("http://someone:secret@127.0.0.1:9/x?token=secret")
    await store.open(faults)
    assert (await store.stats()).location == "http://127.0.0.1:9/x"
    for _ in range(3):
        await store.get_many([digest(1)])
    await store.aclose()
    assert faults.operations == ["get"]
    assert "secret" not in repr(store) + str(faults)


async def test_options_that_obstore_refuses_are_an_error_of_opening(faults: Faults) -> None:
    store = RemoteStore("s3://bucket", options={"no_such_option": "1"})
    with pytest.raises(CacheError, match="s3://bucket"):
        await store.open(faults)
    with pytest.raises(RuntimeError, match="not open"):
        await store.stats()
