"""The options that bound a run and what is remembered of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(place: Path, *args: str) -> tuple[int, Any, str]:
    """Exit code, the JSON on stdout (None without any), stderr."""
    environ = {**os.environ, "TEENY_ASYNC_CACHE_DIR": str(place / "cache")}
    command = [sys.executable, "-m", "teeny_async", "sweep", *args]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, cwd=place)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else None, done.stderr


def test_a_memory_limit_is_read_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int f(void) { return 1; }\n")
    code, told, _ = run(tmp_path, "k.c", "--target-cpu", "znver4", "--memory", "2GiB", "--json")
    assert (code, told["results"][0]["ok"]) == (0, True)
    code, _, errors = run(tmp_path, "k.c", "--memory", "plenty")
    assert code == 2
    assert "plenty" in errors
    assert "Traceback" not in errors


def test_a_refused_kernel_is_remembered_until_it_is_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f( {\n")
    args = ("bad.c", "--target-cpu", "znver4", "--json")
    sources = []
    for more in ((), (), ("--retry-failed",)):
        code, told, _ = run(tmp_path, *args, *more)
        assert code == 1
        [result] = told["results"]
        assert result["failure"]["kind"] == "diagnostic"
        sources.append(result["source"])
    assert sources == ["compiled", "cached", "compiled"]


def test_a_limit_on_cpu_time(tmp_path: Path) -> None:
    (tmp_path / "spin.c").write_text("#pragma clang __debug overflow_stack\nint f(void) { return 1; }\n")
    code, told, _ = run(
        *(tmp_path, "spin.c", "--target-cpu", "znver4", "--cpu-timeout", "1", "--timeout", "30", "--json")
    )
    assert code == 1
    assert told["results"][0]["failure"]["kind"] == "timeout"
