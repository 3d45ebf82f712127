"""What is written on the command line, read into values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from teeny_async.cli.requests import _folder_of
from teeny_async.cli.values import (
    parse_defines,
    parse_params,
    parse_ptx_versions,
    parse_targets,
    parse_value,
    split_list,
)
from teeny_async.errors import RequestError
from teeny_async.target import Target


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("-1", -1),
        ("0", 0),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("true", True),
        ("false", False),
        ("float", "float"),
        ("0x40", "0x40"),
        ("007", "007"),
        ("1.0f", "1.0f"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1_000", "1_000"),
        ("٣", "٣"),
        ("", ""),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert (parse_value(text), type(parse_value(text))) == (value, type(value))


def test_lists_are_comma_separated_and_repeated() -> None:
    assert split_list(["a,b", " c ,", "a"]) == ["a", "b", "c"]


def test_params_come_in_the_order_given_each_value_once() -> None:
    assert parse_params(["B=2,1,2", "A=x", "B=3"]) == {"B": [2, 1, 3], "A": ["x"]}
    assert repr(parse_params(["T=1,true", "T=1.0"])) == "{'T': [1, True, 1.0]}"


@pytest.mark.parametrize("text", ["", "BLOCK", "BLOCK=", "=64", "BLOCK=,"])
def test_malformed_params(text: str) -> None:
    with pytest.raises(click.BadParameter, match="NAME=V1,V2"):
        parse_params([text])


def test_defines_are_read_as_a_c_compiler_does() -> None:
    assert parse_defines(["A=1.0f", "B", "C=", "D=a=b"]) == {"A": "1.0f", "B": "1", "C": "", "D": "a=b"}
    with pytest.raises(click.BadParameter):
        parse_defines(["=1"])


def test_ptx_versions() -> None:
    assert parse_ptx_versions(["86,8.7", "86"]) == [86, 87]
    for text in ("8", "eight", "8.x", "8.65"):
        with pytest.raises(click.BadParameter, match=r"8\.6"):
            parse_ptx_versions([text])


def test_every_nvidia_target_comes_in_every_ptx_version() -> None:
    found = parse_targets(["sm_80,znver4", "sm_120+ptx88"], [86, 87])
    assert [str(target) for target in found] == ["sm_80+ptx86", "sm_80+ptx87", "znver4", "sm_120+ptx88"]


def test_no_target_is_the_compilers_default() -> None:
    assert parse_targets([], []) == [None]
    assert parse_targets([], [86]) == [Target(ptx_version=86)]


def test_a_target_given_twice_is_one() -> None:
    assert parse_targets(["sm_80", "sm-80,80"], []) == [Target("sm_80")]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(RequestError) as caught:
        parse_targets(["sm_80,znver9,sm_8x,sm_120"], [86])
    for part in ("'znver9'", "znver5", "'sm_8x'", "sm_120 needs PTX version 87"):
        assert part in str(caught.value)


def test_a_ptx_version_is_for_nvidia_targets() -> None:
    with pytest.raises(click.BadParameter, match="NVIDIA"):
        parse_targets(["znver4"], [86])


def test_a_linked_kernel_is_at_home_where_its_file_lies(tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    (real / "a.c").touch()
    (other / "b.c").symlink_to(real / "a.c")
    (tmp_path / "linked").symlink_to(real)
    for path in (real / "a.c", other / "b.c", tmp_path / "linked" / "a.c"):
        assert _folder_of(path) == path.resolve().parent == real
