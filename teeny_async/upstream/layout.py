"""What files of teenygrad's cache folder are called, and what their names say. Pure.

    <name>_<hash>.o      PTX text              hash = hex(sha256(kernel_id, then target_cpu if set,
    <name>_<hash>.mlir   may be absent                           then ptx_version as little-endian u32 if set))
    <name>_<hash>.rs     prelude and source
    <name>_<hash>.lock   held while one of them is written; never removed

The kernel id is the kernel macro's (`vector_add__f32__1024`), or hex(sha256(source without the prelude)).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from teeny_async.errors import RequestError
from teeny_async.target import Target
from teeny_async.toolchains.teenyc import CPUS

OBJECT, MLIR, SOURCE, LOCK = ".o", ".mlir", ".rs", ".lock"
PTX_VERSIONS = range(60, 130)
"""Those that a name is compared with."""

_STEM = re.compile(r"(?P<name>[^/\0]+)_(?P<hash>[0-9a-f]{64})")
_LONGEST_FILE_NAME = 255
"""Bytes."""
_HEAD = 4096
"""Bytes of PTX that have its directives."""
_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(sm_\d+[af]?)", re.MULTILINE)


class Origin(NamedTuple):
    """What a hash was made of."""

    id: str
    cpu: str | None
    ptx_version: int | None


class Header(NamedTuple):
    """What PTX says it is: the `.target`, and `.version` as major * 10 + minor."""

    cpu: str
    ptx_version: int

    @property
    def targets(self) -> list[Target]:
        """What may have been asked of teenyc: the CPU (`sm_90a` comes out for `sm_90`), or its default, which may be
        one that cannot be asked for."""
        plain = self.cpu.removesuffix("a")
        return _possible((plain if plain in CPUS else self.cpu, self.ptx_version), (None, self.ptx_version))


def kernel_id(given: str | None, source: str) -> str:
    """A kernel's id: the one it has, or what stands for none. source: without the prelude."""
    return hashlib.sha256(source.encode()).hexdigest() if given is None else given


def file_hash(origin: Origin) -> str:
    """The hash in a file's name."""
    state = hashlib.sha256(origin.id.encode())
    if origin.cpu is not None:
        state.update(origin.cpu.encode())
    if origin.ptx_version is not None:
        state.update(struct.pack("<I", origin.ptx_version))
    return state.hexdigest()


def stem(name: str, origin: Origin) -> str:
    """What the names of a kernel's files begin with. Raises ValueError for a name that cannot be part of one."""
    found = f"{name}_{file_hash(origin)}"
    if not name or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} cannot be part of a file name")
    if len(found.encode()) + len(LOCK) > _LONGEST_FILE_NAME:
        raise ValueError(f"{name[:20]!r}... is too long for a file name")
    return found


def split_stem(stem: str) -> tuple[str, str] | None:
    """(name, hash); None for what is no stem."""
    match = _STEM.fullmatch(stem)
    return None if match is None else (match["name"], match["hash"])


def find_origin(hash: str, ids: Iterable[str], header: Header | None = None) -> Origin | None:
    """What a hash was made of, if the id is one of these. Every target is tried, about 1,300 for an id; or, with the
    header of what lies under it, only the six that it can be for."""
    return next((origin for ident in ids for origin in _origins(ident, header) if file_hash(origin) == hash), None)


def _origins(ident: str, header: Header | None) -> Iterator[Origin]:
    if header is None:
        cpus, versions = [*sorted(CPUS), *(f"{cpu}a" for cpu in sorted(CPUS))], PTX_VERSIONS
    else:
        cpus, versions = [header.cpu, header.cpu.removesuffix("a")], range(header.ptx_version, header.ptx_version + 1)
    for cpu in (None, *cpus):
        for version in (None, *versions):
            yield Origin(ident, cpu, version)


def read_header(ptx: bytes) -> Header | None:
    """The directives of PTX text; None for what is none."""
    version, target = _VERSION.search(ptx[:_HEAD]), _TARGET.search(ptx[:_HEAD])
    if version is None or target is None:
        return None
    return Header(target[1].decode(), int(version[1]) * 10 + int(version[2]))


def targets_of(origin: Origin) -> list[Target]:
    """The one target of an origin; none when there is no such target."""
    return _possible((origin.cpu, origin.ptx_version))


def _possible(*targets: tuple[str | None, int | None]) -> list[Target]:
    found = []
    for cpu, version in targets:
        with contextlib.suppress(RequestError):
            found.append(Target(cpu, ptx_version=version))
    return found


def target_problem(header: Header, origin: Origin) -> str | None:
    """In what PTX is not what its name says; None when it is."""
    if origin.cpu is not None and header.cpu not in (origin.cpu, f"{origin.cpu}a"):
        return f"it is for {header.cpu}, its name says {origin.cpu}"
    if origin.ptx_version is not None and header.ptx_version != origin.ptx_version:
        return f"it is PTX {header.ptx_version / 10:.1f}, its name says {origin.ptx_version / 10:.1f}"
    return None


def split_source(text: str, preludes: Iterable[str]) -> tuple[str, str]:
    """(prelude, source) of a `.rs` file: by the longest of these preludes that it begins with, else ("", text)."""
    fitting = [prelude for prelude in preludes if prelude and text.startswith(prelude)]
    prelude = max(fitting, key=len, default="")
    return prelude, text[len(prelude) :]
