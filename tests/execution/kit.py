"""Real processes: shell scripts as compilers, and a look into /proc at what is left of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from teeny_async.action import Action, Input
from teeny_async.execution.runner import RunLimits
from teeny_async.frozen import FrozenMap

LIMITS = RunLimits(wall=30, grace=0.3)


def sh(
    script: str, *, outputs: dict[str, str] | None = None, inputs: dict[str, str] | None = None, **options: Any
) -> Action:
    """An action that runs a shell script in its scratch folder."""
    return Action(
        argv=("sh", "-c", script),
        executable="/bin/sh",
        neutral=FrozenMap({"PATH": "/usr/bin:/bin", "LC_ALL": "C"}),
        inputs=tuple(Input(name, (text,)) for name, text in (inputs or {}).items()),
        outputs=FrozenMap(outputs or {}),
        **options,
    )


def processes_below(folder: Path) -> list[str]:
    """Command lines of the living processes whose working directory or TMPDIR is below a folder.

    A supervisor is none of them: it works in its jobs' folders, and ends with its session.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == str(os.getpid()):
            continue
        try:
            inside = (
                os.readlink(entry / "cwd").startswith(str(folder))
                or str(folder).encode() in (entry / "environ").read_bytes()
            )
            if inside and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [command for command in found if "supervisor.main" not in command]


def supervisors_of(folder: Path) -> list[int]:
    """Process ids of the supervisors with scratch below a folder."""
    found = subprocess.run(["pgrep", "-f", f"supervisor.main.*{folder}"], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def left_in(folder: Path) -> list[str]:
    """What is left of the scratch folders under a folder for temporary files."""
    return [str(path) for path in folder.glob("teeny-async-*/*")]
