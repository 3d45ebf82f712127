"""Between a session and its store: what is served from it, what is kept in it, and what was learned.

A failure is kept like an artifact when it is a verdict about the request: the compiler refused it, or
crashed over it twice in the same way. It is served for a while only, since what a compiler refuses can
depend on more than the key says; the machine's failures are never kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from teeny_async.execution.digests import file_clock_ns
from teeny_async.failures import POLICIES
from teeny_async.frozen import FrozenMap
from teeny_async.keys import CacheKey
from teeny_async.model import CompileRequest
from teeny_async.pipeline.asking import Asked, facts
from teeny_async.pipeline.closures import Closures
from teeny_async.pipeline.costs import Learned
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.planning import Plan
from teeny_async.pipeline.rules import Rules
from teeny_async.result import Artifact, Failure, Usage
from teeny_async.store.base import Entry, Store
from teeny_async.toolchains.base import Toolchain

COSTS_NOTE = "costs-1"
_SKEW = 3600.0
"""Seconds by which clocks of machines that share a store may differ."""


class Keeper:
    """One session's dealings with its store. learned: taken up from the store before the first miss."""

    def __init__(self, store: Store | None, closures: Closures | None, rules: Rules, learned: Learned) -> None:
        self._store = store
        self._closures = closures
        self._rules = rules
        self._learned = learned
        self._recalled = False
        self._asked = Asked()
        self._to_put: list[tuple[str, Entry]] = []
        self._putting = anyio.Lock(fast_acquire=True)
        self._layers: Mapping[str, int] = {}

    def opened(self) -> None:
        """The store is open: count its layers' hits from here on."""
        self._layers = dict(getattr(self._store, "hits_by_layer", {}))

    def hits(self, cached: int) -> Mapping[str, int]:
        """Hits by layer, of a store that has an attribute `hits_by_layer` (name -> count since it was made);
        of any other, all of them as "store"."""
        layers = getattr(self._store, "hits_by_layer", None)
        if layers is None:
            return FrozenMap({"store": cached} if cached else {})
        counts = {name: count - self._layers.get(name, 0) for name, count in layers.items()}
        return FrozenMap({name: count for name, count in counts.items() if count})

    async def look_up(self, flights: Sequence[Flight]) -> list[Artifact | Failure | None]:
        """What the store answers each of them; None is a miss."""
        answers: list[Artifact | Failure | None] = [None] * len(flights)
        if self._store is not None and self._rules.reads_store:
            digests = await self._digests_of(flights)
            asked = [index for index, digest in enumerate(digests) if digest is not None]
            entries = await self._store.get_many([digest for digest in digests if digest is not None])
            now = time.time()
            for index, entry in zip(asked, entries, strict=True):
                if entry is not None and self.serves(entry, flights[index].log_level, now):
                    answers[index] = entry.outcome
                    self._asked.answered(flights[index], digests[index] or "", entry.info)
        if None in answers and not self._recalled:
            await self._recall()
        return answers

    async def _digests_of(self, flights: Sequence[Flight]) -> list[str | None]:
        """The keys to look results up by; None where there is none. For what reads files it is the key of the
        result that it has with the files as they are."""
        digests = [flight.key.digest if flight.uncached is None else None for flight in flights]
        readers = [index for index, flight in enumerate(flights) if flight.reads_files and flight.uncached is None]
        if readers:
            assert self._closures is not None
            now = file_clock_ns()
            for index in readers:
                flights[index].reading_since = now
            found = await self._closures.result_digests([flights[index].key.digest for index in readers])
            for index, digest in zip(readers, found, strict=True):
                digests[index] = digest
        return digests

    def serves(self, entry: Entry, log_level: str | None, now: float) -> bool:
        """Whether an entry answers a request for a log of this level. now: seconds since the epoch."""
        if isinstance(entry.outcome, Failure):
            return not self._rules.retry_failed and self._lasts(entry.outcome, entry.info, now)
        # One for a log is not answered by an entry that has none.
        return log_level is None or entry.outcome.log_level == log_level

    def _lasts(self, failure: Failure, info: Mapping[str, Any], now: float) -> bool:
        created = info.get("created")
        if not isinstance(created, int | float):
            return False
        return -_SKEW <= now - created < self._lifetime(failure)

    def _lifetime(self, failure: Failure) -> float:
        """Seconds that a failure is served; 0 for one of a kind that is never kept."""
        lasts = POLICIES[failure.kind].lasts
        ttl = self._rules.failure_ttl
        return lasts if ttl is None else min(lasts, ttl)

    async def keep(self, flight: Flight, plan: Plan, outcome: Artifact | Failure) -> None:
        """Keep a verdict; once there is one, a cancellation does not lose it."""
        if self._store is None or not self._rules.writes_store or flight.uncached or not flight.lasting:
            return
        if isinstance(outcome, Failure) and not self._lifetime(outcome):
            return
        with anyio.CancelScope(shield=True):
            digest = await self._result_digest(flight, plan, outcome)
            if digest is not None:
                info = _info(flight, plan)
                self._asked.answered(flight, digest, info)
                if flight.kept is not None and (flight.log_level or not self._rules.reads_store):
                    # One may be there that was not looked for, or did not do.
                    self._asked.replaced((await self._store.get_many([digest]))[0], flight.kept)
                await self._put(digest, Entry(outcome, info))

    async def _put(self, digest: str, entry: Entry) -> None:
        """Keep an entry, together with all that come while others are being written: many in one transaction."""
        assert self._store is not None
        batch = self._to_put
        batch.append((digest, entry))
        async with self._putting:
            if batch is self._to_put:  # or one of the others has written it
                self._to_put = []
                await self._store.put_many(batch)

    async def stage(self, key: CacheKey) -> Artifact | None:
        """What the store has of one stage of a plan."""
        if self._store is None or not self._rules.reads_store:
            return None
        [entry] = await self._store.get_many([key.digest])
        return entry.outcome if entry is not None and isinstance(entry.outcome, Artifact) else None

    @property
    def shares(self) -> bool:
        """Whether what one flight keeps is there for the next one."""
        return self._store is not None and self._rules.reads_store and self._rules.writes_store

    async def keep_stage(
        self, flight: Flight, plan: Plan, toolchain: Toolchain, key: CacheKey, artifact: Artifact, *, usage: Usage
    ) -> None:
        """Keep what one stage of a plan made, under a key of its own. toolchain, usage: of that stage."""
        if self._store is None or not self._rules.writes_store:
            return
        info = {
            "toolchain": toolchain.version,
            "seconds": usage.wall,
            "max_rss": usage.max_rss,
            "components": key.explain(),
        }
        with anyio.CancelScope(shield=True):
            await self._put(key.digest, Entry(artifact, FrozenMap({**_info(flight, plan), **info})))

    async def _result_digest(self, flight: Flight, plan: Plan, outcome: Artifact | Failure) -> str | None:
        """The key to keep a verdict under; None when it may not be kept: of an artifact, `flight.uncached` then
        says why. A compiler that fails seldom says what it read."""
        if not flight.reads_files:
            return flight.key.digest
        if isinstance(outcome, Failure) and flight.depfile is None:
            return None
        assert self._closures is not None
        assert flight.reading_since is not None
        lesson = await self._closures.learn(
            flight.key.digest, plan.stages[0].action, flight.depfile, flight.reading_since
        )
        flight.uncached = lesson.why_not
        return lesson.digest

    async def _recall(self) -> None:
        self._recalled = True
        if self._store is not None and self._rules.writes_store:
            self._learned.load(await self._store.get_note(COSTS_NOTE))

    def asked(self, request: CompileRequest, flight: Flight) -> None:
        """A request was served by a flight; see `teeny_async.pipeline.asking`."""
        if self._rules.writes_store and isinstance(flight.outcome, Artifact):
            self._asked.asked(request, flight)

    async def note_asked(self) -> None:
        """Leave in the store what entries were asked for under."""
        if self._store is not None and self._rules.writes_store:
            with anyio.CancelScope(shield=True):
                await self._asked.note(self._store)

    async def note_costs(self) -> None:
        """Leave what was learned in the store, beside what other sessions have left there meanwhile."""
        if self._store is None or not self._rules.writes_store or not self._learned.changed:
            return
        with anyio.CancelScope(shield=True):
            there = await self._store.get_note(COSTS_NOTE)
            await self._store.put_note(COSTS_NOTE, self._learned.merged(there))


def is_lasting(outcome: Artifact | Failure, before: Failure | None) -> bool:
    """Whether an outcome is a verdict about the request. before: how the attempt before it failed."""
    if isinstance(outcome, Artifact):
        return True
    policy = POLICIES[outcome.kind]
    if policy.cached or before is None:
        return policy.cached
    alike = (outcome.kind, outcome.exit, outcome.message) == (before.kind, before.exit, before.message)
    return policy.cached_when_repeated and alike


def _info(flight: Flight, plan: Plan) -> FrozenMap[Any]:
    request = flight.request
    return FrozenMap(
        {
            "kernel": request.kernel.name,
            "target": str(plan.target),
            "params": dict(request.params),
            "toolchain": plan.stages[0].toolchain.version,
            "seconds": flight.ran,
            "max_rss": flight.usage.max_rss,
            "created": time.time(),
            "components": plan.explain(),
            **facts(request, plan),
        }
    )
