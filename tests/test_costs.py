"""What a hit, a miss and a duplicate cost, counted instead of timed: a slip shows without a clock.

Counted are processes started, hops to the cache thread, SQL statements and bytes given to SHA-256. The bounds
are those of the code as it is, with a little room; whoever makes something cheaper lowers them.

Nothing of ours is patched: the store is a subclass that counts its hops, sqlite tells of its statements, the
interpreter's audit hook of processes, and only `hashlib.sha256` is replaced by one that counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, CompileResult, Kernel, Target
from teeny_async.action import Action
from teeny_async.settings import Settings
from teeny_async.store.disk import DiskStore
from teeny_async.store.disk_worker import DiskWorker
from teeny_async.store.thread import CacheThread
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.toolchains.base import Toolchain

pytestmark = pytest.mark.anyio

T = TypeVar("T")
P = ParamSpec("P")

PRELUDE = "p" * 93 * 1024
SOURCE = 1024
"""Characters of a kernel's own source."""
FIXED = 320
"""Bytes of a key's components that are the same for all requests, which are hashed once."""
FRAME = 96
"""Bytes of a key's other components: the input's name and the digests of its parts."""
ENTRY = SOURCE + len(PRELUDE) + 1024
"""Bytes of an entry: the fake compiler's output is its input, and there is the info for people."""
SESSION_HOPS = 8
"""Opening, closing, and the notes of a session."""
SESSION_SELECTS = 12
SPARE = 2
"""What two sessions of different length may differ by, whatever they do: notes are read beside the work."""
LOOKUPS_PER_HOP = 256
STATEMENTS_PER_ROW = 8
STATEMENTS_PER_TRANSACTION = 5
"""Beginning, ending, and a look at the limits."""
STATEMENTS_PER_PUT = STATEMENTS_PER_ROW + STATEMENTS_PER_TRANSACTION
WRITES_PER_PUT = 7
"""The row, and what diskcache's triggers and the shelf's keep of it: sqlite tells of those too."""
WRITES_PER_NOTE = 7
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"})


