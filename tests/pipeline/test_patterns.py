"""One plan for all requests that differ in their kernels' texts alone: nobody may notice."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from teeny_async.action import Action
from teeny_async.keys import PartDigests, request_key
from teeny_async.model import CompileRequest, Kernel
from teeny_async.pipeline.planning import Planner
from teeny_async.target import Target
from teeny_async.testing import FakeHost
from teeny_async.toolchains.base import Driver, Host, Toolchain
from teeny_async.toolchains.rustc import Rustc
from teeny_async.toolchains.zig import Zig

pytestmark = pytest.mark.anyio

TOOL = Toolchain(name="paper", path="/paper", version="1", fingerprint="0" * 64)


class PaperZig(Zig):
    """Plans without a zig; plans is how often it did."""

    plans = 0

    async def find(self, host: Host) -> Toolchain:
        return TOOL

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return None

    def _emit(self, request: CompileRequest, target: Target) -> str:
        self.plans += 1
        return super()._emit(request, target)


class PaperRustc(Rustc):
    """The same of rustc."""

    async def find(self, host: Host) -> Toolchain:
        return TOOL

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return None


class ByName(PaperZig):
    """A plan of its own, which looks at what its parent's does not."""

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        action = super().plan(request, target, toolchain)
        return replace(action, argv=(*action.argv, f"-D{request.kernel.name}"))


def requests(driver: Driver, language: str, sources: list[str]) -> list[CompileRequest]:
    """All mixtures of what a plan can hang on, each twice: what is kept of one must not show in another."""
    mixed = itertools.product(
        sources,
        (None, "// prelude\n"),
        ("sm_90", "sm_80+ptx80"),
        (3, 0),
        ((), ("-g",)),
        (None, "entry"),
    )
    made = [
        CompileRequest(
            Kernel(name="k", source=source, language=language, prelude=prelude, entry_point=entry, include_dirs=["/k"]),
            Target.parse(target),
            toolchain=driver,
            opt_level=level,
            flags=flags,
            params={"N": 4} if "`N`" in source else {},
        )
        for source, prelude, target, level, flags, entry in mixed
    ]
    return made + made[::-1]


@pytest.mark.parametrize(
    ("driver", "language", "sources"),
    [
        (PaperZig(), "c", ["int a;", "int b;", "int a[`N`];", '#include "x.h"\n', "int t = __TIME__;"]),
        (PaperRustc(), "rust", ["fn a() {}", "fn b() {}", "mod m;", 'const A: &str = env!("A");']),
        (ByName(), "c", ["int a;", "int b;"]),
    ],
    ids=["zig", "rustc", "a plan of its own"],
)
async def test_a_shared_plan_and_its_key_are_what_the_driver_plans(
    driver: Driver, language: str, sources: list[str]
) -> None:
    planner = Planner(FakeHost(), lambda _: None)
    for request in requests(driver, language, sources):
        await planner.prepare(request)
        action = driver.plan(request, request.target or Target(), TOOL)
        booking = planner.book(request)
        plan = await planner.take(request)
        assert [stage.action for stage in plan.stages] == [action]
        assert booking == plan.booking
        assert booking.key == request_key([(action, TOOL)], PartDigests(), list)
        assert (booking.uncacheable, booking.reads_files) == (action.uncacheable, action.depfile is not None)


async def test_a_thousand_texts_are_planned_once() -> None:
    driver = PaperZig()
    planner = Planner(FakeHost(), lambda _: None)
    keys = set()
    for number in range(1000):
        kernel = Kernel(name=f"k{number}", source=f"int a{number};", language="c")
        keys.add((await planner.prepare(CompileRequest(kernel, Target("sm_90"), toolchain=driver))).booking.key)
    assert len(keys) == 1000
    assert driver.plans == 1


async def test_a_plan_of_its_own_is_made_for_each() -> None:
    driver = ByName()
    planner = Planner(FakeHost(), lambda _: None)
    kernels = [Kernel(name=name, source="int a;", language="c") for name in ("A", "B")]
    plans = [await planner.prepare(CompileRequest(kernel, Target("sm_90"), toolchain=driver)) for kernel in kernels]
    assert [plan.stages[0].action.argv[-1] for plan in plans] == ["-DA", "-DB"]
