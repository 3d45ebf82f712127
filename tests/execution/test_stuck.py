"""A process that not even SIGKILL ends: let go after a deadline, told of, and no obstacle to closing.

Uninterruptible sleep cannot be made to order; a frozen control group (version 1, as root) can, and a process
in it takes no signal until it is thawed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from teeny_async import Compiler, FailureKind
from teeny_async.events import Event, Warned
from teeny_async.settings import Settings
from tests.pipeline.kit import script
from tests.support import leftovers


@pytest.fixture
def freezer() -> Iterator[Path]:
    folder = Path(f"/sys/fs/cgroup/freezer/teeny-async-test-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "freezer.state").write_text("THAWED")
    except OSError:
        pytest.skip("no freezer can be made here")
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    while (folder / "cgroup.procs").read_text():
        time.sleep(0.01)
    folder.rmdir()


def test_it_is_let_go_and_told_of(settings: Settings, scratch_dir: Path, freezer: Path) -> None:
    events: list[Event] = []
    frozen = script(
        f"echo $$ > {freezer}/cgroup.procs; echo FROZEN > {freezer}/freezer.state; echo late > out", "stuck"
    )

    async def main() -> None:
        async with Compiler(settings=settings, jobs=1, on_event=events.append, timeout=0.5) as compiler:
            result = await compiler.compile_result(frozen)
            assert result.failure is not None
            assert result.failure.kind is FailureKind.TIMEOUT
            assert (await compiler.compile_result(script("echo good > out", timeout=20))).ok, "the slot is free again"

    anyio.run(main)
    [warned] = [event for event in events if isinstance(event, Warned)]
    assert "stuck" in warned.message
    assert "left behind" in warned.message
    (freezer / "freezer.state").write_text("THAWED")
    assert leftovers(scratch_dir) == []
