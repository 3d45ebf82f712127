"""File names by teenygrad's formula, and what they and the PTX say."""

from __future__ import annotations

import pytest

from teeny_async import Target
from teeny_async.upstream.blame import Made, culprit
from teeny_async.upstream.layout import (
    Header,
    Origin,
    file_hash,
    find_origin,
    kernel_id,
    read_header,
    split_source,
    split_stem,
    stem,
    target_problem,
    targets_of,
)
from tests.upstream.kit import by_hand

ID = "vector_add__f32__1024"
SOURCE = "fn f() {}"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        # printf 'vector_add__f32__1024sm_90\x52\x00\x00\x00' | sha256sum, and so on
        (Origin(ID, None, None), "697c84df9961b9040c5f64a2292a0f5daaf4c7cc82052cbb1cf6da2514a92487"),
        (Origin(ID, "sm_90", None), "a4f9feb33ec138b229661dfa66937d317863eb3d093ec799ee70667743c5fa4b"),
        (Origin(ID, "sm_90", 82), "aba094ccd37ac2071b240c59bd46ce9aec889832b0ae6e70884563834ffdb37a"),
        (Origin(ID, None, 87), "6ef4f2da8043e905977df567af84f5cb5cef5732b43d3e454cc4ecb6f200f0e7"),
        (
            Origin(kernel_id(None, SOURCE), "sm_120", 87),
            "cdab2c77d41984fde53d18f32975165140bc605b1e32e1dc5f472cc92e8a4b63",
        ),
    ],
)
def test_hashes_are_those_of_sha256sum(origin: Origin, expected: str) -> None:
    assert file_hash(origin) == expected
    assert stem("k", origin) == f"k_{expected}" == by_hand("k", *origin)


def test_a_kernel_without_an_id_has_its_source_for_one() -> None:
    assert kernel_id(ID, SOURCE) == ID
    assert kernel_id(None, SOURCE) == "6a8ff5ba6c1b7bbcf2cbebb9d38c826db877408a94c8478709e72a200a51db81"


@pytest.mark.parametrize("name", ["", "a/b", "a\0b", "x" * 200])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="file name"):
        stem(name, Origin(ID, None, None))


def test_stems() -> None:
    whole = stem("saxpy_fast", Origin(ID, "sm_90", None))
    assert split_stem(whole) == ("saxpy_fast", whole[-64:])
    for wrong in ("saxpy", whole[:-1], whole.upper(), f"_{whole[-64:]}", f"a/{whole}"):
        assert split_stem(wrong) is None


@pytest.mark.parametrize("cpu", [None, "sm_75", "sm_90", "sm_120a"])
@pytest.mark.parametrize("ptx_version", [None, 63, 87])
def test_a_hash_gives_its_target_back(cpu: str | None, ptx_version: int | None) -> None:
    origin = Origin(ID, cpu, ptx_version)
    assert find_origin(file_hash(origin), ["other", ID]) == origin
    assert find_origin(file_hash(origin), ["other"]) is None
    near = find_origin(file_hash(origin), [ID], Header("sm_90a", 87))
    assert near == (origin if cpu in (None, "sm_90") and ptx_version in (None, 87) else None)


def test_what_ptx_says_it_is() -> None:
    header = read_header(b"// by LLVM\n\n.version 8.6\n.target sm_90a\n.address_size 64\n")
    assert header == Header("sm_90a", 86)
    assert header.targets == [Target("sm_90", ptx_version=86), Target(ptx_version=86)]
    assert Header("sm_90", 63).targets == [Target(ptx_version=63)]
    assert targets_of(Origin(ID, "sm_120", 63)) == []
    assert read_header(b"\x7fELF") is None
    assert read_header(b"") is None


@pytest.mark.parametrize(
    ("origin", "problem"),
    [
        (Origin(ID, "sm_90", 86), None),
        (Origin(ID, "sm_90a", None), None),
        (Origin(ID, None, None), None),
        (Origin(ID, "sm_80", 86), "it is for sm_90a, its name says sm_80"),
        (Origin(ID, "sm_90", 87), "it is PTX 8.6, its name says 8.7"),
    ],
)
def test_ptx_against_its_name(origin: Origin, problem: str | None) -> None:
    assert target_problem(Header("sm_90a", 86), origin) == problem


def test_a_source_is_parted_by_the_longest_prelude_that_fits() -> None:
    assert split_source("pre lude kernel", ["pre ", "", "pre lude ", "other"]) == ("pre lude ", "kernel")
    assert split_source("kernel", ["pre "]) == ("", "kernel")


def test_who_is_to_blame() -> None:
    before, now = Made("old", "c1"), Made("new", "c1")
    assert culprit("new", None, [before], "c1") == "source"
    assert culprit("new", None, [now], "c2") == "compiler"
    assert culprit("new", None, [before, now], "c2") == "compiler"
    assert culprit("new", "old", [], "c1") == "source"
    assert culprit("new", "new", [], "c1") == "compiler"
    assert culprit("new", None, [Made(None, "c2")], "c1") == "source or compiler"
    assert culprit("new", None, [], "c1") == "source or compiler"
