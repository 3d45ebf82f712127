"""The look at what a session left behind sees what there is."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import leftovers


def test_files_and_processes_are_seen(tmp_path: Path) -> None:
    assert leftovers(tmp_path, patience=0) == []
    folder = tmp_path / "teeny-async-0" / "s-1"
    folder.parent.mkdir()
    assert leftovers(tmp_path, patience=0) == []
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"], cwd=folder) as process:
        found = leftovers(tmp_path, patience=0)
        process.kill()
    assert found[0] == str(folder)
    assert found[1].startswith(f"process {process.pid} in {folder}: sleep 60")
    folder.rmdir()
    assert leftovers(tmp_path) == []
