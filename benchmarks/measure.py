"""Running one contestant in a process of its own, and what that cost the machine.

CPU is user + system time of the process and of every descendant that was waited for, as `wait4` gives it:
on a busy machine it varies by a few percent where the wall varies by tens.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks.model import Context

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 1800.0
"""Seconds after which a contestant that hangs is killed."""
_STEERING = ("TEENY", "NVCC_", "CUDA_", "RUSTC", "RUSTFLAGS", "CCACHE", "SCCACHE", "TRITON", "PYTHON", "MAKE", "NINJA")


class Broken(Exception):
    """A contestant did not do its work; the message has the end of what it said."""


def clean_env(**variables: str) -> dict[str, str]:
    """The environment without what steers compilers and caches, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_STEERING)}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def measured(
    argv: Sequence[str | os.PathLike[str]],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdin: Path | None = None,
    stdout: Path | None = None,
) -> dict[str, float]:
    """Run a command in `folder` to its end: whole_cpu and wall in seconds, max_rss in bytes.

    Raises Broken when it does not exit with 0.
    """
    log = folder / "stderr.log"
    with open(stdin or os.devnull, "rb") as source, open(stdout or os.devnull, "wb") as sink, open(log, "wb") as errors:
        began = time.perf_counter()
        process = _start(argv, folder, clean_env() if env is None else env, source, sink, errors)
        deadline = threading.Timer(TIMEOUT, _kill_group, [process.pid])
        deadline.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _kill_group(process.pid)
            raise
        finally:
            deadline.cancel()
        wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = log.read_bytes()[-2000:].decode("utf-8", "replace")
        raise Broken(f"{Path(argv[0]).name} exited with {process.returncode}: {tail}")
    return {"whole_cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "max_rss": usage.ru_maxrss * 1024.0}


def _start(
    argv: Sequence[str | os.PathLike[str]],
    folder: Path,
    env: Mapping[str, str],
    source: IO[bytes],
    sink: IO[bytes],
    errors: IO[bytes],
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, cwd=folder, env=env, stdin=source, stdout=sink, stderr=errors, start_new_session=True)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def in_child(
    context: Context, target: str, /, *, env: Mapping[str, str] | None = None, **arguments: Any
) -> dict[str, float]:
    """Call `module:function` of this package in a fresh interpreter: its numbers, and those of `measured`.

    arguments: plain JSON data. The function's own numbers win.
    """
    folder = context.place("child")
    answer = folder / "answer.json"
    argv = child_argv(target, answer, arguments)
    try:
        whole = measured(argv, folder, env=clean_env(TMPDIR=str(folder), **(env or {})))
        return {**whole, **json.loads(answer.read_text())}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def child_argv(target: str, answer: Path, arguments: Mapping[str, Any]) -> list[str]:
    """The command line of `in_child`."""
    return [sys.executable, "-m", "benchmarks.child", f"benchmarks.{target}", json.dumps(arguments), str(answer)]
