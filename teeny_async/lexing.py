"""Which parts of a source are code, which are strings, which are comments.

Enough of C, C++, Rust and Python to tell the three apart, and no more: a `/*` in a string begins no comment, an
apostrophe in `1'000` or in `'static` begins no string, Rust's block comments nest. Every other language is
read as C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Kind = Literal["code", "string", "comment"]

_PLACEHOLDER = r"`[A-Za-z_]\w*(?:=[^`\n]*)?`"
_C = re.compile(
    rf"""(?P<comment> //(?: \\[ \t]*\r?\n | [^\r\n] )*+ | /\*.*?(?: \*/ | \Z ) )
      | (?P<string> (?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{{0,16}})\(.*?(?: \)(?P=mark)" | \Z )
                  | "(?: \\. | [^"\\\r\n] )*+"?          # one that does not end is ended by its line
                  | '(?: \\. | [^'\\\r\n] )*+'? )
      | (?P<code> (?<![\w.])\.?\d(?: '\w | [\w.] )*+ | {_PLACEHOLDER} )
    """,
    re.VERBOSE | re.DOTALL,
)
_RUST = re.compile(
    rf"""(?P<comment> //[^\n]*+ | /\* )
      | (?P<string> (?<!\w)[bc]?r(?P<mark>\#*)".*?(?: "(?P=mark) | \Z )
                  | "(?: \\. | [^"\\] )*+"?
                  | '(?: \\u\{{[^}}']*\}} | \\x.. | \\. | [^\\'\n] )' )   # and else it is a lifetime
      | (?P<code> {_PLACEHOLDER} )
    """,
    re.VERBOSE | re.DOTALL,
)
_PYTHON = re.compile(
    rf"""(?P<comment> \#[^\n]*+ )
      | (?P<string> (?P<mark>"{{3}}|'{{3}})(?: \\. | (?!(?P=mark)). )*+(?: (?P=mark) | \Z )
                  | "(?: \\. | [^"\\\n] )*+"? | '(?: \\. | [^'\\\n] )*+'? )
      | (?P<code> {_PLACEHOLDER} )
    """,
    re.VERBOSE | re.DOTALL,
)
_TOKENS = {"rust": _RUST, "triton": _PYTHON}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def segments(language: str, text: str) -> Iterator[tuple[Kind, str]]:
    """The text in pieces, in order: joined, they are the text."""
    token = _TOKENS.get(language, _C)
    begin = at = 0
    while match := token.search(text, at):
        at = match.end()
        if match["code"] is not None:
            continue
        if match.start() > begin:
            yield "code", text[begin : match.start()]
        if match[0] == "/*":
            at = _end_of_nested(text, at)
        yield "string" if match["string"] is not None else "comment", text[match.start() : at]
        begin = at
    if begin < len(text):
        yield "code", text[begin:]


def without_comments(language: str, text: str) -> tuple[str, str]:
    """(the code, with a blank for each comment and an empty string for each string; the strings, joined)."""
    code, strings = [], []
    for kind, piece in segments(language, text):
        if kind == "code":
            code.append(piece)
        elif kind == "string":
            code.append('""')
            strings.append(piece.strip("\"'"))
        else:
            code.append("\n" if "\n" in piece else " ")
    return "".join(code), "".join(strings)


def _end_of_nested(text: str, at: int) -> int:
    """Where the block comment ends whose `/*` ends at `at`."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return len(text) if depth else at
