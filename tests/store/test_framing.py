"""The bytes of an entry prove themselves: what comes out is what went in, or CorruptEntry."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from teeny_async.failures import FailureKind
from teeny_async.result import Artifact, Attempt, Diagnostic, Failure, Usage
from teeny_async.store import framing
from teeny_async.store.base import Entry
from teeny_async.store.framing import CorruptEntry, LazyInfo, pack, pack_note, unpack, unpack_note

from .kit import digest, entry, failed_entry, rich_entry

TEXT = st.text(st.characters(), max_size=12)  # lone surrogates too
NUMBER = st.integers() | st.floats(allow_nan=False)
OPTIONAL_INT = st.none() | st.integers(0, 9999)
DIAGNOSTICS = st.lists(
    st.builds(
        Diagnostic,
        severity=TEXT,
        message=TEXT,
        code=st.none() | TEXT,
        file=st.none() | TEXT,
        line=OPTIONAL_INT,
        column=OPTIONAL_INT,
    ),
    max_size=3,
).map(tuple)
SECONDS = st.floats(0, 1e6)
USAGES = st.builds(Usage, cpu_user=SECONDS, cpu_system=SECONDS, max_rss=st.integers(0, 2**40), wall=SECONDS)
ATTEMPTS = st.builds(
    Attempt,
    number=st.integers(1, 9),
    kind=st.none() | st.sampled_from(FailureKind),
    exit=st.none() | st.integers(-64, 255),
    usage=USAGES,
    delay=SECONDS,
)
ARTIFACTS = st.builds(
    Artifact,
    outputs=st.dictionaries(TEXT, st.binary(max_size=64), max_size=4),
    metrics=st.dictionaries(TEXT, NUMBER | TEXT, max_size=4),
    diagnostics=DIAGNOSTICS,
    log=st.none() | TEXT,
    log_level=st.none() | TEXT,
)
FAILURES = st.builds(
    Failure,
    kind=st.sampled_from(FailureKind),
    message=TEXT,
    exit=st.none() | st.integers(-64, 255),
    diagnostics=DIAGNOSTICS,
    attempts=st.lists(ATTEMPTS, max_size=3).map(tuple),
    tool=TEXT,
    command=st.lists(TEXT, max_size=4).map(tuple),
    log=TEXT,
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.builds(Entry, st.one_of(ARTIFACTS, FAILURES), st.dictionaries(TEXT, JSON, max_size=4))
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(DIGESTS, ENTRIES)
@settings(max_examples=150, deadline=None)
def test_an_entry_comes_back_as_it_was(key: str, given_entry: Entry) -> None:
    found = unpack(key, pack(key, given_entry))
    assert found == given_entry
    assert dict(found.info) == dict(given_entry.info)
    assert pack(key, found) == pack(key, given_entry)


@given(ENTRIES, st.data())
@settings(max_examples=150, deadline=None)
def test_changed_bytes_are_corrupt_and_nothing_else(given_entry: Entry, data: st.DataObject) -> None:
    packed = bytearray(pack(digest(1), given_entry))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(packed)))
    for changed in (bytes(packed[:cut]), bytes(packed) + b"\0"):
        with pytest.raises(CorruptEntry):
            unpack(digest(1), changed)


@pytest.mark.parametrize("sample", [rich_entry(), failed_entry()], ids=["artifact", "failure"])
def test_every_flip_and_every_truncation_is_corrupt(sample: Entry) -> None:
    packed = pack(digest(1), sample)
    for index in range(len(packed)):
        for mask in (0x01, 0x80, 0xFF):
            changed = packed[:index] + bytes([packed[index] ^ mask]) + packed[index + 1 :]
            with pytest.raises(CorruptEntry):
                unpack(digest(1), changed)
        with pytest.raises(CorruptEntry):
            unpack(digest(1), packed[:index])


@given(st.binary(max_size=300))
def test_any_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptEntry):
        unpack(digest(1), data)
    with pytest.raises(CorruptEntry):
        unpack_note("name", data)


def test_an_entry_under_another_key_is_foreign() -> None:
    packed = pack(digest(1), entry())
    with pytest.raises(CorruptEntry, match="another key"):
        unpack(digest(2), packed)


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        None,
        7,
        {"outputs": [["ptx", 5]]},
        {"outputs": [["ptx", -1]]},
        {"outputs": "ptx"},
        {"outputs": [], "metrics": 3},
        {"outputs": [], "diagnostics": [{"severity": "error"}]},
        {"failure": {"kind": "no such kind"}},
        {"failure": {"kind": "crash"}},
        {"failure": []},
    ],
)
def test_forged_content_with_a_right_checksum_is_corrupt(header: Any) -> None:
    head = json.dumps(header).encode()
    lengths = framing._LENGTHS.pack(len(head), 2, -1)
    forged = framing._seal(bytes.fromhex(digest(1)) + lengths + head + b"{}")
    with pytest.raises(CorruptEntry):
        unpack(digest(1), forged)


@pytest.mark.parametrize("content", [b"", b"\xff" * 60, b"\0" * 60, framing._LENGTHS.pack(2**32 - 1, 0, -5)])
def test_forged_lengths_are_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptEntry):
        unpack(digest(1), framing._seal(bytes.fromhex(digest(1)) + content))


def test_deeply_nested_json_is_corrupt() -> None:
    head = b"[" * 100_000
    forged = framing._seal(bytes.fromhex(digest(1)) + framing._LENGTHS.pack(len(head), 0, -1) + head)
    with pytest.raises(CorruptEntry):
        unpack(digest(1), forged)


def test_info_is_parsed_only_when_it_is_looked_at() -> None:
    found = unpack(digest(1), pack(digest(1), entry(kernel="add", params={"BLOCK": 64})))
    assert isinstance(found.info, LazyInfo)
    assert found.info._items is None
    assert found.info["params"] == {"BLOCK": 64}
    assert (len(found.info), list(found.info), repr(found.info)) == (
        2,
        ["kernel", "params"],
        "{'kernel': 'add', 'params': {'BLOCK': 64}}",
    )


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_info_that_is_no_object_is_empty(text: bytes) -> None:
    assert dict(LazyInfo(text)) == {}


def test_every_field_of_the_results_is_kept() -> None:
    """A field that is added to a result type must be added to the framing as well."""
    for sample in (rich_entry(), failed_entry()):
        found = unpack(digest(1), pack(digest(1), sample)).outcome
        for field in dataclasses.fields(sample.outcome):
            value = getattr(found, field.name)
            assert value, f"{field.name} is not set by the sample, or was lost"
            expected = getattr(sample.outcome, field.name)
            assert value == (tuple(expected) if isinstance(expected, list) else expected)


@pytest.mark.parametrize("bad", ["", "00", "g" * 64, "0" * 63, "0" * 65, " " + "0" * 63, "00 " * 32])
def test_a_malformed_digest_is_the_callers_mistake(bad: str) -> None:
    with pytest.raises(ValueError, match=r"hexa|fromhex"):
        pack(bad, entry())


def test_info_must_be_plain_json() -> None:
    with pytest.raises(TypeError):
        pack(digest(1), entry(path=object()))


@given(st.text(st.characters()), st.text(st.characters()))
def test_a_note_comes_back_under_its_own_name_only(name: str, text: str) -> None:
    packed = pack_note(name, text)
    assert unpack_note(name, packed) == text
    with pytest.raises(CorruptEntry):
        unpack_note(name + "x", packed)
    for index in range(0, len(packed), 7):
        changed = packed[:index] + bytes([packed[index] ^ 1]) + packed[index + 1 :]
        with pytest.raises(CorruptEntry):
            unpack_note(name, changed)
