"""Under which names and ids the artifacts of teenyc were asked for: what its own cache folder names files by.

Neither is in a key, so one entry may answer for many. The first (name, id) is in the entry's info; a note for
the entry has those that came later, and is written only when a new one has come. A prelude, which thousands of
kernels share, is a note of its own, named by its digest. `teeny_async.upstream` reads all of this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from teeny_async.model import CompileRequest
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.planning import Plan
from teeny_async.prelude import effective_prelude
from teeny_async.store.base import Entry, Store

TOOL = "teenyc"
ASKED_NOTE = "asked-1:"
PRELUDE_NOTE = "prelude:"
PORTABLE_NOTES = (ASKED_NOTE, PRELUDE_NOTE)
"""Beginnings of the notes that hold on every machine, and belong into an archive."""
NAMELESS = ""
"""The id of a kernel that nobody asks for by a name, as when a folder is verified: it leaves no trace here."""
_REMEMBERED = 65_536
"""Pairs that need not be looked at again; a session that sees more starts over."""

Pair = tuple[str, str | None]
"""A kernel's name and id, as a request had them."""


class Kept(NamedTuple):
    """The entry that answers a flight: its digest, and its info, which is not parsed for a pair that was seen."""

    digest: str
    info: Mapping[str, Any]


class Facts(NamedTuple):
    """What an entry's info says of the first who asked: the pair, and the digest of the prelude or None."""

    first: Pair
    prelude: str | None


def facts(request: CompileRequest, plan: Plan) -> dict[str, Any]:
    """What an entry's info keeps for the cache folder of teenygrad; nothing for other compilers.

    source: as teenyc was given it, without the prelude. prelude: SHA-256 of its text, or None. cpu, ptx_version:
    what it was told, or None.
    """
    action = plan.stages[0].action
    if plan.stages[0].driver.name != TOOL:
        return {}
    *preludes, source = action.inputs[0].parts
    version = action.env.get("TEENYC_PTX_VERSION")
    kept = {
        "id": request.kernel.id,
        "source": source,
        "prelude": text_digest(preludes[0]) if preludes else None,
        "cpu": plan.target.cpu,
        "ptx_version": None if version is None else int(version),
    }
    return {TOOL: kept}


def text_digest(text: str) -> str:
    """SHA-256 of a text as UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_facts(info: Mapping[str, Any]) -> Facts | None:
    """What `facts` has put into an entry's info; None where that was nothing."""
    kept = info.get(TOOL)
    if not isinstance(kept, Mapping):
        return None
    return Facts((str(info.get("kernel")), kept.get("id")), kept.get("prelude"))


def read_asked(text: str | None) -> set[Pair]:
    """The pairs of a note; none for one that cannot be read."""
    try:
        pairs = json.loads(text or "[]")
    except ValueError:
        return set()
    return {tuple(pair) for pair in pairs if _is_pair(pair)} if isinstance(pairs, list) else set()


def _is_pair(pair: object) -> bool:
    match pair:
        case [str(), str() | None]:
            return True
    return False


class Asked:
    """What one session sees asked for. Synchronous but for `note`, which writes it down."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, Pair]] = set()
        self._new: dict[str, set[Pair]] = {}
        self._preludes: dict[str, str] = {}
        self._noted_preludes: set[str] = set()

    def answered(self, flight: Flight, digest: str, info: Mapping[str, Any]) -> None:
        """A flight is answered by this entry."""
        if flight.booking.toolchains[0].name == TOOL:
            flight.kept = Kept(digest, info)

    def asked(self, request: CompileRequest, flight: Flight) -> None:
        """Someone who asked so was served by the flight."""
        kept = flight.kept
        if kept is None or request.kernel.id == NAMELESS:
            return
        pair = (request.kernel.name, request.kernel.id)
        if (kept.digest, pair) in self._seen:
            return
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add((kept.digest, pair))
        known = read_facts(kept.info)
        if known is None:
            return
        if pair != known.first:
            self._new.setdefault(kept.digest, set()).add(pair)
        if known.prelude is not None and known.prelude not in self._noted_preludes:
            tool = flight.booking.toolchains[0]
            self._preludes[known.prelude] = effective_prelude(request.kernel.prelude, tool.settings)

    def replaced(self, entry: Entry | None, by: Kept) -> None:
        """An entry is about to be replaced; it must not take its first pair with it."""
        before = None if entry is None else read_facts(entry.info)
        if before is not None and before != read_facts(by.info) and before.first[1] != NAMELESS:
            self._new.setdefault(by.digest, set()).add(before.first)

    async def note(self, store: Store) -> None:
        """Write down what is new since the last time; also keeps the preludes in use from growing old."""
        new, self._new = self._new, {}
        preludes, self._preludes = self._preludes, {}
        for digest, prelude in preludes.items():
            self._noted_preludes.add(digest)
            if await store.get_note(PRELUDE_NOTE + digest) is None:
                await store.put_note(PRELUDE_NOTE + digest, prelude)
        names = list(new)
        texts = await store.get_notes([ASKED_NOTE + digest for digest in names]) if names else []
        for digest, text in zip(names, texts, strict=True):
            known = read_asked(text)
            if not new[digest] <= known:
                pairs = sorted(known | new[digest], key=lambda pair: (pair[0], pair[1] or ""))
                await store.put_note(ASKED_NOTE + digest, json.dumps(pairs))
