"""`CompilerStats`: what a session has done so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.result import CompileResult, Source, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerStats:
    """Counts since the session began.

    requests: results handed out; each is one of compiled, cached, coalesced, and may be failed as well.
    hits: answers from the store, by its layer. failures: failed results, by kind.
    runs: tool runs, retries and second stages included. retries: failed attempts tried again, by kind.
    reused: second stages, and first ones, that did not run since an equal one had before.
    flakes: compiles that worked after a failed attempt, by toolchain. slow: those that were told to be slow.
    cpu: seconds of CPU of all runs. busy: seconds of occupied slots; slots: how many there are.
    wall: seconds since the session began. most_running: compilers at one time, at most.
    max_rss: bytes, the largest process of any run. memory_limit: bytes that compilers may be expected to
    hold together, as of the last look; None where memory plays no part. memory_most: bytes that they were
    expected to hold, or seen to, at most.
    """

    requests: int = 0
    compiled: int = 0
    cached: int = 0
    coalesced: int = 0
    failed: int = 0
    hits: Mapping[str, int] = field(default_factory=FrozenMap)
    failures: Mapping[str, int] = field(default_factory=FrozenMap)
    runs: int = 0
    reused: int = 0
    retries: Mapping[str, int] = field(default_factory=FrozenMap)
    flakes: Mapping[str, int] = field(default_factory=FrozenMap)
    slow: int = 0
    cache_faults: int = 0
    cpu: float = 0.0
    busy: float = 0.0
    slots: int = 0
    wall: float = 0.0
    most_running: int = 0
    max_rss: int = 0
    memory_limit: int | None = None
    memory_most: int = 0

    @property
    def utilisation(self) -> float:
        """Share of the slots' time that was occupied, 0 to 1."""
        available = self.slots * self.wall
        return min(1.0, self.busy / available) if available else 0.0


class Tally:
    """The running counts behind a `CompilerStats`."""

    def __init__(self, slots: int, now: float) -> None:
        self.sources: dict[Source, int] = {"compiled": 0, "cached": 0, "coalesced": 0}
        self.failures: Counter[FailureKind] = Counter()
        self.runs = 0
        self.reused = 0
        self.retries: Counter[FailureKind] = Counter()
        self.flakes: Counter[str] = Counter()
        self.slow = 0
        self.cache_faults = 0
        self.busy = 0.0
        self.usage = Usage()
        self._slots = slots
        self._began = now

    def finished(self, result: CompileResult) -> None:
        """A result was handed out."""
        self.sources[result.source] += 1
        failure = result.failure
        if failure is not None:
            self.failures[failure.kind] += 1

    def ran(self, usage: Usage, seconds: float) -> None:
        """A tool ran."""
        self.runs += 1
        self.usage = self.usage + usage
        self.busy += seconds

    def snapshot(
        self, now: float, *, hits: Mapping[str, int], most_running: int, memory_limit: int | None, memory_most: int
    ) -> CompilerStats:
        """The counts now; what others count is passed in."""
        return CompilerStats(
            requests=sum(self.sources.values()),
            compiled=self.sources["compiled"],
            cached=self.sources["cached"],
            coalesced=self.sources["coalesced"],
            failed=self.failures.total(),
            hits=hits,
            failures=_by_kind(self.failures),
            runs=self.runs,
            reused=self.reused,
            retries=_by_kind(self.retries),
            flakes=FrozenMap(self.flakes),
            slow=self.slow,
            cache_faults=self.cache_faults,
            cpu=self.usage.cpu,
            busy=self.busy,
            slots=self._slots,
            wall=now - self._began,
            most_running=most_running,
            max_rss=self.usage.max_rss,
            memory_limit=memory_limit,
            memory_most=memory_most,
        )


def _by_kind(counts: Counter[FailureKind]) -> FrozenMap[int]:
    return FrozenMap({kind.value: count for kind, count in counts.items()})
