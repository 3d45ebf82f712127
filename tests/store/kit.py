"""Entries, digests and open stores for the tests of the stores."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from teeny_async.failures import FailureKind
from teeny_async.result import Artifact, Attempt, Diagnostic, Failure, Usage
from teeny_async.store.base import Entry, OnFault
from teeny_async.store.disk import DiskStore
from teeny_async.store.disk_worker import DiskWorker
from teeny_async.store.door import Door
from teeny_async.store.tally import Tally


class Faults(list[tuple[str, str]]):
    """What a store complained about; call it as `on_fault`."""

    def __call__(self, operation: str, message: str) -> None:
        self.append((operation, message))

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self]


def digest(number: int) -> str:
    """The nth key digest."""
    return f"{number:064x}"


def entry(text: bytes = b".version 8.6\n.target sm_90\n", **info: Any) -> Entry:
    """An artifact's entry with this text as its PTX."""
    return Entry(Artifact(outputs={"ptx": text}), info)


def rich_entry() -> Entry:
    """An artifact's entry with every field set."""
    artifact = Artifact(
        outputs={"ptx": b".version 8.6\n", "mlir": b"", "object": bytes(range(256))},
        metrics={"registers": 32, "spill": 0.5, "arch": "sm_90"},
        diagnostics=[Diagnostic(severity="warning", message="w", code="W1", file="k.c", line=3, column=4)],
        log="ir of a stage \ud800 \N{SNOWMAN}",
        log_level="debug",
    )
    return Entry(artifact, {"toolchain": "zig", "params": {"BLOCK": 128}, "parts": [1, 2.5, None]})


def failed_entry() -> Entry:
    """A failure's entry with every field set."""
    usage = Usage(cpu_user=0.25, cpu_system=0.125, max_rss=1 << 20, wall=1.5)
    failure = Failure(
        kind=FailureKind.DIAGNOSTIC,
        message="expected ';'",
        exit=1,
        diagnostics=(Diagnostic(severity="error", message="expected ';'", file="k.c", line=1),),
        attempts=(
            Attempt(number=1, kind=FailureKind.SPAWN, exit=None, usage=usage, delay=0.1),
            Attempt(number=2, kind=None, exit=1, usage=usage),
        ),
        tool="zig",
        command=("zig", "cc", "k.c"),
        log="k.c:1: error\n",
    )
    return Entry(failure, {"kernel": "k"})


@contextlib.contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    """The store's database, through sqlite itself; committed and closed at the end."""
    with contextlib.closing(sqlite3.connect(folder / "v1" / "cache.db", isolation_level=None)) as connection:
        yield connection


@contextlib.asynccontextmanager
async def opened(folder: Path, on_fault: OnFault, **options: Any) -> AsyncIterator[DiskStore]:
    """A DiskStore that is open inside the block."""
    store = DiskStore(folder, **options)
    await store.open(on_fault)
    try:
        yield store
    finally:
        await store.aclose()


def worker(folder: Path, on_fault: OnFault, **options: Any) -> DiskWorker:
    """The blocking half of a DiskStore, not open yet."""
    tally = Tally()
    limits = {"size_limit": 1 << 30, "count_limit": 10_000, "patience": 5.0, **options}
    return DiskWorker(Door(folder, tally=tally, tell=on_fault, **limits), tally=tally, tell=on_fault)
