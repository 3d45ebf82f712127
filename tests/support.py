"""What tests of several rooms share: private settings, and looking for what a session left behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import anyio

from teeny_async.execution.digests import file_clock_ns
from teeny_async.settings import Settings

KERNELS = Path(__file__).parent.parent / "examples" / "kernels"
_STEERING = ("TEENY", "NVCC_", "CUDA_", "RUSTC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN")
"""What the names of the variables begin with that change which tools are found and what they do."""


def private_environ(cache_dir: Path, scratch_dir: Path) -> dict[str, str]:
    """The environment without what steers compilers, and with a cache, scratch and runtime folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_STEERING)}
    runtime = scratch_dir.parent / "runtime"
    runtime.mkdir(exist_ok=True)
    return {
        **kept,
        "TEENY_ASYNC_CACHE_DIR": str(cache_dir),
        "TMPDIR": str(scratch_dir),
        "XDG_RUNTIME_DIR": str(runtime),
    }


def changed(settings: Settings, variables: Mapping[str, str | os.PathLike[str]]) -> Settings:
    """The same settings with more variables in the environment."""
    return Settings.from_environ({**settings.environ, **{name: os.fspath(value) for name, value in variables.items()}})


def leftovers(scratch_dir: Path, patience: float = 5.0) -> list[str]:
    """What is left below `scratch_dir` when `patience` seconds are over: files, and processes that work there."""
    deadline = time.monotonic() + patience
    while (found := [*_files(scratch_dir), *_processes(scratch_dir)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _files(scratch_dir: Path) -> list[str]:
    """All but the folder that each user has there, which stays."""
    bases = set(scratch_dir.glob("teeny-async-*"))
    return [str(path) for path in scratch_dir.rglob("*") if path not in bases]


def _processes(scratch_dir: Path) -> list[str]:
    if sys.platform != "linux":
        return []
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            cwd = os.readlink(process / "cwd")
            command = (process / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue
        if f"{cwd}/".startswith(f"{scratch_dir}/") or str(scratch_dir) in command:
            found.append(f"process {process.name} in {cwd}: {command}")
    return found


async def the_file_clock_moved_on() -> None:
    """Until it has, a file that was just written might change again unseen, and what read it is not kept.

    Linux 6.13 and later stamp some files with the fine clock: the coarse one has to pass that, not only to move.
    """
    written = time.time_ns()
    while file_clock_ns() <= written:
        await anyio.sleep(0.001)
