"""`Target`: the processor that a kernel is compiled for, and how its name is read.

Names are the compilers' own: `sm_90`, `gfx942`, `znver4`, `neoverse-v2`. A bare name implies its
triple; `cpu@triple` says it outright. `+` adds features; `+ptx86` on an NVIDIA target is the PTX
version that is written.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from teeny_async.errors import RequestError
from teeny_async.target_aliases import ALIASES
from teeny_async.target_names import AARCH64, AMDGCN, PTX_MINIMUM, PTX_VERSIONS, RISCV64, X86_64

NVIDIA_TRIPLE = "nvptx64-nvidia-cuda"
AMD_TRIPLE = "amdgcn-amd-amdhsa"
NATIVE_GPU = "native-gpu"

_SM = re.compile(r"(?:sm[_-]?)?(\d{2,3}[af]?)")
_FEATURE = re.compile(r"[+-][A-Za-z0-9][\w.-]*")
_TRIPLE = re.compile(r"\w+(-\w[\w.]*)*")
_EXAMPLE = "neoverse-v2+sve2@aarch64-unknown-linux-gnu"
_FAT = re.compile(r"(sm|compute)[_-]?(\d{2,3}[af]?)")
_PTX = re.compile(r"ptx(\d{2,3})")
_LINUX_TRIPLES: tuple[tuple[frozenset[str], str], ...] = (
    (X86_64, "x86_64-unknown-linux-gnu"),
    (AARCH64, "aarch64-unknown-linux-gnu"),
    (RISCV64, "riscv64gc-unknown-linux-gnu"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A processor: `cpu` of the architecture that `triple` names.

    cpu: the compiler's name for it; None is the compiler's default, "native" this machine.
    triple: an LLVM triple, `x86_64-unknown-linux-gnu` style.
    ptx_version: major * 10 + minor of the PTX ISA to write (86 is 8.6); None is the default.
    features: LLVM features with their sign, such as "+avx512f"; their order does not matter.
    also: further NVIDIA architectures in the same artifact, a fat binary: "sm_90" for its code, "compute_90" for
        PTX that a driver compiles for what comes after.
    """

    cpu: str | None = None
    triple: str = NVIDIA_TRIPLE
    ptx_version: int | None = None
    features: Sequence[str] = ()
    also: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise RequestError(f"features is a sequence, not one string: write features=({self.features!r},)")
        object.__setattr__(self, "features", tuple(sorted(self.features)))
        for feature in self.features:
            if not _FEATURE.fullmatch(feature):
                raise RequestError(f"target feature {feature!r}: write a name with its sign, as in '+avx512f'")
        if self.cpu == "" or not _TRIPLE.fullmatch(self.triple):
            raise RequestError(f"target {self.cpu!r} of {self.triple!r}: write CPU+FEATURE@TRIPLE, as in {_EXAMPLE}")
        if self.ptx_version is not None:
            self._check_ptx_version(self.ptx_version)
        self._check_also()

    def _check_also(self) -> None:
        if isinstance(self.also, str):
            raise RequestError(f"also is a sequence, not one string: write also=({self.also!r},)")
        object.__setattr__(self, "also", tuple(sorted({*self.also} - {self.cpu})))
        for name in self.also:
            if not (self.is_nvidia and self.cpu and _FAT.fullmatch(name)):
                raise RequestError(
                    f"target {self.cpu}: {name!r} cannot be added; write sm_80+sm_90 or sm_80+compute_80"
                )

    def _check_ptx_version(self, version: int) -> None:
        if not self.is_nvidia:
            raise RequestError(f"target {self.cpu}: only an NVIDIA target has a PTX version")
        if version not in PTX_VERSIONS and version < PTX_VERSIONS[-1]:
            near = sorted(PTX_VERSIONS, key=lambda known: abs(known - version))[:3]
            raise RequestError(
                f"PTX version {version} does not exist (major * 10 + minor; nearest: {_listed(sorted(near))})"
            )
        minimum = PTX_MINIMUM.get(self.cpu or "", 0)
        if version < minimum:
            raise RequestError(f"{self.cpu} needs PTX version {minimum} or above; {version} cannot name it")

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target's name.

        `sm_90` (also `sm-90`, `sm90`, `90`), `sm_120+ptx87`, `sm_80+sm_90` (a fat binary), `gfx942`, `znver4`, `neoverse-v2+sve2`
        (`znver4+-avx512f`: without a feature), `generic@aarch64-unknown-linux-gnu`, `default@nvptx64-nvidia-cuda` (the compiler's default
        CPU), `native` (the CPU of this machine, resolved by the compiler before anything is keyed), `native-gpu` (its
        NVIDIA GPU; `native@amdgcn-amd-amdhsa` is an AMD one), and products: `h100`, `mi300x`, `zen4` (see
        `teeny_async.target_aliases`).

        Raises RequestError, with the nearest names, for a name that no architecture has.
        """
        spec, _, triple = text.strip().partition("@")
        cpu, *extras = spec.split("+")
        cpu, implied = _read_cpu(cpu, triple)
        features, also = [], []
        ptx_version = None
        for extra in extras:
            if match := _PTX.fullmatch(extra):
                ptx_version = int(match[1])
            elif match := _FAT.fullmatch(extra):
                also.append(f"{match[1]}_{match[2]}")
            else:
                features.append(extra if extra.startswith("-") else "+" + extra)
        return cls(None if cpu == "default" else cpu, triple or implied, ptx_version, tuple(features), tuple(also))

    @property
    def arch(self) -> str:
        """First component of the triple."""
        return self.triple.partition("-")[0]

    @property
    def is_nvidia(self) -> bool:
        return self.triple.startswith("nvptx")

    @property
    def is_amd(self) -> bool:
        return self.arch == "amdgcn"

    @property
    def is_gpu(self) -> bool:
        return self.is_nvidia or self.is_amd

    @property
    def base_cpu(self) -> str | None:
        """`cpu` without the suffix of an architecture-specific form: sm_90 for sm_90a."""
        return self.cpu.rstrip("af") if self.cpu and self.is_nvidia else self.cpu

    def with_ptx_version(self, version: int | None) -> Target:
        """The same processor, PTX written in `version`; a CPU or AMD target is returned as it is."""
        return replace(self, ptx_version=version) if self.is_nvidia and version else self

    def __str__(self) -> str:
        name = self.cpu or "default"
        name += "".join(f"+{cpu}" for cpu in self.also)
        name += f"+ptx{self.ptx_version}" if self.ptx_version else ""
        name += "".join("+" + feature.removeprefix("+") for feature in self.features)
        implied = _implied_triple(self.cpu) if self.cpu else None
        return name if self.triple == implied else f"{name}@{self.triple}"


def host_triple() -> str:
    """The LLVM triple of this machine, as in `x86_64-unknown-linux-gnu`."""
    machine = platform.machine().lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64gc"}.get(machine, machine)
    if sys.platform == "darwin":
        return f"{arch}-apple-darwin"
    return f"{arch}-unknown-linux-gnu"


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The names in `known` that look most like `name`, best first; of numbered ones, those next to it."""
    known = list(known)
    numbers = {each: int(match[1].rstrip("af")) for each in known if (match := _SM.fullmatch(each))}
    if numbers and (match := _SM.fullmatch(name)):
        number = int(match[1].rstrip("af"))
        return sorted(numbers, key=lambda each: (abs(numbers[each] - number), each))[:count]
    import difflib

    return difflib.get_close_matches(name, sorted(known), n=count, cutoff=0.5)


