"""A failure tells what it takes to see it again, and the folder it writes does it: run, and compared."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeny_async import CompileError, Compiler, CompileRequest, Failure, FailureKind, Kernel
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.bundling import script_text
from teeny_async.pipeline.planning import Plan, Planner, Stage
from teeny_async.result import Exit
from teeny_async.settings import Settings
from teeny_async.target import Target
from teeny_async.testing import FakeRunner
from teeny_async.toolchains.base import Host, Toolchain

from .kit import FAST, SHELL, Shell, script, session

pytestmark = pytest.mark.anyio


def run(bundle: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the script from elsewhere, with an environment that must not matter."""
    env = {**os.environ, "LEVEL": "from outside", "LANG": "de_DE.UTF-8"}
    command = ["sh", str(bundle / "reproduce.sh"), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)


async def failure_of(request: CompileRequest, settings: Settings, **options: Any) -> Failure:
    async with Compiler(settings=settings, retry=FAST, **options) as compiler:
        failure = (await compiler.compile_result(request)).failure
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("echo 'kernel.sh:1:1: error: no' >&2; exit 3", 3),
        ("kill -SEGV $$", 139),
        ("exit 0", 0),
        ("test $LEVEL = 3 && test -d $HOME && test $HOME = $TMPDIR && echo 'error: it is' >&2 && exit 42", 42),
        ("cat && echo 'error: stdin is empty' >&2 && exit 5", 5),
        ('echo "error: quotes \' and \\"" >&2; exit 6', 6),
    ],
)
async def test_the_script_ends_as_the_compile_did(text: str, status: int, settings: Settings, tmp_path: Path) -> None:
    failure = await failure_of(script(text), settings)
    bundle = failure.bundle(tmp_path / "a folder" / "bundle")
    done = run(bundle)
    assert done.returncode == status, done.stderr
    assert failure.exit == (status if status < 128 else 128 - status)
    assert sorted(path.name for path in bundle.iterdir()) == ["failure.json", "files", "log.txt", "reproduce.sh"]
    assert (bundle / "files" / "0" / "kernel.sh").read_text() == text
    assert (bundle / "log.txt").read_text() == failure.log


async def test_the_facts_name_the_tool_the_environment_and_the_request(settings: Settings, tmp_path: Path) -> None:
    failure = await failure_of(script("echo 'error: no' >&2; exit 1", "shout"), settings)
    facts = json.loads((failure.bundle(tmp_path / "b") / "failure.json").read_text())
    [tool] = facts["tools"]
    assert tool["argv"] == ["sh", "-eu", "kernel.sh"]
    assert tool["environment"] == {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LEVEL": "3"}
    assert (tool["name"], tool["version"], tool["fingerprint"], tool["path"]) == (
        *("shell", "shell 1", "shell"),
        "/bin/sh",
    )
    assert facts["request"]["kernel"] == "shout"
    assert facts["failure"]["kind"] == "diagnostic"
    assert len(facts["key"]) == 64


async def test_a_failure_from_the_cache_can_be_seen_again_too(settings: Settings, tmp_path: Path) -> None:
    for expected in ("compiled", "cached"):
        async with Compiler(settings=settings) as compiler:
            result = await compiler.compile_result(script("echo 'error: no' >&2; exit 9"))
        assert result.source == expected
        assert result.failure is not None
        assert run(result.failure.bundle(tmp_path / expected)).returncode == 9


async def test_a_folder_of_ones_own_keeps_what_the_tool_left(settings: Settings, tmp_path: Path) -> None:
    failure = await failure_of(script("echo left > trace; echo 'error: no' >&2; exit 1"), settings)
    work = tmp_path / "work here"
    assert run(failure.bundle(tmp_path / "b"), str(work)).returncode == 1
    assert (work / "0" / "trace").read_text() == "left\n"


class Second(Shell):
    """A second stage: reads what the first one wrote, and refuses it in a way that depends on it."""

    name = "second"

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("sh", "-c", "echo error: in $1 >&2; exit $(cat it)", "sh", "<length>"),
            executable="/bin/sh",
            neutral=FrozenMap({"PATH": "/usr/bin:/bin"}),
            chained=FrozenMap({"it": "object"}),
            outputs=FrozenMap({"final": "final"}),
            required=("final",),
        )

    def chain(self, action: Action, outputs: Mapping[str, bytes]) -> Action:
        return replace(action, argv=(*action.argv[:-1], str(len(outputs["object"]))))

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name=self.name, path="/bin/sh", version="second 2", fingerprint="second")


