"""Thousands of compiles, a tenth of them faulty: each gets one verdict, the right one, and nothing grows."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, CompileResult, FailureKind, Kernel, Target
from teeny_async.action import Action, Input
from teeny_async.frozen import FrozenMap
from teeny_async.settings import Settings
from teeny_async.toolchains.base import Host, Toolchain
from tests.execution.kit import left_in, processes_below, supervisors_of

from .kit import FAST, Faulty

COUNT = 5000
WINDOW = 64
FAULTS: dict[str, tuple[FailureKind | None, int]] = {
    "refuse": (FailureKind.DIAGNOSTIC, 1),
    "segv-always": (FailureKind.CRASH, 2),
    "segv-once": (None, 2),
    "stale-once": (None, 2),
    "empty": (FailureKind.BAD_OUTPUT, 2),
    "loud": (None, 1),
    "orphan": (None, 1),
    "hang": (FailureKind.TIMEOUT, 1),
}
"""Fault -> (the verdict, how many attempts it takes)."""


class Soaked(Faulty):
    """The compiled compiler of the soak."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.program = folder / "soak"
        source = Path(__file__).with_name("soak.c")
        subprocess.run(["gcc", "-O1", "-static", "-w", "-o", self.program, source], check=True)

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name=self.name, path=str(self.program), version="1", fingerprint="soak")

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("soak", "kernel.c", "kernel.ptx", str(self.state)),
            executable=toolchain.path,
            inputs=(Input("kernel.c", (request.kernel.source,)),),
            outputs=FrozenMap({"ptx": "kernel.ptx"}),
            required=("ptx",),
            expect=FrozenMap({"cpu": "sm_90"}),
        )


def requests(tool: Soaked) -> Iterator[CompileRequest]:
    """The same sequence each time: one in ten is faulty, hangs the rarest."""
    chance = random.Random(2026)
    names = list(FAULTS)
    for number in range(COUNT):
        fault = chance.choices(names, [4, 2, 3, 3, 2, 3, 3, 0.4])[0] if chance.random() < 0.1 else "good"
        kernel = Kernel(name=fault, source=f"//{fault}-{number}\n", language="c")
        yield CompileRequest(kernel, Target("sm_90"), toolchain=tool, timeout=0.3 if fault == "hang" else 30)


class Footprint:
    """Descriptors, threads and memory of this process, as they were after so many results."""

    def __init__(self) -> None:
        opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        self.claims = sum(path.endswith(".spare") for path in opened)
        self.descriptors = len(opened) - self.claims
        self.threads = threading.active_count()
        self.rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check(result: CompileResult) -> None:
    kind, attempts = FAULTS.get(result.request.kernel.name, (None, 1))
    assert (result.failure.kind if result.failure else None) is kind, result
    assert len(result.attempts) == attempts, result
    if result.ok:
        assert result.request.kernel.source.strip().encode() in result.artifact["ptx"]


@pytest.mark.filterwarnings("ignore:jobs=8 is more than:UserWarning")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_soak(tmp_path: Path, backend: str) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    tool = Soaked(tmp_path / "state")
    settings = Settings(environ={}, cache_dir=tmp_path / "cache", scratch_dir=str(scratch))
    seen: Counter[str] = Counter()
    footprints = []

    async def main() -> None:
        async with Compiler(settings=settings, jobs=8, retry=FAST) as compiler:
            async with compiler.as_completed(requests(tool), window=WINDOW) as results:
                async for result in results:
                    check(result)
                    seen[result.request.kernel.source] += 1
                    if len(seen) in (1000, COUNT):
                        footprints.append(Footprint())
            assert compiler.stats.requests == COUNT

    anyio.run(main, backend=backend)
    assert len(seen) == COUNT
    assert set(seen.values()) == {1}
    early, late = footprints
    assert late.descriptors <= early.descriptors + 4
    assert late.claims <= WINDOW  # files that are kept for the next ones; so many flights there are at a time
    assert late.threads <= early.threads + 1
    assert late.rss - early.rss < 30 << 20
    assert supervisors_of(scratch) == []
    assert processes_below(scratch) == []
    assert left_in(scratch) == []
