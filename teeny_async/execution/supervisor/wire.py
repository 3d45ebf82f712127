"""The messages between a session and its supervisor.

A message is a list of byte strings:

    total length u32 | count u32 | count * length u32 | the strings      (little-endian)

    to the supervisor    "run", id, folder, executable, argv, env, inputs (name, data, ...), mirror, outputs (names), limits
                         "kill", id
    to the session       id, facts, stdout, stderr, output...
                         "grown", id, bytes               its processes hold more memory than `Limits.memory`
                         "", traceback                    it failed and is gone
"""

from __future__ import annotations

import struct
from typing import NamedTuple


def pack(parts: list[bytes]) -> bytes:
    """One message, or a list inside a message."""
    sizes = [len(part) for part in parts]
    header = struct.pack(f"<II{len(sizes)}I", 4 * (len(sizes) + 1) + sum(sizes), len(sizes), *sizes)
    return b"".join((header, *parts))


def unpack(data: bytes | memoryview, offset: int = 0) -> list[bytes] | None:
    """The strings of the message at `offset`; None while it is incomplete."""
    if len(data) - offset < 8:
        return None
    total, count = struct.unpack_from("<II", data, offset)
    if len(data) - offset < 4 + total:
        return None
    sizes = struct.unpack_from(f"<{count}I", data, offset + 8)
    parts = []
    at = offset + 8 + 4 * count
    for size in sizes:
        parts.append(bytes(data[at : at + size]))
        at += size
    return parts


def message_size(data: bytes | bytearray, offset: int = 0) -> int:
    """Bytes of the message at `offset`, its length field included."""
    return 4 + int.from_bytes(data[offset : offset + 4], "little")


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


class Facts(NamedTuple):
    """How a job ended, as it goes over the wire.

    status: a wait status, -1 when nothing was started or when it could not be had. max_rss: bytes, of the
    largest process. peak: bytes, of all processes together at the fullest look.
    """

    status: int = -1
    stopped: str = "-"
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
    missing: str = "-"
    """Indices of the outputs that are not there, joined by commas."""


def encode_facts(facts: Facts) -> bytes:
    return " ".join(str(value) for value in facts).encode()


def decode_facts(text: bytes) -> Facts:
    return Facts(*[kind(word) for kind, word in zip(_KINDS, text.decode().split(" "), strict=True)])


_KINDS = (int, str, int, int, int, int, int, float, float, float, int, int, str)
