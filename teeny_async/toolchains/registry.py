"""The toolchains by name. A new one is a file beside this and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teeny_async.errors import RequestError
from teeny_async.target import nearest
from teeny_async.toolchains.base import Driver
from teeny_async.toolchains.cc import Cc
from teeny_async.toolchains.lld import Lld
from teeny_async.toolchains.nvcc import Nvcc
from teeny_async.toolchains.ptxas import Ptxas
from teeny_async.toolchains.rustc import Rustc
from teeny_async.toolchains.teenyc import Teenyc
from teeny_async.toolchains.zig import Zig
from teeny_async.toolchains.zig_lang import ZigLang

_ALL: Sequence[Driver] = (Teenyc(), Rustc(), Zig(), ZigLang(), Nvcc(), Cc(), Ptxas(), Lld())
DRIVERS: Mapping[str, Driver] = {driver.name: driver for driver in _ALL}


def driver_named(name: str, language: str | None = None) -> Driver:
    """The driver of a toolchain, for kernels of a language. Raises RequestError, with the nearest names, for an unknown one."""
    try:
        return DRIVERS[_ALIASES.get((name, language), name)]
    except KeyError:
        close = nearest(name, DRIVERS) or sorted(DRIVERS)
        raise RequestError(f"unknown toolchain {name!r}; did you mean {', '.join(close)}?") from None


def candidates(language: str) -> list[Driver]:
    """The drivers that "auto" tries for a language, best first: the first that is installed is used."""
    return [DRIVERS[name] for name in _PREFERENCE.get(language, ())]


_PREFERENCE: Mapping[str, tuple[str, ...]] = {
    "c": ("zig", "cc"),
    "cuda": ("nvcc", "zig"),
    "hip": ("zig",),
    "rust": ("teenyc", "rustc"),
    "zig": ("zig-lang",),
}
_ALIASES: Mapping[tuple[str, str | None], str] = {("zig", "zig"): "zig-lang"}
"""(name, language) -> the driver that is meant: one name for the user, where a tool is several to us."""
