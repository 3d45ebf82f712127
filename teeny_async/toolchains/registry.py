"""The toolchains by name. A new one is a file beside this and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_async.errors import RequestError
from teeny_async.target import nearest
from teeny_async.toolchains.base import Driver
from teeny_async.toolchains.nvcc import Nvcc
from teeny_async.toolchains.ptxas import Ptxas
from teeny_async.toolchains.rustc import Rustc
from teeny_async.toolchains.teenyc import Teenyc
from teeny_async.toolchains.zig import Zig

DRIVERS: Mapping[str, Driver] = {driver.name: driver for driver in (Teenyc(), Rustc(), Zig(), Nvcc(), Ptxas())}


def driver_named(name: str) -> Driver:
    """The driver of a toolchain. Raises RequestError, with the nearest names, for an unknown one."""
    try:
        return DRIVERS[name]
    except KeyError:
        close = nearest(name, DRIVERS) or sorted(DRIVERS)
        raise RequestError(f"unknown toolchain {name!r}; did you mean {', '.join(close)}?") from None


def candidates(language: str) -> list[Driver]:
    """The drivers that "auto" tries for a language, best first: the first that is installed is used."""
    return [DRIVERS[name] for name in _PREFERENCE.get(language, ())]


_PREFERENCE: Mapping[str, tuple[str, ...]] = {
    "c": ("zig",),
    "cuda": ("nvcc", "zig"),
    "hip": ("zig",),
    "rust": ("teenyc", "rustc"),
}
