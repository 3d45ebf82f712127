"""What lies in a remote and under which names: pure functions between entries and objects.

    v1/ac/<2 digits>/<key>       an action: the packed entry (`teeny_async.store.framing`)
    v1/cas/<2 digits>/<sha256>   an output larger than INLINE, by its content
    v1/notes/<2 digits>/<sha256 of the name>

An entry whose outputs are small is one object, so a hit is one round trip: PTX of 4 to 20 KB is the usual
case. A large output lies by itself, shared by all actions that made the same bytes, and its place in the
action holds a reference: SHA-256 and length. Such an action is packed under a key of its own, derived from
the real one; the key is inside the checksum, so no damage turns references into outputs or the reverse.

Outputs are written before the action that refers to them. Nothing is trusted for its name: the checksum and
the key of an action, the SHA-256 and length of an output are checked whenever they are read.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact
from teeny_async.store.base import Entry
from teeny_async.store.framing import CorruptEntry, key_bytes, pack, unpack

INLINE = 128 * 1024
"""Bytes of outputs up to which an entry is one object."""
SHARED_NOTES = ("closure:", "prelude:")
"""How the names of notes begin that other machines can use: what compilers read, checked against the files
that are there, and texts that are named by their digest. What was probed or measured on one machine is no other machine's business."""

_REFERENCE = struct.Struct(">32sQ")


class Reference(NamedTuple):
    """An output that lies by itself. sha256: hexadecimal; size: bytes."""

    sha256: str
    size: int


class Packed(NamedTuple):
    """An entry as objects. blobs: SHA-256 -> content, to be written first."""

    action: bytes
    blobs: Mapping[str, bytes]


class Found(NamedTuple):
    """An action that was read. missing: label -> where that output is to be fetched from."""

    entry: Entry
    missing: Mapping[str, Reference]


def action_name(digest: str) -> str:
    """Where the entry of a key lies. Raises ValueError for what is no key digest."""
    return f"v1/ac/{digest[:2]}/{key_bytes(digest).hex()}"


def blob_name(sha256: str) -> str:
    """Where an output lies."""
    return f"v1/cas/{sha256[:2]}/{sha256}"


def note_name(name: str) -> str:
    """Where a note lies."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"v1/notes/{digest[:2]}/{digest}"


def is_shared_note(name: str) -> bool:
    """Whether a note is worth sending to other machines."""
    return name.startswith(SHARED_NOTES)


def split(digest: str, entry: Entry) -> Packed:
    """The objects of an artifact's entry. Raises TypeError or ValueError when its info is not plain JSON."""
    artifact = entry.outcome
    assert isinstance(artifact, Artifact), "failures are not for other machines"
    if sum(map(len, artifact.outputs.values())) <= INLINE:
        return Packed(pack(digest, entry), {})
    blobs, references = {}, {}
    for label, data in artifact.outputs.items():
        sha256 = hashlib.sha256(data)
        blobs[sha256.hexdigest()] = data
        references[label] = _REFERENCE.pack(sha256.digest(), len(data))
    record = replace(entry, outcome=replace(artifact, outputs=FrozenMap(references)))
    return Packed(pack(_split_key(digest), record), blobs)


def join(digest: str, data: bytes) -> Found:
    """The entry in an action object. Raises CorruptEntry for anything but an artifact of this very key."""
    try:
        entry, is_split = unpack(digest, data), False
    except CorruptEntry as whole:
        try:
            entry, is_split = unpack(_split_key(digest), data), True
        except CorruptEntry:
            raise whole from None
    if not isinstance(entry.outcome, Artifact):
        raise CorruptEntry("it holds a failure, which no other machine has a say in")
    if not is_split:
        return Found(entry, {})
    return Found(entry, {label: _reference(text) for label, text in entry.outcome.outputs.items()})


def check_blob(reference: Reference, data: bytes) -> bytes:
    """The output, if it is the one referred to. Raises CorruptEntry."""
    if len(data) != reference.size or hashlib.sha256(data).hexdigest() != reference.sha256:
        raise CorruptEntry("an output is not what its name says")
    return data


def with_outputs(entry: Entry, outputs: Mapping[str, bytes]) -> Entry:
    """The entry with its outputs in place of the references to them."""
    assert isinstance(entry.outcome, Artifact)
    return replace(entry, outcome=replace(entry.outcome, outputs=FrozenMap(outputs)))


def _split_key(digest: str) -> str:
    return hashlib.sha256(b"teeny_async split action\0" + key_bytes(digest)).hexdigest()


def _reference(text: bytes) -> Reference:
    try:
        sha256, size = _REFERENCE.unpack(text)
    except struct.error:
        raise CorruptEntry("a reference to an output is malformed") from None
    return Reference(sha256.hex(), size)
