"""The search space: counted and described before it runs, lazy, with overrides, PTX versions and flags."""

from __future__ import annotations

import itertools

import pytest

from teeny_async import Kernel, RequestError, Sweep, Target
from teeny_async.tuning.values import expand_range, powers_of_two

KERNEL = Kernel(name="k", source="int f() { return N * M; }", language="c")


def test_powers_of_two() -> None:
    assert powers_of_two(16, 256) == (16, 32, 64, 128, 256)
    assert powers_of_two(1, 1) == (1,)
    assert powers_of_two(3, 9) == (4, 8)
    for bounds in ((0, 4), (8, 4), (5, 7)):
        with pytest.raises(RequestError):
            powers_of_two(*bounds)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..4", (1, 2, 3, 4)),
        ("0..64+16", (0, 16, 32, 48, 64)),
        ("16..100*2", (16, 32, 64)),
        ("64", None),
        ("fast", None),
    ],
)
def test_short_forms_of_the_command_line(text: str, values: tuple[int, ...] | None) -> None:
    assert expand_range(text) == values


@pytest.mark.parametrize("text", ["4..1", "0..8*2", "1..8*1", "1..9+0", "0..99999999"])
def test_a_range_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        expand_range(text)


def test_it_is_counted_and_described_before_it_runs() -> None:
    sweep = Sweep(
        KERNEL,
        ["sm_90", "gfx942"],
        {"N": powers_of_two(1, 8), "M": range(3)},
        lambda config: config["N"] * config["M"] <= 8,
        overrides={"amd": {"M": [1]}},
    )
    assert sweep.count() == len(list(sweep)) == 11 + 4
    text = sweep.describe()
    assert "4 x N: 1, 2, 4, 8" in text
    assert "on amd, M: 1" in text
    assert "15 compiles (of 16; 1 constraint rejected 1)" in text


def test_a_space_that_is_too_large_to_count_is_described_all_the_same() -> None:
    sweep = Sweep(KERNEL, "sm_90", {"N": range(1000), "M": range(1000)}, lambda config: False)
    assert sweep.describe(count=False).endswith("at most 1,000,000 compiles (1 constraint not tried yet)")
    assert Sweep(KERNEL, "sm_90", {"N": [1, 2]}).describe(count=False).endswith("2 compiles")


def test_limits_are_those_of_every_request() -> None:
    [request] = Sweep(KERNEL, "sm_90", timeout=9.0, cpu_timeout=5.0)
    assert (request.timeout, request.cpu_timeout) == (9.0, 5.0)


def test_a_space_of_any_size_is_lazy() -> None:
    sweep = Sweep(KERNEL, "sm_90", {f"P{n}": range(1000) for n in range(10)})
    assert sweep.count() == 1000**10
    first, second = itertools.islice(sweep.configs(), 2)
    assert (first["P9"], second["P9"]) == (0, 1)
    [space] = sweep.spaces()
    assert space.at(space.size - 1)["P0"] == 999


def test_overrides_by_name_pattern_and_family() -> None:
    sweep = Sweep(
        KERNEL,
        ["sm_80", "sm_90+ptx86", "znver4"],
        {"N": [1, 2], "M": [1]},
        overrides={"nvidia": {"N": [4]}, "sm_9*": {"N": [8, 16]}},
    )
    found = {space.target_name: space.dimensions["N"] for space in sweep.spaces()}
    assert found == {"sm_80": (4,), "sm_90+ptx86": (8, 16), "znver4": (1, 2)}
    assert [config["N"] for config in sweep.configs("sm_80")] == [4]


def test_overrides_that_change_nothing_are_refused() -> None:
    with pytest.raises(RequestError, match="no target is 'sm_7"):
        Sweep(KERNEL, "sm_90", {"N": [1]}, overrides={"sm_7*": {"N": [2]}})
    with pytest.raises(RequestError, match="X is no param"):
        Sweep(KERNEL, "sm_90", {"N": [1]}, overrides={"sm_90": {"X": [2]}})


def test_ptx_versions_are_a_dimension_of_nvidia_targets() -> None:
    sweep = Sweep(KERNEL, ["sm_90", "sm_90+ptx80", "znver4"], ptx_versions=[83, 86])
    assert [str(target) for target in sweep.targets] == ["sm_90+ptx83", "sm_90+ptx86", "sm_90+ptx80", "znver4"]
    with pytest.raises(RequestError):
        Sweep(KERNEL, ["znver4"], ptx_versions=[86])
    with pytest.raises(RequestError):
        Sweep(KERNEL, ["sm_120"], ptx_versions=[86])


def test_flags_are_a_dimension() -> None:
    sweep = Sweep(
        KERNEL,
        Target.parse("znver4"),
        {"N": [1, 2]},
        lambda config: config["N"] == 1 or config["flags"] == "",
        flags=("-g",),
        flag_choices=["", "-ffast-math", ("-mllvm", "-x y")],
    )
    assert [(request.params["N"], request.flags) for request in sweep] == [
        (1, ("-g",)),
        (2, ("-g",)),
        (1, ("-g", "-ffast-math")),
        (1, ("-g", "-mllvm", "-x y")),
    ]
    assert all("flags" not in request.params for request in sweep)
    with pytest.raises(RequestError):
        Sweep(KERNEL, "sm_90", {"flags": [1]}, flag_choices=["-g"])
