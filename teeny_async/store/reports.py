"""What the explicit operations on a store have done: frozen data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What `DiskStore.verify` found, and did about it.

    deep: whether values were read and checked, or only looked at from outside.
    entries, notes: good ones. bytes: of their values.
    bad: (digest or name, what was wrong), of those that were dropped; the first hundred. dropped: all of them.
    strays: value files that belonged to no entry, removed.
    database: what was wrong with the database, which was then set aside, and what was good in it saved; None
        when it was sound.
    seconds: it took.
    """

    deep: bool
    entries: int = 0
    notes: int = 0
    bytes: int = 0
    bad: Sequence[tuple[str, str]] = ()
    dropped: int = 0
    strays: int = 0
    database: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything was as it should be. Strays are nothing wrong: a writer was killed."""
        return not self.dropped and self.database is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What `DiskStore.prune` removed: rows (entries and notes), and bytes of their values."""

    removed: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """What went into an archive, or came out of one.

    entries, notes: written. present: entries and notes of the archive that were in the store already.
    bytes: of the archive.
    """

    entries: int = 0
    notes: int = 0
    present: int = 0
    bytes: int = 0
