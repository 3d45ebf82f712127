"""`cache`: what was saved, a check, trimming, and an archive to another folder."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

from teeny_async.report.cache_table import group_lines
from tests.cli.kit import Place

TARGETS = "sm_80,znver4"


def compiled(place: Place, *more: str) -> list[str]:
    """Where each result of a sweep came from."""
    results = place.json("sweep", place.good, "-t", TARGETS, *more)["results"]
    return [result["source"] for result in results]


def test_stats_say_what_was_saved_by_toolchain_and_target(place: Place) -> None:
    assert compiled(place) == ["compiled"] * 2
    assert [group["hits"] for group in place.json("cache", "stats")["groups"]] == [0, 0]
    assert compiled(place) == ["cached"] * 2
    groups = place.json("cache", "stats")["groups"]
    assert sorted(group["target"] for group in groups) == ["sm_80", "znver4"]
    for group in groups:
        assert group["toolchain"].startswith("zig ")
        assert (group["entries"], group["hits"]) == (1, 1)
        assert group["bytes"] > 0
        assert group["hit_bytes"] > 0
        assert group["seconds_saved"] > 0
    lines = place.run("cache", "stats").stdout.splitlines()
    assert lines[2].split() == ["toolchain", "target", "entries", "bytes", "hits", "saved"]
    assert [line.split()[2] for line in lines[3:5]] == ["sm_80", "znver4"]
    assert lines[5].startswith("all ")


def test_the_table_has_totals_and_says_what_is_not_known() -> None:
    known = {"toolchain": "zig 1", "target": "sm_80", "entries": 2, "bytes": 2048, "hits": 3, "seconds_saved": 75.0}
    unknown = {"toolchain": "", "target": "", "entries": 1000, "bytes": 10, "hits": 0, "seconds_saved": 0.0}
    assert list(group_lines([known, unknown])) == [
        "toolchain  target  entries    bytes  hits  saved",
        "unknown              1,000     10 B     0      -",
        "zig 1      sm_80         2  2.0 KiB     3   1:15",
        "all                  1,002  2.0 KiB     3   1:15",
    ]


def test_verify_drops_what_is_bad_and_says_so(place: Place) -> None:
    compiled(place)
    report = place.json("cache", "verify")
    assert (report["schema"], report["ok"], report["entries"], report["dropped"]) == (1, True, 2, 0)
    assert "2 entries" in place.run("cache", "verify", "--quick").stdout
    with sqlite3.connect(next(place.cache.glob("v*/cache.db"))) as database:
        query = "SELECT rowid, value FROM Cache WHERE typeof(key) = 'blob' AND typeof(value) = 'blob' LIMIT 1"
        [(row, value)] = database.execute(query)
        database.execute("UPDATE Cache SET value = ? WHERE rowid = ?", (value[:-1] + bytes([value[-1] ^ 1]), row))
    database.close()
    done = place.run("cache", "verify", code=1)
    assert done.stdout.startswith("dropped ")
    assert "1 entry and" in done.stdout
    assert place.json("cache", "verify")["ok"]
    assert sorted(compiled(place)) == ["cached", "compiled"]


def test_prune_removes_what_it_is_told_to(place: Place) -> None:
    compiled(place)
    assert place.json("cache", "prune", "--older-than", "1h")["removed"] == 0
    assert place.json("cache", "prune", "--max-size", "1GiB")["removed"] == 0
    assert place.json("cache", "prune", "--max-count", "1000")["removed"] == 0
    assert "removed " in place.run("cache", "prune", "--older-than", "0s").stdout
    assert place.json("cache", "stats")["entries"] == 0
    compiled(place)
    assert place.json("cache", "prune", "--max-count", "1", "--max-size", "1GiB")["removed"] >= 1
    assert place.json("cache", "stats")["entries"] <= 1
    assert place.json("cache", "prune", "--max-size", "0")["removed"] == 1
    assert place.json("cache", "stats")["entries"] == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("prune",), "--max-size, --max-count or --older-than"),
        (("prune", "--max-size", "lots"), "'lots': write a size"),
        (("prune", "--max-count", "-1"), "-1 is not in the range"),
        (("prune", "--max-count", "1"), "there is no cache in"),
        (("prune", "--older-than", "1y"), "'1y': write an age"),
        (("prune", "--max-size", "1GiB"), "there is no cache in"),
        (("verify",), "there is no cache in"),
        (("export", "a.archive"), "there is no cache in"),
        (("stats", "--cache-dir", ""), "it is empty"),
        (("export", ""), "it is empty"),
    ],
)
def test_what_is_refused(place: Place, args: tuple[str, ...], words: str) -> None:
    done = place.run("cache", *args, code=2)
    assert words in done.stderr
    assert done.stdout == ""
    assert not place.cache.exists()


def test_an_archive_fills_another_cache(place: Place) -> None:
    header = Path(place.write("scale.h", "#define SCALE 2\n"))
    # What was written a moment ago might change again unseen, and is not kept.
    long_ago = time.time() - 60
    os.utime(header, (long_ago, long_ago))
    reading = place.write("reading.c", '#include "scale.h"\nint reading(int x) { return SCALE * x; }\n')
    sweep = ("sweep", reading, "-t", TARGETS)
    place.json(*sweep)
    archive = str(place.folder / "warm.archive")
    assert place.json("cache", "export", archive)["entries"] == 2
    assert "wrote 2 entries" in place.run("cache", "export", archive).stdout
    other = ("--cache-dir", str(place.folder / "other"))
    assert place.json("cache", "import", archive, *other)["entries"] == 2
    assert "there already" in place.run("cache", "import", archive, *other).stdout
    again = place.json(*sweep, "--cached-only", *other)["results"]
    assert [result["source"] for result in again] == ["cached", "cached"]


def test_an_archive_that_is_none_is_refused(place: Place) -> None:
    bad = place.write("bad.archive", "not an archive")
    done = place.run("cache", "import", bad, code=2)
    assert "bad.archive" in done.stderr
    assert json.loads(place.run("cache", "stats", "--json").stdout)["entries"] == 0
