"""`upstream`: what it prints, what it leaves, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Place
from tests.standins import Teenyc
from tests.upstream.kit import AXPBY, EDITED, PRELUDE, by_hand, files, source_id

SOURCE = AXPBY.read_text()


@pytest.fixture
def folder(place: Place, teenyc: Teenyc) -> Path:
    """teenygrad's folder, not there yet; axpby is compiled for two targets."""
    place.environ["TEENYC_PATH"] = str(teenyc.path)
    place.environ["TEENYC_CACHE_DIR"] = str(place.folder / "teenyc_cache")
    sweep(place, str(AXPBY))
    return place.folder / "teenyc_cache"


def sweep(place: Place, path: str) -> None:
    place.run("sweep", path, "-t", "sm_80,sm_90", "--toolchain", "teenyc", "--prelude", str(PRELUDE), "-q")


def stems(source: str = SOURCE, name: str = "axpby") -> list[str]:
    return sorted(by_hand(name, source_id_of(source), cpu) for cpu in ("sm_80", "sm_90"))


def source_id_of(source: str) -> str:
    from teeny_async import Kernel

    return source_id(Kernel(name="any", source=source, language="rust"))


def test_export(place: Place, folder: Path) -> None:
    done = place.run("upstream", "export")
    assert done.stdout.splitlines() == [f"{folder}/{stem}.o" for stem in stems()]
    assert "2 kernels written" in done.stderr
    assert set(files(folder)) == {stem + suffix for stem in stems() for suffix in (".o", ".rs", ".mlir")}
    data = place.json("upstream", "export", "--cache-dir", str(folder))
    assert (data["schema"], data["written"], data["same"]) == (1, [], 2)


def test_export_leaves_what_is_different(place: Place, folder: Path) -> None:
    place.run("upstream", "export")
    path = folder / f"{stems()[0]}.o"
    path.write_text("other")
    done = place.run("upstream", "export", code=1)
    assert "--replace" in done.stderr
    assert path.read_text() == "other"
    assert place.json("upstream", "export", code=1)["different"] == [stems()[0]]
    place.run("upstream", "export", "--replace")
    assert path.read_text() != "other"


def test_export_without_a_cache_makes_none(place: Place) -> None:
    done = place.run("upstream", "export", "--cache-dir", str(place.folder / "there"), code=2)
    assert "there is no cache" in done.stderr
    assert not place.cache.exists()
    assert not (place.folder / "there").exists()
    assert "--cache-dir" in place.run("upstream", "export", code=2).stderr
    assert "it is empty" in place.run("upstream", "export", "--cache-dir", "", code=2).stderr


def test_export_from_a_cache_that_came_in_an_archive(place: Place, folder: Path) -> None:
    place.run(
        "sweep", place.write("other.rs", SOURCE), "-t", "sm_80", "--toolchain", "teenyc", "--prelude", str(PRELUDE)
    )
    archive, other = str(place.folder / "archive"), str(place.folder / "other_cache")
    place.run("cache", "export", archive)
    place.run("cache", "import", archive, "--cache-dir", other)
    data = place.json("upstream", "export", "--store", other)
    assert data["written"] == sorted([*stems(), by_hand("other", source_id_of(SOURCE), "sm_80")])
    assert data["without_source"] == []


def test_import_gives_a_folder_that_sweep_takes(place: Place, folder: Path) -> None:
    place.run("upstream", "export")
    place.run("cache", "clear", "--yes")
    listed = place.run("upstream", "import")
    assert listed.stdout.splitlines() == ["axpby"]
    assert "1 kernel in 2 sources" in listed.stderr
    out = place.folder / "kernels"
    done = place.run("upstream", "import", "--out", str(out), "--prelude", str(PRELUDE))
    assert done.stdout == f"{out}/axpby.rs\n"
    assert (out / "axpby.rs").read_text() == SOURCE
    sweep(place, str(out / "axpby.rs"))
    assert place.json("upstream", "export")["same"] == 2


def test_import_tells_kernels_of_one_name_apart(place: Place, folder: Path) -> None:
    sweep(place, place.write("axpby.rs", SOURCE.replace(*EDITED)))
    place.run("upstream", "export")
    out = place.folder / "kernels"
    data = place.json("upstream", "import", "--out", str(out), "--prelude", str(PRELUDE))
    assert sorted(path.read_text() for path in out.iterdir()) == sorted([SOURCE, SOURCE.replace(*EDITED)])
    assert {kernel["path"] for kernel in data["kernels"]} == {str(path) for path in out.iterdir()}
    assert [kernel["prelude"] for kernel in data["kernels"]] == [True, True]
    assert sorted(target["cpu"] for target in data["kernels"][0]["targets"]) == ["sm_80", "sm_90"]


def test_import_says_which_have_another_prelude(place: Place, folder: Path) -> None:
    place.run("upstream", "export")
    other = place.write("other.rs", "// another prelude\n// of two lines\n")
    assert "1 kernel with no such prelude" in place.run("upstream", "import", "--prelude", other).stderr


def test_verify(place: Place, folder: Path, teenyc: Teenyc) -> None:
    place.run("upstream", "export")
    done = place.run("upstream", "verify")
    assert done.stdout == ""
    assert "2 kernels: 2 good, 0 stale, 0 unknown" in done.stderr
    stale, missing = stems()
    source = folder / f"{stale}.rs"
    source.write_text(source.read_text().replace(*EDITED))
    (folder / f"{missing}.rs").unlink()
    done = place.run("upstream", "verify", code=1)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        [state, f"{stem}.o"] for stem, state in sorted([(stale, "stale"), (missing, "unknown")])
    ]
    data = place.json("upstream", "verify", str(AXPBY), "--prelude", str(PRELUDE))
    assert [verdict["state"] for verdict in data["verdicts"]] == ["good", "good"]
    assert sorted(verdict["target"] for verdict in data["verdicts"]) == ["sm_80", "sm_90"]
    teenyc.path.unlink()
    done = place.run("upstream", "verify", code=3)
    assert "TEENYC_PATH" in done.stderr


def test_help_names_the_three(place: Place) -> None:
    text = place.run("upstream", "--help").stdout
    assert all(name in text for name in ("export", "import", "verify"))
    for name in ("export", "import", "verify"):
        assert "TEENYC_CACHE_DIR" in place.run("upstream", name, "--help").stdout