def unknown_cpu(name: str, known: Iterable[str], owner: str) -> RequestError:
    """The error for a CPU that `owner` does not know, with the nearest names it does."""
    close = nearest(name, known)
    advice = f"did you mean {_listed(close)}?" if close else "write cpu@triple to name the architecture yourself"
    return RequestError(f"unknown target CPU {name!r} for {owner}: {advice}")


def _read_cpu(cpu: str, triple: str) -> tuple[str, str]:
    """(the compiler's name of `cpu`, the triple it implies)."""
    if cpu == NATIVE_GPU:
        return "native", triple or NVIDIA_TRIPLE
    cpu = ALIASES.get(cpu.lower(), cpu)
    if not triple or triple.startswith("nvptx"):
        match = _SM.fullmatch(cpu)
        if match:
            return "sm_" + match[1], NVIDIA_TRIPLE
    if triple:
        return cpu, triple
    if implied := _implied_triple(cpu):
        return cpu, implied
    if cpu == "native":
        return cpu, host_triple()
    if cpu in ("generic", "default"):
        raise RequestError(
            f"target {cpu!r} exists for every architecture: write {cpu}@TRIPLE, as in {cpu}@{host_triple()}"
        )
    raise unknown_cpu(cpu, {*ALIASES, *PTX_MINIMUM, *AMDGCN, *X86_64, *AARCH64, *RISCV64}, "every architecture")


def _implied_triple(cpu: str) -> str | None:
    if _SM.fullmatch(cpu):
        return NVIDIA_TRIPLE
    if cpu in AMDGCN or re.fullmatch(r"gfx\d+[a-f]?", cpu):
        return AMD_TRIPLE
    return next((triple for names, triple in _LINUX_TRIPLES if cpu in names), None)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(str(name) for name in names)
