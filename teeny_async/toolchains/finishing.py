"""Which outputs a second stage makes, of what, and by which driver."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_async.target import Target

_SECOND: Mapping[str, tuple[str, str]] = {
    "cubin": ("ptx", "ptxas"),
    "hsaco": ("object", "lld"),
    "shared": ("object", "lld"),
}


def first_output(emit: str) -> str:
    """What the first stage writes for it: PTX for "cubin", an object for what is linked, else `emit` itself."""
    return _SECOND.get(emit, (emit, ""))[0]


def finisher(emit: str | None) -> str | None:
    """The driver of the second stage, by name; None where there is none."""
    return _SECOND[emit][1] if emit is not None and emit in _SECOND else None


def can_link(target: Target) -> bool:
    """Whether its objects are of the format that lld, as it is run here, links."""
    return not target.is_nvidia and not any(system in target.triple for system in ("apple", "macos", "windows"))
