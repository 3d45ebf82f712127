"""Small C programs, compiled when they are needed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.model import Context

_FOLDER = Path(__file__).parent
NO_COMPILER = "no C compiler on PATH (apt-get install gcc libc6-dev)"


def compiled(context: Context, name: str) -> Path | None:
    """The program made from NAME.c, static where the C library allows it; None without a C compiler."""
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if cc is None:
        return None
    if name not in context.made:
        made = context.place("program") / name
        for linking in (["-static"], []):
            argv = [cc, "-O2", "-w", *linking, str(_FOLDER / f"{name}.c"), "-o", str(made)]
            if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
                break
        else:
            return None
        context.made[name] = made
    return context.made[name]
