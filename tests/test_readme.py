"""The README tells the truth: its tour runs and prints what it shows, its commands are the ones there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_tour_prints_what_it_shows(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    [shown] = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    environ = {**os.environ, "TEENY_ASYNC_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True, cwd=ROOT
    )
    printed = _without_sizes(done.stdout).splitlines()
    expected = [line for line in _without_sizes(shown).splitlines() if line != "..."]
    at = -1
    for line in expected:
        assert line in printed[at + 1 :], f"not printed, or not in this order: {line}"
        at = printed.index(line, at + 1)
    assert at == len(printed) - 1


def _without_sizes(text: str) -> str:
    """Sizes differ from one version of a compiler to the next."""
    return re.sub(r"('(?:ptx|object)': )\d+", r"\1N", text)


def test_the_sweep_of_the_first_command_is_accepted(tmp_path: Path) -> None:
    [command] = re.findall(r"\.venv/bin/teeny-async (sweep .*)", README)
    assert command.count(",") >= 11, "eight GPU targets and four CPU targets at the least"
    environ = {**os.environ, "TEENY_ASYNC_CACHE_DIR": str(tmp_path)}
    script = f'exec "{sys.executable}" -m teeny_async {command}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environ, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "72 results" in done.stdout


def test_the_second_command_is_what_ci_runs() -> None:
    assert "```sh\n.ci/test\n```" in README
    assert '/test" -q' in (ROOT / ".ci" / "run").read_text()


def test_every_environment_variable_it_names_is_read() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "teeny_async").rglob("*.py"))
    for name in set(re.findall(r"\bTEENY\w+", README)):
        assert name in sources, name
