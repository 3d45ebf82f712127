"""Names of output files: portable, telling, and never the same for two results."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from teeny_async.report.naming import MAX_BYTES, file_name

KEY = hashlib.sha256(b"key").hexdigest()
TWELVE = KEY[:12]

# Few and similar texts, so that what could be confused does come together.
words = st.one_of(
    st.text(alphabet="aB_-.+@ 1/é", max_size=6),
    st.sampled_from(["k", "k.sm_90", "k-sm_90", "sm_90", "sm_90+ptx86", "sm_90-ptx86", "default", "", "x" * 300]),
)
targets = st.one_of(st.none(), words)
values = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False), words, st.sampled_from(["1", "true", "1.0"])
)
params = st.dictionaries(st.one_of(st.sampled_from(["A", "B", "A-1", "A.B"]), words), values, max_size=3)
keys = st.integers(0, 5).map(lambda number: hashlib.sha256(bytes([number])).hexdigest())
labels = st.one_of(st.sampled_from(["ptx", "cubin", "object", "o", "asm", "s", "mlir", "log"]), words)
everything = st.tuples(words, targets, params, keys, labels)


def identity(parts: Any) -> Any:
    """What makes two results different: 1, 1.0, True and "1" are different values, order is not."""
    kernel, target, config, key, label = parts
    return kernel, target, frozenset((name, repr(value)) for name, value in config.items()), key, label


@given(everything, everything)
@example(("k.sm_90", "sm_80", {}, KEY, "ptx"), ("k", "sm_90.sm_80", {}, KEY, "ptx"))
@example(("k", None, {}, KEY, "ptx"), ("k", "default", {}, KEY, "ptx"))
@example(("k", "a", {"A": 0, "B": 1}, KEY, "ptx"), ("k", "a", {"A": "0.B-1"}, KEY, "ptx"))
@example(("k", "a", {"A": 1}, KEY, "ptx"), ("k", "a", {"A": "1"}, KEY, "ptx"))
@example(("k", "sm_90+ptx86", {}, KEY, "ptx"), ("k", "sm_90-ptx86", {}, KEY, "ptx"))
@example(("k", "a", {}, KEY, "object"), ("k", "a", {}, KEY, "o"))
@example(("k" * 400, "a", {}, KEY, "ptx"), ("k" * 401, "a", {}, KEY, "ptx"))
@example(("k", "a", {"A": "x" * 400}, KEY, "ptx"), ("k", "a", {"A": "x" * 401}, KEY, "ptx"))
def test_different_results_never_share_a_name(one: Any, other: Any) -> None:
    assert (file_name(*one) == file_name(*other)) == (identity(one) == identity(other))


@given(everything)
@example(("-rf", "..", {"/": "/etc/passwd"}, KEY, ".."))
@example(("k" * 300, "t" * 300, {"p" * 300: "v" * 300}, KEY, "l" * 300))
def test_names_are_portable_and_short_enough(parts: Any) -> None:
    name = file_name(*parts)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.[A-Za-z0-9_][A-Za-z0-9_-]*", name)
    assert len(name.encode()) <= MAX_BYTES


@given(everything)
def test_the_key_is_in_the_name(parts: Any) -> None:
    assert f"-{parts[3][:12]}" in file_name(*parts)


@pytest.mark.parametrize(
    ("kernel", "target", "config", "label", "name"),
    [
        ("saxpy", "sm_90", {}, "ptx", f"saxpy.sm_90-{TWELVE}.ptx"),
        ("my-kernel", "neoverse-v2", {}, "object", f"my-kernel.neoverse-v2-{TWELVE}.o"),
        ("saxpy", None, {}, "asm", f"saxpy.default-{TWELVE}.s"),
        ("saxpy", "sm_120+ptx87", {}, "cubin", f"saxpy.sm_120-ptx87-{TWELVE}.cubin"),
        ("mm", "sm_90", {"TILE": 32, "ROWS": 4}, "ptx", f"mm.sm_90.ROWS-4.TILE-32-{TWELVE}.ptx"),
        (
            "mm",
            "sm_90",
            {"ALPHA": 0.5, "FAST": True, "T": "float"},
            "log",
            f"mm.sm_90.ALPHA-0.5.FAST-true.T-float-{TWELVE}.log",
        ),
        ("mm", "sm_90", {"ALPHA": 1e16, "BETA": -1e-05}, "mlir", f"mm.sm_90.ALPHA-1e16.BETA--1e-05-{TWELVE}.mlir"),
    ],
)
def test_ordinary_names_say_what_they_are(kernel: str, target: str, config: Any, label: str, name: str) -> None:
    assert file_name(kernel, target, config, KEY, label) == name


def test_a_part_that_had_to_be_changed_is_told_apart_by_a_digest() -> None:
    name = file_name("two words", "generic@x86_64-unknown-linux-gnu", {}, KEY, "object")
    assert re.fullmatch(rf"two_words\.generic_x86_64-unknown-linux-gnu-{TWELVE}-[0-9a-f]{{12}}\.o", name)


def test_the_params_are_what_is_shortened() -> None:
    config = {f"PARAMETER_{number:02}": 10**number for number in range(30)}
    name = file_name("matmul_tiled", "sm_90", config, KEY, "ptx")
    assert name.startswith("matmul_tiled.sm_90.PARAMETER_00-1.PARAMETER_01-10.")
    assert len(name) == MAX_BYTES
    assert name.endswith(".ptx")
