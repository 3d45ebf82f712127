"""The include closure: the files a compiler read, beyond those we gave it, as part of a key.

The compiler itself says what it read (a dependency file). What it said is kept under the request's key as a
*manifest*: for each earlier compile the files and their digests, and the places where a file would have
been found first and was not. A later request looks at those files as they are now; where all are the same
and nothing has appeared in the empty places, the compiler would read the same again, and the digests
complete the key:

    request key -> manifest -> the variant that matches the files as they are -> result key -> entry

So a hit needs no compiler, and any change of a header, or a header newly found earlier on the search path,
is a miss. (ccache calls this the depend mode.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

MANIFEST_SCHEMA = 1
MAX_VARIANTS = 16
"""Variants kept of one request, newest first."""
MAX_FILES = 4096
"""Files of one closure; a compile that read more is not cached."""

_DEEPEST_NAME = 4
"""Components of the longest name of a system header: `x86_64-linux-gnu/c++/12/bits/...` is not written out."""

_RULE_WORD = re.compile(r"(?:\\\r?\n|\s)+|((?:\\[ #:\\]|\$\$|[^\s\\]|\\(?!\r?\n))+)")
_ESCAPE = re.compile(r"\\([ #:])|\$\$")


class Files(Protocol):
    """The files of the machine, as they are now."""

    def digest(self, path: str) -> str | None:
        """SHA-256 in hexadecimal; None when there is no file that can be read."""

    def is_there(self, path: str) -> bool:
        """Whether anything is there, a folder included."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What one compile read: absolute path -> digest in hexadecimal, and the paths that had to be absent."""

    files: Mapping[str, str]
    absent: Sequence[str] = ()

    def matches(self, files: Files) -> bool:
        """Whether a compile now would read the same."""
        same = all(files.digest(path) == known for path, known in self.files.items())
        return same and not any(files.is_there(path) for path in self.absent)

    def changes(self, files: Files) -> dict[str, tuple[str | None, str | None]]:
        """In what the files differ from what this compile read: label -> (now, then); None for absent."""
        now = {path: files.digest(path) for path in self.files}
        found = {f"file {path}": (now[path], then) for path, then in self.files.items() if now[path] != then}
        return found | {f"file {path}": ("is there", None) for path in self.absent if files.is_there(path)}


def result_digest(request_digest: str, variant: Variant) -> str:
    """The key of a result: the request's and the contents of what was read, whose paths are in it too."""
    state = hashlib.sha256(b"teeny_async closure\0")
    state.update(request_digest.encode())
    for path in sorted(variant.files):
        name = path.encode("utf-8", "surrogateescape")
        state.update(b"%d:%s:%s" % (len(name), name, variant.files[path].encode()))
    return state.hexdigest()


def dump_manifest(variants: Sequence[Variant]) -> str:
    """The manifest's text, newest variant first, cut to MAX_VARIANTS."""
    kept = [[dict(variant.files), list(variant.absent)] for variant in variants[:MAX_VARIANTS]]
    return json.dumps([MANIFEST_SCHEMA, kept])


def load_manifest(text: str | None) -> list[Variant]:
    """The variants of a manifest; none for one that is absent, foreign or damaged."""
    try:
        schema, kept = json.loads(text or "[0, []]")
        if schema != MANIFEST_SCHEMA:
            return []
        return [Variant({str(p): str(d) for p, d in files.items()}, tuple(map(str, absent))) for files, absent in kept]
    except (ValueError, TypeError, AttributeError):
        return []


def with_variant(variants: Sequence[Variant], new: Variant) -> list[Variant]:
    """The variants with a new one in front, without an older equal one."""
    return [new, *(variant for variant in variants if variant.files != new.files)][:MAX_VARIANTS]


def read_depfile(text: str) -> list[str]:
    """The prerequisites of a make rule, as clang, gcc, nvcc and rustc write them, each once, in order.

    Blanks, `#` and `:` are escaped with a backslash and `$` is doubled; nvcc leaves `#` and `$` as they are,
    and puts a blank before the colon. Rules without prerequisites (`-MP`, rustc's file list) add nothing.
    """
    found: dict[str, None] = {}
    for rule in re.split(r"(?<!\\)\n", text.replace("\r\n", "\n")):
        if rule.startswith("#"):  # rustc's comments
            continue
        words = [match[1] for match in _RULE_WORD.finditer(rule) if match[1]]
        for position, word in enumerate(words):
            if word.endswith(":") and not word.endswith("\\:"):
                found.update(dict.fromkeys(_unescaped(after) for after in words[position + 1 :]))
                break
    return list(found)


def rustc_environment(text: str) -> list[str]:
    """Names of the environment variables that rustc's dep-info says the source read (`# env-dep:NAME=...`)."""
    return re.findall(r"^# env-dep:([^=\n]+)", text, re.MULTILINE)


def must_be_absent(files: Sequence[str], search: Sequence[str], exists: Callable[[str], bool]) -> list[str]:
    """The places where nothing may appear, or the compiler would find it before what it found this time.

    files: absolute paths that were read. search: the folders of the search path, in order. Which directive
    named a file is not known, so that more places are watched than need be: a file from a folder of the
    search path under its name there, in the folders before; any other file (a system header) under each
    ending of its path, in all of them; and both beside every file that could have included it with quotes.
    Of a place inside a folder that does not exist, the folder is what is watched.
    """
    roots = list(dict.fromkeys(search))
    beside = [folder for folder in dict.fromkeys(map(os.path.dirname, files)) if _root_of(folder, roots) is not None]
    watched: dict[str, None] = {}
    for path in files:
        root = _root_of(path, roots)
        if root is None:
            names, folders = _endings(path), [*roots, *beside]
        else:
            names, folders = [os.path.relpath(path, root)], [*roots[: roots.index(root)], *beside]
        for folder in dict.fromkeys(folders):
            for name in names:
                place = _first_missing(folder, name, exists)
                if place is not None:
                    watched[place] = None
    return list(watched)


def module_twins(files: Sequence[str]) -> list[str]:
    """The other place of each Rust module, `m.rs` or `m/mod.rs`; a file that appears there is an error."""
    twins = []
    for path in files:
        stem, suffix = os.path.splitext(path)
        if suffix == ".rs":
            folder, name = os.path.split(stem)
            twins.append(folder + ".rs" if name == "mod" else os.path.join(stem, "mod.rs"))
    return [path for path in twins if path not in files]


def _root_of(path: str, roots: Sequence[str]) -> str | None:
    return next((root for root in roots if path == root or path.startswith(root.rstrip(os.sep) + os.sep)), None)


def _endings(path: str) -> list[str]:
    """The names by which a directive can have named a file of a folder that we do not know."""
    parts = path.strip(os.sep).split(os.sep)
    return [os.sep.join(parts[-count:]) for count in range(1, min(_DEEPEST_NAME, len(parts)) + 1)]


def _first_missing(folder: str, name: str, exists: Callable[[str], bool]) -> str | None:
    """The first part of folder/name that is not there; None when all of it is."""
    place = folder
    for part in name.split(os.sep):
        place = os.path.join(place, part)
        if not exists(place):
            return place
    return None


def _unescaped(word: str) -> str:
    return _ESCAPE.sub(lambda match: match[1] or "$", word)
