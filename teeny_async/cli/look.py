"""What `doctor` and `cache` find out about this machine. Nothing here creates a folder that is not there."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from teeny_async.api import Compiler
from teeny_async.caching import own_store
from teeny_async.errors import CacheError, RequestError
from teeny_async.execution.machine import available_cpus, available_memory, cgroup_cpu_quota, cgroup_memory_limit
from teeny_async.pipeline.asking import PORTABLE_NOTES as ASKED_NOTES
from teeny_async.settings import Settings
from teeny_async.store.base import Store
from teeny_async.store.disk import DiskStore
from teeny_async.store.memory import MemoryStore
from teeny_async.toolchains.base import Driver, ToolNotFound
from teeny_async.toolchains.registry import DRIVERS

_ABSENT = {"entries": 0, "bytes": 0, "size_limit": None, "count_limit": None, "trouble": None, "groups": ()}
_PORTABLE_NOTES = ("closure:", *ASKED_NOTES)
"""Notes that hold on every machine: which files a compile read, what teenyc's artifacts were asked for under. A
memoised fingerprint does not."""


def cache_state(folder: Path) -> dict[str, Any]:
    """The store's statistics, as plain data, with "exists"; "trouble" is why it cannot be used."""
    state = {"location": str(folder), "exists": os.path.lexists(folder), **_ABSENT}
    if not state["exists"]:
        return state

    async def look(store: DiskStore) -> dict[str, Any]:
        return asdict(await store.stats())

    try:
        found = _with_store(folder, look)
    except CacheError as error:
        return {**state, "trouble": str(error)}
    return state | {name: found[name] for name in _ABSENT}


def remote_location() -> str | None:
    """The shared cache that the environment names, without what may be secret in its URL; None: there is none."""
    from teeny_async.store.remote_bucket import location

    url = Settings.from_environ(os.environ).remote
    return None if url is None else location(url)


def clear_cache(folder: Path) -> int:
    """Remove every entry; how many there were. Raises CacheError."""

    async def clear(store: DiskStore) -> int:
        return await store.clear()

    cleared: int = _with_store(folder, clear)
    return cleared


def verify_cache(folder: Path, *, deep: bool) -> dict[str, Any]:
    """A `VerifyReport` as plain data, with "ok". Raises CacheError."""

    async def verify(store: DiskStore) -> dict[str, Any]:
        report = await store.verify(deep=deep)
        return {"ok": report.ok, **asdict(report)}

    return _with_existing(folder, verify)


def prune_cache(
    folder: Path, *, max_bytes: int | None, max_count: int | None, older_than: float | None
) -> dict[str, Any]:
    """A `PruneReport` as plain data. Raises CacheError."""

    async def prune(store: DiskStore) -> dict[str, Any]:
        return asdict(await store.prune(max_bytes=max_bytes, max_count=max_count, older_than=older_than))

    return _with_existing(folder, prune)


def export_cache(folder: Path, archive: Path) -> dict[str, Any]:
    """An `ArchiveReport` as plain data. Raises CacheError."""

    async def export(store: DiskStore) -> dict[str, Any]:
        return asdict(await store.export(archive, notes=_PORTABLE_NOTES))

    return _with_existing(folder, export)


def import_cache(folder: Path, archive: Path) -> dict[str, Any]:
    """An `ArchiveReport` as plain data. Raises CacheError."""

    async def import_(store: DiskStore) -> dict[str, Any]:
        return asdict(await store.import_(archive))

    taken: dict[str, Any] = _with_store(folder, import_)
    return taken


def _with_existing(folder: Path, action: Callable[[DiskStore], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    if not os.path.lexists(folder):
        raise CacheError(f"there is no cache in {folder} yet: the first compile makes it")
    done: dict[str, Any] = _with_store(folder, action)
    return done


def _with_store(folder: Path, action: Callable[[DiskStore], Awaitable[Any]]) -> Any:
    async def call() -> Any:
        store = own_store(folder, Settings.from_environ(os.environ))
        await store.open(lambda operation, message: None)
        try:
            return await action(store)
        finally:
            await store.aclose()

    return anyio.run(call)


def toolchain_states(settings: Settings) -> list[dict[str, Any]]:
    """Each toolchain as plain data: what was found, or the "problem" and so its cure."""

    async def look_for_all(store: Store) -> list[dict[str, Any]]:
        async with Compiler(store=store, settings=settings) as compiler:
            return [await _toolchain_state(compiler, driver) for driver in DRIVERS.values()]

    folder = settings.cache_dir
    if folder.is_dir():
        with contextlib.suppress(CacheError):
            return anyio.run(look_for_all, own_store(folder, settings))
    return anyio.run(look_for_all, MemoryStore())


async def _toolchain_state(compiler: Compiler, driver: Driver) -> dict[str, Any]:
    state: dict[str, Any] = {
        "name": driver.name,
        "languages": sorted(driver.languages),
        "emits": list(driver.emits),
        "found": False,
        "version": None,
        "path": None,
        "fingerprint": None,
        "problem": None,
    }
    try:
        found = await compiler.toolchain(driver)
    except (ToolNotFound, RequestError) as error:
        return {**state, "problem": str(error).removeprefix(f"{driver.name}: ")}
    return {**state, "found": True, "version": found.version, "path": found.path, "fingerprint": found.fingerprint}


def machine_state() -> dict[str, Any]:
    """CPUs and memory as they will be used."""
    return {
        "jobs": available_cpus(),
        "cpus": os.cpu_count(),
        "cpu_quota": cgroup_cpu_quota(),
        "memory_available": available_memory(),
        "memory_limit": cgroup_memory_limit(),
    }


def scratch_state(settings: Settings) -> dict[str, Any]:
    """Where compilers work, and how much room is there."""
    parent = Path(settings.scratch_dir)
    problem = None
    if not parent.is_dir():
        problem = f"{parent} is not a folder; set TMPDIR to one"
    elif not os.access(parent, os.W_OK | os.X_OK):
        problem = f"{parent} cannot be written to; set TMPDIR to a folder that can"
    base = parent / f"teeny-async-{os.getuid()}"
    return {
        "location": str(base),
        "free": shutil.disk_usage(parent).free if problem is None else None,
        "sessions": len(list(base.glob("s-*"))) if problem is None else 0,
        "problem": problem,
    }
