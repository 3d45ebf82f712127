"""Sessions with a remote behind their own store: what the next machine finds, and when nobody answers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from teeny_async import CacheError, Compiler, RequestError
from teeny_async.settings import Settings
from teeny_async.store.memory import MemoryStore
from teeny_async.store.remote import RemoteStore
from teeny_async.testing import FakeRunner
from tests.pipeline.kit import request, session
from tests.pipeline.test_closures import Including
from tests.support import changed, the_file_clock_moved_on

from .remote_servers import S3_OPTIONS, Answering, Silent, plain_files, s3_server

pytestmark = pytest.mark.anyio

REQUESTS = [request(number) for number in range(60)]


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as (endpoint, _):
        yield endpoint


async def _runs(**options: object) -> int:
    """How many compilers a session with an empty store of its own runs."""
    runner = FakeRunner()
    async with session(runner, **options) as compiler:
        results = await compiler.compile_many(REQUESTS)
    assert all(result.ok for result in results)
    return len(runner.actions)


async def test_the_second_machine_compiles_nothing(s3: str, tmp_path: Path) -> None:
    def store() -> RemoteStore:
        options = {**S3_OPTIONS, "endpoint": s3}
        return RemoteStore(f"s3://kernels/{tmp_path.name}", timeout=30, flush_timeout=60, options=options)

    assert await _runs(remote=store()) == len(REQUESTS)
    assert await _runs(remote=store()) == 0


async def test_a_url_and_the_environment_say_where_it_is(settings: Settings, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/shared"
    named = changed(settings, {"TEENY_ASYNC_REMOTE": url})
    reading = changed(named, {"TEENY_ASYNC_REMOTE_READ_ONLY": "1"})
    first, second = tmp_path / "one", tmp_path / "two"
    assert await _runs(settings=reading, store=first) == len(REQUESTS)
    assert await _runs(settings=named, store=second) == len(REQUESTS)  # the first one has written nothing there
    assert await _runs(settings=named, store=tmp_path / "three") == 0
    assert await _runs(settings=settings, store=tmp_path / "four", remote=url) == 0
    # A store of the caller's own stands alone, and "" is no remote.
    assert await _runs(settings=named) == len(REQUESTS)
    assert await _runs(settings=named, store=tmp_path / "five", remote="") == len(REQUESTS)


async def test_what_was_found_far_away_is_near_from_then_on(tmp_path: Path) -> None:
    far, near = MemoryStore(), tmp_path / "near"
    assert await _runs(remote=far) == len(REQUESTS)
    assert await _runs(store=near, remote=far) == 0
    assert await _runs(store=near, remote="") == 0


@pytest.fixture
def server() -> Iterator[Answering]:
    server = Answering(plain_files()[1])
    yield server
    server.close()


def asked_of(server: Answering) -> dict[str, int]:
    """Requests since the last call, as "GET ac": number."""
    counts = Counter(f"{method} {path.split('/')[2]}" for method, path in server.requests)
    server.requests.clear()
    return dict(counts)


async def test_a_warm_run_asks_the_remote_nothing(server: Answering, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert await _runs(store=one, remote=server.url) == len(REQUESTS)
    assert asked_of(server) == {"GET ac": len(REQUESTS), "PUT ac": len(REQUESTS)}
    assert await _runs(store=two, remote=server.url) == 0
    assert asked_of(server) == {"GET ac": len(REQUESTS)}
    for folder in (one, two):
        assert await _runs(store=folder, remote=server.url) == 0
        assert asked_of(server) == {}


async def test_what_kernels_read_is_asked_for_once_and_again_when_it_has_changed(
    server: Answering, tmp_path: Path
) -> None:
    tool = Including(tmp_path / "h.h")
    requests = [request(number, toolchain=tool) for number in range(10)]

    async def runs(folder: str) -> int:
        runner = FakeRunner(tool.exit)
        async with session(runner, store=tmp_path / folder, remote=server.url) as compiler:
            results = await compiler.compile_many(requests)
        assert {result.artifact["object"] for result in results} == {tool.header.read_bytes()}
        return len(runner.actions)

    await the_file_clock_moved_on()
    assert (await runs("one"), asked_of(server)["PUT notes"]) == (10, 10)
    assert (await runs("two"), asked_of(server)) == (0, {"GET notes": 10, "GET ac": 10})
    assert (await runs("two"), asked_of(server)) == (0, {})
    tool.header.write_text("two")
    await the_file_clock_moved_on()
    assert await runs("one") == 10
    asked_of(server)
    # The folder knows only what was read before: what the other machine has read since is in the remote.
    assert (await runs("two"), asked_of(server)) == (0, {"GET notes": 10, "GET ac": 10, "PUT notes": 10})
    assert (await runs("two"), asked_of(server)) == (0, {})


async def test_a_silent_remote_costs_a_sweep_one_time_limit() -> None:
    silent = Silent()
    remote = RemoteStore(silent.url, timeout=0.3, flush_timeout=0.3)
    with anyio.fail_after(30):
        assert await _runs(remote=remote) == len(REQUESTS)
    # 60 look-ups and 60 uploads, each with a second try, would be 240.
    assert silent.connections <= 2 * 32 + 2 * 4 + 2
    silent.close()


async def test_a_bad_url_is_refused_at_once_and_obstore_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="URL"):
        Compiler(remote="/a/folder")
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(CacheError, match=r"teeny_async\[remote\]"):
        async with session(FakeRunner(), remote="memory:///"):
            pass


def test_without_a_remote_nothing_of_it_is_loaded() -> None:
    script = """
import sys, anyio
from teeny_async import Compiler
from teeny_async.store.memory import MemoryStore
async def main():
    async with Compiler(store=MemoryStore()): pass
anyio.run(main)
print([name for name in ("obstore", "teeny_async.store.remote", "distributed") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
