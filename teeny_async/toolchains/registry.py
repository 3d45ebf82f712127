"""The toolchains by name. A new one is a file beside this and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from teeny_async.errors import RequestError
from teeny_async.target import nearest
from teeny_async.toolchains.base import Driver

_PARTS: Mapping[str, str] = {"nvcc-ptxas": "NvccPtxas"}
"""Second stages that belong to one toolchain, which nobody names or looks for by itself."""


class _Drivers(Mapping[str, Driver]):
    """Drivers by name, each made when it is first asked for: a sweep needs one of them, and a start is short."""

    _CLASSES: Mapping[str, str] = {
        "teenyc": "Teenyc",
        "rustc": "Rustc",
        "zig": "Zig",
        "zig-lang": "ZigLang",
        "nvcc": "Nvcc",
        "cc": "Cc",
        "triton": "Triton",
        "ptxas": "Ptxas",
        "lld": "Lld",
    }

    def __init__(self) -> None:
        self._made: dict[str, Driver] = {}

    def __getitem__(self, name: str) -> Driver:
        if name not in self._made:
            module = import_module(f"teeny_async.toolchains.{name.replace('-', '_')}")
            made = getattr(module, self._CLASSES.get(name) or _PARTS[name])()
            # Another thread may have been faster: there is one of each.
            return self._made.setdefault(name, cast("Driver", made))
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(self._CLASSES)

    def __len__(self) -> int:
        return len(self._CLASSES)


DRIVERS: Mapping[str, Driver] = _Drivers()


def driver_named(name: str, language: str | None = None) -> Driver:
    """The driver of a toolchain, for kernels of a language.

    Raises RequestError, with the nearest names, for an unknown one.
    """
    name = _ALIASES.get((name, language), name)
    if name in DRIVERS:
        return DRIVERS[name]
    close = nearest(name, DRIVERS) or sorted(DRIVERS)
    raise RequestError(f"unknown toolchain {name!r}; did you mean {', '.join(close)}?")


def finisher_named(name: str) -> Driver:
    """The driver of a second stage, as `Driver.finish` names it. Raises RequestError for an unknown one."""
    return DRIVERS[name] if name in _PARTS else driver_named(name)


def candidates(language: str) -> list[Driver]:
    """The drivers that "auto" tries for a language, best first: the first that is installed is used."""
    return [DRIVERS[name] for name in _PREFERENCE.get(language, ())]


_PREFERENCE: Mapping[str, tuple[str, ...]] = {
    "c": ("zig", "cc"),
    "cuda": ("nvcc", "zig"),
    "hip": ("zig",),
    "rust": ("teenyc", "rustc"),
    "zig": ("zig-lang",),
    "triton": ("triton",),
    "ttir": ("triton",),
}
_ALIASES: Mapping[tuple[str, str | None], str] = {("zig", "zig"): "zig-lang"}
"""(name, language) -> the driver that is meant: one name for the user, where a tool is several to us."""
