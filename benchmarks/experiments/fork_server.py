"""What a fork server in front of a compiler would save: `python -m benchmarks.experiments.fork_server`.

The compiler is stopped before its main by `fork_server.c` (LD_PRELOAD), and forked for each compile; beside it, the
same commands are started anew, each time by `posix_spawn`. One at a time, in turns; the outputs are compared. It works
for compilers that are linked dynamically: rustc, and a clang of the system's packages; the zig of PyPI is static.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import planned
from benchmarks.kernels import KERNELS
from benchmarks.model import Context

_SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True)
class Command:
    """One compile, in a folder of its own."""

    folder: Path
    argv: Sequence[str]
    output: str


Compile = Callable[[Command], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="compiles a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        context = Context(folder=Path(place), quick=True, cpus=1)
        shim = Path(place, "fork_server.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(_SOURCE), "-o", str(shim), "-ldl"], check=True)
        for name, commands, env in _compilers(context, options.count):
            print(f"{name}, {len(commands)} compiles, {options.rounds} rounds: ", end="", flush=True)
            print(_compared(commands, env, shim, options.rounds))


def _compilers(context: Context, count: int) -> Iterator[tuple[str, list[Command], dict[str, str]]]:
    if shutil.which("rustc"):
        yield "rustc to PTX", *_rustc(context, count)
    if clang := shutil.which("clang"):
        yield "clang to assembly", _clang(context, clang, count), _env({})


def _rustc(context: Context, count: int) -> tuple[list[Command], dict[str, str]]:
    """The very commands that a sweep runs."""
    plan = json.loads(planned(context, "rustc", count).read_text())
    commands = [
        _command(context, f"rustc{number}", item["inputs"], item["argv"], item["outputs"][0])
        for number, item in enumerate(plan)
    ]
    return commands, _env(plan[0]["env"])


def _clang(context: Context, clang: str, count: int) -> list[Command]:
    text = (KERNELS / "saxpy.c").read_text()
    argv = [clang, "-O3", "-march=x86-64-v3", "-S", "kernel.c", "-o", "kernel.s"]
    return [
        _command(context, f"clang{number}", {"kernel.c": f"{text}// {number}\n"}, argv, "kernel.s")
        for number in range(count)
    ]


def _command(context: Context, name: str, inputs: dict[str, str], argv: Sequence[str], output: str) -> Command:
    folder = context.place(name)
    for path, text in inputs.items():
        (folder / path).write_text(text)
    return Command(folder, argv, output)


def _env(more: dict[str, str]) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LC_ALL": "C", **more}


def _compared(commands: list[Command], env: dict[str, str], shim: Path, rounds: int) -> str:
    """Cost of starting anew over that of forking, round by round; and whether the outputs are the same bytes."""
    walls, cpus, outputs = [], [], []
    for turn in range(rounds):
        doors = {"anew": _spawner(env), "forked": _server(commands[0].argv[0], env, shim)}
        costs = {}
        for name in sorted(doors, reverse=bool(turn % 2)):
            costs[name] = _cost(commands, doors[name])
            outputs.append([_taken(command) for command in commands])
        walls.append(costs["anew"][0] / costs["forked"][0])
        cpus.append(costs["anew"][1] / costs["forked"][1])
    same = all(taken == outputs[0] for taken in outputs)
    return f"CPU {_spread(cpus)}, wall {_spread(walls)} of a fork's; {'the same' if same else 'OTHER'} bytes"


def _cost(commands: list[Command], door: AbstractContextManager[Compile]) -> tuple[float, float]:
    """Wall and CPU seconds of all commands, a server's start and end included."""
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with door as compile:
        for command in commands:
            compile(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - wall, cpu


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def _taken(command: Command) -> bytes:
    """An output, removed so that no later compile can pass it off as its own."""
    path = command.folder / command.output
    data = path.read_bytes()
    path.unlink()
    return data


@contextmanager
def _spawner(env: dict[str, str]) -> Iterator[Compile]:
    def compile(command: Command) -> None:
        quiet = subprocess.DEVNULL
        subprocess.run(command.argv, cwd=command.folder, env=env, stdout=quiet, stderr=quiet, check=True)

    yield compile


@contextmanager
def _server(executable: str, env: dict[str, str], shim: Path) -> Iterator[Compile]:
    """A compiler that waits before its main, and forks for each command."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            steering = {"LD_PRELOAD": str(shim), "FORK_SERVER_FD": str(theirs.fileno())}
            server = subprocess.Popen([executable], env={**env, **steering}, pass_fds=[theirs.fileno()])

        def compile(command: Command) -> None:
            ours.send(b"".join(os.fsencode(word) + b"\0" for word in (str(command.folder), *command.argv)))
            status = int.from_bytes(ours.recv(4), "little")
            if status:
                raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command.argv)

        yield compile
    server.wait()


if __name__ == "__main__":
    main()
