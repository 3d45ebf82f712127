"""warm-hit: everything is in the cache, and every request is another; against caches that do less or more."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import clean_env, in_child, measured
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row, Sample
from benchmarks.peers import Loop, Peer, loops, package, prepared, program

CPU = Metric("cpu", "CPU a request", "us")
WALL = Metric("wall", "wall", "us")
BARE = "diskcache get"
OURS = ("compile_many", "as_completed")
RUST = "compile_many, Rust"
SLOWER = ("triton", "joblib", "tinygrad")
WRAPPERS = ("ccache", "sccache")


def cases(context: Context) -> Iterator[Case]:
    entries = context.size(10_000, 1_000)
    for kilobytes in (4, 20):
        folder = context.place("warm")
        wrappers = _Wrappers(context, folder)
        try:
            yield _case(context, folder, entries, kilobytes, wrappers)
        finally:
            wrappers.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _case(context: Context, folder: Path, entries: int, kilobytes: int, wrappers: _Wrappers) -> Case:
    arguments: dict[str, Any] = {"folder": str(folder), "entries": entries, "size": kilobytes * 1024}
    for rust in (False, True):
        in_child(context, "rows.warm_hit:fill", rust=rust, **arguments)
    ours = list(_ours(context, arguments))
    goals = []
    for who in ours:
        goals.append(Goal(contestant=who.name, metric=CPU, how="value", limit=40e-6))
        if who.name not in OURS:
            continue
        goals += [Goal(contestant=who.name, metric=CPU, how="ratio", limit=1.0, versus=name) for name in SLOWER]
        goals += [Goal(contestant=who.name, metric=WALL, how="below", limit=100, versus=name) for name in WRAPPERS]
    return Case(
        title=f"{entries:,} distinct entries of {kilobytes} KB",
        metrics=(CPU, WALL),
        base=BARE,
        contestants=(*_caches(context, folder, arguments), *wrappers.contestants(), *ours),
        goals=goals,
    )


def _ours(context: Context, arguments: dict[str, Any]) -> Iterator[Contestant]:
    asyncio, *others = loops(context.quick)
    for way in OURS:
        yield _one_of_ours(context, arguments, way, asyncio, way)
    for loop in others:
        yield _one_of_ours(context, arguments, f"{OURS[0]}, {loop.name}", loop, OURS[0])
    yield _one_of_ours(context, arguments, RUST, asyncio, OURS[0], rust=True)


def _one_of_ours(
    context: Context, arguments: dict[str, Any], name: str, loop: Loop, way: str, *, rust: bool = False
) -> Contestant:
    what = "real Rust kernels of 2 KB, rustc's driver" if rust else "C kernels of 1 KB, zig's driver"
    where: dict[str, Any] = {"way": way, "backend": loop.backend, "uvloop": loop.uvloop, "rust": rust}
    return Contestant(
        name=name,
        version=loop.version,
        command=f"compiler.{way}(requests): key, look-up, checksum, result object; {what}",
        absent=loop.absent,
        run=partial(in_child, context, "rows.warm_hit:run_ours", **where, **arguments),
    )


_CALLS = {
    "diskcache": "Cache.get(key) of a ready key; no key made, nothing verified",
    "triton": "FileCacheManager(key).get_file(name), then open and read; no key made, nothing verified",
    "joblib": "Memory.cache(function)(source, target)",
    "tinygrad": "helpers.diskcache_get(table, source)",
}


def _caches(context: Context, folder: Path, arguments: dict[str, Any]) -> Iterator[Contestant]:
    for name, call in _CALLS.items():
        options = {"env": _cache_env(folder), "name": name, "key_size": 1024, **arguments}
        fill, read = (partial(in_child, context, f"caches:{what}", **options) for what in ("fill", "read"))
        yield package(name).contestant(prepared(fill, read), call, name=BARE if name == "diskcache" else name)


def _cache_env(folder: Path) -> dict[str, str]:
    """Where the peers that read the environment are to put their caches."""
    return {"TRITON_CACHE_DIR": str(folder / "triton"), "CACHEDB": str(folder / "tinygrad.db"), "HOME": str(folder)}


class _Wrappers:
    """ccache and sccache around a C compiler; the latter's server lives until `stop`."""

    def __init__(self, context: Context, folder: Path) -> None:
        self._folder = folder
        self._hits = context.size(50, 10)
        self._gcc = program("gcc")
        self._sccache: Peer | None = None
        self._env = clean_env(CCACHE_DIR=str(folder / "ccache"), SCCACHE_DIR=str(folder / "sccache"))

    def contestants(self) -> Iterator[Contestant]:
        for name in WRAPPERS:
            peer = program(name)
            absent = peer.absent or self._gcc.absent
            yield Contestant(
                name=name,
                version=peer.version,
                command=f"{name} gcc -O2 -c k.c -o k.o, one hit of a 1 KB source",
                absent=absent,
                run=prepared(partial(self._prepare, peer), partial(self._hit, peer)),
            )

    def _prepare(self, peer: Peer) -> None:
        (self._folder / "k.c").write_text("int k(int x) { return x; }\n".ljust(1023, "/") + "\n")
        if peer.name == "sccache":
            self._env["SCCACHE_SERVER_PORT"] = str(_free_port())
            measured([peer.path, "--start-server"], self._folder, env=self._env)
            self._sccache = peer
        self._once(peer)

    def _once(self, peer: Peer) -> dict[str, float]:
        argv = [peer.path, self._gcc.path, "-O2", "-c", "k.c", "-o", "k.o"]
        return measured(argv, self._folder, env=self._env)

    def _hit(self, peer: Peer) -> Sample:
        hits = [self._once(peer) for _ in range(self._hits)]
        return {
            "cpu": sum(hit["whole_cpu"] for hit in hits) / self._hits,
            "wall": sum(hit["wall"] for hit in hits) / self._hits,
        }

    def stop(self) -> None:
        if self._sccache is not None:
            measured([self._sccache.path, "--stop-server"], self._folder, env=self._env)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# In the child


