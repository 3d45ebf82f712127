"""kill -9 in the middle of a run of the real command line, and on with --resume: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import leftovers, private_environ

MEASURE = """
import json, os, sys
told = json.load(open(sys.argv[2]))
config = told["config"]
with open(os.environ["MEASURED"], "a") as file:
    file.write(json.dumps(config) + "\\n")
print(json.dumps({"time": 1e-3 * (1 + abs(config["A"] - 5) + abs(config["B"] - 3))}))
"""
KERNEL = "int kernel(int x) { return x * A + B; }\n"
CONFIGS = 60


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scratch").mkdir()
        (folder / "kernel.c").write_text(KERNEL)
        (folder / "measure.py").write_text(MEASURE)
        self.measured = folder / "measured"
        self.environ = {**private_environ(folder / "cache", folder / "scratch"), "MEASURED": str(self.measured)}
        self.environ["PYTHONPATH"] = str(Path(__file__).parents[2])

    def spawn(self, run: str, *more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "teeny_async", "tune", "kernel.c", "-p", "A=0..9", "-p", "B=0..5"]
        words += ["--objective", "time", "--measure", f"{sys.executable} measure.py {{artifact}} {{config}}"]
        words += ["--confirm", "0", "--quiet", "-j", "1", "--run", run, *more]
        return subprocess.Popen(
            words, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def tune(self, run: str, *more: str) -> list[tuple[Any, ...]]:
        """The final table of a run that is let to its end."""
        process = self.spawn(run, *more)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "A=5 B=3" in out
        return self.table(run)

    def journal(self, run: str) -> list[dict[str, Any]]:
        path = self.folder / run / "journal.jsonl"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [line for line in found if line["type"] == "verdict"]

    def table(self, run: str) -> list[tuple[Any, ...]]:
        return sorted((str(v["config"]), v["target"], v["status"], v["value"]) for v in self.journal(run))

    def kill_after(self, run: str, verdicts: int, *more: str) -> None:
        process = self.spawn(run, *more)
        deadline = time.monotonic() + 60
        while len(self.journal(run)) < verdicts and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="looks for what is left in /proc")
def test_killed_three_times_and_resumed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number, verdicts in enumerate((3, 20, 45)):
        place.kill_after("run", verdicts, *(["--resume"] if number else []))
        # A torn last line, as a kill in the middle of a write would leave it.
        with (tmp_path / "run" / "journal.jsonl").open("ab") as file:
            file.write(b'{"schema": 1, "type": "verd')
    table = place.tune("run", "--resume")
    again = Counter(place.measured.read_text().splitlines())
    journal = place.journal("run")
    place.measured.unlink()
    assert table == place.tune("whole")
    assert len(table) == len({row[0] for row in table}) == CONFIGS
    # At most what was being measured when a kill came was begun once more; nothing that had a verdict was.
    assert sum(again.values()) <= CONFIGS + 3
    compiled = Counter(str(v["config"]) for v in journal if v["compile"]["source"] == "compiled")
    assert max(compiled.values()) == 1
    assert leftovers(tmp_path / "scratch") == []
