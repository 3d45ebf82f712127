"""`tune`, `best` and `report` as a user runs them, with a real compiler and estimates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from teeny_async.cli.options import Options
from teeny_async.cli.sessions import session_options
from tests.cli.kit import Place

SPACE = ("-t", "sm_80,sm_90", "-p", "SCALE=1..3", "--objective", "size")


def test_a_run_is_kept_shown_reported_and_resumed(place: Place) -> None:
    run = str(place.folder / "run")
    done = place.run("tune", place.good, *SPACE, "--run", run)
    table = done.stdout.splitlines()
    assert table[0].split() == ["target", "value", "objective", "ties", "best", "configuration"]
    assert [line.split()[0] for line in table[1:]] == ["sm_80", "sm_90"]
    assert all(line.endswith(("SCALE=1", "SCALE=2", "SCALE=3")) for line in table[1:])
    for said in ("6 compiles", "by size: sm_80, sm_90", "6 configurations in", "report: "):
        assert said in done.stderr
    assert {path.name for path in Path(run).iterdir()} == {
        *("journal.jsonl", "best.json", "report.html", "trace.json", "artifacts"),
    }
    assert place.run("best", run).stdout == done.stdout
    assert [each["target"] for each in place.json("best", run)["best"]] == ["sm_80", "sm_90"]
    again = place.run("tune", place.good, *SPACE, "--run", run, code=2)
    assert "is there already: go on with it (resume)" in again.stderr
    assert place.run("tune", place.good, *SPACE, "--run", run, "--resume").stdout == done.stdout
    assert len(json.loads((Path(run) / "trace.json").read_text())["traceEvents"]) > 6


def test_what_failed_is_said_once_with_an_example(place: Place) -> None:
    run = str(place.folder / "run")
    done = place.run("tune", place.bad, *SPACE, "--run", run, code=1)
    assert done.stdout.count("nothing has a value") == 2
    said = r"^6 x diagnostic: use of undeclared identifier 'undeclared' \(as sm_(80|90) SCALE=[123]\)$"  # whichever ends first
    assert re.search(said, done.stderr, re.MULTILINE)
    assert "6 configurations (0 with a value)" in done.stderr


def test_a_dry_run_needs_no_folder_and_a_run_does(place: Place) -> None:
    done = place.run("tune", place.good, *SPACE, "--constraint", "SCALE != 2", "--dry-run")
    assert "4 compiles (of 6; 1 constraint rejected 2)" in done.stdout
    assert "--run DIR is missing" in place.run("tune", place.good, *SPACE, code=2).stderr


def test_kernels_of_one_name_are_told_apart_by_nobody(place: Place) -> None:
    (place.folder / "other").mkdir()
    other = place.write("other/good.c", Path(place.good).read_text())
    done = place.run("tune", place.good, other, *SPACE, "--run", str(place.folder / "run"), code=2)
    assert "kernels of one run need different names: good comes twice" in done.stderr


def test_a_shared_cache_is_used_by_a_search_too(place: Place) -> None:
    pytest.importorskip("obstore")
    remote = place.folder / "remote"
    remote.mkdir()
    place.run("tune", place.good, *SPACE, "--run", str(place.folder / "run"), "--remote", f"file://{remote}")
    assert sum(path.is_file() for path in remote.rglob("*")) >= 6


def test_every_option_of_a_session_reaches_it() -> None:
    values: dict[str, Any] = {name: f"<{name}>" for name in Options.__dataclass_fields__}
    values |= {"retries": 1, "mode": "refresh", "timeout": 5.0}
    found = session_options(Options(**values))
    asked = ("cache_dir", "shared_cache", "remote", "remote_read_only", "jobs", "memory", "cpu_timeout", "retry_failed")
    assert {f"<{name}>" for name in (*asked, "unkeyable")} <= {
        value for value in found.values() if isinstance(value, str)
    }
    assert (found["mode"], found["timeout"], found["retry"].max_attempts) == ("refresh", 5.0, 2)
