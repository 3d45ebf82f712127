"""kill -9 in the middle of a run of the real command line, and on with --resume: nothing lost, nothing twice.

What was done is counted by those that did it, a stand-in for the compiler and the measuring command, and not by
the journal that is under test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import leftovers, private_environ

COMPILER = """#!/bin/sh
case "$*" in
    *"-o kernel.o"*) ;;
    *) exec CC "$@" ;;
esac
for word in "$@"; do
    case $word in -D[AB]=*) config="$config ${word#-D}" ;; esac
done
echo "began$config" >>LOG
cp MADE kernel.o
echo "ended$config" >>LOG
"""
"""Answers questions as the real compiler, and "compiles" by copying one object."""
MEASURE = """#!/bin/sh
read -r told <"$2"
a=${told#*'"A": '} b=${told#*'"B": '}
a=${a%%,*} b=${b%%\\}*}
echo "began A=$a B=$b" >>LOG
echo "{\\"time\\": $((1 + (a - 13) * (a - 13) + (b - 4) * (b - 4)))}"
echo "ended A=$a B=$b" >>LOG
"""
JOBS, WORKERS = 2, 16
CONFIGS = 300
MOMENTS = (5, 110, 250)
"""Verdicts after which it is killed."""


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scratch").mkdir()
        (folder / "kernel.c").write_text("int kernel(int x) { return x * A + B; }\n")
        self.logs = {"compiled": folder / "compiled", "measured": folder / "measured"}
        cc = shutil.which("gcc") or shutil.which("cc")
        (folder / "made.c").write_text("int kernel(int x) { return x; }\n")
        subprocess.run([str(cc), "-c", "made.c", "-o", "made.o"], cwd=folder, check=True)
        places = {"CC": str(cc), "MADE": str(folder / "made.o")}
        self.compiler = self.script("standin", COMPILER, {**places, "LOG": str(self.logs["compiled"])})
        self.measure = self.script("measure", MEASURE, {"LOG": str(self.logs["measured"])})
        self.environ = private_environ(folder / "cache", folder / "scratch")
        self.environ |= {"CC": str(self.compiler), "PYTHONPATH": str(Path(__file__).parents[2])}

    def script(self, name: str, text: str, places: dict[str, str]) -> Path:
        for word, place in places.items():
            text = text.replace(word, place)
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def spawn(self, run: str, *more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "teeny_async", "tune", "kernel.c", "-p", "A=0..19", "-p", "B=0..14"]
        words += ["--toolchain", "cc", "--objective", "time", "--measure", f"{self.measure} {{artifact}} {{config}}"]
        words += ["--confirm", "0", "--quiet", "-j", str(JOBS), "--run", run, *more]
        return subprocess.Popen(
            words, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def tune(self, run: str, *more: str) -> list[tuple[Any, ...]]:
        """The final table of a run that is let to its end."""
        process = self.spawn(run, *more)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "A=13 B=4" in out
        return sorted((config, v["target"], v["status"], v["value"]) for config, v in self.verdicts(run))

    def verdicts(self, run: str) -> list[tuple[str, dict[str, Any]]]:
        path = self.folder / run / "journal.jsonl"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [
            (f"A={line['config']['A']} B={line['config']['B']}", line) for line in found if line["type"] == "verdict"
        ]

    def done(self, what: str, since: int = 0) -> list[str]:
        """What a log has from one of its lines on."""
        path = self.logs[what]
        return path.read_text().splitlines()[since:] if path.exists() else []

    def kill_after(self, run: str, verdicts: int, *more: str) -> None:
        process = self.spawn(run, *more)
        deadline = time.monotonic() + 60
        while len(self.verdicts(run)) < verdicts and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="looks for what is left in /proc")
def test_killed_three_times_and_resumed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    again: Counter[str] = Counter()
    resumed: list[tuple[set[str], dict[str, int]]] = []
    for number, verdicts in enumerate(MOMENTS):
        place.kill_after("run", verdicts, *(["--resume"] if number else []))
        known = {config for config, _ in place.verdicts("run")}
        assert verdicts <= len(known) < CONFIGS
        resumed.append((known, {what: len(place.done(what)) for what in place.logs}))
        # A torn last line, as a kill in the middle of a write would leave it.
        with (tmp_path / "run" / "journal.jsonl").open("ab") as file:
            file.write(b'{"schema": 1, "type": "verd')
    table = place.tune("run", "--resume")
    for what in place.logs:
        for known, since in resumed:
            begun = {line.removeprefix("began ") for line in place.done(what, since[what]) if line.startswith("began")}
            assert not begun & known, f"{what} again, though it had a verdict"
        ended = Counter(line for line in place.done(what) if line.startswith("ended"))
        assert len(ended) == CONFIGS
        again[what] = sum(ended.values()) - CONFIGS
    # What ended in the very moment of a kill, and could not be written down any more, is done again: of compiles at
    # most one for each worker of the search, of measurements one for the device.
    assert again["compiled"] <= WORKERS * len(MOMENTS)
    assert again["measured"] <= len(MOMENTS)
    assert leftovers(tmp_path / "scratch") == []
    assert table == place.tune("whole")
    assert len(table) == len({row[0] for row in table}) == CONFIGS
