"""What a failure came of, and the folder in which it can be seen again without teeny_async.

A failure holds no source: `RequestOrigin` holds the request, which its result holds anyway, and plans it
again when somebody asks.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from teeny_async.model import CompileRequest
from teeny_async.pipeline.planning import Booking, Plan, Stage
from teeny_async.plain import failure_to_dict, request_to_dict
from teeny_async.result import Failure

SCHEMA = 1
_TEMPORARY = "tmp"
"""The folder of a run that is its HOME and TMPDIR."""


class RequestOrigin:
    """The origin of a failure: its request. plan: plans it as it was planned."""

    __slots__ = ("_booking", "_plan", "_request")

    def __init__(self, request: CompileRequest, booking: Booking, plan: Callable[[CompileRequest], Plan]) -> None:
        self._request = request
        self._booking = booking
        self._plan = plan

    @property
    def target(self) -> str:
        return str(self._booking.target)

    def tool(self, name: str) -> str:
        found = [tool for tool in self._booking.toolchains if tool.name == name]
        return found[0].version if found else name

    def bundle(self, failure: Failure, folder: Path) -> None:
        stages = stages_until(failure, self._plan(self._request).stages)
        for number, stage in enumerate(stages):
            for item in stage.action.inputs:
                path = folder / "files" / str(number) / item.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(item.data())
        folder.mkdir(parents=True, exist_ok=True)
        facts = _facts(failure, self._request, self._booking, stages)
        (folder / "failure.json").write_text(json.dumps(facts, indent=2) + "\n")
        (folder / "log.txt").write_text(failure.log, encoding="utf-8", errors="replace")
        script = folder / "reproduce.sh"
        script.write_text(script_text(failure, self._request, self.target, stages), encoding="utf-8")
        script.chmod(0o755)


def stages_until(failure: Failure, stages: Sequence[Stage]) -> Sequence[Stage]:
    """The stages up to the one that failed, which the failure names by its tool."""
    for number, stage in enumerate(stages):
        if failure.tool in (stage.driver.name, stage.toolchain.name):
            return stages[: number + 1]
    return stages


def _facts(failure: Failure, request: CompileRequest, booking: Booking, stages: Sequence[Stage]) -> dict[str, Any]:
    tools = [_tool_facts(stage, argv) for stage, argv in zip(stages, _commands(failure, stages), strict=True)]
    asked = {
        **request_to_dict(request),
        "target": str(booking.target),
        "language": request.kernel.language,
        "emit": request.emit,
        "opt_level": request.opt_level,
        "flags": list(request.flags),
        "timeout": request.timeout,
    }
    return {
        "schema": SCHEMA,
        "key": booking.key.digest,
        "failure": failure_to_dict(failure),
        "request": asked,
        "tools": tools,
    }


def _tool_facts(stage: Stage, argv: Sequence[str]) -> dict[str, Any]:
    tool, action = stage.toolchain, stage.action
    identity = {"name": tool.name, "version": tool.version, "fingerprint": tool.fingerprint, "path": tool.path}
    return {
        **identity,
        "executable": action.executable,
        "argv": list(argv),
        "environment": {**action.neutral, **action.env},
        "outputs": dict(action.outputs),
    }


def _commands(failure: Failure, stages: Sequence[Stage]) -> list[Sequence[str]]:
    """The argv of each stage; the last is what was run, which may depend on the outputs before it."""
    commands: list[Sequence[str]] = [stage.action.argv for stage in stages]
    if failure.command:
        commands[-1] = failure.command
    return commands


def script_text(failure: Failure, request: CompileRequest, target: str, stages: Sequence[Stage]) -> str:
    """A plain `sh` script that runs the stages, each in a folder of its own, and ends as the last one does."""
    title = " ".join(f"{request.kernel.name} for {target}: {failure.kind.value}: {failure.message}".split())
    lines = [
        "#!/bin/sh",
        f"# {title}",
        "# Usage: reproduce.sh [FOLDER]    works in FOLDER, or in a temporary one that is removed in the end.",
        'here=$(cd "$(dirname "$0")" && pwd) || exit 125',
        'if [ $# -gt 0 ]; then mkdir -p "$1" && work=$(cd "$1" && pwd) || exit 125',
        "else work=$(mktemp -d) && trap 'rm -rf \"$work\"' EXIT || exit 125; fi",
    ]
    before: Mapping[str, str] = {}
    for number, (stage, argv) in enumerate(zip(stages, _commands(failure, stages), strict=True)):
        lines += ["", *_stage_lines(number, stage, argv, before)]
        lines.append("status=$?" if number == len(stages) - 1 else "status=$?; [ $status -eq 0 ] || exit $status")
        before = stage.action.outputs
    lines += ['cd "$here"', "exit $status"]
    return "\n".join(lines) + "\n"


def _stage_lines(number: int, stage: Stage, argv: Sequence[str], before: Mapping[str, str]) -> list[str]:
    action, place = stage.action, f"$work/{number}"
    lines = [f"# {stage.toolchain.version}", f'mkdir -p "{place}/{_TEMPORARY}" && cd "{place}" || exit 125']
    if action.inputs:
        lines.append(f'cp -R "$here/files/{number}/." . || exit 125')
    for name, label in action.chained.items():
        lines.append(f'cp "$work/{number - 1}/"{shlex.quote(before[label])} {shlex.quote(name)} || exit 125')
    variables = [f"{name}={value}" for name, value in {**action.neutral, **action.env}.items()]
    words = [shlex.quote(word) for word in (*variables, action.executable, *argv[1:])]
    lines.append(f'env -i HOME="{place}/{_TEMPORARY}" TMPDIR="{place}/{_TEMPORARY}" {" ".join(words)} < /dev/null')
    return lines