@dataclass
class Counts:
    """What was counted since `reset`."""

    hops: int = 0
    statements: list[str] = field(default_factory=list)
    hashed: list[int] = field(default_factory=list)
    processes: int = 0

    def reset(self) -> None:
        self.hops = self.processes = 0
        self.statements.clear()
        self.hashed.clear()

    @property
    def selects(self) -> int:
        return sum(statement.startswith("SELECT") for statement in self.statements)

    @property
    def writes(self) -> list[str]:
        return [text for text in self.statements if text.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE"))]

    @property
    def totals(self) -> tuple[int, int, int]:
        """Hops, statements, bytes hashed."""
        return self.hops, len(self.statements), sum(self.hashed)


class CountedThread(CacheThread):
    """Another thread's calls, counted."""

    def __init__(self, inner: CacheThread, counts: Counts) -> None:
        self._inner = inner
        self._counts = counts

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._counts.hops += 1
        return await self._inner.call(function, *args, **kwargs)

    async def aclose(self) -> None:
        await self._inner.aclose()


class CountedStore(DiskStore):
    """A store that counts from its opening on."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        super().__init__(folder)
        self._counts = counts

    def _join(self) -> Any:
        opening = super()._join()
        if not isinstance(opening.thread, CountedThread):
            opening.thread = CountedThread(opening.thread, self._counts)
        return opening

    async def trace(self) -> None:
        """Have sqlite tell of every statement."""
        assert self._opening is not None
        worker = self._opening.worker

        assert isinstance(worker, DiskWorker)

        def set_callback() -> None:
            assert worker.door._cache is not None
            worker.door._cache._con.set_trace_callback(self._counts.statements.append)

        await self._opening.thread.call(set_callback)


class CountingHash:
    """SHA-256 that notes how much it is given."""

    def __init__(self, real: Any, sizes: list[int]) -> None:
        self._real = real
        self._sizes = sizes

    def update(self, data: Any) -> None:
        self._sizes.append(memoryview(data).nbytes)
        self._real.update(data)

    def copy(self) -> CountingHash:
        return CountingHash(self._real.copy(), self._sizes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Audit:
    """The one audit hook of this process: it cannot be removed, only be told whom to count for."""

    counts: Counts | None = None
    installed = False

    @classmethod
    def hook(cls, event: str, _: object) -> None:
        if cls.counts is not None and event in PROCESS_EVENTS:
            cls.counts.processes += 1


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterable[Counts]:
    counts = Counts()
    real = hashlib.sha256

    def counting(data: Any = b"", **options: Any) -> CountingHash:
        state = CountingHash(real(**options), counts.hashed)
        if data:
            state.update(data)
        return state

    monkeypatch.setattr(hashlib, "sha256", counting)
    if not _Audit.installed:
        sys.addaudithook(_Audit.hook)
        _Audit.installed = True
    _Audit.counts = counts
    yield counts
    _Audit.counts = None


@contextlib.asynccontextmanager
async def opened(folder: Path, counts: Counts) -> AsyncIterator[CountedStore]:
    """A store that stays open, and is traced, over several sessions."""
    store = CountedStore(folder, counts)
    await store.open(lambda operation, message: pytest.fail(f"{operation}: {message}"))
    try:
        await store.trace()
        counts.reset()
        yield store
    finally:
        await store.aclose()


def kernel_request(number: int, prelude: str = "") -> CompileRequest:
    source = f"int f() {{ return {number}; }}\n".ljust(SOURCE, "/")
    kernel = Kernel(name=f"k{number}", source=source, language="c", prelude=prelude)
    return CompileRequest(kernel, Target("sm_90"), toolchain=TOOL)


TOOL = FakeToolchain()


async def compile_all(
    store: DiskStore, requests: list[CompileRequest], runner: FakeRunner | None = None
) -> list[CompileResult]:
    """All requests in one `compile_many` of a session of its own."""
    async with Compiler(store=store, runner=runner or FakeRunner(), jobs=1) as compiler:
        return await compiler.compile_many(requests)


async def stream_all(store: DiskStore, requests: list[CompileRequest]) -> list[CompileResult]:
    """All requests in one `as_completed` of a session of its own."""
    async with (
        Compiler(store=store, runner=FakeRunner(), jobs=1) as compiler,
        compiler.as_completed(requests) as results,
    ):
        return [result async for result in results]


def assert_all(results: list[CompileResult], source: str) -> None:
    assert {(result.ok, result.source) for result in results} == {(True, source)}


def is_only_savings(writes: list[str]) -> bool:
    return len(writes) == 1 and writes[0].startswith("INSERT INTO Savings ")


async def test_a_hit_needs_one_select_a_share_of_a_hop_and_no_write(cache_dir: Path, counts: Counts) -> None:
    requests = [kernel_request(number) for number in range(1000)]
    async with opened(cache_dir, counts) as store:
        await compile_all(store, requests)
        counts.reset()
        assert_all(await compile_all(store, requests), "cached")
        assert counts.writes == []
    assert is_only_savings(counts.writes)  # of all hits together, as the store is closed
    assert counts.hops <= math.ceil(1000 / LOOKUPS_PER_HOP) + SESSION_HOPS
    assert 1000 <= counts.selects <= 1000 + SESSION_SELECTS
    assert counts.processes == 0


async def test_a_streamed_hit_shares_its_hop_too(cache_dir: Path, counts: Counts) -> None:
    requests = [kernel_request(number) for number in range(1000)]
    async with opened(cache_dir, counts) as store:
        await compile_all(store, requests)
        counts.reset()
        assert_all(await stream_all(store, requests), "cached")
        assert counts.writes == []
    assert counts.hops <= 1000 / 50 + SESSION_HOPS
    assert 1000 <= counts.selects <= 1000 + SESSION_SELECTS


async def test_hits_hash_a_prelude_once_and_each_entry_once(cache_dir: Path, counts: Counts) -> None:
    requests = [kernel_request(number, PRELUDE) for number in range(40)]
    async with opened(cache_dir, counts) as store:
        await compile_all(store, requests)
        counts.reset()
        assert_all(await compile_all(store, requests), "cached")
    keys = len(PRELUDE) + FIXED + 40 * (SOURCE + FRAME)
    entries = 40 * ENTRY
    assert entries - 40 * 1024 < sum(counts.hashed) <= keys + entries
    assert sum(size >= len(PRELUDE) for size in counts.hashed) == 1 + 40


async def test_a_miss_is_one_run_one_look_up_and_one_put(cache_dir: Path, counts: Counts) -> None:
    requests = [kernel_request(number) for number in range(100)]
    runner = FakeRunner()
    async with opened(cache_dir, counts) as store:
        assert_all(await compile_all(store, requests, runner), "compiled")
    assert len(runner.actions) == 100
    assert counts.hops <= 100 + SESSION_HOPS + math.ceil(100 / LOOKUPS_PER_HOP)
    assert 100 <= len(counts.writes) <= 100 * WRITES_PER_PUT + WRITES_PER_NOTE
    assert len(counts.statements) <= 100 * (1 + STATEMENTS_PER_PUT) + 4 * SESSION_SELECTS


async def test_entries_that_are_kept_together_share_a_hop_a_transaction_and_a_look_at_the_limits(
    tmp_path: Path, cache_dir: Path, counts: Counts
) -> None:
    requests = [kernel_request(number) for number in range(60)]
    async with opened(tmp_path / "first", counts) as first:
        await compile_all(first, requests)
        entries = [item async for item in first.scan()]
    async with opened(cache_dir, counts) as store:
        await store.put_many(entries)
        assert counts.hops == 1
        assert len(counts.statements) <= 60 * STATEMENTS_PER_ROW + STATEMENTS_PER_TRANSACTION
        assert counts.statements.count("COMMIT") == 1


async def test_a_miss_hashes_its_source_once_and_a_prelude_never_again(cache_dir: Path, counts: Counts) -> None:
    requests = [kernel_request(number, PRELUDE) for number in range(20)]
    async with opened(cache_dir, counts) as store:
        assert_all(await compile_all(store, requests), "compiled")
    keys = len(PRELUDE) + FIXED + 20 * (SOURCE + FRAME)
    assert sum(counts.hashed) <= keys + 20 * ENTRY
    assert sum(size >= len(PRELUDE) for size in counts.hashed) == 1 + 20


@pytest.mark.parametrize("cached", [False, True], ids=["miss", "hit"])
async def test_a_duplicate_costs_no_hop_no_statement_and_no_hash(cache_dir: Path, counts: Counts, cached: bool) -> None:
    request = kernel_request(0)
    costs = []
    for copies in (1, 10_000):
        runner = FakeRunner()
        async with opened(cache_dir / str(copies), counts) as store:
            if cached:
                await compile_all(store, [request])
                counts.reset()
            results = await compile_all(store, [request] * copies, runner)
        assert [result.source for result in results] == ["cached" if cached else "compiled"] + ["coalesced"] * (
            copies - 1
        )
        assert len(runner.actions) == (0 if cached else 1)
        costs.append((counts.hops, len(counts.statements), len(counts.hashed)))
    assert all(many <= one + SPARE for one, many in zip(*costs, strict=True))


async def test_a_call_for_an_object_that_is_under_way_costs_no_hash_either(cache_dir: Path, counts: Counts) -> None:
    request = kernel_request(0)
    costs = []
    for copies in (1, 100):
        async with opened(cache_dir / str(copies), counts) as store:
            async with Compiler(store=store, runner=FakeRunner(), jobs=1) as compiler:
                await compiler.plan(request)  # the tool is found
                async with anyio.create_task_group() as callers:
                    for _ in range(copies):
                        callers.start_soon(compiler.compile, request)
                assert compiler.stats.coalesced == copies - 1
            costs.append((counts.hops, len(counts.statements), len(counts.hashed)))
    assert all(many <= one + SPARE for one, many in zip(*costs, strict=True))


async def test_an_equal_request_costs_its_key_only(cache_dir: Path, counts: Counts) -> None:
    async with opened(cache_dir, counts) as store:
        await compile_all(store, [kernel_request(0)])
        counts.reset()
        await compile_all(store, [kernel_request(0)])
        hops, statements, hashed = counts.totals
        counts.reset()
        await compile_all(store, [kernel_request(0) for _ in range(500)])
        assert counts.hops <= hops + SPARE
        assert len(counts.statements) <= statements + SPARE
        assert counts.totals[2] <= hashed + 499 * (SOURCE + FRAME)


async def test_hits_start_no_process(cache_dir: Path, settings: Settings, counts: Counts) -> None:
    requests = [kernel_request(number) for number in range(100)]
    async with opened(cache_dir, counts) as store:
        await compile_all(store, requests)
        counts.reset()
        async with Compiler(store=store, settings=settings, jobs=1) as compiler:  # with the runner of real life
            assert_all(await compiler.compile_many(requests), "cached")
    assert counts.processes == 0


class Script(FakeToolchain):
    """A compiler that is a shell script."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)

    async def find(self, host: Any) -> Toolchain:
        return replace(await super().find(host), path=self._path)


async def test_misses_start_one_process_of_ours_and_one_compiler_each(
    tmp_path: Path, settings: Settings, counts: Counts
) -> None:
    calls = tmp_path / "calls"
    script = tmp_path / "compiler"
    script.write_text(f"#!/bin/sh\necho >>{calls}\ncp kernel kernel.o\n")
    script.chmod(0o700)
    tool = Script(script)
    requests = [replace(kernel_request(number % 20), toolchain=tool) for number in range(100)]
    async with Compiler(settings=settings, jobs=1) as compiler:
        results = await compiler.compile_many(requests)
    assert all(result.ok for result in results), results[0].failure
    assert calls.read_text().count("\n") == 20
    assert counts.processes == 1


def test_the_fake_compiler_is_what_the_bounds_think_it_is() -> None:
    action: Action = TOOL.plan(
        kernel_request(0, PRELUDE), Target("sm_90"), Toolchain(name="fake", path="", version="", fingerprint="")
    )
    assert next(part for item in action.inputs for part in item.parts) is PRELUDE
