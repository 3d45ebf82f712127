"""Include closures: what was read, what must stay absent, and which change is seen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from teeny_async.closure import (
    MAX_VARIANTS,
    Variant,
    dump_manifest,
    load_manifest,
    must_be_absent,
    read_depfile,
    result_digest,
    rustc_environment,
    with_variant,
)
from teeny_async.execution.digests import FileDigests, Snapshot, changed_since, file_clock_ns

KEY = "0" * 64


class Disk:
    """Files that a test makes up."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def digest(self, path: str) -> str | None:
        return self.files.get(path)

    def is_there(self, path: str) -> bool:
        return path in self.files or any(known.startswith(path + "/") for known in self.files)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("kernel.o: kernel.c /a/h.h\n", ["kernel.c", "/a/h.h"]),
        ("kernel.o: kernel.c \\\n  /a/h.h \\\n  /b/i.h\n", ["kernel.c", "/a/h.h", "/b/i.h"]),
        ("k.o: /a/sub\\ dir/x.h /a/c\\#.h /a/$$x.h\n", ["/a/sub dir/x.h", "/a/c#.h", "/a/$x.h"]),
        ("k.ptx : k.cu \\\n    /a/c#d.h \\\n    /a/$x.h\n", ["k.cu", "/a/c#d.h", "/a/$x.h"]),
        ("a.o: x.h\n\nx.h:\n", ["x.h"]),
        ("k.ptx: k.rs m.rs\n\nk.d: k.rs m.rs\n\nk.rs:\nm.rs:\n\n# env-dep:HOME=/x\n", ["k.rs", "m.rs"]),
        ("k.o: a.h \\\r\n b.h\r\n", ["a.h", "b.h"]),
        ("", []),
    ],
)
def test_depfiles_of_every_compiler(text: str, files: list[str]) -> None:
    assert read_depfile(text) == files


@pytest.mark.parametrize("name", ["plain.h", "with blank.h", "hash#.h", "dollar$.h", "colon:.h", "back\\slash.h"])
def test_what_gcc_writes_is_what_it_read(tmp_path: Path, name: str) -> None:
    header = tmp_path / name
    header.write_text("")
    (tmp_path / "k.c").write_text(f'#include "{name}"\n')
    subprocess.run(["gcc", "-MM", "-MF", "k.d", "-I", str(tmp_path), "k.c"], cwd=tmp_path, check=True)
    assert read_depfile((tmp_path / "k.d").read_text()) == ["k.c", name]


def test_rustc_says_which_variables_it_read() -> None:
    assert rustc_environment("k.ptx: k.rs\n\n# env-dep:HOME=/x\n# env-dep:A\n") == ["HOME", "A"]


def test_a_changed_a_removed_and_a_new_file_are_seen() -> None:
    variant = Variant({"/a/h.h": "1"}, ["/b/h.h"])
    assert variant.matches(Disk({"/a/h.h": "1"}))
    assert not variant.matches(Disk({"/a/h.h": "2"}))
    assert not variant.matches(Disk({}))
    assert not variant.matches(Disk({"/a/h.h": "1", "/b/h.h": "9"}))
    assert not variant.matches(Disk({"/a/h.h": "1", "/b/h.h/made": "9"}))


def test_the_result_key_tells_contents_and_paths_apart() -> None:
    keys = {
        result_digest(KEY, Variant(files))
        for files in ({}, {"/a": "1"}, {"/a": "2"}, {"/b": "1"}, {"/a": "1", "/b": "1"}, {"/a1": ""}, {"/": "a1"})
    }
    assert len(keys) == 7
    assert result_digest("1" * 64, Variant({})) not in keys
    assert result_digest(KEY, Variant({"/a": "1", "/b": "2"})) == result_digest(KEY, Variant({"/b": "2", "/a": "1"}))


@given(st.dictionaries(st.text(min_size=1), st.text()), st.lists(st.text()))
def test_a_manifest_comes_back_as_it_was(files: dict[str, str], absent: list[str]) -> None:
    variants = [Variant(files, tuple(absent)), Variant({})]
    assert load_manifest(dump_manifest(variants)) == variants


@pytest.mark.parametrize("text", [None, "", "x", "[]", "[9, []]", "[1, 5]", '[1, [["a"]]]', '{"a": 1}', "null"])
def test_a_damaged_manifest_is_an_empty_one(text: str | None) -> None:
    assert load_manifest(text) == []


def test_variants_are_bounded_and_the_newest_is_first() -> None:
    variants: list[Variant] = []
    for number in range(MAX_VARIANTS + 5):
        variants = with_variant(variants, Variant({"/h": str(number)}))
    assert len(variants) == MAX_VARIANTS
    variants = with_variant(variants, Variant({"/h": "10"}))
    assert variants[0].files == {"/h": "10"}
    assert [variant.files["/h"] for variant in variants].count("10") == 1


def test_places_before_the_one_a_file_was_found_in_must_stay_empty() -> None:
    disk = Disk({"/two/h.h": "1", "/two/sub/i.h": "1", "/one/other": "1"})
    absent = must_be_absent(["/two/h.h", "/two/sub/i.h"], ["/one", "/two"], disk.is_there)
    assert "/one/h.h" in absent
    assert "/one/sub" in absent, "the folder is missing, so it is what is watched"
    assert "/two/sub/h.h" in absent, 'sub/i.h may have included "h.h"'
    assert "/two/h.h" not in absent


def test_a_system_header_is_watched_for_under_each_of_its_names() -> None:
    disk = Disk({"/mine/a.h": "1", "/usr/include/bits/t.h": "1"})
    absent = must_be_absent(["/mine/a.h", "/usr/include/bits/t.h"], ["/mine"], disk.is_there)
    assert {"/mine/t.h", "/mine/bits", "/mine/include"} <= set(absent)


def test_a_digest_follows_the_file(tmp_path: Path) -> None:
    file, digests = tmp_path / "h.h", FileDigests()

    def now() -> str | None:
        return Snapshot(digests, file_clock_ns()).digest(str(file))

    assert now() is None
    seen = set()
    for text in ("one", "two", "six"):
        file.write_text(text)  # the same size, within the same tick of the clock
        seen.add(now())
    assert len(seen) == 3
    file.unlink()
    file.mkdir()
    assert now() is None


def test_a_snapshot_looks_once(tmp_path: Path) -> None:
    file = tmp_path / "h.h"
    file.write_text("one")
    snapshot = Snapshot(FileDigests(), file_clock_ns())
    first = snapshot.digest(str(file))
    file.write_text("two")
    assert snapshot.digest(str(file)) == first


def test_a_change_after_a_moment_is_never_missed(tmp_path: Path) -> None:
    file = tmp_path / "h.h"
    for _ in range(200):
        moment = file_clock_ns()
        file.write_text("x")
        assert changed_since(str(file), moment)
    os.utime(file, ns=(0, 0))
    assert changed_since(str(file), moment), "a tool may set mtime back; ctime it cannot"
    file.unlink()
    assert changed_since(str(file), moment)
