"""A stage is an action of its own: what an equal one made is not made again, and nothing else is shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, Kernel, Target
from teeny_async.action import Action
from teeny_async.events import Queued
from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.costs import Learned
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.keeping import Keeper
from teeny_async.pipeline.stages import Ran, Stages
from teeny_async.result import NO_USAGE, Artifact, Exit, Failure
from teeny_async.settings import Settings
from teeny_async.toolchains.base import Toolchain
from teeny_async.toolchains.zig import Zig
from tests.pipeline.kit import script
from tests.support import the_file_clock_moved_on

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leftovers")]

SOURCE = "__attribute__((nvptx_kernel)) void k(float *x) { x[0] = SCALE; }\n"


def request(source: str = SOURCE, target: str = "sm_90", emit: str = "cubin", **options: Any) -> CompileRequest:
    kernel = Kernel(name="k", source=source, language="c", defines={"SCALE": 2}, **options.pop("kernel", {}))
    return CompileRequest(kernel, Target.parse(target), toolchain="zig", emit=emit, **options)


async def ran(settings: Settings, *requests: CompileRequest, **options: Any) -> tuple[int, int]:
    """(tools that ran, stages that were taken from elsewhere)"""
    async with Compiler(settings=settings, **{"jobs": 2, **options}) as compiler:
        results = await compiler.compile_many(requests)
    assert [result.failure for result in results if not result.ok] == []
    assert len({result.outputs.get("cubin") for result in results}) == len({str(one.target) for one in requests})
    return compiler.stats.runs, compiler.stats.reused


async def test_equal_ptx_is_assembled_once(settings: Settings) -> None:
    variants = [request(f"{SOURCE}// {number}\n") for number in range(4)]
    assert await ran(settings, *variants) == (5, 3), "four front ends and one ptxas"
    assert await ran(settings, request(f"// more\n{SOURCE}")) == (1, 1), "kept for other sessions as well"


async def test_ptx_that_differs_is_assembled(settings: Settings) -> None:
    assert await ran(settings, request(), request(target="sm_80")) == (4, 0)


async def test_the_ptx_of_an_earlier_request_is_assembled(settings: Settings) -> None:
    assert await ran(settings, request(emit="ptx")) == (1, 0)
    assert await ran(settings, request()) == (1, 1)
    assert await ran(settings, request()) == (0, 0), "now there is the whole"


async def test_without_a_store_nothing_is_shared_over_time(settings: Settings) -> None:
    async with Compiler(settings=settings, mode="no_cache") as compiler:
        for number in range(2):
            await compiler.compile(request(f"{SOURCE}// {number}\n"))
    assert (compiler.stats.runs, compiler.stats.reused) == (4, 0)


async def test_a_header_that_changes_nothing(settings: Settings, tmp_path: Any) -> None:
    """The front end must look again; what it writes is the same, and assembled already."""
    header = tmp_path / "scale.h"
    including = request('#include "scale.h"\n' + SOURCE, kernel={"include_dirs": (tmp_path,)})
    for text, expected in (("", (2, 0)), ("// nothing\n", (1, 1)), ("#define float double\n", (2, 0))):
        header.write_text(text)
        await the_file_clock_moved_on()
        assert await ran(settings, including) == expected
        assert await ran(settings, including) == (0, 0)


# -- one front end for two requests under way -----------------------------------------------------


class SlowZig(Zig):
    """zig, whose compiles wait for a file; each leaves a line in another one."""

    def __init__(self, folder: Path) -> None:
        self._script = f"echo >> {folder}/begun; while [ ! -e {folder}/go ]; do sleep 0.01; done; "
        self.begun, self.go = folder / "begun", folder / "go"

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        action = super().plan(request, target, toolchain)
        argv = " ".join((toolchain.path, *action.argv[1:]))
        return replace(action, argv=("sh", "-c", self._script + argv), executable="/bin/sh")

    @property
    def count(self) -> int:
        return len(self.begun.read_text().splitlines()) if self.begun.exists() else 0


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.01)


@pytest.mark.parametrize("emits", [("ptx", "cubin"), ("cubin", "ptx")], ids="-".join)
@pytest.mark.parametrize("jobs", [1, 2])
async def test_a_front_end_under_way_is_waited_for(settings: Settings, emits: tuple[str, str], jobs: int) -> None:
    async with Compiler(settings=settings, jobs=jobs) as compiler:
        results = await compiler.compile_many([request(emit=emit) for emit in emits])
    assert [sorted(result.outputs) for result in results] == [["cubin", "ptx"][emit == "ptx" :] for emit in emits]
    assert compiler.stats.runs == 2, "zig and ptxas"


async def test_who_waits_for_a_front_end_has_no_slot(settings: Settings, tmp_path: Path) -> None:
    zig = SlowZig(tmp_path)
    waiting = [replace(request(emit=emit), toolchain=zig) for emit in ("ptx", "cubin")]
    other = script(f"touch {zig.go}; echo 1 > out")  # it starts when the second has given its slot back
    async with Compiler(settings=settings, jobs=2) as compiler:
        results = await compiler.compile_many([*waiting, other])
    assert [result.failure for result in results if not result.ok] == []
    assert (zig.count, compiler.stats.runs) == (1, 3)


@pytest.mark.parametrize("how", ["fails", "cancelled"])
async def test_a_front_end_that_makes_nothing_is_run_by_the_next(settings: Settings, tmp_path: Path, how: str) -> None:
    zig = SlowZig(tmp_path)
    source = "no C" if how == "fails" else SOURCE
    ptx, cubin = (replace(request(source, emit=emit), toolchain=zig) for emit in ("ptx", "cubin"))
    found: list[bool] = []
    queued = anyio.Event()

    def see(event: object) -> None:
        if isinstance(event, Queued) and event.request is cubin:
            queued.set()

    async with Compiler(settings=settings, jobs=2, on_event=see) as compiler, anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def first() -> None:
            with scope:
                await compiler.compile_result(ptx)

        async def second() -> None:
            found.append((await compiler.compile_result(cubin)).ok)

        group.start_soon(first)
        await until(lambda: zig.count == 1)
        group.start_soon(second)
        with anyio.fail_after(30):
            await queued.wait()
        await anyio.wait_all_tasks_blocked()
        if how == "cancelled":
            scope.cancel()
            await until(lambda: zig.count == 2)
        zig.go.touch()
    assert found == [how == "cancelled"]
    assert zig.count == 2


# -- one second stage at a time -------------------------------------------------------------------

NO_RULES: Any = None
"""Without a store none of them is asked."""


class Bench:
    """Second stages on the same PTX, whose runs the test ends as it likes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.stages = Stages(Keeper(None, None, NO_RULES, Learned()))
        self.began = 0

    async def __aenter__(self) -> Bench:
        async with Compiler(settings=self._settings) as compiler:
            self.plan = await compiler.plan(request())
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def outcome(self, end: anyio.Event, made: Artifact | Failure) -> Ran:
        async def run() -> Ran:
            self.began += 1
            await end.wait()
            return Ran(made, Exit(code=0), NO_USAGE)

        flight = Flight(request(), self.plan.booking, 0, 0.0)
        return await self.stages.outcome(flight, self.plan, self.plan.stages[1].action, {"kernel.ptx": b"ptx"}, run)


