"""The very commands that teeny_async runs, for the tools that only run commands: ninja, make, xargs.

They are made from our own planned Actions: same program, same arguments, same environment, same sources. The
sources lie in their folders before the clock starts, which ours have to be written while it runs.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import clean_env, in_child, measured
from benchmarks.model import Contestant, Context, Metric, Sample
from benchmarks.peers import program

TREE = Metric("tree_cpu", "tree CPU a compile", "ms")
WALL = Metric("wall", "wall", "s")
OWN = Metric("own_cpu", "own CPU a compile", "ms")
START_CPU = Metric("start_cpu", "start: CPU", "ms")
START_WALL = Metric("start_wall", "start: wall", "ms")


def planned(context: Context, kind: str, count: int) -> Path:
    """A file of the commands of `count` requests of a kind (see benchmarks.kernels)."""
    path = context.place("plan") / "commands.json"
    in_child(context, "rows.cold:plan", kind=kind, count=count, path=str(path))
    return path


def ours(context: Context, kind: str, count: int, absent: str | None) -> Contestant:
    """`compile_many` of the same requests, into an empty cache."""
    return Contestant(
        name="teeny_async",
        command=f"Compiler(store=EMPTY_FOLDER, jobs={context.cpus}).compile_many(requests)",
        absent=absent,
        run=partial(in_child, context, "rows.cold:run_ours", kind=kind, count=count, jobs=context.cpus),
    )


def runners(
    context: Context, plan: Path | None, jobs: int, names: tuple[str, ...], absent: str | None
) -> list[Contestant]:
    """The tools among `names`, each running the commands of a plan."""
    made = []
    for name in names:
        peer = program(name)
        run = partial(_run, context, plan, name, peer.path, jobs)
        found = peer.contestant(run, f"{_LINES[name].format(jobs=jobs)}, on the same commands")
        made.append(
            Contestant(
                name=found.name, command=found.command, version=found.version, run=run, absent=absent or peer.absent
            )
        )
    return made


_LINES = {"ninja": "ninja -j{jobs}", "make": "make -j{jobs}", "xargs": "xargs -d '\\n' -P{jobs} -n1 sh -c"}


def _run(context: Context, plan: Path | None, name: str, path: str, jobs: int) -> Sample:
    assert plan is not None
    commands = json.loads(plan.read_text())
    folder = context.place(name)
    try:
        lines = list(_lay_out(commands, folder))
        env = {"PATH": clean_env()["PATH"], "LC_ALL": "C"}
        stdin = None
        if name == "ninja":
            _write_ninja(lines, folder)
            argv = [path, f"-j{jobs}"]
        elif name == "make":
            _write_make(lines, folder)
            argv = [path, "-s", f"-j{jobs}"]
        else:
            stdin = folder / "lines"
            stdin.write_text("".join(f"{line}\n" for line in lines))
            argv = [path, "-d", "\\n", f"-P{jobs}", "-n1", "sh", "-c"]
        whole = measured(argv, folder, env=env, stdin=stdin)
        _check(commands, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"tree_cpu": whole["whole_cpu"] / len(commands), "wall": whole["wall"]}


def _lay_out(commands: list[dict[str, object]], folder: Path) -> Iterator[str]:
    """Write each command's inputs into a folder of its own; the command lines."""
    for number, command in enumerate(commands):
        place = folder / str(number)
        (place / "tmp").mkdir(parents=True)
        inputs, env, argv = command["inputs"], command["env"], command["argv"]
        assert isinstance(inputs, dict)
        assert isinstance(env, dict)
        assert isinstance(argv, list)
        for name, text in inputs.items():
            (place / name).write_text(text)
        tmp = str(place / "tmp")
        variables = {"HOME": tmp, "TMPDIR": tmp, **env}
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        yield f"cd {number} && export {exports} && exec {shlex.join(argv)}"


def _write_ninja(lines: list[str], folder: Path) -> None:
    edges = [f"build o{number}: run\n command = {line.replace('$', '$$')}\n" for number, line in enumerate(lines)]
    (folder / "build.ninja").write_text("rule run\n command = $command\n" + "".join(edges))


def _write_make(lines: list[str], folder: Path) -> None:
    targets = " ".join(f"o{number}" for number in range(len(lines)))
    rules = [f"o{number}:\n\t@{line.replace('$', '$$')}\n" for number, line in enumerate(lines)]
    (folder / "Makefile").write_text(f"all: {targets}\n.PHONY: all {targets}\n" + "".join(rules))


def _check(commands: list[dict[str, object]], folder: Path) -> None:
    for number, command in enumerate(commands):
        outputs = command["outputs"]
        assert isinstance(outputs, list)
        for output in outputs:
            if not (folder / str(number) / output).stat().st_size:
                raise OSError(f"{output} of command {number} is empty")
