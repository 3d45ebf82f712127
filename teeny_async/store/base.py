"""What a store is: entries by key digest, small notes by name, and never a failed compile.

A store is a helper of the pipeline, not a party to it. Whatever goes wrong inside it (a full disk, a
lock, a folder that cannot be written, bytes that have changed) is a miss or a no-op for the
operation at hand, and one message to `on_fault`. Two things do raise: `open`, when the folder is
one that must not be used at all (`CacheError`), and `clear`, which a person asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Failure

OnFault = Callable[[str, str], None]
"""Called as on_fault(operation, message) in the event loop's thread; must not block."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept under a key.

    outcome: the verdict; a `Failure` only of a kind that may be remembered.
    info: plain JSON data for people and statistics (toolchain, version, target, kernel name,
        params, seconds, components of the key). Nothing decides by it, and it is parsed only when
        it is looked at.
    """

    outcome: Artifact | Failure
    info: Mapping[str, Any] = field(default_factory=FrozenMap)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStats:
    """The entries of one toolchain and target ("" for what is not known of them).

    entries, bytes: what there is now. hits, hit_bytes, seconds_saved: over all sessions since the folder
    was made or cleared, up to the last session that was closed; seconds_saved is what these hits took to
    compile when they were compiled.
    """

    toolchain: str
    target: str
    entries: int = 0
    bytes: int = 0
    hits: int = 0
    hit_bytes: int = 0
    seconds_saved: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The state of a store, and what this object has seen of it.

    location: the folder, or what stands for it. entries: notes are not counted. bytes: what they
    take, notes and overhead included. size_limit: bytes, count_limit: entries and notes; None is no limit.
    hits, misses, quarantined, faults: counted since the object was made. quarantined: entries that
    failed their check and were dropped (a read-only folder's are passed over); each is a miss too.
    skipped: operations left out, because the same kind had failed a moment before.
    trouble: why the store does not work now; None when it does.
    groups: by toolchain and target, where the store keeps count of them.
    layers: of a layered store, in the order in which they are asked.
    """

    location: str
    entries: int = 0
    bytes: int = 0
    size_limit: int | None = None
    count_limit: int | None = None
    hits: int = 0
    misses: int = 0
    quarantined: int = 0
    faults: int = 0
    skipped: int = 0
    trouble: str | None = None
    groups: Sequence[GroupStats] = ()
    layers: Sequence[StoreStats] = ()


class Store(Protocol):
    """Entries and notes that outlive a session. Digests are 64 hexadecimal digits.

    Sessions share a store object freely: each calls `open` before its first operation and `aclose`
    after its last, both in the same task; the store is closed when the last one has left, and may
    be opened again. An operation on a closed store raises RuntimeError, a malformed digest
    ValueError: those are bugs of the caller.

    read_only: nothing is ever written or removed; puts and deletes do nothing.
    """

    @property
    def read_only(self) -> bool: ...

    async def open(self, on_fault: OnFault) -> None:
        """Make ready. Raises CacheError when what is there must not be used; other trouble is a
        fault, and the store then holds nothing and keeps nothing."""
        ...

    async def aclose(self) -> None:
        """Finish what was begun and let go; shielded from cancellation."""
        ...

    async def get_many(self, digests: Sequence[str]) -> list[Entry | None]:
        """The entries in the order asked for, each verified against its checksum and its key.

        None is a miss. An entry that fails its check is dropped, counted and reported.
        """
        ...

    async def put(self, digest: str, entry: Entry) -> None:
        """Keep an entry, whole or not at all; it replaces one of the same digest.

        Cancelling the caller does not undo it.
        """
        ...

    async def put_many(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Keep many entries at once: what `put` would do for each, for less."""
        ...

    async def delete(self, digest: str) -> None:
        """Forget an entry, if it is there."""
        ...

    async def get_note(self, name: str) -> str | None:
        """A small text kept under a name, verified like an entry; None when there is none."""
        ...

    async def get_notes(self, names: Sequence[str]) -> list[str | None]:
        """Many notes at once, in the order asked for: what `get_note` would give for each."""
        ...

    async def put_note(self, name: str, text: str) -> None:
        """Keep a small text (a memoised fingerprint); it may be forgotten like any entry."""
        ...

    async def stats(self) -> StoreStats:
        """How much it holds and how it has fared."""
        ...

    async def clear(self) -> int:
        """Remove every entry and note; the number of entries removed. Raises CacheError when it
        could not be done."""
        ...
