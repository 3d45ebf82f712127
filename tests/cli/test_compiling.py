"""`compile` and `sweep`: outputs, formats, exit codes. Real compiles, by zig."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.kit import Place
from tests.support import KERNELS


def test_compile_writes_the_outputs_and_lists_them(place: Place) -> None:
    done = place.run("compile", place.good, "-t", "sm_80,sm_90", "-t", "znver4", "-o", str(place.out))
    paths = [Path(line) for line in done.stdout.splitlines()]
    names = r"good\.sm_80-\w{12}\.ptx good\.sm_90-\w{12}\.ptx good\.znver4-\w{12}\.o"
    assert re.fullmatch(names, " ".join(path.name for path in paths))
    assert sorted(paths) == sorted(place.out.iterdir())
    assert b".target sm_80" in paths[0].read_bytes()
    assert paths[2].read_bytes().startswith(b"\x7fELF")
    assert "3 results in" in done.stderr


def test_compile_writes_into_the_current_folder(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    done = place.run("compile", "good.c", "-t", "sm_80")
    assert (place.folder / done.stdout.strip()).exists()


def test_sweep_writes_nothing_unless_told_to(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    before = set(place.folder.iterdir())
    place.run("sweep", "good.c", "-t", "sm_80")
    assert set(place.folder.iterdir()) - before == {place.cache}
    place.run("sweep", "good.c", "-t", "sm_80", "-o", "out")
    assert len(list(place.out.iterdir())) == 1


def test_sweep_shows_a_row_for_each_result(place: Place) -> None:
    args = ("sweep", place.good, place.bad, "-t", "sm_80,sm_90", "-p", "SCALE=2,3")
    done = place.run(*args, code=1)
    table, counts = done.stdout.split("\n\n")
    head, *rows = [line.split() for line in table.splitlines()]
    assert head[:4] == ["kernel", "target", "SCALE", "state"]
    states = [row[3] for row in rows]
    assert [row[:3] for row in rows] == [
        [kernel, target, scale] for kernel in ("good", "bad") for target in ("sm_80", "sm_90") for scale in "23"
    ]
    assert states == ["compiled"] * 4 + ["failed"] * 4
    assert "bad.c:3:16: error: use of undeclared identifier 'undeclared'" in table
    assert re.match(r"8 results in [\d.]+ m?s: 4 compiled, 4 failed\n\d+ slots?, \d+% busy; ", counts)
    assert "(and 3 more): diagnostic: " in done.stderr
    assert f"{place.bad}:3:16: error" in done.stderr
    again = place.run(*args, code=1)
    assert [line.split()[3] for line in again.stdout.splitlines()[1:9]] == ["cached"] * 4 + ["failed"] * 4


def test_equal_requests_are_compiled_once(place: Place) -> None:
    copy = place.write("copy.c", Path(place.good).read_text())
    results = place.json("sweep", place.good, copy, "-t", "sm_80", "--no-cache", "-o", str(place.out))["results"]
    assert [result["source"] for result in results] == ["compiled", "coalesced"]
    assert len({file for result in results for file in result["files"]}) == 2


def test_a_long_table_becomes_totals(place: Place) -> None:
    args = ("sweep", place.good, "-t", "sm_80,sm_90", "-p", f"SCALE={','.join(map(str, range(101)))}", "--cached-only")
    short = place.run(*args, "-q", code=1).stdout
    assert short.splitlines()[0].split() == [
        "target",
        "compiled",
        "cached",
        "coalesced",
        "failed",
        "size",
        "mean",
        "time",
    ]
    assert len(short.splitlines()) == 1 + 2 + 1 + 1 + 200
    assert len(place.run(*args, "-q", "--all-rows", code=1).stdout.splitlines()) == 1 + 202


def test_json_is_one_object(place: Place) -> None:
    data = place.json("compile", place.bad, place.good, "-t", "sm_80", "-o", str(place.out), code=1)
    assert set(data) == {"schema", "results", "stats", "stopped"}
    assert (data["schema"], data["stopped"]) == (1, None)
    bad, good = data["results"]
    assert (bad["kernel"], bad["target"], bad["params"], bad["ok"], bad["files"]) == ("bad", "sm_80", {}, False, [])
    assert (bad["failure"]["kind"], bad["failure"]["diagnostics"][0]["line"]) == ("diagnostic", 3)
    assert (good["kernel"], good["source"], good["ok"], good["failure"]) == ("good", "compiled", True, None)
    assert [Path(file).read_bytes()[:2] for file in good["files"]] == [b"//"]
    assert data["stats"]["requests"] == data["stats"]["compiled"] == data["stats"]["runs"] == 2
    assert 0 < data["stats"]["utilisation"] <= 1


def test_jsonl_is_a_result_a_line(place: Place) -> None:
    lines = place.run("sweep", place.good, "-t", "sm_80,sm_90,znver4", "--jsonl").stdout.splitlines()
    results = [json.loads(line) for line in lines]
    assert {result["target"] for result in results} == {"sm_80", "sm_90", "znver4"}
    assert all(result["files"] == [] and result["ok"] for result in results)


@pytest.mark.parametrize("format", ["--json", "--jsonl"])
def test_a_kernels_text_is_never_in_the_output(place: Place, format: str) -> None:
    done = place.run("sweep", place.good, place.bad, "-t", "sm_80", format, code=1)
    assert "nvptx_kernel" not in done.output
    assert "return x" not in done.output


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_event_is_in_the_log(place: Place, backend: str) -> None:
    log = place.folder / "events.jsonl"
    args = ("sweep", place.good, "-t", "sm_80,sm_90", "--events", str(log), "--backend", backend)
    place.run(*args)
    kinds = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert (kinds[0], kinds[-1]) == ("Began", "Ended")
    counts = {"Began": 1, "ToolchainFound": 1, "Queued": 2, "Started": 2, "Finished": 2, "Ended": 1}
    assert Counter(kinds) == counts
    assert "nvptx_kernel" not in log.read_text()
    place.run(*args)
    assert log.read_text().count('"source":"cached"') == 2


def test_options_reach_the_compiler(place: Place) -> None:
    text = "#include <mine.h>\n__attribute__((nvptx_kernel)) void entry(float *x) { *x = A + B + C; }\n"
    kernel = place.write("options.txt", text)
    headers = place.folder / "headers"
    headers.mkdir()
    (headers / "mine.h").write_text("#define A 1.0f\n")
    args = ("--language", "c", "-I", str(headers), "-D", "B=2.0f", "-p", "C=3", "-O", "1", "--flag", "-g0")
    more = ("-t", "sm_80", "--ptx-version", "8.0", "--entry-point", "entry", "--toolchain", "zig", "--emit", "ptx")
    [result] = place.json("compile", kernel, *args, *more, "-o", str(place.out))["results"]
    [file] = result["files"]
    assert Path(file).name.startswith("options.sm_80-ptx80.C-3-")
    assert b".version 8.0" in Path(file).read_bytes()


def test_a_prelude_goes_in_front_of_the_kernels_of_its_language(place: Place) -> None:
    prelude = place.write("prelude.rs", (KERNELS.parent / "kernels_prelude" / "no_core.rs").read_text())
    rust = str(KERNELS.parent / "kernels_prelude" / "axpby.rs")
    args = ("sweep", rust, place.good, "-t", "sm_80", "--prelude", prelude)
    assert place.json(*args)["stats"]["failed"] == 0
    assert place.json("sweep", rust, "-t", "sm_80", code=1)["stats"]["failed"] == 1


@pytest.mark.parametrize("mode", [("--cached-only",), ("--mode", "cached_only"), ("--mode", "cached-only")])
def test_cached_only_compiles_nothing(place: Place, mode: tuple[str, ...]) -> None:
    data = place.json("sweep", place.good, "-t", "sm_80", *mode, code=1)
    assert (data["results"][0]["failure"]["kind"], data["stats"]["runs"]) == ("not_cached", 0)


def test_the_cache_is_passed_by_or_overwritten_on_request(place: Place) -> None:
    args = ("sweep", place.good, "-t", "sm_80")
    sources = [
        place.json(*args, *more)["results"][0]["source"] for more in [(), (), ("--refresh",), ("--no-cache",), ()]
    ]
    assert sources == ["compiled", "cached", "compiled", "compiled", "cached"]
    elsewhere = ("--cache-dir", str(place.folder / "elsewhere"))
    assert place.json(*args, *elsewhere)["results"][0]["source"] == "compiled"
    assert (place.folder / "elsewhere").is_dir()


def test_fail_fast_stops_at_the_first_failure(place: Place) -> None:
    args = ("sweep", place.bad, "-t", "sm_80", "-p", f"N={','.join(map(str, range(50)))}", "-j", "1", "--fail-fast")
    data = place.json(*args, code=1)
    assert (len(data["results"]), data["stopped"]) == (1, "fail_fast")
    assert data["stats"]["runs"] < 10


def test_quiet_leaves_the_data_and_the_errors(place: Place) -> None:
    assert place.run("sweep", place.good, "-t", "sm_80", "-q").stderr == ""
    assert "undeclared" in place.run("compile", place.bad, "-t", "sm_80", "-q", code=1).stderr


def test_outputs_that_cannot_be_written_stop_the_run(place: Place) -> None:
    place.out.mkdir()
    [file] = place.json("compile", place.good, "-t", "sm_80", "-o", str(place.out))["results"][0]["files"]
    Path(file).unlink()
    Path(file).mkdir()
    done = place.run("compile", place.good, "-t", "sm_80", "-o", str(place.out), code=1)
    assert "Error: cannot write into" in done.stderr
    assert "Is a directory" in done.stderr
    assert not list(place.out.glob(".*"))
