"""Keys: every component counts, nothing else does, and no two requests share one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.keys import CacheKey, PartDigests, components, diff, joined, key_digest, request_key
from teeny_async.toolchains.base import Toolchain

TOOL = Toolchain(name="zig", path="/opt/zig", version="zig 1", fingerprint="f1")
ACTION = Action(
    argv=("zig", "clang", "-O3", "kernel.c", "-o", "kernel.ptx"),
    executable="/opt/zig",
    env={"RUSTC_BOOTSTRAP": "1"},
    neutral={"PATH": "/bin"},
    inputs=(Input("kernel.c", ("prelude", "int f;")),),
    outputs={"ptx": "kernel.ptx"},
    required=("ptx",),
    expect={"cpu": "sm_90"},
)


def key(action: Action = ACTION, tool: Toolchain = TOOL) -> CacheKey:
    stages = [(action, tool)]
    return request_key(stages, PartDigests(), lambda: components(stages, PartDigests()))


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": (*ACTION.argv, "-g")},
        {"argv": ACTION.argv[:-1]},
        {"argv": (*ACTION.argv[:2], "-O2", *ACTION.argv[3:])},
        {"env": {}},
        {"env": {"RUSTC_BOOTSTRAP": "0"}},
        {"env": {"RUSTC_BOOTSTRAP": "1", "TEENYC_PTX_VERSION": "86"}},
        {"inputs": (Input("kernel.c", ("prelude", "int g;")),)},
        {"inputs": (Input("kernel.c", ("prelud", "int f;")),)},
        {"inputs": (Input("kernel.cu", ("prelude", "int f;")),)},
        {"inputs": ()},
        {"outputs": {"asm": "kernel.ptx"}},
        {"outputs": {"ptx": "kernel.ptx", "mlir": "kernel.mlir"}},
        {"expect": {"cpu": "sm_80"}},
        {"expect": {}},
    ],
)
def test_what_can_change_the_output_changes_the_key(changes: dict[str, Any]) -> None:
    assert key(replace(ACTION, **changes)) != key()


@pytest.mark.parametrize(
    "changes",
    [
        {"neutral": {"PATH": "/elsewhere", "MAKEFLAGS": "-j"}},
        {"executable": "/elsewhere/zig"},
        {"capture_limit": 7},
        {"env": dict(reversed(list(ACTION.env.items())))},
    ],
)
def test_what_cannot_change_the_output_does_not(changes: dict[str, Any]) -> None:
    assert key(replace(ACTION, **changes)) == key()


def test_the_compiler_is_in_it_by_its_contents() -> None:
    assert key(tool=replace(TOOL, fingerprint="f2")) != key()
    assert key(tool=replace(TOOL, name="clang")) != key()
    assert key(tool=replace(TOOL, path="/moved/zig", version="renamed")) == key()


def test_stages_are_told_apart() -> None:
    one, two = [(ACTION, TOOL)], [(ACTION, TOOL), (ACTION, TOOL)]
    assert key_digest(components(one, PartDigests())) != key_digest(components(two, PartDigests()))


def test_explain_names_every_component_and_diff_what_differs() -> None:
    explained = key().explain()
    assert explained["argv[2]"] == "-O3"
    assert explained["env.RUSTC_BOOTSTRAP"] == "1"
    assert explained["expect.cpu"] == "sm_90"
    assert explained["fingerprint"] == "f1"
    assert len(explained["input kernel.c[0]"]) == 64
    assert explained["input kernel.c[1]"] != explained["input kernel.c[0]"]
    changed = key(replace(ACTION, argv=(*ACTION.argv[:2], "-O2", *ACTION.argv[3:]), expect={}))
    assert diff(key(), changed) == {"argv[2]": ("-O3", "-O2"), "expect.cpu": ("sm_90", None)}


def test_a_nul_is_refused_where_it_could_forge_a_boundary() -> None:
    with pytest.raises(RequestError, match="NUL"):
        key(replace(ACTION, argv=("zig", "a\0b")))


def test_a_shared_part_is_hashed_once() -> None:
    digests = PartDigests()
    prelude = "x" * 93_000
    assert digests.of(prelude) is digests.of(prelude)
    assert digests.of(prelude) == digests.of("x" * 93_000)


words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=4)
maps = st.dictionaries(words, words, max_size=2)
actions = st.builds(
    Action,
    argv=st.lists(words, max_size=3).map(tuple),
    executable=st.just("x"),
    env=maps,
    inputs=st.lists(st.builds(Input, words, st.lists(words, max_size=2).map(tuple)), max_size=2).map(tuple),
    outputs=maps,
    expect=maps,
)
tools = st.builds(Toolchain, name=words, path=st.just("x"), version=st.just("x"), fingerprint=words)
chains = st.lists(st.tuples(actions, tools), min_size=1, max_size=2)


def identity(chain: Sequence[tuple[Action, Toolchain]]) -> object:
    """What a key stands for, compared by value."""

    def of(mapping: Mapping[str, str], ordered: bool) -> object:
        return tuple(mapping.items()) if ordered else tuple(sorted(mapping.items()))

    return [
        (
            *(tool.name, tool.fingerprint, action.argv, of(action.env, False), of(action.outputs, True)),
            *(of(action.expect, False), tuple((item.name, *item.parts) for item in action.inputs)),
        )
        for action, tool in chain
    ]


@given(chains, chains)
def test_no_two_different_requests_share_a_key(one: Any, two: Any) -> None:
    digests = PartDigests()
    same = key_digest(components(one, digests)) == key_digest(components(two, digests))
    assert same == (identity(one) == identity(two))


@given(st.lists(words, max_size=4), st.lists(words, max_size=4))
def test_joining_keeps_lists_apart(one: list[str], two: list[str]) -> None:
    assert (joined(one) == joined(two)) == (one == two)
