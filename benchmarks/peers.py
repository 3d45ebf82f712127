"""The tools we are compared with: where they are, which version, and how to get those that are not there."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from benchmarks.model import Contestant, Sample

_PACKAGES = {
    "ninja": "apt-get install ninja-build",
    "make": "apt-get install make",
    "xargs": "apt-get install findutils",
    "ccache": "apt-get install ccache",
    "sccache": "apt-get install sccache",
    "gcc": "apt-get install gcc",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A program or a Python package. absent: why it is not there, and the cure."""

    name: str
    path: str = ""
    version: str = ""
    absent: str | None = None

    def contestant(self, run: Callable[[], Sample], command: str, name: str | None = None) -> Contestant:
        """This peer at work; one that is absent says so."""
        return Contestant(name=name or self.name, command=command, version=self.version, run=run, absent=self.absent)


def program(name: str) -> Peer:
    """A program on PATH."""
    path = shutil.which(name)
    if path is None:
        return Peer(name, absent=f"{name} is not on PATH ({_PACKAGES.get(name, f'install {name}')})")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    words = said[0].split() if said else [""]
    return Peer(name, path, words[-1] if len(words) < 5 else " ".join(words[:4]))


def package(name: str) -> Peer:
    """A Python package."""
    if find_spec(name) is None:
        return Peer(name, absent=f"{name} cannot be imported (pip install {name})")
    try:
        return Peer(name, version=version(name))
    except PackageNotFoundError:
        return Peer(name)


@dataclass(frozen=True, slots=True)
class Loop:
    """An event loop that our code can run in. name: of the contestant; the rest is for `anyio.run`."""

    name: str
    backend: str
    uvloop: bool
    absent: str | None
    version: str


def loops(quick: bool = False) -> list[Loop]:
    """asyncio, trio and uvloop; asyncio alone where it has to be quick."""
    found = [Loop("asyncio", "asyncio", False, None, f"python {platform.python_version()}")]
    for name in () if quick else ("trio", "uvloop"):
        peer = package(name)
        found.append(Loop(name, "trio" if name == "trio" else "asyncio", name == "uvloop", peer.absent, peer.version))
    return found


def prepared(prepare: Callable[[], object], run: Callable[[], Sample]) -> Callable[[], Sample]:
    """`run`, with `prepare` called once before its first round."""
    ready: list[bool] = []

    def once_prepared() -> Sample:
        if not ready:
            prepare()
            ready.append(True)
        return run()

    return once_prepared
