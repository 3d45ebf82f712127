"""The names of the files that artifacts are written to.

    <kernel>.<target>[.<PARAM>-<value>...]-<12 hex of the key>[-<12 hex of the names>].<extension>

    matmul_tiled.sm_90.ROWS-4.TILE-32-3f9c01d2a4be.ptx
    saxpy.sm_120-ptx87-77e01b5c9d20.cubin

The key tells apart what was compiled; it does not know what the kernel is called. So the name carries both,
in characters that every file system and shell takes as they are. Where a part had to be changed for that,
or shortened to fit into 255 bytes, a digest of the parts as they were is added: different results never
share a name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from teeny_async.model import ParamValue

MAX_BYTES = 255
"""What one folder entry may have on the file systems in use."""
EXTENSIONS: Mapping[str, str] = {
    "ptx": "ptx",
    "cubin": "cubin",
    "object": "o",
    "asm": "s",
    "hsaco": "hsaco",
    "shared": "so",
    "fatbin": "fatbin",
    "mlir": "mlir",
    "ttir": "ttir",
    "ttgir": "ttgir",
    "llir": "ll",
    "json": "json",
    "log": "log",
}
_KEY_DIGITS = 12
_MAX_PART = 80
"""Characters of a kernel's or target's own part; the params take what is left."""
_MAX_EXTENSION = 16
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_PLAIN_TARGET = re.compile(r"(?!default$)([A-Za-z0-9_][A-Za-z0-9_-]*)(?:\+(ptx\d+))?")
_PTX_ALREADY = re.compile(r"-ptx\d+$")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PLAIN_VALUE = re.compile(r"(?!(?:true|false)$)[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")

Part = tuple[str, bool]
"""Text fit for a file name, and whether it still says all that it stands for."""


def file_name(kernel: str, target: str | None, params: Mapping[str, ParamValue], key: str, label: str) -> str:
    """The file name of one output of one result; `key` is its key's digest, `label` the output's."""
    stem, stem_whole = _kernel(kernel)
    place, place_whole = _target(target)
    config, config_whole = _params(params)
    extension, extension_whole = _extension(label)
    whole = stem_whole and place_whole and config_whole and extension_whole
    tail = f"-{key[:_KEY_DIGITS]}"
    ending = f".{extension}"
    head = f"{stem}.{place}"
    if whole and len(head) + len(config) + len(tail) + len(ending) <= MAX_BYTES:
        return head + config + tail + ending
    tail += f"-{_digest(kernel, target, params, label)}"
    room = MAX_BYTES - len(head) - len(tail) - len(ending)
    return head + config[:room] + tail + ending


def _kernel(name: str) -> Part:
    return _cleaned(name, _PLAIN.fullmatch(name) is not None)


def _target(name: str | None) -> Part:
    if name is None:
        return "default", True
    match = _PLAIN_TARGET.fullmatch(name)
    if match is None or _PTX_ALREADY.search(match[1]):
        return _cleaned(name, False)
    return _cleaned(f"{match[1]}-{match[2]}" if match[2] else name, True)


def _params(params: Mapping[str, ParamValue]) -> Part:
    """Sorted by name: equal params are equal in any order."""
    text, whole = "", True
    for name in sorted(params):
        value, value_whole = _value(params[name])
        text += f".{_OTHER.sub('_', name)}-{value}"
        whole = whole and value_whole and _PLAIN_NAME.fullmatch(name) is not None
    return text, whole


def _value(value: ParamValue) -> Part:
    if isinstance(value, bool):
        return ("true" if value else "false"), True
    if isinstance(value, str):
        return _OTHER.sub("_", value), _PLAIN_VALUE.fullmatch(value) is not None
    text = repr(value)
    return text.replace("+", ""), _NUMBER.fullmatch(text) is not None


def _extension(label: str) -> Part:
    if label in EXTENSIONS:
        return EXTENSIONS[label], True
    taken = label in EXTENSIONS.values()
    return _cleaned(label, not taken and _PLAIN.fullmatch(label) is not None, _MAX_EXTENSION)


def _cleaned(text: str, whole: bool, longest: int = _MAX_PART) -> Part:
    """A part that starts with no dash, which would look like an option."""
    clean = _OTHER.sub("_", text)[:longest].lstrip("-") or "_"
    return clean, whole and len(text) <= longest


def _digest(kernel: str, target: str | None, params: Mapping[str, ParamValue], label: str) -> str:
    parts = [kernel, target, sorted(params.items()), label]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_KEY_DIGITS]
