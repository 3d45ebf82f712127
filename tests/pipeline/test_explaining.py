"""Why a request is in the store or is not: components, what is nearest, and what only cached results say of a miss."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeny_async import FailureKind, Neighbour, RequestError, ToolchainNotFoundError
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.nearest import Candidate, Search, difference_texts, differences
from teeny_async.pipeline import explaining
from teeny_async.result import Exit
from teeny_async.store.base import Entry
from teeny_async.store.disk import DiskStore
from teeny_async.store.layered import Layer, LayeredStore
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeRunner, FakeToolchain
from teeny_async.toolchains.base import Host, Toolchain, ToolNotFound
from tests.support import the_file_clock_moved_on

from .kit import REFUSED, request, session

HERE = "default@nvptx64-nvidia-cuda"


def info(kernel: str = "k", created: float = 0.0, argv: str = "cc -O3 k.c", **components: str) -> Mapping[str, Any]:
    words = {f"argv[{number}]": word for number, word in enumerate(argv.split())}
    return {"kernel": kernel, "created": created, "components": {"toolchain": "cc", **words, **components}}


def nearest(search: Search, *candidates: tuple[str, Mapping[str, Any]]) -> Neighbour | None:
    for digest, about in candidates:
        search.see(Candidate(digest, about))
    return search.nearest


def asked(**components: str) -> Search:
    return Search("k", {**info()["components"], **components})


def test_one_more_argument_changes_no_other() -> None:
    old, new = info(argv="cc -a -b -c")["components"], info(argv="cc -a -x -b -c")["components"]
    assert differences(new, old) == {"argv[2]": ("-x", None)}
    assert differences(old, new) == {"argv[2]": (None, "-x")}
    assert differences(old, old) == {}
    assert differences({"env.A": "1", "env.B": "2"}, {"env.A": "3"}) == {"env.A": ("1", "3"), "env.B": ("2", None)}
    assert differences({"stage1.argv[0]": "ptxas"}, {}) == {"stage1.argv[0]": ("ptxas", None)}


def test_the_nearest_is_of_the_same_kernel_then_of_the_same_tool_then_the_most_alike_then_the_newest() -> None:
    other_kernel = ("1", info("other"))
    other_tool = ("2", {**info(), "components": {**info()["components"], "toolchain": "clang"}})
    far = ("3", info(argv="cc -O0 -g k.c"))
    close = ("4", info(argv="cc -O2 k.c", created=1.0))
    newer = ("5", info(argv="cc -O1 k.c", created=2.0))
    order = [newer, close, far, other_tool, other_kernel]
    for length in range(1, len(order) + 1):
        some = order[-length:]
        for sequence in (some, some[::-1]):
            found = nearest(asked(), *sequence)
            assert found is not None
            assert found.digest == some[0][0]


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"kernel": "k"},
        {"kernel": "k", "components": 7},
        {"kernel": "k", "components": {"argv[0]": 1}},
        {**info("other"), "components": {"toolchain": "rustc"}},
    ],
)
def test_what_is_not_alike_or_not_ours_is_no_neighbour(strange: Mapping[str, Any]) -> None:
    assert nearest(asked(), ("1", strange)) is None
    sound = ("2", {**info(), "created": "yesterday", "params": 5, "target": None})
    found = nearest(asked(), ("1", strange), sound)
    assert found is not None
    assert (found.digest, found.target, found.params) == ("2", "default", {})


def test_an_earlier_result_of_the_same_request_differs_in_its_files() -> None:
    files = {"b": {"file /h.h": ("1" * 64, "2" * 64)}}
    found = nearest(Search("k", info()["components"], files), ("a", info(argv="cc -O3 -g k.c -x")), ("b", info()))
    assert found is not None
    assert found.differs == files["b"]
    assert str(found) == f"k for default (key b), which differs in file /h.h: {'1' * 16}, there {'2' * 16}"


def test_a_message_shows_a_few_short_differences() -> None:
    differs = {f"env.V{number}": ("x" * 100, None) for number in range(5)}
    neighbour = Neighbour(digest="d" * 64, kernel="k", target="sm_90", toolchain="cc 1", differs=FrozenMap(differs))
    text = str(neighbour)
    assert text.endswith("; and 2 more")
    assert len(text) < 400
    assert list(difference_texts({"a": (None, "b")})) == [("a", "absent, there b")]
    assert str(replace(neighbour, differs={})).endswith("of whose key no known component differs")


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "cache")


@pytest.mark.anyio
async def test_a_hit_a_miss_and_the_nearest_entry(store: DiskStore) -> None:
    runner = FakeRunner()
    kept = [request(0, params={"N": 1}), request(0, params={"N": 2}, opt_level=1), request(1)]
    async with session(runner, store=store) as compiler:
        results = await compiler.compile_many(kept)
        hit = await compiler.explain(kept[0])
        assert (hit.state, hit.why, hit.nearest, hit.failure) == ("hit", None, None, None)
        assert (hit.key, hit.result_key) == (results[0].key, results[0].key.digest if results[0].key else "")
        assert hit.components["toolchain"] == "fake"
        assert hit.components["argv[2]"] == "-O3"
        assert hit.stored["params"] == {"N": 1}
        assert hit.toolchain == "fake 1"
        miss = await compiler.explain(request(0, params={"N": 2}))
        assert (miss.state, miss.stored) == ("miss", {})
        assert miss.nearest is not None
        # As near as the one with another N, and the newer of the two or not: both differ in one argument.
        [(label, both)] = miss.nearest.differs.items()
        assert (label, both) in {("argv[2]", ("-O3", "-O1")), ("argv[3]", ("-DN=2", "-DN=1"))}
        other = await compiler.explain(request(7))
        assert other.nearest is not None
        assert [name.partition("[")[0] for name in other.nearest.differs] == ["input kernel"]
    assert len(runner.actions) == 3


@pytest.mark.anyio
async def test_many_are_explained_in_one_pass(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    scan = store.scan

    def counted() -> AsyncIterator[tuple[str, Entry]]:
        passes.append(1)
        return scan()

    monkeypatch.setattr(store, "scan", counted)
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(number) for number in range(5)])
        hits = await compiler.explain_many([request(number) for number in range(5)])
        assert [one.state for one in hits] == ["hit"] * 5
        assert passes == []
        misses = await compiler.explain_many([request(number, opt_level=1) for number in range(7)])
    assert passes == [1]
    assert [one.state for one in misses] == ["miss"] * 7
    assert [one.nearest and one.nearest.kernel for one in misses[:5]] == [f"k{number}" for number in range(5)]


@pytest.mark.anyio
async def test_explaining_runs_and_writes_nothing(store: DiskStore) -> None:
    runner = FakeRunner()
    async with session(runner, store=store) as compiler:
        explanation = await compiler.explain(request())
        assert (explanation.state, explanation.nearest) == ("miss", None)
        assert (await store.stats()).entries == 0
    assert runner.actions == []


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["refresh", "no_cache", "cached_only"])
async def test_it_looks_into_the_store_whatever_the_mode(store: DiskStore, mode: str) -> None:
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile(request())
    async with session(FakeRunner(), store=store, mode=mode) as compiler:
        assert (await compiler.explain(request())).state == "hit"


@pytest.mark.anyio
async def test_a_remembered_refusal_is_a_hit_until_it_is_not_served(store: DiskStore) -> None:
    async with session(FakeRunner(lambda _: REFUSED), store=store) as compiler:
        await compiler.compile_result(request())
        hit = await compiler.explain(request())
        assert hit.state == "hit"
        assert hit.failure is not None
        assert hit.failure.kind is FailureKind.DIAGNOSTIC
    async with session(FakeRunner(), store=store, retry_failed=True) as compiler:
        miss = await compiler.explain(request())
    assert miss.state == "miss"
    assert miss.why is not None
    assert "refusal is stored" in miss.why


@pytest.mark.anyio
async def test_an_entry_without_the_log_is_a_miss_that_says_so(store: DiskStore) -> None:
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile(request())
        miss = await compiler.explain(request(log_level="info"))
    assert miss.state == "miss"
    assert miss.why == "the artifact is stored without the log that is asked for"
    assert miss.nearest is not None
    assert miss.nearest.differs == {}


class Including(FakeToolchain):
    """A compiler that reads a header."""

    def __init__(self, header: Path) -> None:
        super().__init__()
        self.header = header

    def plan(self, *args: Any) -> Action:
        return replace(super().plan(*args), depfile="kernel.d", search=(str(self.header.parent),))

    def exit(self, action: Action) -> Exit:
        outputs = FrozenMap({"object": self.header.read_bytes()})
        return Exit(code=0, outputs=outputs, depfile=f"k.o: k.c {self.header}\n".encode())


@pytest.mark.anyio
async def test_a_changed_header_is_named(store: DiskStore, tmp_path: Path) -> None:
    header = tmp_path / "h.h"
    header.write_text("one")
    tool = Including(header)
    await the_file_clock_moved_on()
    async with session(FakeRunner(tool.exit), store=store) as compiler:
        before = await compiler.explain(request(toolchain=tool))
        assert (before.state, before.result_key, before.nearest) == ("miss", None, None)
        await compiler.compile(request(toolchain=tool))
        hit = await compiler.explain(request(toolchain=tool))
        assert hit.state == "hit"
        label = f"file {header}"
        assert len(hit.components[label]) == 64
        assert hit.result_key != hit.key.digest
        header.write_text("two")
        miss = await compiler.explain(request(toolchain=tool))
        assert miss.nearest is not None
        assert list(miss.nearest.differs) == [label]
        assert miss.nearest.digest == hit.result_key
        assert miss.nearest.differs[label][1] == hit.components[label]
        os.unlink(header)
        gone = await compiler.explain(request(toolchain=tool))
        assert gone.nearest is not None
        assert gone.nearest.differs[label] == (None, hit.components[label])


WHY = "flag '@' can read a file that is not in the key"


class Unkeyable(FakeToolchain):
    def plan(self, *args: Any) -> Action:
        return replace(super().plan(*args), uncacheable=WHY)


@pytest.mark.anyio
async def test_what_cannot_be_keyed_runs_uncached_or_is_refused(store: DiskStore) -> None:
    wanted = request(toolchain=Unkeyable())
    runner = FakeRunner()
    async with session(runner, store=store) as compiler:
        for _ in range(2):
            result = await compiler.compile_result(wanted)
            assert (result.source, result.uncached) == ("compiled", WHY)
        explanation = await compiler.explain(wanted)
        assert (explanation.state, explanation.why) == ("unkeyable", WHY)
    assert len(runner.actions) == 2
    async with session(runner, store=store, unkeyable="refuse") as compiler:
        with pytest.raises(RequestError, match=r"'k0' cannot be cached: flag '@' .*unkeyable=\"run\""):
            await compiler.compile_many([request(1), wanted])
        with pytest.raises(RequestError, match="cannot be cached"):
            await compiler.plan(wanted)
        assert len(runner.actions) == 2
        assert (await compiler.explain(wanted)).state == "unkeyable"
        assert (await compiler.compile_result(request(1))).ok
    async with session(runner, store=store, unkeyable="refuse", mode="no_cache") as compiler:
        assert (await compiler.compile_result(wanted)).ok


def test_another_word_for_unkeyable_is_refused() -> None:
    with pytest.raises(RequestError, match='"run" or "refuse", not \'maybe\''):
        session(FakeRunner(), unkeyable="maybe")


class Missing(FakeToolchain):
    async def find(self, host: Host) -> Toolchain:
        raise ToolNotFound("fake: not installed")


@pytest.mark.anyio
async def test_without_a_toolchain_there_is_no_key() -> None:
    async with session(FakeRunner()) as compiler:
        with pytest.raises(ToolchainNotFoundError, match="not installed"):
            await compiler.explain(request(toolchain=Missing()))


@pytest.mark.anyio
async def test_a_miss_where_only_cached_results_are_allowed_names_the_nearest_entry(store: DiskStore) -> None:
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(0, params={"N": 1}), request(1)])
    runner = FakeRunner()
    async with session(runner, store=store, mode="cached_only") as compiler:
        hit, miss, unkeyable = await compiler.compile_many(
            [request(0, params={"N": 1}), request(0, params={"N": 2}), request(0, toolchain=Unkeyable())]
        )
    assert hit.source == "cached"
    assert hit.key is not None
    assert miss.failure is not None
    assert miss.key is not None
    assert miss.failure.kind is FailureKind.NOT_CACHED
    assert miss.failure.message == (
        f"not in the cache: k0 for {HERE} N=2 by fake 1 (key {miss.key.digest[:16]}); "
        f"the nearest entry is k0 for {HERE} N=1 (key {hit.key.digest[:16]}), "
        "which differs in argv[3]: -DN=2, there -DN=1"
    )
    assert unkeyable.failure is not None
    assert unkeyable.failure.message == f"k0: it is in no cache: {WHY}"
    assert runner.actions == []


@pytest.mark.anyio
async def test_the_layers_of_a_store_are_gone_through(store: DiskStore) -> None:
    layered = LayeredStore([Layer("memory", MemoryStore()), Layer("disk", store)])
    async with session(FakeRunner(), store=layered) as compiler:
        await compiler.compile(request(0))
    async with session(FakeRunner(), store=layered, mode="cached_only") as compiler:
        miss = await compiler.compile_result(request(0, opt_level=1))
    assert miss.failure is not None
    assert "the nearest entry is k0" in miss.failure.message


@pytest.mark.anyio
async def test_to_explain_a_hit_is_no_use_of_it_and_moves_nothing(store: DiskStore, tmp_path: Path) -> None:
    """What was never asked for but here is the first to go when the cache is full."""
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(0), request(1)])
    with contextlib.closing(sqlite3.connect(store.folder / "v1" / "cache.db")) as database, database:
        database.execute("UPDATE Shelf SET used = 1")
    own = DiskStore(tmp_path / "own")
    layered = LayeredStore([Layer("memory", MemoryStore()), Layer("own", own), Layer("disk", DiskStore(store.folder))])
    async with session(FakeRunner(), store=layered) as compiler:
        one, two = await compiler.explain_many([request(0), request(1)])
        assert (one.state, two.state) == ("hit", "hit")
        state = await layered.stats()
        assert [layer.entries for layer in state.layers] == [0, 0, 2]
        assert [(layer.hits, layer.misses) for layer in state.layers] == [(0, 0)] * 3
        await compiler.compile(request(1))
    with contextlib.closing(sqlite3.connect(store.folder / "v1" / "cache.db")) as database:
        used = "SELECT used > 1 FROM Shelf JOIN Cache ON Cache.rowid = Shelf.id WHERE key = ?"
        for explanation, expected in ((one, 0), (two, 1)):
            key = bytes.fromhex(explanation.result_key or "")
            assert database.execute(used, (key,)).fetchall() == [(expected,)]


@pytest.mark.anyio
async def test_a_session_looks_for_neighbours_only_so_long(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that misses all the time does not go through its cache all the time."""
    seen: list[str] = []
    scan = store.scan

    async def noted() -> AsyncGenerator[tuple[str, Entry], None]:
        async for digest, entry in scan():
            seen.append(digest)
            yield digest, entry

    monkeypatch.setattr(store, "scan", noted)
    async with session(FakeRunner(), store=store) as compiler:
        await compiler.compile_many([request(number) for number in range(20)])
    monkeypatch.setattr(explaining, "PATIENCE", 0.0)
    async with session(FakeRunner(), store=store, mode="cached_only") as compiler:
        miss = await compiler.compile_result(request(0, opt_level=1))
    assert miss.failure is not None
    assert miss.failure.message.startswith(f"not in the cache: k0 for {HERE} by fake 1")
    assert len(seen) <= 1