class TwoStages(Planner):
    """Puts the second stage behind every first one."""

    def plan(self, request: CompileRequest) -> Plan:
        plan = super().plan(request)
        driver = Second()
        tool = Toolchain(name="second", path="/bin/sh", version="second 2", fingerprint="second")
        stages = [*plan.stages, Stage(driver, tool, driver.plan(request, plan.target, tool))]
        booking = plan.booking._replace(toolchains=(*plan.booking.toolchains, tool))
        return replace(plan, stages=stages, booking=booking)


async def test_a_failure_of_a_second_stage_runs_the_first_one_too(settings: Settings, tmp_path: Path) -> None:
    async with Compiler(settings=settings) as compiler:
        planner = compiler._planner
        planner.__class__ = TwoStages
        result = await compiler.compile_result(script("printf 17 > out"))
        early = await compiler.compile_result(script("echo error: first >&2; exit 4"))
    assert result.failure is not None
    assert (result.failure.tool, result.failure.exit) == ("second", 17)
    done = run(result.failure.bundle(tmp_path / "b"))
    assert (done.returncode, done.stderr) == (17, "error: in 2\n"), "with the argv that was run"
    assert "tool: second 2" in str(result.failure)
    assert early.failure is not None
    facts = json.loads((early.failure.bundle(tmp_path / "early") / "failure.json").read_text())
    assert [tool["name"] for tool in facts["tools"]] == ["shell"], "what did not run is not in it"
    assert run(tmp_path / "early").returncode == 4


async def test_its_text_has_the_first_error_the_tool_the_target_and_the_command(settings: Settings) -> None:
    text = "echo 'kernel.sh:7:3: error: first' >&2; echo 'kernel.sh:9:1: error: second' >&2; exit 1"
    failure = await failure_of(script(text), settings)
    assert str(failure).splitlines() == [
        "diagnostic: kernel.sh:7:3: error: first",
        f"  tool: shell 1, for {Target()}",
        "  command: sh -eu kernel.sh",
    ]
    with pytest.raises(CompileError) as error:
        raise failure.error(script(text), None)
    lines = str(error.value).splitlines()
    assert lines[0] == f"k for {Target()}: diagnostic: kernel.sh:7:3: error: first"
    assert any("second" in line for line in lines)
    assert lines[-1].strip() == failure.hint


def test_a_failure_that_no_compile_led_to_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to run again"):
        Failure(kind=FailureKind.TOOL_MISSING, message="not there").bundle(tmp_path)
    assert str(Failure(kind=FailureKind.TOOL_MISSING, message="not there")) == "tool_missing: not there"


async def test_where_it_came_from_is_no_part_of_it() -> None:
    refused = Exit(code=1, stderr=b"error: no")
    async with session(FakeRunner(lambda _: refused)) as compiler:
        one = (await compiler.compile_result(script("# one"))).failure
        two = (await compiler.compile_result(script("# two"))).failure
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one


async def test_thousands_of_failures_hold_no_text() -> None:
    """What a failure holds of its own does not grow with its kernel."""
    import sys

    refused = Exit(code=1, stderr=b"error: no")
    async with session(FakeRunner(lambda _: refused)) as compiler:
        small, large = [(await compiler.compile_result(script(f"# {'x' * size}"))).failure for size in (10, 1_000_000)]

    def own(failure: Failure | None) -> int:
        assert failure is not None
        assert failure.origin is not None
        parts = [getattr(failure, name) for name in failure.__dataclass_fields__]
        slots = [getattr(failure.origin, name) for name in failure.origin.__slots__]  # type: ignore[attr-defined]
        assert not any(isinstance(slot, Plan | Action) for slot in slots)
        return sum(map(sys.getsizeof, [*parts, *slots]))

    assert own(small) == own(large)


async def test_the_script_is_plain_sh(settings: Settings, tmp_path: Path) -> None:
    shells = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
    failure = await failure_of(script("echo 'error: no' >&2; exit 11"), settings)
    bundle = failure.bundle(tmp_path / "b")
    for shell in shells:
        command = [shell, *(["sh"] if shell == "busybox" else []), str(bundle / "reproduce.sh")]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 11


def test_a_text_that_would_break_out_of_the_script_is_quoted() -> None:
    tool = Toolchain(name="t", path="/bin/echo", version="v 1", fingerprint="f")
    action = Action(argv=("t", "$(touch pwned)", "it's; `id`", ""), executable="/bin/echo", env={"A": "x; exit 99"})
    failure = Failure(kind=FailureKind.DIAGNOSTIC, message="two\nlines; exit 98")
    kernel = Kernel(name="k\nexit 97", source="", language="c")
    text = script_text(failure, CompileRequest(kernel), "sm_90", [Stage(SHELL, tool, action)])
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "$(touch pwned) it's; `id` \n")