def fill(folder: str, entries: int, size: int, rust: bool = False) -> dict[str, float]:
    """Put an entry of `size` bytes into the store for each request."""
    from benchmarks.inside import Instant, all_ok, distinct, distinct_rust, offline, run

    make = distinct_rust if rust else distinct

    async def go() -> None:
        async with offline(Path(folder) / "ours", Instant(size)) as session:
            all_ok(await session.compile_many(map(make, range(entries))), "compiled")

    run(go)
    return {}


def run_ours(
    folder: str, entries: int, size: int, rust: bool, way: str, backend: str, uvloop: bool
) -> dict[str, float]:
    """All entries, once. The requests exist before the clock starts, and the session has found its tool."""
    import time

    from benchmarks.inside import all_ok, distinct, distinct_rust, offline, run
    from teeny_async import CompileResult

    requests = [(distinct_rust if rust else distinct)(number) for number in range(entries)]

    async def go() -> dict[str, float]:
        async with offline(Path(folder) / "ours") as session:
            await session.plan(requests[0])
            cpu, wall = time.process_time(), time.perf_counter()
            results: list[CompileResult] = []
            if way == "compile_many":
                results = await session.compile_many(requests)
            else:
                async with session.as_completed(requests) as stream:
                    async for result in stream:
                        results.append(result)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        all_ok(results, "cached")
        if len(results) != entries or len(results[0].artifact["ptx"]) != size:
            raise RuntimeError("these are not the results that were asked for")
        return {"cpu": cpu / entries, "wall": wall / entries}

    return run(go, backend, uvloop)


ROW = Row(id="warm-hit", title="A cache hit, all in: key, look-up, check, result object", cases=cases)
