"""`explain`: hits, misses and what is near to them; nothing compiled, nothing written."""

from __future__ import annotations

from typing import Any

from tests.cli.kit import Place


def explained(place: Place, *args: str) -> list[dict[str, Any]]:
    data = place.json("explain", *args)
    assert data["schema"] == 1
    found: list[dict[str, Any]] = data["explanations"]
    return found


def state_of(place: Place) -> list[tuple[str, int, int]]:
    """Every file of the cache, with its size and time."""
    files = sorted(path for path in place.cache.rglob("*") if path.is_file())
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def test_it_names_the_nearest_entry_and_what_differs(place: Place) -> None:
    results = place.json("sweep", place.good, "-t", "sm_80", "-p", "SCALE=2")["results"]
    before = state_of(place)
    hit, miss = explained(place, place.good, "-t", "sm_80", "-p", "SCALE=2,3")
    assert (hit["state"], hit["key"], hit["nearest"]) == ("hit", results[0]["key"], None)
    assert hit["components"]["toolchain"] == "zig"
    assert hit["stored"]["params"] == {"SCALE": 2}
    assert (miss["state"], miss["stored"], miss["failure"]) == ("miss", None, None)
    assert miss["nearest"]["key"] == results[0]["key"]
    [difference] = miss["nearest"]["differs"].values()
    assert difference == {"asked": "-DSCALE=3", "stored": "-DSCALE=2"}
    assert state_of(place) == before


def test_it_reads_well(place: Place) -> None:
    place.run("sweep", place.good, "-t", "sm_80", "-p", "SCALE=2")
    text = place.run("explain", place.good, "-t", "sm_80", "-p", "SCALE=2,3").stdout
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0].startswith("good sm_80 SCALE=2: hit (compiled in ")
    assert "good sm_80 SCALE=3: miss" in lines
    start = lines.index("which differs in:")
    assert lines[start - 2].startswith("nearest entry: good sm_80 SCALE=2, by zig ")
    assert lines[start + 2 : start + 4] == ["asked for  -DSCALE=3", "stored     -DSCALE=2"]
    assert any(line.startswith("fingerprint ") for line in lines)


def test_shared_folders_are_looked_into_as_a_sweep_does(place: Place) -> None:
    shared = str(place.folder / "shipped")
    place.run("sweep", place.good, "-t", "sm_80", "-p", "SCALE=2", "--cache-dir", shared)
    place.run("sweep", place.good, "-t", "sm_80", "-p", "SCALE=4")
    wanted = (place.good, "-t", "sm_80", "-p", "SCALE=2,3,4")
    before = state_of(place)
    assert [one["state"] for one in explained(place, *wanted)] == ["miss", "miss", "hit"]
    assert [one["state"] for one in explained(place, *wanted, "--shared-cache", shared)] == ["hit", "miss", "hit"]
    nowhere = ("--cache-dir", str(place.folder / "nowhere"))
    place.environ["TEENY_ASYNC_SHARED_CACHES"] = shared
    hit, miss, _ = explained(place, *wanted, *nowhere)
    assert (hit["state"], miss["state"], miss["nearest"]["params"]) == ("hit", "miss", {"SCALE": 2})
    assert state_of(place) == before
    assert not (place.folder / "nowhere").exists()


def test_where_there_is_no_cache_none_is_made(place: Place) -> None:
    text = place.run("explain", place.good, "-t", "sm_80").stdout
    assert "good sm_80: miss" in text
    assert "no stored entry is like it" in text
    assert not place.cache.exists()


def test_a_remembered_refusal_and_what_cannot_be_keyed(place: Place) -> None:
    place.run("sweep", place.bad, "-t", "sm_80", code=1)
    assert "hit: a remembered refusal: " in place.run("explain", place.bad, "-t", "sm_80").stdout
    dated = place.write("dated.c", "const char *when = __TIME__;\n")
    assert "not cached, compiled each time: the source has '__TIME__'" in place.run("explain", dated).stdout
    [explanation] = explained(place, dated)
    assert (explanation["state"], explanation["result_key"]) == ("unkeyable", None)


def test_what_cannot_be_keyed_is_refused_when_asked_to(place: Place) -> None:
    dated = place.write("dated.c", "const char *when = __TIME__;\n")
    args = ("sweep", dated, place.good, "-t", "znver4")
    assert "not cached: dated: the source has '__TIME__'" in place.run(*args).stderr
    done = place.run(*args, "--unkeyable", "refuse", code=2)
    assert "kernel 'dated' cannot be cached: the source has '__TIME__'" in done.stderr
    assert done.stdout == ""
    place.run(*args, "--unkeyable", "refuse", "--no-cache")


def test_a_missing_toolchain_is_exit_code_3(place: Place) -> None:
    place.environ["TEENYC_PATH"] = "/nowhere/teenyc"
    kernel = place.write("kernel.rs", "")
    done = place.run("explain", kernel, "-t", "sm_80", "--toolchain", "teenyc", code=3)
    assert "cargo teeny install-toolchain" in done.stderr


def test_a_miss_where_only_cached_results_are_allowed_says_what_is_near(place: Place) -> None:
    place.run("sweep", place.good, "-t", "sm_80", "-p", "SCALE=2")
    done = place.run("sweep", place.good, "-t", "sm_80", "-p", "SCALE=3", "--cached-only", code=1)
    assert "not in the cache: good for sm_80 SCALE=3 by zig " in done.stderr
    assert "the nearest entry is good for sm_80 SCALE=2" in done.stderr
    assert "-DSCALE=3, there -DSCALE=2" in done.stderr


def test_where_only_cached_results_are_allowed_nothing_is_written(place: Place) -> None:
    args = ("sweep", place.good, "-t", "sm_80,sm_90", "--cached-only")
    assert "going on without it" in place.run(*args, code=1).stderr
    assert not place.cache.exists()
    place.run("sweep", place.good, "-t", "sm_80")
    before = state_of(place)
    assert [result["source"] for result in place.json(*args, code=1)["results"]] == ["cached", "compiled"]
    assert state_of(place) == before


def test_an_empty_prelude_is_none_whatever_the_environment_says(place: Place) -> None:
    kernel = place.compiler()
    place.environ["TEENY_ASYNC_PRELUDE"] = place.write("prelude.rs", "// a prelude\n")
    parts = []
    for more in ((), ("--prelude", "")):
        [explanation] = explained(place, kernel, "-t", "sm_75", "--toolchain", "teenyc", *more)
        parts.append(sum(label.startswith("input kernel.rs[") for label in explanation["components"]))
    assert parts == [2, 1]
