"""Preludes: the text that teenyc wants in front of every kernel, from wherever the user has it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from teeny_async.errors import RequestError

_CONSTANT = re.compile(
    r"""\A\s*(?:(?://[^\n]*|\#!?\[[^\n]*\])\n\s*)*            # comments and attributes
        pub\s+(?:const|static)\s+\w+\s*:\s*&\s*(?:'static\s+)?str\s*=\s*r(\#*)"
    """,
    re.VERBOSE,
)


def read_prelude(prelude: str | os.PathLike[str]) -> str:
    """The prelude's text, from a path or from text.

    A path (a PathLike, or a one-line string that ends in .rs or .txt) is read. The `triton_lang.rs` that
    teenygrad's build generates, `pub const TRITON: &str = r#"..."#;`, is unwrapped to its constant.

    Raises RequestError for a file that cannot be read, and for a constant that has no end.
    """
    where = "prelude"
    if isinstance(prelude, os.PathLike) or ("\n" not in prelude and prelude.endswith((".rs", ".txt"))):
        where = f"prelude {os.fspath(prelude)}"
        try:
            prelude = Path(prelude).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise RequestError(f"{where}: not UTF-8 text") from None
        except OSError as error:
            raise RequestError(f"{where}: cannot read it: {error.strerror}") from None
    start = _CONSTANT.match(prelude)
    if start is None:
        return prelude
    end = prelude.find('"' + start[1], start.end())
    if end < 0:
        raise RequestError(f'{where}: it starts a raw string constant (r{start[1]}"...) that does not end')
    return prelude[start.end() : end]


def effective_prelude(prelude: str | None, settings: Mapping[str, str]) -> str:
    """The prelude of a kernel for teenyc: its own, or, where it says nothing of one, that of the settings."""
    return settings.get("TEENY_ASYNC_PRELUDE", "") if prelude is None else prelude
