"""Compilers that misbehave, as a toolchain: what a kernel's first line says is what its compiler does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from teeny_async import CompileRequest, Kernel, RetryPolicy
from teeny_async.action import Action, Input
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.verdict import judge

FAST = RetryPolicy(initial=0.01, jitter=0)
PTX = "// made by a test\n.version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"

SCRIPT = """#!/bin/sh
# $1: the kernel, $2: the output; STATE: a folder that outlives the run
STATE={state}
echo "$$" >> "$STATE/runs"
fault=$(head -n 1 "$1"); fault=${{fault#//}}
good() {{ cp {state}/good.ptx "$2"; }}
once() {{ if mkdir "$STATE/once-$1" 2>/dev/null; then return 0; else return 1; fi; }}
case "$fault" in
  good*) good "$@" ;;
  refuse*) echo "kernel.c:1:2: error: no such thing" >&2; exit 1 ;;
  hang*) sleep 60 & sleep 60 ;;
  deaf*) trap '' TERM INT HUP; sleep 60 & sleep 60; sleep 60 ;;
  holder*) sleep 60 & good "$@"; exit 0 ;;
  bomb*) i=0; while [ $i -lt 50 ]; do sleep 60 & i=$((i+1)); done; wait ;;
  orphans*) i=0; while [ $i -lt 50 ]; do sleep 60 & i=$((i+1)); done; good "$@"; exit 0 ;;
  flood*) echo "kernel.c:1:2: error: flooded" >&2; head -c 200000000 /dev/zero | tr '\\0' 'x' >&2; exit 1 ;;
  segv-once*) once "$fault" && kill -SEGV $$; good "$@" ;;
  segv*) kill -SEGV $$ ;;
  kill-once*) once "$fault" && kill -KILL $$; good "$@" ;;
  empty*) : > "$2" ;;
  truncated*) head -c 30 {state}/good.ptx > "$2" ;;
  wrong-target*) sed s/sm_90/sm_75/ {state}/good.ptx > "$2" ;;
  fill*) head -c 10000000 /dev/zero > "$2" 2>/dev/null; : > "$2"; cat /dev/zero > filler 2>/dev/null; exit 0 ;;
  vanish*) rm -- "$0"; good "$@" ;;
  litter*) touch a b c; mkdir -p "$TMPDIR/d/e"; touch "$TMPDIR/d/e/f"; good "$@" ;;
  *) echo "unknown fault: $fault" >&2; exit 1 ;;
esac
"""


class Faulty(Driver):
    """A shell script that does as it is told. state: a folder of the test's own."""

    name = "faulty"
    languages = frozenset({"c"})

    def __init__(self, state: Path) -> None:
        state.mkdir(exist_ok=True)
        (state / "good.ptx").write_text(PTX)
        self.state = state
        self.script = state / "compiler"
        self.script.write_text(SCRIPT.format(state=state))
        self.script.chmod(0o755)

    def runs(self) -> int:
        """How often the compiler itself says that it ran."""
        log = self.state / "runs"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def request(self, fault: str, **options: Any) -> CompileRequest:
        kernel = Kernel(name=fault, source=f"//{fault}\n", language="c")
        return CompileRequest(kernel, Target("sm_90"), toolchain=self, **options)

    async def find(self, host: Host) -> Toolchain:
        return Toolchain(name=self.name, path=str(self.script), version="1", fingerprint=str(self.script))

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return Action(
            argv=("compiler", "kernel.c", "kernel.ptx"),
            executable=toolchain.path,
            neutral=FrozenMap({"PATH": "/usr/bin:/bin", "LC_ALL": "C"}),
            inputs=(Input("kernel.c", (request.kernel.source,)),),
            outputs=FrozenMap({"ptx": "kernel.ptx"}),
            required=("ptx",),
            expect=expectations(request.kernel, target),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check)
