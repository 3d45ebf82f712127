"""What people write on the command line, read into values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import click

from teeny_async.model import ParamValue
from teeny_async.target import Target

_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_FLOAT = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|-?\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
_DIGITS_WITH_ZEROS = re.compile(r"-?0\d+")
_AGE = re.compile(r"(\d+(?:\.\d*)?)([smhdw]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_VERSION = re.compile(r"(\d{1,2})\.(\d)|(\d{2,3})", re.ASCII)


def split_list(values: Iterable[str]) -> list[str]:
    """Comma-separated and repeated values in one list, each once, in order."""
    items = (item.strip() for value in values for item in value.split(","))
    return list(dict.fromkeys(item for item in items if item))


def parse_value(text: str) -> ParamValue:
    """A whole number, a decimal number, true or false; all else (0x40, 007, 1.0f) is text, passed on as it is."""
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and not _DIGITS_WITH_ZEROS.fullmatch(text):
        return float(text)
    return text


def parse_params(texts: Iterable[str]) -> dict[str, list[ParamValue]]:
    """`NAME=V1,V2` to name -> values; a name that comes again adds to its values."""
    params: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name.strip() or not split_list([values]):
            raise click.BadParameter(f"{text!r}: write NAME=VALUE or NAME=V1,V2,...", param_hint="'--param'")
        params.setdefault(name.strip(), []).append(values)
    return {name: [parse_value(item) for item in split_list(values)] for name, values in params.items()}


def parse_defines(texts: Iterable[str]) -> dict[str, ParamValue]:
    """`NAME=VALUE`, or `NAME` for 1, as a C compiler reads -D."""
    defines: dict[str, ParamValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter(f"{text!r}: write NAME=VALUE or NAME", param_hint="'-D'")
        defines[name] = value if equals else "1"
    return defines


def parse_age(text: str) -> float:
    """`45s`, `90m`, `12h`, `30d`, `2w` or a number of seconds, in seconds."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r}: write an age as 90m, 12h, 30d or 2w", param_hint="'--older-than'")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(text: str) -> int:
    """`2GiB`, `800MB` or a number of bytes, in bytes."""
    from teeny_async.execution.machine import byte_count

    size = byte_count(text)
    if size is None:
        raise click.BadParameter(f"{text!r}: write a size as 2GiB, 800MB or a number", param_hint="'--max-size'")
    return size


def parse_ptx_versions(texts: Iterable[str]) -> list[int]:
    """86 or 8.6, comma-separated and repeated, as major * 10 + minor."""
    versions = []
    given = list(texts)
    items = split_list(given)
    if given and not items:
        raise click.BadParameter("it names no version", param_hint="'--ptx-version'")
    for item in items:
        match = _VERSION.fullmatch(item)
        if match is None:
            raise click.BadParameter(f"{item!r}: write 86 or 8.6 for PTX 8.6", param_hint="'--ptx-version'")
        versions.append(int(match[3] or match[1] + match[2]))
    return list(dict.fromkeys(versions))


def parse_targets(texts: Iterable[str], ptx_versions: Sequence[int]) -> list[Target | None]:
    """The targets, each NVIDIA one in every PTX version; [None], the compiler's default, where none is named.

    A target that names its PTX version itself (sm_120+ptx87) keeps it. Raises RequestError for what no
    compiler could take; all of it in one message.
    """
    from teeny_async.errors import RequestError

    found: list[Target | None] = []
    refused: list[str] = []
    given = list(texts)
    names = split_list(given)
    if given and not names:
        raise click.BadParameter("it names no target; leave it out for the default one", param_hint="'--target-cpu'")
    for name in names:
        try:
            target = Target.parse(name)
            found += _versions_of(target, ptx_versions)
        except RequestError as error:
            refused.append(str(error))
    if refused:
        raise RequestError("\n       ".join(dict.fromkeys(refused)))
    if not names:
        return [*_versions_of(Target(), ptx_versions)] if ptx_versions else [None]
    if ptx_versions and not any(target and target.is_nvidia for target in found):
        raise click.BadParameter("none of the targets is an NVIDIA one", param_hint="'--ptx-version'")
    return list(dict.fromkeys(found))


def _versions_of(target: Target, ptx_versions: Sequence[int]) -> list[Target]:
    if not ptx_versions or not target.is_nvidia or target.ptx_version is not None:
        return [target]
    return [target.with_ptx_version(version) for version in ptx_versions]
