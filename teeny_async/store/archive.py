"""A cache in one file: a plain tar whose members are packed entries.

    teeny_async           archive 1, and a line feed
    entries/<digest>      a packed entry (`framing`), which proves itself
    notes/<hex>           the length of a note's name (32 bits), the name, the packed note
    end                   JSON: how many entries and notes there are; without it the archive was cut short

Members stand in the order of their names, with nothing of the machine or the time in their headers, so equal
contents give equal archives. Nothing is ever extracted to a path: members are read by name, and an archive
with any other member is refused. It is not compressed, so a small file cannot become a large one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import struct
import tarfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from teeny_async.errors import CacheError
from teeny_async.store.framing import CorruptEntry, unpack, unpack_note

_FIRST, _HEAD = "teeny_async", b"archive 1\n"
_LAST = "end"
_MEMBER = re.compile(r"(entries|notes)/([0-9a-f]{64})")
_NAME_LENGTH = struct.Struct(">I")
_MAX_MEMBER = 1 << 30
"""Bytes."""


class Member(NamedTuple):
    """One entry (name: its digest) or note (name: its own) with its packed bytes."""

    is_note: bool
    name: str
    data: bytes


class ArchiveWriter:
    """Writes an archive beside its place, and puts it there when it is finished. Raises OSError.

    Entries come in the order of their digests, then notes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        self._file = open(self._temporary, "xb")  # noqa: SIM115  # closed by finish or abandon
        self._tar = tarfile.TarFile(fileobj=self._file, mode="w", format=tarfile.USTAR_FORMAT)
        self._counts = {"entries": 0, "notes": 0}
        self._add(_FIRST, _HEAD)

    def add_entry(self, digest: str, packed: bytes) -> None:
        """Add a packed entry."""
        self._counts["entries"] += 1
        self._add(f"entries/{digest}", packed)

    def add_note(self, name: str, packed: bytes) -> None:
        """Add a packed note."""
        self._counts["notes"] += 1
        raw = name.encode("utf-8", "surrogatepass")
        self._add(f"notes/{hashlib.sha256(raw).hexdigest()}", _NAME_LENGTH.pack(len(raw)) + raw + packed)

    def finish(self) -> int:
        """Put the archive into its place; its size in bytes."""
        self._add(_LAST, json.dumps(self._counts).encode())
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        os.replace(self._temporary, self._path)
        return size

    def abandon(self) -> None:
        """Leave nothing behind; nothing happens after `finish`."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def _add(self, name: str, data: bytes) -> None:
        header = tarfile.TarInfo(name)
        header.size = len(data)
        header.mode = 0o644
        self._tar.addfile(header, io.BytesIO(data))


def read_archive(path: Path) -> Generator[Member, None, None]:
    """The members, verified one by one; the end is reached only if the archive is whole.

    Raises CacheError for whatever is wrong with it.
    """
    counts = {"entries": 0, "notes": 0}
    ended = False
    try:
        with tarfile.open(path, "r:") as tar:
            listed: Any = tar
            for number, header in enumerate(tar):
                listed.members = []  # it would remember them all
                data = _content(tar, header)
                if ended or (number == 0) != (header.name == _FIRST):
                    raise CorruptEntry("it is no archive of ours")
                if header.name == _FIRST:
                    if data != _HEAD:
                        raise CorruptEntry("it is an archive of another version")
                elif header.name == _LAST:
                    ended = True
                    if json.loads(data) != counts:
                        raise CorruptEntry("it has more or fewer members than it was given")
                else:
                    member = _member(header.name, data)
                    counts["notes" if member.is_note else "entries"] += 1
                    yield member
        if not ended:
            raise CorruptEntry("it was cut short")
    except GeneratorExit:
        raise
    except Exception as error:
        raise CacheError(f"{path} cannot be imported: {error} ({type(error).__name__})") from error


def _content(tar: tarfile.TarFile, header: tarfile.TarInfo) -> bytes:
    if not header.isreg() or header.size > _MAX_MEMBER:
        raise CorruptEntry(f"member {header.name!r} is not a plain file, or too large")
    file = tar.extractfile(header)
    data = b"" if file is None else file.read()
    if len(data) != header.size:
        raise CorruptEntry("it was cut short")
    return data


def _member(name: str, data: bytes) -> Member:
    match = _MEMBER.fullmatch(name)
    if match is None:
        raise CorruptEntry(f"member {name!r} is none of ours")
    if match[1] == "entries":
        unpack(match[2], data)
        return Member(False, match[2], data)
    (length,) = _NAME_LENGTH.unpack_from(data)
    raw, packed = data[4 : 4 + length], data[4 + length :]
    if hashlib.sha256(raw).hexdigest() != match[2]:
        raise CorruptEntry(f"member {name!r} has another name inside")
    note = raw.decode("utf-8", "surrogatepass")
    unpack_note(note, packed)
    return Member(True, note, packed)
