"""`doctor` and `cache`: what is there, and nothing created by looking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from teeny_async.execution.machine import available_memory, cgroup_memory_limit
from tests.cli.kit import Place


def doctor(place: Place) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(place.run("doctor", "--json").stdout)
    return data


def tool(place: Place, name: str) -> dict[str, Any]:
    [found] = [entry for entry in doctor(place)["toolchains"] if entry["name"] == name]
    return found  # type: ignore[no-any-return]


def test_doctor_knows_every_toolchain(place: Place) -> None:
    data = doctor(place)
    assert (data["schema"], data["packages"]["trio"] is not None) == (1, True)
    assert {entry["name"] for entry in data["toolchains"]} >= {"zig", "rustc", "nvcc", "ptxas", "teenyc"}
    [zig] = [entry for entry in data["toolchains"] if entry["name"] == "zig"]
    assert zig["found"]
    assert len(zig["fingerprint"]) == 64
    assert zig["version"].startswith("zig ")
    assert data["machine"]["jobs"] >= 1
    assert data["machine"]["memory_available"] > 0
    assert data["scratch"]["location"].startswith(str(place.scratch))


def test_doctor_says_how_to_install_what_is_missing(place: Place) -> None:
    place.environ["PATH"] = "/nonexistent"
    found = tool(place, "rustc")
    assert (found["found"], found["fingerprint"]) == (False, None)
    assert "rustup" in found["problem"]
    text = place.run("doctor").stdout
    assert "missing  teenyc" in text
    assert "cargo teeny install-toolchain" in text


def test_doctor_shows_a_bad_setting_as_the_tools_problem(place: Place) -> None:
    place.compiler()
    assert tool(place, "teenyc")["found"]
    place.environ["TEENYC_PTX_VERSION"] = "eight"
    assert "TEENYC_PTX_VERSION" in tool(place, "teenyc")["problem"]


def test_looking_creates_nothing(place: Place) -> None:
    before = set(place.folder.iterdir())
    place.run("cache", "path")
    assert "not there yet" in place.run("cache", "stats").stdout
    assert "not there yet" in place.run("doctor").stdout
    assert "0 entries" in place.run("cache", "clear", "--yes").stderr
    assert set(place.folder.iterdir()) == before


def test_doctor_shows_the_state_of_the_cache(place: Place) -> None:
    place.run("sweep", place.good, "-t", "sm_80,sm_90")
    assert doctor(place)["cache"]["entries"] == 2
    assert "2 entries" in place.run("doctor").stdout
    place.cache.chmod(0o777)
    assert "chmod 700" in doctor(place)["cache"]["trouble"]
    assert "trouble" in place.run("doctor").stdout


def test_doctor_finds_a_scratch_folder_that_is_not_there(place: Place) -> None:
    place.environ["TMPDIR"] = str(place.folder / "missing")
    assert "TMPDIR" in doctor(place)["scratch"]["problem"]


def test_cache_path_is_where_the_environment_says(place: Place) -> None:
    assert place.run("cache", "path").stdout == f"{place.cache}\n"
    assert place.run("cache", "path", "--cache-dir", "/somewhere").stdout == "/somewhere\n"


def test_cache_stats_and_clear(place: Place) -> None:
    place.run("sweep", place.good, "-t", "sm_80,sm_90,znver4")
    data = place.json("cache", "stats")
    assert (data["schema"], data["entries"], data["exists"], data["trouble"]) == (1, 3, True, None)
    assert data["bytes"] > 0
    assert place.run("cache", "stats").stdout.splitlines()[1].startswith("3 entries, ")
    assert "--yes" in place.run("cache", "clear", code=2).stderr
    assert place.json("cache", "stats")["entries"] == 3
    assert "removed 3 entries" in place.run("cache", "clear", "--yes").stderr
    assert place.json("cache", "stats")["entries"] == 0


def test_clear_asks_first(place: Place) -> None:
    place.run("sweep", place.good, "-t", "sm_80")
    with place.terminal("cache", "clear") as terminal:
        terminal.wait_for("Remove 1 entries")
        terminal.type(b"n\n")
        assert terminal.wait() == 130
    with place.terminal("cache", "clear") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type(b"y\n")
        assert terminal.wait() == 0
    assert place.json("cache", "stats")["entries"] == 0


def test_the_memory_limit_is_the_tightest_of_the_control_groups(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("4:memory:/a/b\n0::/a\n")
    for folder, name, limit in (
        ("memory", "memory.limit_in_bytes", "9223372036854771712"),
        ("memory/a", "memory.limit_in_bytes", str(3 << 30)),
        ("memory/a/b", "memory.limit_in_bytes", str(8 << 30)),
        ("a", "memory.max", "max"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(f"{limit}\n")
    assert cgroup_memory_limit(tmp_path, membership) == 3 << 30
    (tmp_path / "a" / "memory.max").write_text(f"{2 << 30}\n")
    assert cgroup_memory_limit(tmp_path, membership) == 2 << 30
    assert cgroup_memory_limit(tmp_path / "nothing", membership) is None
    assert available_memory(tmp_path / "nothing") is None
