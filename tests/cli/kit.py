"""Running the command line: in this process where that is enough, in a process of its own where it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from click.testing import CliRunner, Result

from teeny_async.cli.app import cli
from tests.support import KERNELS, leftovers, private_environ

GOOD = "__attribute__((nvptx_kernel)) void good(float *x)\n{\n    *x += SCALE;\n}\n"
BAD = "float bad(float x)\n{\n    return x + undeclared;\n}\n"

COMPILER = """#!/bin/sh
case "$1" in
    -vV) echo "rustc 0.0.0 (stand-in)"; exit 0 ;;
    --print) echo /nonexistent; exit 0 ;;
esac
case "$*" in *target-cpu=sm_75*)
    printf '.version 8.0\\n.target sm_75\\n.address_size 64\\n' > kernel.o
    exit 0 ;;
esac
%s
sleep 100 &
wait
"""
"""A teenyc that is done at once for sm_75, and has a child and sleeps for any other target."""


class Place:
    """A folder with a good and a bad kernel, and an environment with a cache and a scratch folder below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.scratch = folder / "scratch"
        self.out = folder / "out"
        self.scratch.mkdir()
        self.environ = private_environ(self.cache, self.scratch)
        self.environ.pop("NO_COLOR", None)
        self.environ.pop("FORCE_COLOR", None)
        self.environ["PYTHONPATH"] = str(KERNELS.parent.parent)
        self.good = self.write("good.c", "#ifndef SCALE\n#define SCALE 1\n#endif\n" + GOOD)
        self.bad = self.write("bad.c", BAD)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def compiler(self, at_start: str = "") -> str:
        """Install the stand-in for teenyc, and write a kernel for it; the kernel's path."""
        path = Path(self.write("teenyc", COMPILER % at_start))
        path.chmod(0o755)
        self.environ["TEENYC_PATH"] = str(path)
        return self.write("slow.rs", "// nothing is read of it\n")

    def run(self, *args: str, code: int | None = 0, input: str | None = None) -> Result:
        """Run a command in this process and check its exit code."""
        only = {name: None for name in os.environ if name not in self.environ}
        done = CliRunner(env={**only, **self.environ}).invoke(cli, args, input=input)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert code is None or done.exit_code == code, done.output
        return done

    def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        """The one JSON object that a command prints."""
        return cast("dict[str, Any]", json.loads(self.run(*args, "--json", code=code).stdout))

    def spawn(self, *args: str, program: tuple[str, ...] = ("-m", "teeny_async")) -> subprocess.Popen[str]:
        """Start a command as a process of its own, with pipes."""
        pipe = subprocess.PIPE
        command = [sys.executable, *program, *args]
        return subprocess.Popen(command, env=self.environ, stdout=pipe, stderr=pipe, text=True, cwd=self.folder)

    @contextmanager
    def terminal(self, *args: str) -> Iterator[Terminal]:
        """Start a command on a terminal of its own, as its controlling one."""
        with Terminal(self, args) as terminal:
            yield terminal

    def nothing_left(self) -> bool:
        """Whether no process, no file and no temporary output of ours is there."""
        # Python 3.11 raises when a folder goes away while it is searched.
        wait_until(lambda: unless_vanishing(lambda: not leftovers(self.scratch)), "the scratch folder to be empty")
        return not list(self.folder.rglob("*.tmp"))

    def at_work(self) -> bool:
        """Whether the stand-in has been given a kernel and is still there."""
        return unless_vanishing(lambda: any(self.scratch.glob("*/*/*/kernel.rs")))


class Terminal:
    """A command on a pseudo-terminal. `text`: what it has shown so far."""

    def __init__(self, place: Place, args: tuple[str, ...]) -> None:
        self._master, slave = os.openpty()
        os.set_blocking(self._master, False)
        self._bytes = b""
        environ = {**place.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        command = [sys.executable, "-m", "teeny_async", *args]
        # A session leader that opens a terminal is controlled by it: then ^C means what it does to a person.
        script = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(slave), *command]
        self.process = subprocess.Popen(script, env=environ, start_new_session=True, cwd=place.folder)
        self._slave = slave

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._slave)
        os.close(self._master)

    @property
    def text(self) -> str:
        try:
            while data := os.read(self._master, 1 << 16):
                self._bytes += data
        except OSError:  # nothing more for now, or ever
            pass
        return self._bytes.decode("utf-8", "replace")

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.text, f"{text!r} in {self.text!r}")

    def wait(self) -> int:
        """The exit code; the terminal is read meanwhile, so that nothing blocks on it."""
        wait_until(lambda: (self.text, self.process.poll())[1] is not None, "the end of the command")
        return self.process.wait()


def unless_vanishing(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], what: str, patience: float = 20.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
