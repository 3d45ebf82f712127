"""The stages of a plan as actions with keys of their own: PTX that does not differ is not assembled twice.

The key of a stage is made of its own action and toolchain and, behind the first, of what it is given to work on:

    first    the key that a request for its output alone has: emit="cubin" finds the PTX of an earlier emit="ptx"
    second   fingerprint, arguments, SHA-256 of each chained input: whatever front end, kernel or params it came from

A first stage that reads files has no such key, since only a whole request is matched with the files of its closure;
a second one reads nothing but its input. Only artifacts are shared, never failures. Equal second stages that are under
way at one time wait for the first of them; when that fails or is cancelled, the next one runs.

Measured (zig, 6 kernels for 8 GPUs, emit="cubin", two cores): 1.9 s from nothing, 0.9 s when the PTX had been made
before; four variants of each that come to the same PTX, 3.2 s instead of 4.8 s. Across the 8 targets a front end has
nothing to share: every PTX names its own target, and all 48 differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from teeny_async.action import Action
from teeny_async.keys import SCHEMA, CacheKey, Component, PartDigests, components, key_digest
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.keeping import Keeper
from teeny_async.pipeline.planning import Plan
from teeny_async.result import NO_USAGE, Artifact, Exit, Failure, Usage


class Ran(NamedTuple):
    """What came of a stage, or of all of them. reused: it was there, and not everything was run."""

    outcome: Artifact | Failure
    exit: Exit
    usage: Usage
    reused: bool = False


@dataclass(slots=True)
class Turn:
    """A stage under way and those who wait for it. made: what came of it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0
    made: Artifact | None = None


class Stages:
    """The stages of one session's plans."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._digests = PartDigests()
        self._turns: dict[str, Turn] = {}

    async def outcome(
        self,
        flight: Flight,
        plan: Plan,
        action: Action,
        chained: Mapping[str, bytes],
        run: Callable[[], Awaitable[Ran]],
    ) -> Ran:
        """What came of a stage, which runs only if it has to. action, chained: as it would run; `chained` is empty
        for the first."""
        key = self._key_of(flight, plan, action, chained)
        if key is None:
            return await run()
        if not chained:
            made = await self._keeper.stage(key)
            return await run() if made is None else _reused(made)
        async with self._turn(key.digest) as turn:
            made = turn.made or await self._keeper.stage(key)
            if made is not None:
                turn.made = made
                return _reused(made)
            ran = await run()
            if isinstance(ran.outcome, Artifact):
                turn.made = ran.outcome
                await self._keeper.keep_stage(flight, plan, key, ran.outcome, ran.usage)
            return ran

    def _key_of(self, flight: Flight, plan: Plan, action: Action, chained: Mapping[str, bytes]) -> CacheKey | None:
        if len(plan.stages) == 1:
            return None
        if not chained and (action.depfile or action.uncacheable or flight.log_level):
            return None

        def parts() -> list[Component]:
            found = components([(action, plan.stages[-1 if chained else 0].toolchain)], self._digests)
            digests = {name: hashlib.sha256(data).digest() for name, data in chained.items()}
            return found + [(f"chained {name}", digest) for name, digest in sorted(digests.items())]

        return CacheKey(key_digest(parts()), SCHEMA, parts)

    @asynccontextmanager
    async def _turn(self, digest: str) -> AsyncIterator[Turn]:
        turn = self._turns.setdefault(digest, Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield turn
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[digest]


def _reused(made: Artifact) -> Ran:
    return Ran(made, Exit(code=0), NO_USAGE, reused=True)
