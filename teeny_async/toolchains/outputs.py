"""What is wrong with an output: each check returns a sentence's end ("the PTX has no .version"), or None.

A compiler's exit status cannot be trusted with its output: rustc ends with 0 after writing PTX for a
processor that does not exist, or LLVM bitcode where PTX was asked for, and ptxas on a full disk with
0 and a file cut short. The checks read headers and tails; none decodes a whole output.

Sources of the numbers: the ELF specification's registry of machines, LLVM 22's `ELF.h` for the flags
of a cubin, checked against cubins of ptxas 13.0 for sm_75 to sm_121.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MACHINES: Mapping[str, int] = {
    "x86_64": 62,
    "i386": 3,
    "i686": 3,
    "aarch64": 183,
    "arm64": 183,
    "arm": 40,
    "armv7": 40,
    "riscv64": 243,
    "riscv64gc": 243,
    "riscv32": 243,
    "powerpc64le": 21,
    "s390x": 22,
    "loongarch64": 258,
    "amdgcn": 224,
    "nvptx64": 190,
    "cuda": 190,
}
"""First component of a triple -> `e_machine`."""

_MACH_O = {
    "x86_64": b"\xcf\xfa\xed\xfe\x07\0\0\x01",
    "aarch64": b"\xcf\xfa\xed\xfe\x0c\0\0\x01",
    "arm64": b"\xcf\xfa\xed\xfe\x0c\0\0\x01",
}
_COFF = {"x86_64": b"\x64\x86", "aarch64": b"\x64\xaa"}
_OTHER_OBJECTS: Mapping[str, tuple[str, Mapping[str, bytes]]] = {
    "apple": ("Mach-O", _MACH_O),
    "macos": ("Mach-O", _MACH_O),
    "windows": ("COFF", _COFF),
}
"""A word of the triple -> what its objects are called, and begin with by architecture: Mach-O's magic
and CPU type, COFF's machine."""

_FATBIN = b"\x50\xed\x55\xba"
_ELF = b"\x7fELF"
_HEAD = 1 << 16
_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)
_ENTRY = re.compile(rb"\.entry\s+([\w$%.]+)")


def ptx(
    data: bytes,
    *,
    cpu: str | Collection[str] | None = None,
    ptx_version: int | None = None,
    entry_point: str | None = None,
) -> str | None:
    """PTX text: it has `.version` and `.target`, they are the ones asked for, and the entry is there.

    cpu: the name, or the names, that `.target` may have. ptx_version: major * 10 + minor.
    """
    if foreign := _foreign(data, "PTX"):
        return foreign
    head = data[:_HEAD]
    version, target = _VERSION.search(head), _TARGET.search(head)
    if version is None or target is None:
        return f"the PTX has no {'.target' if version else '.version'}"
    return (
        _wrong_version(version, ptx_version)
        or _wrong_target(target[1].decode(), cpu)
        or _cut_short(data)
        or _no_entry(data, entry_point)
    )


def elf(data: bytes, *, arch: str | None = None) -> str | None:
    """An ELF file, whole, for `arch` (see `MACHINES`; None or an unknown one: any machine)."""
    header = _Header.read(data)
    if header is None and data.startswith(_ELF):
        return "the ELF file is cut short in its header"
    if header is None:
        return _foreign(data, "an ELF file") or "the output is not an ELF file"
    machine = MACHINES.get(arch or "")
    if machine is not None and header.machine != machine:
        return f"the ELF file is for machine {header.machine}, not {machine} ({arch})"
    if len(data) < header.end:
        return f"the ELF file is cut short: {len(data)} bytes of {header.end}"
    return None


def object_file(data: bytes, *, triple: str) -> str | None:
    """An object in the format of `triple`: Mach-O for Apple's, COFF for Windows, ELF for the rest."""
    arch = triple.partition("-")[0]
    for system, (name, magics) in _OTHER_OBJECTS.items():
        if system in triple:
            magic = magics.get(arch)
            whole = magic is None or data.startswith(magic)
            return None if whole and data else f"the output is not a {name} file for {arch}"
    return elf(data, arch=arch)


def shared_object(data: bytes, *, triple: str) -> str | None:
    """An object file that a loader takes; of an ELF file, by its type (3 is ET_DYN, hsaco files have it too)."""
    if wrong := object_file(data, triple=triple):
        return wrong
    kind = int.from_bytes(data[16:18], "little" if data[5] == 1 else "big")
    return f"the ELF file is of type {kind}, and no shared object" if data.startswith(_ELF) and kind != 3 else None


def cubin(data: bytes, *, cpu: str | None = None) -> str | None:
    """An ELF file for CUDA, and for the sm of `cpu`; `sm_90` and `sm_90a` look the same in it."""
    if wrong := elf(data, arch="cuda"):
        return wrong
    header, asked = _Header.read(data), re.fullmatch(r"sm_(\d+)[af]?", cpu or "")
    found = header.sm if header else None
    if asked and found is not None and found != int(asked[1]):
        return f"the cubin is for sm_{found}, not {cpu}"
    return None


