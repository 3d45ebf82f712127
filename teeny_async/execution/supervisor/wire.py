"""The messages between a session and its supervisor.

A message is a list of byte strings:

    total length u32 | count u32 | count * length u32 | the strings      (little-endian)

    to the supervisor    "run", the fields of `Request`, the data of each input
                         "kill", name
    to the session       name, facts, there (a byte for each output: 0 when it is missing), stdout, stderr, output...
                         "grown", name, bytes             its processes hold more memory than `Limits.memory`
                         "", traceback                    it failed and is gone

A job's name is that of its folder too. Words of a list are joined by NUL bytes, which none of them can have; limits and
facts are numbers in a fixed order. Both are a third of what nested lists and text cost.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEAD = struct.Struct("<II")


def pack(parts: list[bytes]) -> bytes:
    """One message."""
    return b"".join((header([len(part) for part in parts]), *parts))


def header(sizes: list[int]) -> bytes:
    """What goes before strings of these sizes."""
    return struct.pack(f"<II{len(sizes)}I", 4 * (len(sizes) + 1) + sum(sizes), len(sizes), *sizes)


def words(text: bytes) -> list[bytes]:
    """The words of a list; none of them is empty where the list may be."""
    return text.split(b"\0") if text else []


class Inbox:
    """Takes bytes as they come, gives the messages that are complete with them."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def take(self, data: bytes) -> list[list[bytes]]:
        if self._rest:
            self._rest += data
            found, end = _messages(memoryview(self._rest))
            if end:
                self._rest = self._rest[end:]
            return found
        found, end = _messages(data)
        if end < len(data):
            self._rest += data[end:]
        return found


def _messages(data: bytes | memoryview) -> tuple[list[list[bytes]], int]:
    """The messages in `data`, and where the last of them ends."""
    found = []
    at = 0
    while len(data) - at >= _HEAD.size:
        total, count = _HEAD.unpack_from(data, at)
        if len(data) - at < 4 + total:
            break
        start = at + _HEAD.size + 4 * count
        parts = []
        for size in struct.unpack_from(f"<{count}I", data, at + _HEAD.size):
            parts.append(bytes(data[start : start + size]))
            start += size
        found.append(parts)
        at += 4 + total
    return found, at


class Request(NamedTuple):
    """What a "run" asks for, in the order of its strings; the data of each input follows them."""

    name: bytes
    executable: bytes
    argv: bytes
    env: bytes
    inputs: bytes
    mirror: bytes
    outputs: bytes
    limits: bytes
    warm: bytes


class Limits(NamedTuple):
    """Seconds and bytes; 0 is no limit.

    wall, cpu: of the whole job. memory: what it is expected to hold; more is told, not stopped.
    """

    wall: float
    cpu: float
    grace: float
    capture: int
    output: int
    memory: int = 0


_LIMITS = struct.Struct("<dddQQQ")


def encode_limits(limits: Limits) -> bytes:
    return _LIMITS.pack(*limits)


def decode_limits(data: bytes) -> Limits:
    return Limits._make(_LIMITS.unpack(data))


class Facts(NamedTuple):
    """How a job ended, as it goes over the wire.

    status: a wait status, -1 when nothing was started or when it could not be had. stopped: why, TIMEOUT or the like;
    0 when it was not.
    max_rss: bytes, of the largest process. peak: bytes, of all processes together at the fullest look.
    """

    status: int = -1
    stopped: int = 0
    errno: int = 0
    survivors: int = 0
    unreaped: int = 0
    scratch_full: int = 0
    dropped: int = 0
    wall: float = 0.0
    cpu_user: float = 0.0
    cpu_system: float = 0.0
    max_rss: int = 0
    peak: int = 0


TIMEOUT, CPU_TIMEOUT, CANCELLED = 1, 2, 3
_FACTS = struct.Struct("<iiiiiiQdddQQ")


def encode_facts(facts: Facts) -> bytes:
    return _FACTS.pack(*facts)


def decode_facts(data: bytes) -> Facts:
    return Facts._make(_FACTS.unpack(data))
