"""The stores that a session has by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeny_async import Compiler, CompileRequest, Kernel
from teeny_async.caching import store_for
from teeny_async.errors import RequestError
from teeny_async.settings import Settings
from teeny_async.testing import FakeRunner, FakeToolchain, MemoryStore
from tests.support import changed

REQUEST = CompileRequest(Kernel(name="k", source="int k;", language="c"), toolchain=FakeToolchain())


@pytest.mark.anyio
async def test_a_shared_cache_answers_and_the_stats_say_so(settings: Settings, tmp_path: Path) -> None:
    async with Compiler(store=tmp_path / "shipped", runner=FakeRunner(), settings=settings) as compiler:
        await compiler.compile(REQUEST)
    shared = changed(settings, {"TEENY_ASYNC_SHARED_CACHES": f"{tmp_path / 'shipped'}:"})
    runner = FakeRunner()
    async with Compiler(runner=runner, settings=shared) as compiler:
        assert (await compiler.compile_result(REQUEST)).source == "cached"
        assert (await compiler.compile_result(REQUEST)).source == "cached"
        assert compiler.stats.hits == {"shared": 1, "memory": 1}
    async with Compiler(runner=runner, settings=settings, shared_caches=[tmp_path / "shipped"]) as compiler:
        assert (await compiler.compile_result(REQUEST)).source == "cached"
    async with Compiler(runner=runner, settings=shared, shared_caches=[], mode="cached_only") as compiler:
        assert not (await compiler.compile_result(REQUEST)).ok
    assert runner.actions == []


@pytest.mark.anyio
async def test_the_limits_come_from_the_environment(settings: Settings) -> None:
    small = changed(settings, {"TEENY_ASYNC_CACHE_SIZE": "3MiB", "TEENY_ASYNC_CACHE_COUNT": "7"})
    store = store_for(None, None, "normal", small)
    await store.open(lambda operation, message: pytest.fail(message))
    try:
        state = await store.stats()
    finally:
        await store.aclose()
    assert (state.size_limit, state.count_limit) == (3 * 2**20, 7)


def test_values_that_make_no_sense_are_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="COUNT"):
        store_for(None, None, "normal", changed(settings, {"TEENY_ASYNC_CACHE_COUNT": "many"}))
    with pytest.raises(RequestError, match="amount"):
        store_for(None, None, "normal", changed(settings, {"TEENY_ASYNC_CACHE_SIZE": "much"}))
    with pytest.raises(RequestError, match="goes with a folder"):
        store_for(MemoryStore(), [tmp_path], "normal", settings)
    with pytest.raises(RequestError, match="list of folders"):
        store_for(None, str(tmp_path), "normal", settings)
