"""The objects of a remote: what is packed comes back, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from teeny_async.result import Artifact
from teeny_async.store.base import Entry
from teeny_async.store.framing import CorruptEntry, pack, unpack
from teeny_async.store.remote_layout import (
    INLINE,
    Reference,
    action_name,
    check_blob,
    is_shared_note,
    join,
    split,
    with_outputs,
)

from .kit import digest, entry, failed_entry, rich_entry

LARGE = Entry(Artifact(outputs={"object": bytes(INLINE + 1), "ptx": b"small"}), {"kernel": "k"})


def test_a_small_entry_is_one_object() -> None:
    packed = split(digest(1), rich_entry())
    assert not packed.blobs
    found = join(digest(1), packed.action)
    assert found.entry == unpack(digest(1), pack(digest(1), rich_entry()))
    assert not found.missing


def test_a_large_one_lies_apart_from_its_outputs() -> None:
    packed = split(digest(1), LARGE)
    assert len(packed.action) < 2000
    found = join(digest(1), packed.action)
    outputs = {
        label: check_blob(reference, packed.blobs[reference.sha256]) for label, reference in found.missing.items()
    }
    assert with_outputs(found.entry, outputs) == LARGE


def test_equal_outputs_lie_there_once() -> None:
    assert split(digest(1), LARGE).blobs.keys() == split(digest(2), LARGE).blobs.keys()


@pytest.mark.parametrize("item", [LARGE, entry()], ids=["large", "small"])
def test_another_key_is_not_answered(item: Entry) -> None:
    with pytest.raises(CorruptEntry):
        join(digest(2), split(digest(1), item).action)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2000), st.integers(1, 255), st.booleans())
def test_no_change_of_a_byte_goes_unseen(at: int, flip: int, large: bool) -> None:
    data = bytearray(split(digest(1), LARGE if large else entry()).action)
    data[at % len(data)] ^= flip
    with pytest.raises(CorruptEntry):
        join(digest(1), bytes(data))


def test_failures_are_not_taken_from_others() -> None:
    with pytest.raises(CorruptEntry, match="failure"):
        join(digest(1), pack(digest(1), failed_entry()))


def test_an_output_must_be_what_it_is_called() -> None:
    with pytest.raises(CorruptEntry):
        check_blob(Reference("00" * 32, 3), b"abc")


def test_names_are_checked_and_notes_of_the_machine_stay() -> None:
    assert action_name(digest(10)) == f"v1/ac/00/{digest(10)}"
    with pytest.raises(ValueError, match="hexadecimal"):
        action_name("../../etc/passwd")
    assert is_shared_note("closure:ab")
    assert not is_shared_note("probes-1")
