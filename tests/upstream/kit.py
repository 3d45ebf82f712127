"""The formula of teenygrad's file names, written again; its folder; a program that uses it; the stand-in's kernels."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from teeny_async import Kernel
from tests.support import KERNELS

PRELUDE = KERNELS.parent / "kernels_prelude" / "no_core.rs"
AXPBY = KERNELS.parent / "kernels_prelude" / "axpby.rs"
EDITED = ("alpha * *at(x, i)", "*at(x, i)")
"""A change to axpby's source that changes what is compiled of it."""


def by_hand(name: str, ident: str, cpu: str | None = None, ptx_version: int | None = None) -> str:
    """`<name>_<hash>` by the formula."""
    hashed = ident.encode("ascii")
    if cpu is not None:
        hashed += cpu.encode("ascii")
    if ptx_version is not None:
        hashed += ptx_version.to_bytes(4, "little")
    return f"{name}_{hashlib.sha256(hashed).hexdigest()}"


def axpby(name: str = "axpby", *, edited: bool = False, **fields: Any) -> Kernel:
    """A kernel that needs its prelude."""
    source = AXPBY.read_text()
    return Kernel(
        name=name,
        source=source.replace(*EDITED) if edited else source,
        language="rust",
        **{"prelude": PRELUDE.read_text(), **fields},
    )


def whole(kernel: Kernel) -> str:
    """What teenyc is given."""
    return (kernel.prelude or "") + kernel.source


def source_id(kernel: Kernel) -> str:
    """The id of a kernel that has none."""
    return hashlib.sha256(kernel.source.encode()).hexdigest()


def files(folder: Path) -> dict[str, bytes]:
    """All but the locks, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


def build_program(folder: Path) -> Path:
    """Compile the program in C that speaks the folder's protocol."""
    compiler = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    program = folder / "program"
    command = [*compiler, "-O1", "-Wall", "-Werror", "-o", str(program), str(Path(__file__).with_name("program.c"))]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


@contextmanager
def holder(program: Path, folder: Path, stem: str) -> Iterator[subprocess.Popen[str]]:
    """A program that holds a kernel's lock; write a line to it and it writes the kernel and ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen([program, folder, "hold", stem], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as held:
        try:
            assert held.stdout is not None
            assert held.stdout.readline() == "held\n"
            yield held
        finally:
            held.kill()
