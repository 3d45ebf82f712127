"""Twelve compilers of 400 MB under 2 GB: admitted by what they need, none is killed; all at once, some are.

In a real memory control group where this test may make one (as root, version 1 or 2), and everywhere under
`memory_limit`. What they need is not known at first: these are first runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, FailureKind, Kernel, Target
from teeny_async.action import Action, Input
from teeny_async.frozen import FrozenMap
from teeny_async.settings import Settings
from teeny_async.toolchains.base import Host, Toolchain
from tests.execution.kit import left_in, processes_below

from .kit import FAST, Faulty

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, to make a compiler of its own")
LIMIT = 2_000_000_000
SIZE = 380
"""Mebibytes; some 400 MB."""
COUNT = 12


class Hog(Faulty):
    """A compiler that needs as much memory as its kernel says, for as long."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.program = folder / "hog"
        self.log = folder / "log"
        if not self.program.exists():
            source = Path(__file__).with_name("hog.c")
            subprocess.run(["gcc", "-O1", "-static", "-o", self.program, source], check=True)

    def requests(self, sizes: list[int], milliseconds: int = 600) -> list[CompileRequest]:
        kernels = [
            Kernel(name=f"k{number}", source=f"//hog {size} {milliseconds}\n//{number}\n", language="c")
            for number, size in enumerate(sizes)
        ]
        return [CompileRequest(kernel, Target("sm_90"), toolchain=self) for kernel in kernels]

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name="hog", path=str(self.program), version="hog 1", fingerprint="hog")

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("hog", "kernel.c", "kernel.ptx", str(self.log)),
            executable=toolchain.path,
            inputs=(Input("kernel.c", (request.kernel.source,)),),
            outputs=FrozenMap({"ptx": "kernel.ptx"}),
            required=("ptx",),
            expect=FrozenMap({"cpu": "sm_90"}),
        )

    def most_at_once(self) -> int:
        """By what the compilers themselves logged; one that was killed never says that it ended."""
        running = most = 0
        for note in self.log.read_text():
            running += 1 if note == "+" else -1
            most = max(most, running)
        return most


async def compile_hogs(place: Path, sizes: list[int], **options: Any) -> dict[str, Any]:
    """Compile them all, twelve at a time if memory allows; what happened, as plain data."""
    tool = Hog(place / "state")
    (place / "tmp").mkdir(exist_ok=True)
    settings = Settings(environ={}, cache_dir=place / "cache", scratch_dir=str(place / "tmp"))
    async with Compiler(settings=settings, jobs=COUNT, retry=FAST, **options) as compiler:
        results = await compiler.compile_many(tool.requests(sizes))
        stats = compiler.stats
    return {
        "ok": [result.ok for result in results],
        "kinds": [[attempt.kind and attempt.kind.value for attempt in result.attempts] for result in results],
        "peaks": [result.usage.max_rss for result in results],
        "runs": stats.runs,
        "limit": stats.memory_limit,
        "expected": stats.memory_most,
        "most": tool.most_at_once(),
    }


@dataclass
class Group:
    """A memory control group of the test's own."""

    folder: Path

    @property
    def is_new(self) -> bool:
        """Of version 2."""
        return (self.folder / "memory.max").exists()

    def limit(self, size: int) -> None:
        (self.folder / ("memory.max" if self.is_new else "memory.limit_in_bytes")).write_text(str(size))

    def kills(self) -> int:
        text = (self.folder / ("memory.events" if self.is_new else "memory.oom_control")).read_text()
        return {name: int(value) for name, value in map(str.split, text.splitlines())}["oom_kill"]

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command inside, swap not counted in."""
        inside = ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *command]
        return subprocess.run(inside, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


@pytest.fixture
def group() -> Iterator[Group]:
    name = f"teeny-async-test-{os.getpid()}"
    for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        folder = root / name
        try:
            folder.mkdir()
        except OSError:
            continue
        made = Group(folder)
        try:
            made.limit(LIMIT)
            yield made
        except OSError:
            continue
        else:
            return
        finally:
            folder.rmdir()
    pytest.skip("no memory control group can be made here")


INSIDE = """
import json, sys, anyio, warnings
from pathlib import Path
from tests.faults.test_memory import COUNT, SIZE, compile_hogs
warnings.simplefilter("ignore")
print(json.dumps(anyio.run(compile_hogs, Path(sys.argv[1]), [SIZE] * COUNT, backend=sys.argv[2])))
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_a_control_group_none_is_killed_and_more_than_one_runs(tmp_path: Path, group: Group, backend: str) -> None:
    done = group.run([sys.executable, "-c", INSIDE, str(tmp_path), backend])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] == [True] * COUNT
    assert told["runs"] == COUNT, "each ran once"
    assert group.kills() == 0
    assert told["most"] > 1
    assert told["limit"] < LIMIT, "what the session itself needs is not for compilers"
    assert told["expected"] <= LIMIT


