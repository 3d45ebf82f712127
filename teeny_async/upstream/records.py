"""What a store knows of the artifacts of teenyc that are in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from teeny_async.pipeline.asking import ASKED_NOTE, NAMELESS, PRELUDE_NOTE, TOOL, Pair, read_asked, read_facts
from teeny_async.result import Artifact
from teeny_async.store.base import Entry, Store
from teeny_async.store.disk import DiskStore
from teeny_async.upstream.layout import Origin, kernel_id, stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One artifact. pairs: every (name, id) it was asked for under. prelude: SHA-256 of its text, or None.

    created: unix seconds. fingerprint: of the teenyc that made it.
    """

    digest: str
    artifact: Artifact
    pairs: Sequence[Pair]
    source: str
    prelude: str | None
    cpu: str | None
    ptx_version: int | None
    created: float
    fingerprint: str

    def origin(self, pair: Pair) -> Origin:
        """What the hash in its files' names is made of, for one who asks so."""
        return Origin(kernel_id(pair[1], self.source), self.cpu, self.ptx_version)

    def stem(self, pair: Pair) -> str:
        """What its files are called for one who asks so. Raises ValueError."""
        return stem(pair[0], self.origin(pair))


async def records(store: DiskStore, *, all_pairs: bool = True) -> AsyncIterator[Record]:
    """Every artifact of teenyc in a store that is open. all_pairs: with those that came after the first."""
    async for digest, entry in store.scan():
        kept = read_facts(entry.info)
        if kept is not None and isinstance(entry.outcome, Artifact) and "ptx" in entry.outcome.outputs:
            asked = read_asked(await store.get_note(ASKED_NOTE + digest)) if all_pairs else set()
            pairs = [kept.first, *sorted(asked - {kept.first}, key=str)]
            yield _record(digest, entry, entry.outcome, [pair for pair in pairs if pair[1] != NAMELESS])


def _record(digest: str, entry: Entry, artifact: Artifact, pairs: Sequence[Pair]) -> Record:
    facts: dict[str, Any] = entry.info[TOOL]
    components = entry.info.get("components") or {}
    return Record(
        digest=digest,
        artifact=artifact,
        pairs=pairs,
        source=str(facts.get("source", "")),
        prelude=facts.get("prelude"),
        cpu=facts.get("cpu"),
        ptx_version=facts.get("ptx_version"),
        created=float(entry.info.get("created", 0.0)),
        fingerprint=str(components.get("fingerprint", "")),
    )


class Preludes:
    """The preludes that a store has, each read once. The last few are held."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str | None] = {}

    async def get(self, digest: str | None) -> str | None:
        """The text; "" for no prelude, None for one that was forgotten."""
        if digest is None:
            return ""
        if digest not in self._known:
            if len(self._known) >= 16:
                self._known.clear()
            self._known[digest] = await self._store.get_note(PRELUDE_NOTE + digest)
        return self._known[digest]
