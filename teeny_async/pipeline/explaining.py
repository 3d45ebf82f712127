"""Why a request is in the cache or is not: its key's components, and the stored entry that is nearest to it.

Nothing here compiles, and nothing is written. A store is gone through in one pass for many requests, of which
each holds the one entry that is nearest so far.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from teeny_async.closure import result_digest
from teeny_async.frozen import FrozenMap
from teeny_async.keys import CacheKey
from teeny_async.model import CompileRequest
from teeny_async.nearest import Candidate, Differences, Neighbour, Search
from teeny_async.pipeline.closures import Closures
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.keeping import Keeper
from teeny_async.pipeline.planning import Booking, Plan
from teeny_async.result import Failure
from teeny_async.store.base import Entry, Store
from teeny_async.target import Target

State = Literal["hit", "miss", "unkeyable"]
PATIENCE = 5.0
"""Seconds that a session spends, in all, on looking for what is near to its misses: a cache can be large, and who
allows only cached results waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a request is in the cache, or is not.

    target: resolved. toolchain: its version line. components: of the key, by label; for a source that reads files
        and whose result is known, also each file's digest.
    state: "hit"; "miss"; "unkeyable": it is compiled each time. why: the reason for a miss of something that is
        stored and not served, and for "unkeyable".
    result_key: what the result is kept under: the key, and for a source that reads files another one, None as long
        as no compile with the files as they are is known.
    stored: of a hit, what is known of the compile that it came of. failure: the refusal that is remembered, where
        that is what the hit is.
    nearest: of a miss, the stored entry that is most like it; None where none is like it at all.
    """

    request: CompileRequest
    key: CacheKey
    target: Target
    toolchain: str
    components: Mapping[str, str]
    state: State
    why: str | None = None
    result_key: str | None = None
    stored: Mapping[str, Any] = field(default_factory=FrozenMap)
    failure: Failure | None = None
    nearest: Neighbour | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What earlier compiles of a request say of its result.

    digest: the key to look it up by; None where there is none. files: of a source that reads files, path -> digest.
    changes: keys of results that hold no more -> in what the files have changed since.
    """

    digest: str | None
    files: Mapping[str, str] = field(default_factory=FrozenMap)
    changes: Mapping[str, Differences] = field(default_factory=FrozenMap)


class Explainer:
    """Explains for one session."""

    def __init__(self, store: Store | None, closures: Closures | None, keeper: Keeper) -> None:
        self._store = store
        self._closures = closures
        self._keeper = keeper
        self._patience = PATIENCE

    async def explain(self, asked: Sequence[tuple[CompileRequest, Plan]]) -> list[Explanation]:
        """An explanation of each; the whole store is gone through once when there is a miss."""
        found: list[Explanation] = []
        searches: dict[int, Search] = {}
        for index, (request, plan) in enumerate(asked):
            known = await self._known(plan.booking)
            found.append(await self._verdict(_explanation(request, plan, known)))
            if found[-1].state == "miss":
                searches[index] = Search(request.kernel.name, plan.booking.key.explain(), known.changes)
        await self._go_through(list(searches.values()), math.inf)
        for index, search in searches.items():
            found[index] = replace(found[index], nearest=search.nearest)
        return found

    async def neighbours(self, flights: Sequence[Flight]) -> list[Neighbour | None]:
        """What is nearest to each, as far as that can be told in the time that is left for it."""
        began = time.monotonic()
        searches = [
            Search(flight.request.kernel.name, flight.key.explain(), (await self._known(flight.booking)).changes)
            for flight in flights
        ]
        await self._go_through(searches, began + self._patience)
        self._patience -= time.monotonic() - began
        return [search.nearest for search in searches]

    async def _known(self, booking: Booking) -> _Known:
        key = booking.key.digest
        if booking.uncacheable is not None:
            return _Known(None)
        if not booking.reads_files:
            return _Known(key)
        earlier = [] if self._closures is None else await self._closures.earlier(key)
        changes = {result_digest(key, variant): changed for variant, changed in earlier if changed}
        for variant, changed in earlier:
            if not changed:
                return _Known(result_digest(key, variant), variant.files, changes)
        return _Known(None, changes=changes)

    async def _verdict(self, explanation: Explanation) -> Explanation:
        """The explanation of what may be a hit, with what the store says."""
        if explanation.result_key is None or self._store is None:
            return explanation
        look = getattr(self._store, "look_many", self._store.get_many)  # no use of the entry, where that is noted
        [entry] = await look([explanation.result_key])
        if entry is None:
            return explanation
        if not self._keeper.serves(entry, explanation.request.log_level, time.time()):
            return replace(explanation, why=_why_not_served(entry))
        failure = entry.outcome if isinstance(entry.outcome, Failure) else None
        return replace(explanation, state="hit", stored=FrozenMap(dict(entry.info)), failure=failure)

    async def _go_through(self, searches: Sequence[Search], until: float) -> None:
        """Show every entry to every search. until: when to stop, on the clock of `time.monotonic`."""
        if not searches or self._store is None or time.monotonic() >= until:
            return
        async with contextlib.aclosing(_entries(self._store)) as entries:
            async for digest, entry in entries:
                candidate = Candidate(digest, entry.info)
                for search in searches:
                    search.see(candidate)
                if time.monotonic() >= until:
                    return


def not_cached(flight: Flight, nearest: Neighbour | None) -> str:
    """The message of a miss where only cached results are allowed: what was asked for, and what is near to it."""
    request = flight.request
    if flight.uncached is not None:
        return f"{request.kernel.name}: it is in no cache: {flight.uncached}"
    params = "".join(f" {name}={value}" for name, value in request.params.items())
    tool = flight.booking.toolchains[0].version
    asked = f"{request.kernel.name} for {flight.booking.target}{params} by {tool} (key {flight.key.digest[:16]})"
    return f"not in the cache: {asked}" + ("" if nearest is None else f"; the nearest entry is {nearest}")


def _explanation(request: CompileRequest, plan: Plan, known: _Known) -> Explanation:
    booking = plan.booking
    files = {f"file {path}": digest for path, digest in known.files.items()}
    return Explanation(
        request=request,
        key=booking.key,
        target=plan.target,
        toolchain=plan.stages[0].toolchain.version,
        components=FrozenMap({**booking.key.explain(), **files}),
        state="miss" if booking.uncacheable is None else "unkeyable",
        why=booking.uncacheable,
        result_key=known.digest,
    )


def _why_not_served(entry: Entry) -> str:
    if isinstance(entry.outcome, Failure):
        return "a refusal is stored, which is not served any more, or not by this session"
    return "the artifact is stored without the log that is asked for"


async def _entries(store: Store) -> AsyncGenerator[tuple[str, Entry], None]:
    """Every entry of a store that can be gone through; of one with layers, those of each."""
    for layer in getattr(store, "layers", None) or (store,):
        scan = getattr(layer, "scan", None)
        if scan is not None:
            async with contextlib.aclosing(scan()) as entries:
                async for found in entries:
                    yield found
