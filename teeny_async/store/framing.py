"""The bytes of an entry: one value, which proves itself when it is read.

    magic and schema   8 bytes
    checksum          32 bytes   SHA-256 over everything that follows
    key digest        32 bytes   so an entry filed under another key is foreign
    lengths           16 bytes   of header and info (unsigned 32 bits), of log (signed 64 bits, -1: none)
    header            JSON       labels and lengths of the outputs, metrics, diagnostics; or the failure; and
                                 what hits are counted by: the toolchain and target, the seconds it took
    info              JSON       for people; not parsed on a hit
    log               UTF-8
    outputs           bytes      one after the other, in the order of the header

`unpack` gives the entry that was packed under this very digest, or raises `CorruptEntry`; nothing
else. The checksum guards against accidents. Someone who can write to the folder can forge an entry
with a right checksum, so nothing in it is ever executed, and what does not parse is corrupt too.
Bump `_MAGIC`'s last byte with any change of the layout: old entries then read as corrupt, so as misses.

A hit costs one SHA-256 pass and one copy of the outputs; the header is small, and fields that have
their default value are left out of it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Attempt, Diagnostic, Failure, Usage
from teeny_async.store.base import Entry

_MAGIC = b"tnyasyn\x01"
_LENGTHS = struct.Struct(">IIq")
_CHECKED = len(_MAGIC) + 32
"""Offset of the first byte that the checksum covers."""
_PREFIX = _CHECKED + 32 + _LENGTHS.size
_BETWEEN = "|"
_LABEL_LENGTH = 200
_NO_METRICS: FrozenMap[Any] = FrozenMap()
_decode = json.JSONDecoder().raw_decode
_encoded = json.JSONEncoder(separators=(",", ":")).encode
"""`json.loads` takes three times as long for something so short."""


class CorruptEntry(Exception):
    """Bytes that are not the entry (or the note) that was asked for; the message says why."""


class LazyInfo(Mapping[str, Any]):
    """A JSON object that is parsed when it is first looked at.

    label, seconds: see `label`; what a hit is counted by, without a look at the rest.
    """

    __slots__ = ("_items", "label", "seconds", "text")

    def __init__(self, text: bytes, label: str = "", seconds: float = 0.0) -> None:
        self.text = text
        self.label = label
        self.seconds = seconds
        self._items: dict[str, Any] | None = None

    def _load(self) -> dict[str, Any]:
        if self._items is None:
            try:
                items = json.loads(self.text)
            except (ValueError, RecursionError):
                # Only a forged entry gets here: the checksum was right. Info decides nothing.
                items = None
            self._items = items if isinstance(items, dict) else {}
        return self._items

    def __getitem__(self, key: str) -> Any:
        return self._load()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def __repr__(self) -> str:
        return repr(self._load())


def key_bytes(digest: str) -> bytes:
    """The 32 bytes of a key digest. Raises ValueError for anything but 64 hexadecimal digits."""
    key = bytes.fromhex(digest)
    if len(key) != 32 or len(digest) != 64:
        raise ValueError(f"a key digest is 64 hexadecimal digits, not {digest!r}")
    return key


def label(info: Mapping[str, Any]) -> str:
    """What an entry's hits are counted under: its info's "toolchain" and "target"; "" when it says neither."""
    if isinstance(info, LazyInfo):
        return info.label
    toolchain, target = info.get("toolchain"), info.get("target")
    if toolchain is None and target is None:
        return ""
    return f"{str(toolchain or '').replace(_BETWEEN, '/')}{_BETWEEN}{target or ''}"[:_LABEL_LENGTH]


def read_label(text: str) -> tuple[str, str]:
    """(toolchain, target) of a label."""
    toolchain, _, target = text.partition(_BETWEEN)
    return toolchain, target


def pack(digest: str, entry: Entry) -> bytes:
    """The bytes of an entry. Raises TypeError or ValueError when its info is not plain JSON data."""
    outcome = entry.outcome
    if isinstance(outcome, Artifact):
        header, log = _artifact_header(outcome), outcome.log
        blobs: Sequence[bytes] = tuple(outcome.outputs.values())
    else:
        header, log, blobs = {"failure": _failure_header(outcome)}, outcome.log, ()
    if name := label(entry.info):
        header["label"], header["seconds"] = name, _seconds(entry.info)
    head = _to_json(header)
    info = entry.info.text if isinstance(entry.info, LazyInfo) else _to_json(dict(entry.info.items()))
    text = b"" if log is None else log.encode("utf-8", "surrogatepass")
    lengths = _LENGTHS.pack(len(head), len(info), -1 if log is None else len(text))
    return _seal(b"".join((key_bytes(digest), lengths, head, info, text, *blobs)))


def unpack(digest: str, data: bytes) -> Entry:
    """The entry packed under this digest. Raises CorruptEntry, and nothing else, for bad bytes."""
    return unpack_under(key_bytes(digest), data)


def unpack_under(key: bytes, data: bytes) -> Entry:
    """As `unpack`, with the key's 32 bytes."""
    _check(data)
    if data[_CHECKED : _CHECKED + 32] != key:
        raise CorruptEntry("it belongs to another key")
    try:
        return _parse(data)
    except CorruptEntry:
        raise
    except Exception as error:  # noqa: BLE001  # forged content fails in any way that a parser can
        raise CorruptEntry(f"the checksum is right but the content is not ({type(error).__name__}: {error})") from None