ARTIFACT = Artifact(outputs=FrozenMap({"cubin": b"one"}))
OTHER = Artifact(outputs=FrozenMap({"cubin": b"other"}))
FAILED = Failure(kind=FailureKind.CRASH, message="crashed")


async def test_who_comes_second_waits_for_the_first(settings: Settings) -> None:
    found: list[Ran] = []
    end = anyio.Event()
    async with Bench(settings) as bench, anyio.create_task_group() as group:

        async def one(made: Artifact) -> None:
            found.append(await bench.outcome(end, made))

        for made in (ARTIFACT, OTHER):
            group.start_soon(one, made)
        await anyio.wait_all_tasks_blocked()
        assert bench.began == 1
        end.set()
    assert [(ran.outcome, ran.reused) for ran in found] == [(found[0].outcome, False), (found[0].outcome, True)]


@pytest.mark.parametrize("how", ["fails", "cancelled"])
async def test_when_the_first_makes_nothing_the_second_runs(settings: Settings, how: str) -> None:
    ends = [anyio.Event(), anyio.Event()]
    found: list[Ran] = []
    async with Bench(settings) as bench, anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def first() -> None:
            with scope:
                found.append(await bench.outcome(ends[0], FAILED))

        async def second() -> None:
            found.append(await bench.outcome(ends[1], ARTIFACT))

        group.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        if how == "fails":
            ends[0].set()
        else:
            scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert bench.began == 2
        ends[1].set()
    assert (found[-1].outcome, found[-1].reused) == (ARTIFACT, False)
    assert bench.stages._turns == {}