def fatbin(data: bytes, *, cpus: Collection[str] = ()) -> str | None:
    """A fat binary, whole, that has code or PTX for each of `cpus` ("sm_80", "compute_90").

    Not documented by NVIDIA; checked against nvcc 13.0 and 13.5: a header of 16 bytes (magic, version, its own size,
    the size of what follows), then entries with a header of 64 bytes or more: kind (1 is PTX, 2 is ELF), its own size,
    the size of its content, and the number of the architecture at byte 28.
    """
    if len(data) < 16 or not data.startswith(_FATBIN):
        return _foreign(data, "a fat binary") or "the output is not a fat binary"
    at, rest = struct.unpack_from("<HQ", data, 6)
    if len(data) != at + rest:
        return f"the fat binary is cut short: {len(data)} bytes of {at + rest}"
    found = set()
    while at + 64 <= len(data):
        kind, header, size = struct.unpack_from("<H2xIQ", data, at)
        [arch] = struct.unpack_from("<I", data, at + 28)
        found.add(f"{'sm' if kind == 2 else 'compute'}_{arch}")
        at += header + size
    missing = [cpu for cpu in cpus if cpu.rstrip("af") not in found]
    return f"the fat binary has nothing for {', '.join(missing)}" if missing else None


def asm(data: bytes) -> str | None:
    """Assembly: text, and not blank."""
    if foreign := _foreign(data, "assembly"):
        return foreign
    return None if data[:_HEAD].strip() else "the assembly is blank"


def is_llvm_bitcode(data: bytes) -> bool:
    """LLVM bitcode, bare or in its wrapper."""
    return data[:4] in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


def entries(data: bytes) -> list[str]:
    """The names of the kernels in PTX text, in order."""
    return [match[1].decode("utf-8", "replace") for match in _ENTRY.finditer(data)]


def _foreign(data: bytes, wanted: str) -> str | None:
    """What the output is instead, when it says so itself."""
    if is_llvm_bitcode(data):
        return f"the compiler wrote LLVM bitcode, not {wanted}"
    if data.startswith(_ELF):
        return f"the compiler wrote an ELF file, not {wanted}"
    if b"\0" in data[:_HEAD]:
        return f"the compiler wrote binary data, not {wanted}"
    return None


def _wrong_version(match: re.Match[bytes], asked: int | None) -> str | None:
    major, minor = int(match[1]), int(match[2])
    if asked is None or (major, minor) == divmod(asked, 10):
        return None
    return f"the PTX is .version {major}.{minor}, not {asked // 10}.{asked % 10}"


def _wrong_target(found: str, cpu: str | Collection[str] | None) -> str | None:
    allowed = [cpu] if isinstance(cpu, str) else list(cpu or [found])
    return None if found in allowed else f"the PTX is for .target {found}, not {' or '.join(allowed)}"


def _cut_short(data: bytes) -> str | None:
    """A module with a body ends with a closing brace, a directive or a comment."""
    if not any(word in data for word in (b"{", b".entry", b".func")):
        return None
    last = data[-4096:].rstrip().rpartition(b"\n")[2].strip()
    whole = last.endswith((b"}", b";")) or last.startswith((b"//", b".file"))
    return None if whole else "the PTX is cut short"


def _no_entry(data: bytes, name: str | None) -> str | None:
    if name is None or re.search(rb"\.entry\s+" + re.escape(name.encode()) + rb"(?![\w$%.])", data):
        return None
    found = entries(data)
    listed = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
    return f"the PTX has no entry point {name} (it has {listed or 'none'})"


@dataclass(frozen=True, slots=True)
class _Header:
    """What is read of an ELF header. end: the offset that its tables reach up to."""

    machine: int
    flags: int
    abi_version: int
    end: int

    @classmethod
    def read(cls, data: bytes) -> _Header | None:
        if not data.startswith(_ELF) or len(data) < 52 or data[4] not in (1, 2) or data[5] not in (1, 2):
            return None
        order, wide = "<" if data[5] == 1 else ">", data[4] == 2
        layout = struct.Struct(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
        if len(data) < 16 + layout.size:
            return None
        _, machine, _, _, programs, sections, flags, _, *sizes, _ = layout.unpack_from(data, 16)
        program_size, program_count, section_size, section_count = sizes
        end = max(programs + program_size * program_count, sections + section_size * section_count)
        return cls(machine=machine, flags=flags, abi_version=data[8], end=end)

    @property
    def sm(self) -> int | None:
        """The sm number in a cubin's flags: bits 8 to 15 from CUDA 13 on, bits 0 to 7 before."""
        shift = {7: 0, 8: 8}.get(self.abi_version)
        return None if shift is None else self.flags >> shift & 0xFF