def pack_note(name: str, text: str) -> bytes:
    """The bytes of a note; its name takes the place of the key digest."""
    return _seal(_name_digest(name) + text.encode("utf-8", "surrogatepass"))


def unpack_note(name: str, data: bytes) -> str:
    """The text of a note. Raises CorruptEntry, and nothing else, for bad bytes."""
    _check(data)
    if data[_CHECKED : _CHECKED + 32] != _name_digest(name):
        raise CorruptEntry("it belongs to another name")
    try:
        return data[_CHECKED + 32 :].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CorruptEntry("the checksum is right but the text is not UTF-8") from None


def _name_digest(name: str) -> bytes:
    return hashlib.sha256(b"note\0" + name.encode("utf-8", "surrogatepass")).digest()


def _seal(content: bytes) -> bytes:
    return b"".join((_MAGIC, hashlib.sha256(content).digest(), content))


def _check(data: bytes) -> None:
    if data[: len(_MAGIC)] != _MAGIC:
        raise CorruptEntry("it is no entry of this version")
    if hashlib.sha256(memoryview(data)[_CHECKED:]).digest() != data[len(_MAGIC) : _CHECKED]:
        raise CorruptEntry("its checksum does not match")


def _parse(data: bytes) -> Entry:
    head_size, info_size, log_size = _LENGTHS.unpack_from(data, _CHECKED + 32)
    info_at = _PREFIX + head_size
    log_at = info_at + info_size
    offset = log_at + max(log_size, 0)
    header, end = _decode(data[_PREFIX:info_at].decode("ascii"))
    if end != head_size:
        raise CorruptEntry("its header goes on after its end")
    log = None if log_size < 0 else data[log_at:offset].decode("utf-8", "surrogatepass")
    info = LazyInfo(data[info_at:log_at], str(header.get("label", "")), float(header.get("seconds", 0.0)))
    if "failure" in header:
        outcome: Artifact | Failure = _failure(header["failure"], log or "")
    else:
        outputs = {}
        for label, size in header["outputs"]:
            outputs[label] = data[offset : offset + size]
            offset += size
        metrics = header.get("metrics")
        outcome = Artifact(
            outputs=FrozenMap(outputs),
            metrics=FrozenMap(metrics) if metrics else _NO_METRICS,
            diagnostics=_diagnostics(header),
            log=log,
            log_level=header.get("log_level"),
        )
    if offset != len(data):
        raise CorruptEntry("its lengths do not add up")
    return Entry(outcome, info)


def _seconds(info: Mapping[str, Any]) -> float:
    if isinstance(info, LazyInfo):
        return info.seconds
    seconds = info.get("seconds")
    return round(float(seconds), 6) if isinstance(seconds, (int, float)) else 0.0


def _artifact_header(artifact: Artifact) -> dict[str, Any]:
    header: dict[str, Any] = {"outputs": [[label, len(data)] for label, data in artifact.outputs.items()]}
    if artifact.metrics:
        header["metrics"] = dict(artifact.metrics)
    if artifact.diagnostics:
        header["diagnostics"] = [_values(diagnostic) for diagnostic in artifact.diagnostics]
    if artifact.log_level is not None:
        header["log_level"] = artifact.log_level
    return header


def _failure_header(failure: Failure) -> dict[str, Any]:
    header: dict[str, Any] = {"kind": failure.kind.value, "message": failure.message, "exit": failure.exit}
    header["tool"] = failure.tool
    header["command"] = list(failure.command)
    header["diagnostics"] = [_values(diagnostic) for diagnostic in failure.diagnostics]
    header["attempts"] = [
        {
            "number": attempt.number,
            "kind": attempt.kind and attempt.kind.value,
            "exit": attempt.exit,
            "usage": _values(attempt.usage),
            "delay": attempt.delay,
        }
        for attempt in failure.attempts
    ]
    return header


def _failure(header: dict[str, Any], log: str) -> Failure:
    return Failure(
        kind=FailureKind(header["kind"]),
        message=header["message"],
        exit=header["exit"],
        diagnostics=_diagnostics(header),
        attempts=tuple(_attempt(attempt) for attempt in header["attempts"]),
        tool=header["tool"],
        command=tuple(header["command"]),
        log=log,
    )


def _attempt(values: dict[str, Any]) -> Attempt:
    kind = values["kind"]
    return Attempt(
        number=values["number"],
        kind=None if kind is None else FailureKind(kind),
        exit=values["exit"],
        usage=Usage(**values["usage"]),
        delay=values["delay"],
    )


def _diagnostics(header: dict[str, Any]) -> tuple[Diagnostic, ...]:
    return tuple(Diagnostic(**values) for values in header.get("diagnostics", ()))


def _values(item: Diagnostic | Usage) -> dict[str, Any]:
    """The fields that differ from None, by name."""
    named = ((entry.name, getattr(item, entry.name)) for entry in fields(item))
    return {name: value for name, value in named if value is not None}


def _to_json(value: object) -> bytes:
    # Escaping to ASCII also carries lone surrogates through, which compilers' output can contain.
    return _encoded(value).encode("ascii")
