"""From a kernel and its params to the text and macros of one compile.

A param reaches the kernel in one of two ways.

* A *placeholder* in the source: the param's name between backticks, with or without a default:

      const UNROLL: usize = `UNROLL=4`;

  It is replaced by the param's value, or by the default when the request does not give one. Outside
  comments and string literals a backtick is not a legal character of C, C++, CUDA, HIP, Rust or
  Zig, so a placeholder can never be taken for code, nor code for a placeholder. A name in backticks
  that has no default and is not a param (as in a doc comment) is left alone.
* A *macro*, `-DNAME=value`, in the C-like languages, for a param that has no placeholder.

A param that has neither is refused: it would make configurations that are all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from teeny_async.errors import RequestError
from teeny_async.model import CompileRequest, ParamValue

C_LIKE = frozenset({"c", "cuda", "hip"})

_PLACEHOLDER = re.compile(r"`([A-Za-z_]\w*)(?:=([^`\n]*))?`")
_MACRO_NAME = re.compile(r"[A-Za-z_]\w*")

_C_READS_FILES = re.compile(
    r"""(?:^|\n)[ \t]*(?:\#|%:|\?\?=)[ \t]*(?:include|include_next|import|embed)\b   # a directive of its own
      | \b__has_(?:include|include_next|embed)\b
      | \.incbin\b
      | \b__(?:DATE|TIME|TIMESTAMP)__\b                                        # the clock, not a file
    """,
    re.VERBOSE,
)
_RUST_READS_FILES = re.compile(
    r"""\b(?:include|include_str|include_bytes|option_env)\b
      | \benv\s*!
      | \#\s*!?\s*\[\s*(?:cfg_attr\s*\([^\]]*)?path\b
      | \bmod\s+\$?(?:r\#)?\w+\s*;
    """,
    re.VERBOSE,
)
_LINE_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*\r?\n")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A kernel's own text with its placeholders filled, and the macros to define, sorted by name."""

    text: str
    defines: tuple[tuple[str, str], ...]


def render(request: CompileRequest) -> Rendered:
    """Put the params into the kernel. Raises RequestError for a param that nothing would read."""
    kernel, params = request.kernel, request.params
    text, placed = _fill(kernel.source, params) if "`" in kernel.source else (kernel.source, frozenset[str]())
    defines: dict[str, str] = {}
    if kernel.defines or params:
        macros = {**kernel.defines, **{name: value for name, value in params.items() if name not in placed}}
        if macros and kernel.language not in C_LIKE:
            raise _unread(request, sorted(macros))
        defines = {_macro_name(name): _macro_value(value) for name, value in macros.items()}
    return Rendered(text, tuple(sorted(defines.items())))


def files_read(language: str, text: str) -> str | None:
    """The first construct by which `text` reads another file (or the clock or environment), or None.

    Conservative: a construct inside a comment may be reported too. It only decides caching.
    """
    if language in C_LIKE:
        if "#" in text or "%:" in text or "??=" in text or "__" in text or ".incbin" in text:
            found = _C_READS_FILES.search(_COMMENT.sub(" ", _LINE_SPLICE.sub("", text)))
            return found and found[0].strip()
        return None
    if language == "rust":
        found = _RUST_READS_FILES.search(_COMMENT.sub(" ", text))
        return found and found[0].strip()
    if language == "zig":
        found = re.search(r"@(?:import|embedFile|cImport|cInclude)\b", text)
        return found and found[0]
    return None


def _fill(source: str, params: Mapping[str, ParamValue]) -> tuple[str, frozenset[str]]:
    placed = set()

    def fill(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in params:
            placed.add(name)
            return _source_value(params[name])
        return match[0] if default is None else default

    return _PLACEHOLDER.sub(fill, source), frozenset(placed)


def _source_value(value: ParamValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _macro_value(value: ParamValue) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _macro_name(name: str) -> str:
    if not _MACRO_NAME.fullmatch(name):
        raise RequestError(f"param {name!r} cannot be a macro: use letters, digits and underscores")
    return name


def _unread(request: CompileRequest, names: list[str]) -> RequestError:
    kernel = request.kernel
    first = names[0]
    return RequestError(
        f"kernel {kernel.name!r}: nothing reads {', '.join(names)}; a {kernel.language} kernel takes a param "
        f"where its source has the placeholder `{first}` (or `{first}=default`, in backticks)"
    )
