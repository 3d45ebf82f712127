"""From a kernel and its params to the text and macros of one compile.

A param reaches the kernel in one of two ways.

* A *placeholder* in the source: the param's name between backticks, with or without a default:

      const UNROLL: usize = `UNROLL=4`;

  It is replaced by the param's value, or by the default when the request does not give one. Outside
  comments and string literals a backtick is not a legal character of C, C++, CUDA, HIP, Rust or
  Zig, so a placeholder can never be taken for code, nor code for a placeholder. In a string it is
  replaced too, where it is a param or has a default; comments are left as they are.
* A *macro*, `-DNAME=value`, in the C-like languages, for a param that has no placeholder.

A param that has neither is refused: it would make configurations that are all the same. So is a
placeholder in the code that has neither a value nor a default.

true and false are `1` and `0` for a C-like language, in a placeholder as in a macro.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from teeny_async.errors import RequestError
from teeny_async.lexing import segments, without_comments
from teeny_async.model import CompileRequest, ParamValue

C_LIKE = frozenset({"c", "cuda", "hip"})

_PLACEHOLDER = re.compile(r"`([A-Za-z_]\w*)(?:=([^`\n]*))?`")
_MACRO_NAME = re.compile(r"[A-Za-z_]\w*")

_LINE_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*\r?\n")
_C_READS_FILES = re.compile(
    r"""(?:^|[\r\n])[^\S\r\n]*(?:\#|%:|\?\?=)[^\S\r\n]*(?:include|include_next|import|embed)\b
      | \b__has_(?:include|include_next|embed)\b
      | \b__(?:DATE|TIME|TIMESTAMP)__\b                                        # the clock, not a file
    """,
    re.VERBOSE,
)
_C_UNLISTED = re.compile(r"\b__has_(?:include|include_next|embed)\b | \b__(?:DATE|TIME|TIMESTAMP)__\b", re.VERBOSE)
"""What a dependency file does not tell of: a question that was answered with no, and the clock."""
_RUST_SUSPECT = ("include", ".inc", "env", "path", "mod")
_RUST_READS_FILES = re.compile(
    r"""\b(?:include|include_str|include_bytes|option_env)\b
      | \benv\s*! | \benv\s+as\b | \brustc_builtin_macro\s*\(\s*env\b
      | \#\s*!?\s*\[\s*(?:cfg_attr\s*\([^\]]*)?path\b
      | \bmod\b(?!\s+\$?(?:r\#)?\w+\s*\{)[^;{}]{0,40};?                          # a module without a body here
    """,
    re.VERBOSE,
)
_ZIG_READS_FILES = re.compile(
    r"""@(?:import\b(?!\s*\(\s*"(?:std|builtin)"\s*\)) | embedFile\b | cImport\b | cInclude\b)""", re.VERBOSE
)
"""The compiler's own `std` and `builtin` are a part of the compiler."""
_ASM_READS_FILES = re.compile(r"\.(?:incbin|include)\b")
"""In the text of inline assembly."""
_RUST_ASSEMBLY_SUSPECT = (".inc", "concat")
"""Without the directive in one piece, and without what makes one literal of several, no string has it."""


_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rendered:
    """A kernel's own text with its placeholders filled, and the macros to define, sorted by name."""

    text: str
    defines: tuple[tuple[str, str], ...]


def render(request: CompileRequest) -> Rendered:
    """Put the params into the kernel.

    Raises RequestError for a param that nothing would read, and for a placeholder without a value.
    """
    kernel, params = request.kernel, request.params
    text, placed = _fill(request) if "`" in kernel.source else (kernel.source, _NOTHING)
    defines: dict[str, str] = {}
    if kernel.defines or params:
        macros = {**kernel.defines, **{name: value for name, value in params.items() if name not in placed}}
        if macros and kernel.language not in C_LIKE:
            raise _unread(request, sorted(macros))
        defines = {_macro_name(name): _macro_value(name, value) for name, value in macros.items()}
    return Rendered(text, tuple(sorted(defines.items())))


def placed_in(request: CompileRequest) -> tuple[str, dict[str, ParamValue]]:
    """The kernel's text with its placeholders filled, and the params that have none, for a driver that knows what
    becomes of them. Raises RequestError for a placeholder without a value.
    """
    text, placed = _fill(request) if "`" in request.kernel.source else (request.kernel.source, _NOTHING)
    params = {**request.kernel.defines, **request.params}
    return text, {name: value for name, value in params.items() if name not in placed}


def files_read(language: str, *parts: str | None) -> str | None:
    """The first construct by which a source reads another file (or the clock or environment), or None.

    parts: the source's text in pieces, as a prelude and a kernel; what stands across two is not seen.
    Conservative: it only decides caching. Comments are left out.
    """
    for part in parts:  # a generator takes twice the time, for each request
        if part and (found := _reads(language, part)):
            return found
    return None


def unlisted(language: str, *parts: str | None) -> str | None:
    """The first construct of a source that a dependency file of the compiler would not tell of, or None."""
    given = [part for part in parts if part]
    if language == "rust" and not any(_has_one(part, _RUST_ASSEMBLY_SUSPECT) for part in given):
        return None
    for part in given:
        code, strings = without_comments(language, part)
        found = _ASM_READS_FILES.search(strings) or (_C_UNLISTED.search(code) if language in C_LIKE else None)
        if found:
            return found[0]
    return None


def _has_one(text: str, words: Sequence[str]) -> bool:
    for word in words:  # noqa: SIM110 - as in `files_read`
        if word in text:
            return True
    return False


def _c_suspect(text: str) -> bool:
    """Whether a C-like source has to be taken apart; words that hardly any has are looked for first."""
    if "inc" in text and _has_one(text, ("include", ".inc", "incbin")):
        return True
    if "__" in text and _has_one(text, ("__has_", "__DATE", "__TIME")):
        return True
    directive = "#" in text or "%" in text or "?" in text  # as it is, as a digraph, as a trigraph
    return directive and _has_one(text, ("import", "embed"))


@functools.lru_cache(maxsize=64)
def _reads(language: str, text: str) -> str | None:
    if language in C_LIKE:
        text = _LINE_SPLICE.sub("", text) if "\\" in text or "??/" in text else text
        return _first(language, text, _C_READS_FILES) if _c_suspect(text) else None
    if language == "rust":
        return _first(language, text, _RUST_READS_FILES) if _has_one(text, _RUST_SUSPECT) else None
    if language == "zig":
        found = _ZIG_READS_FILES.search(text) or ("asm" in text and _ASM_READS_FILES.search(text)) or None
        return found and found[0]
    return None


def _first(language: str, text: str, pattern: re.Pattern[str]) -> str | None:
    code, strings = without_comments(language, text)
    if "??" in text or (language == "c" and 'R"' in text):
        code = text  # trigraphs and raw strings: whether they are any depends on the dialect
    found = pattern.search(code) or _ASM_READS_FILES.search(strings)
    return found and " ".join(found[0].split())


def _fill(request: CompileRequest) -> tuple[str, frozenset[str]]:
    """The kernel's text with its placeholders filled, and the params that were placed."""
    kernel, params = request.kernel, request.params
    placeholders, end = _template(kernel.language, kernel.source)
    pieces, placed = [], set()
    for before, whole, name, default, in_code in placeholders:
        pieces.append(before)
        if name in params:
            placed.add(name)
            pieces.append(_source_value(params[name], kernel.language))
        elif default is None and in_code:
            raise RequestError(f"kernel {kernel.name!r}: the placeholder {whole} has no value and no default")
        else:
            pieces.append(whole if default is None else default)
    return "".join((*pieces, end)), frozenset(placed)


class _Placeholder(NamedTuple):
    """before: the text since the one before it. whole: as it stands in the source."""

    before: str
    whole: str
    name: str
    default: str | None
    in_code: bool


@functools.lru_cache(maxsize=64)
def _template(language: str, source: str) -> tuple[tuple[_Placeholder, ...], str]:
    """The source cut at its placeholders, and the text after the last."""
    found = []
    before = ""
    for kind, piece in segments(language, source):
        at = 0
        for match in _PLACEHOLDER.finditer(piece) if kind != "comment" else ():
            found.append(_Placeholder(before + piece[at : match.start()], match[0], match[1], match[2], kind == "code"))
            before, at = "", match.end()
        before += piece[at:]
    return tuple(found), before


def _source_value(value: ParamValue, language: str) -> str:
    if isinstance(value, bool) and language != "triton":  # Python has them as we do
        return str(int(value)) if language in C_LIKE else str(value).lower()
    return str(value)


def _macro_value(name: str, value: ParamValue) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if "\n" in text or "\r" in text:
        raise RequestError(f"param {name!r}: a macro is one line, not {text!r}")
    return text


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
