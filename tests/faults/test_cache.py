"""A cache in trouble costs a warning, never a compile: whatever is wrong with it, every result is returned."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from teeny_async import FailureKind
from teeny_async.action import Action
from teeny_async.events import CacheFault, Event
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.store.disk import DiskStore
from teeny_async.testing import FakeRunner
from tests.pipeline.kit import request, session
from tests.store.kit import database

pytestmark = pytest.mark.anyio

LARGE = 500_000
"""Bytes of an output: too large for the database, so a file of its own."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Another process is in the middle of a transaction all the time."""
    with database(folder) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def over_quota(folder: Path) -> Iterator[None]:
    """A file cannot grow to its size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (280_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def taken_away(folder: Path) -> Iterator[None]:
    """The folder's place is taken by a file, where nothing can be made."""
    aside = folder.rename(folder.with_name("aside"))
    folder.with_name("blocked").write_text("")
    yield
    aside.rename(folder)


async def large(action: Action) -> Exit:
    """What a compiler gives: the source, and much more."""
    text = "".join(action.inputs[0].parts).encode()
    return Exit(code=0, outputs=FrozenMap({"object": text.ljust(LARGE, b".")}))


@pytest.mark.parametrize(
    ("trouble", "place"), [(locked, "cache"), (over_quota, "cache"), (taken_away, "blocked/cache")]
)
async def test_results_are_returned_with_one_warning(
    trouble: Callable[[Path], AbstractContextManager[None]], place: str, tmp_path: Path
) -> None:
    folder, events = tmp_path / "cache", list[Event]()
    async with session(FakeRunner(large), store=DiskStore(folder)) as compiler:
        await compiler.compile(request(0))
    with trouble(folder):
        store = DiskStore(tmp_path / place, patience=0.05)
        async with session(FakeRunner(large), store=store, on_event=events.append) as compiler:
            results = await compiler.compile_many([request(number) for number in range(1, 6)])
    for number, result in enumerate(results, start=1):
        assert result.source == "compiled"
        assert result.outputs["object"].startswith(f"int f() {{ return {number}; }}".encode())
    assert len([event for event in events if isinstance(event, CacheFault)]) == 1
    # What was there before is there after it, whole.
    async with session(FakeRunner(large), store=DiskStore(folder), mode="cached_only") as compiler:
        before, *others = await compiler.compile_many([request(number) for number in range(6)])
    assert before.source == "cached"
    assert {result.failure.kind for result in others if result.failure} <= {FailureKind.NOT_CACHED}
