"""What an action's outputs are checked against: made when it is planned, read when it is judged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.model import Kernel
from teeny_async.target import Target
from teeny_async.toolchains import outputs


def expectations(
    kernel: Kernel, target: Target, *, ptx_version: int | None = None, also: Sequence[str] = ()
) -> FrozenMap[str]:
    """By name: triple, cpu (several, by commas, where one asked for gives one of them), ptx_version (None:
    whatever the compiler writes), entry_point."""
    expect = {"triple": target.triple}
    if target.also:
        also = (*also, *target.also)
    if target.is_nvidia and target.cpu:
        expect["cpu"] = ",".join((target.cpu, *also))
    if ptx_version:
        expect["ptx_version"] = str(ptx_version)
    if kernel.entry_point:
        expect["entry_point"] = kernel.entry_point
    return FrozenMap(expect)


def check(action: Action, found: Mapping[str, bytes]) -> str | None:
    """What is wrong with the outputs, in a phrase; None when they are what was asked for."""
    for label, data in found.items():
        validate = _VALIDATORS.get(label)
        complaint = validate(data, action.expect) if validate else None
        if complaint:
            return f"{action.outputs[label]}: {complaint}"
    return None


def _ptx(data: bytes, expect: Mapping[str, str]) -> str | None:
    version = expect.get("ptx_version")
    return outputs.ptx(
        data,
        cpu=_cpus(expect),
        ptx_version=int(version) if version else None,
        entry_point=expect.get("entry_point"),
    )


def _cubin(data: bytes, expect: Mapping[str, str]) -> str | None:
    cpus = _cpus(expect)
    return outputs.cubin(data, cpu=cpus[0] if cpus else None) or _no_symbol(data, expect)


def _fatbin(data: bytes, expect: Mapping[str, str]) -> str | None:
    return outputs.fatbin(data, cpus=_cpus(expect) or ()) or _no_symbol(data, expect)


def _object(data: bytes, expect: Mapping[str, str]) -> str | None:
    return outputs.object_file(data, triple=expect["triple"]) or _no_symbol(data, expect)


def _shared(data: bytes, expect: Mapping[str, str]) -> str | None:
    return outputs.shared_object(data, triple=expect["triple"]) or _no_symbol(data, expect)


def _asm(data: bytes, expect: Mapping[str, str]) -> str | None:
    if wrong := outputs.asm(data):
        return wrong
    name = expect.get("entry_point", "")
    symbol = rb'"?_?' + re.escape(name.encode()) + rb'"?'
    found = not name or re.search(rb"^%s\s*[:=]|^\s*\.set\s+%s\s*," % (symbol, symbol), data, re.MULTILINE)
    return None if found else f"the assembly has no label {name}"


def _no_symbol(data: bytes, expect: Mapping[str, str]) -> str | None:
    """A symbol's name stands in a string table, whatever the format, and ends with a zero byte."""
    name = expect.get("entry_point")
    return f"there is no symbol {name} in it" if name and name.encode() + b"\0" not in data else None


def _cpus(expect: Mapping[str, str]) -> tuple[str, ...] | None:
    return tuple(expect["cpu"].split(",")) if "cpu" in expect else None


_VALIDATORS = {
    "ptx": _ptx,
    "cubin": _cubin,
    "fatbin": _fatbin,
    "object": _object,
    "shared": _shared,
    "hsaco": _shared,
    "asm": _asm,
}
