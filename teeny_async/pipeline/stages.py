"""The stages of a plan as actions with keys of their own: PTX that does not differ is not assembled twice.

The key of a stage is made of its own action and toolchain and, behind the first, of what it is given to work on:

    first    the key that a request for its output alone has: emit="cubin" finds the PTX of an earlier emit="ptx"
    second   fingerprint, arguments, SHA-256 of each chained input: whatever front end, kernel or params it came from

A first stage that reads files has no such key, since only a whole request is matched with the files of its closure;
a second one reads nothing but its input. Only artifacts are shared, never failures.

Equal second stages that are under way at one time wait for the first of them; when that fails or is cancelled, the
next one runs. A flight whose first stage is under way in another one waits for it without a slot, for a front end
takes long: of emit="ptx" and emit="cubin" for one kernel, one runs the compiler.

Measured on two cores. zig, 6 kernels for 8 GPUs, emit="cubin": 1.26 s from nothing, 0.61 s when the PTX had been made
before; PTX and cubins of all 48 pairs asked for together, 96 runs instead of 144. nvcc, 4 options for ptxas with each
of 4 pairs: 0.75 s (4 runs of nvcc, 16 of ptxas) instead of 2.10 s (16 of nvcc); where nothing is shared, the further
stage costs: 2.37 s instead of 2.24 s. Across targets a front end has nothing to share: every PTX names its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from teeny_async.action import Action
from teeny_async.keys import SCHEMA, CacheKey, Component, PartDigests, components, key_digest
from teeny_async.pipeline.inflight import Flight
from teeny_async.pipeline.keeping import Keeper
from teeny_async.pipeline.planning import Plan, Stage
from teeny_async.result import NO_USAGE, Artifact, Exit, Failure, Usage
from teeny_async.toolchains.base import Driver

_REMEMBERED = 65_536
"""First stages that a session remembers to have been there."""


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
        self._fronts: dict[str, anyio.Event] = {}
        self._made: set[str] = set()

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
            ran = await self._kept(flight, plan, key, plan.stages[0], run) if made is None else _reused(made)
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            self._made.add(key.digest)
            self._tell(key.digest)
            return ran
        async with self._turn(key.digest) as turn:
            made = turn.made or await self._keeper.stage(key)
            ran = await self._kept(flight, plan, key, plan.stages[-1], run) if made is None else _reused(made)
            turn.made = ran.outcome if isinstance(ran.outcome, Artifact) else None
            return ran

    async def _kept(
        self, flight: Flight, plan: Plan, key: CacheKey, stage: Stage, run: Callable[[], Awaitable[Ran]]
    ) -> Ran:
        ran = await run()
        if isinstance(ran.outcome, Artifact):
            await self._keeper.keep_stage(flight, plan, stage.toolchain, key, ran.outcome, usage=ran.usage)
        return ran

    def front_of(self, flight: Flight, plan: Plan) -> str | None:
        """The key of a flight's first stage; None where no other flight can have the same, or find what it made."""
        first = plan.stages[0]
        if not self._keeper.shares or not _may_share_front(flight, first.action):
            return None
        if len(plan.stages) == 1:
            return None if type(first.driver).finish is Driver.finish else plan.booking.key.digest
        key = self._key_of(flight, plan, first.action, {})
        return None if key is None else key.digest

    def under_way(self, front: str | None) -> anyio.Event | None:
        """What is set when the flight that works on this first stage is done with it; None: there is none."""
        return self._fronts.get(front) if front is not None else None

    def has_made(self, front: str | None, plan: Plan) -> bool:
        """Whether the one stage of a plan may have become known since the flight was looked up, as another's first."""
        return front in self._made and len(plan.stages) == 1

    @contextmanager
    def working_on(self, front: str | None) -> Iterator[None]:
        """A flight with a slot, which others may wait for."""
        if front is None or front in self._fronts:
            yield
            return
        mine = self._fronts[front] = anyio.Event()
        try:
            yield
        finally:
            if self._fronts.get(front) is mine:
                self._tell(front)

    def _tell(self, front: str) -> None:
        done = self._fronts.pop(front, None)
        if done is not None:
            done.set()

    def _key_of(self, flight: Flight, plan: Plan, action: Action, chained: Mapping[str, bytes]) -> CacheKey | None:
        if len(plan.stages) == 1 or not (chained or _may_share_front(flight, action)):
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


def _may_share_front(flight: Flight, action: Action) -> bool:
    """Whether a first stage has a key that says all: of what it reads, and of the log that is asked for."""
    return not (action.depfile or action.uncacheable or flight.log_level)


def _reused(made: Artifact) -> Ran:
    return Ran(made, Exit(code=0), NO_USAGE, reused=True)