def test_the_same_under_plain_j12_is_killed(tmp_path: Path, group: Group) -> None:
    tool = Hog(tmp_path / "state")
    for number, request in enumerate(tool.requests([SIZE] * COUNT)):
        (tmp_path / f"{number}.c").write_text(request.kernel.source)
    one = f"{tool.program} {tmp_path}/$1.c {tmp_path}/$1.ptx {tool.log}"
    group.run(["sh", "-c", f"seq 0 {COUNT - 1} | xargs -P {COUNT} -I NUMBER sh -c '{one}' sh NUMBER"])
    assert tool.most_at_once() == COUNT
    assert group.kills() > 0
    assert len(list(tmp_path.glob("*.ptx"))) < COUNT


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:jobs=12 is more than:UserWarning")
async def test_under_memory_limit_they_never_hold_more_together(tmp_path: Path) -> None:
    held: list[int] = []

    async def look() -> None:
        while True:
            held.append(_held_by(tmp_path / "tmp"))
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        told = await compile_hogs(tmp_path, [SIZE] * COUNT, memory_limit="2GB")
        group.cancel_scope.cancel()
    assert told["ok"] == [True] * COUNT
    assert told["runs"] == COUNT
    assert told["most"] == 4, "as many as fit once their need is known"
    assert max(held) < LIMIT
    assert told["limit"] == LIMIT
    assert processes_below(tmp_path) == []
    assert left_in(tmp_path / "tmp") == []


def _held_by(scratch: Path) -> int:
    """Resident bytes of the compilers that work below a folder."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(f"{scratch}/") and (process / "comm").read_text() == "hog\n":
                total += int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:jobs=12 is more than:UserWarning")
async def test_a_second_session_knows_from_the_start(tmp_path: Path) -> None:
    """Other sources, so that none is a hit, of kernels that were seen: no probing any more."""
    first = await compile_hogs(tmp_path, [100] * COUNT, memory_limit="2GB")
    assert first["most"] <= COUNT
    (tmp_path / "state" / "log").write_text("")
    second = await compile_hogs(tmp_path, [120] * COUNT, memory_limit="2GB")
    assert second["runs"] == COUNT
    assert second["most"] == COUNT


INSIDE_TOO_LARGE = """
import json, sys, anyio, warnings
from pathlib import Path
from tests.faults.test_memory import compile_hogs
warnings.simplefilter("ignore")
sizes = [100] * 3 + [1200] * 3 + [100] * 3
print(json.dumps(anyio.run(compile_hogs, Path(sys.argv[1]), sizes)))
"""


def test_what_is_killed_for_memory_runs_again_alone_and_succeeds(tmp_path: Path, group: Group) -> None:
    """Three of nine need three times what the first ones taught: two of them do not fit together."""
    done = group.run([sys.executable, "-c", INSIDE_TOO_LARGE, str(tmp_path)])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] == [True] * 9
    failed = [kind for kinds in told["kinds"] for kind in kinds if kind]
    assert set(failed) == {FailureKind.OUT_OF_MEMORY.value}
    assert len(failed) == group.kills()
    assert told["runs"] == 9 + len(failed)
