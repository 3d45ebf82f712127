"""Which of the stored entries is most like a request that has none, and in what the two differ. Pure.

A search sees every entry once, in any order, and holds one of them: a store of any size is gone through in
little memory.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teeny_async.frozen import FrozenMap

Differences = Mapping[str, tuple[str | None, str | None]]
"""Label of a component -> what it is in the request, what it is in the entry; None where it is absent."""

_WORD = re.compile(r"((?:stage\d+\.)?argv)\[\d+\]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SHOWN = 3
"""Differences in a message of one line."""
_LONGEST = 60
"""Characters of a value in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A stored entry that is like a request which has none.

    digest: its key. kernel, target, toolchain, params: what it was made of, as far as it says so.
    differs: the components in which the two differ; empty where all that is known of both is the same.
    """

    digest: str
    kernel: str
    target: str
    toolchain: str
    params: Mapping[str, Any] = field(default_factory=FrozenMap)
    differs: Differences = field(default_factory=FrozenMap)

    def __str__(self) -> str:
        """On one line: which entry, and the first few differences."""
        params = "".join(f" {name}={value}" for name, value in self.params.items())
        name = f"{self.kernel} for {self.target}{params} (key {self.digest[:16]})"
        shown = [f"{label}: {both}" for label, both in difference_texts(self.differs)]
        if not shown:
            return f"{name}, of whose key no known component differs"
        more = f"; and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        return f"{name}, which differs in {'; '.join(shown[:_SHOWN])}{more}"


class Search:
    """Looks for the nearest entry to a request. nearest: the nearest so far; None before any was like it.

    kernel: its name. components: of the request's key, by label. files: key of an earlier result of this very
    request -> in what the files that its compiler read have changed since.
    """

    def __init__(
        self, kernel: str, components: Mapping[str, str], files: Mapping[str, Differences] | None = None
    ) -> None:
        self.nearest: Neighbour | None = None
        self._kernel = kernel
        self._components = components
        self._features = _features(components)
        self._files = files or {}
        self._rank: tuple[bool, bool, int, bool, float, str] | None = None

    def see(self, candidate: Candidate) -> None:
        """Look at an entry; one of another kernel by another toolchain is not like it."""
        other_kernel = candidate.info.get("kernel") != self._kernel
        if self._rank is not None and other_kernel > self._rank[0]:
            return
        other_tool = candidate.components.get("toolchain") != self._components.get("toolchain")
        if not candidate.components or (other_kernel and other_tool):
            return
        changes = self._files.get(candidate.digest)
        distance = len(self._features ^ candidate.features) if changes is None else 2 * len(changes)
        rank = (other_kernel, other_tool, distance, changes is None, -candidate.created, candidate.digest)
        if self._rank is None or rank < self._rank:
            self._rank = rank
            self.nearest = candidate.neighbour(
                differences(self._components, candidate.components) if changes is None else changes
            )


class Candidate:
    """A stored entry, as searches look at it. info: see `teeny_async.store.base.Entry`; it may hold anything."""

    def __init__(self, digest: str, info: Mapping[str, Any]) -> None:
        self.digest = digest
        self.info = info

    @functools.cached_property
    def components(self) -> Mapping[str, str]:
        """By label; none where they are not what they should be."""
        found = self.info.get("components")
        sound = isinstance(found, Mapping) and all(isinstance(value, str) for value in found.values())
        return found if found is not None and sound else {}

    @functools.cached_property
    def features(self) -> frozenset[tuple[str, str]]:
        """Components to be counted."""
        return _features(self.components)

    @property
    def created(self) -> float:
        """Seconds since the epoch."""
        when = self.info.get("created")
        return float(when) if isinstance(when, int | float) else 0.0

    def neighbour(self, differs: Differences) -> Neighbour:
        """The entry as what is nearest to something."""
        params = self.info.get("params")
        return Neighbour(
            digest=self.digest,
            kernel=str(self.info.get("kernel") or "unnamed"),
            target=str(self.info.get("target") or "default"),
            toolchain=str(self.info.get("toolchain") or ""),
            params=FrozenMap(params if isinstance(params, Mapping) else {}),
            differs=FrozenMap(differs),
        )


def differences(asked: Mapping[str, str], stored: Mapping[str, str]) -> Differences:
    """In what two keys differ. Arguments are compared as sequences: one more moves the others, and changes none."""
    found: dict[str, tuple[str | None, str | None]] = {}
    argvs = {match[1]: None for label in (*asked, *stored) if (match := _WORD.fullmatch(label))}
    for argv in argvs:
        found.update(_argument_differences(argv, _words(argv, asked), _words(argv, stored)))
    labels = dict.fromkeys(label for label in (*asked, *stored) if not _WORD.fullmatch(label))
    found.update(
        {label: (asked.get(label), stored.get(label)) for label in labels if asked.get(label) != stored.get(label)}
    )
    return FrozenMap(found)


def difference_texts(differs: Differences) -> Iterator[tuple[str, str]]:
    """Each label, and both values as people read them."""
    for label, (asked, stored) in differs.items():
        yield label, f"{_value_text(asked)}, there {_value_text(stored)}"


def _argument_differences(
    label: str, asked: Sequence[str], stored: Sequence[str]
) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    """The runs of arguments that differ, each under the place where it begins."""
    import difflib

    matcher = difflib.SequenceMatcher(None, asked, stored, autojunk=False)
    for kind, start, end, there, there_end in matcher.get_opcodes():
        if kind != "equal":
            both = (" ".join(asked[start:end]) or None, " ".join(stored[there:there_end]) or None)
            yield f"{label}[{start}]", both


def _words(label: str, components: Mapping[str, str]) -> list[str]:
    return [value for name, value in components.items() if (match := _WORD.fullmatch(name)) and match[1] == label]


def _features(components: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Components to be counted: arguments wherever they stand."""
    return frozenset((_WORD.sub(r"\1", label), value) for label, value in components.items())


def _value_text(value: str | None) -> str:
    if value is None:
        return "absent"
    if _DIGEST.fullmatch(value):
        return value[:16]
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."
