"""`CompilerStats`: what a session has done so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.result import Source, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerStats:
    """Counts since the session began.

    requests: results handed out; each is one of compiled, cached, coalesced, and may be failed as well.
    runs: tool runs, retries and second stages included. retries: failed attempts tried again, by kind.
    cpu: seconds of CPU of all runs. busy: seconds of occupied slots; slots: how many there are.
    wall: seconds since the session began. max_rss: bytes, the largest of any run.
    """

    requests: int = 0
    compiled: int = 0
    cached: int = 0
    coalesced: int = 0
    failed: int = 0
    runs: int = 0
    retries: Mapping[str, int] = field(default_factory=FrozenMap)
    cache_faults: int = 0
    cpu: float = 0.0
    busy: float = 0.0
    slots: int = 0
    wall: float = 0.0
    max_rss: int = 0

    @property
    def utilisation(self) -> float:
        """Share of the slots' time that was occupied, 0 to 1."""
        available = self.slots * self.wall
        return min(1.0, self.busy / available) if available else 0.0


class Tally:
    """The running counts behind a `CompilerStats`."""

    def __init__(self, slots: int, now: float) -> None:
        self.sources: dict[Source, int] = {"compiled": 0, "cached": 0, "coalesced": 0}
        self.failed = 0
        self.runs = 0
        self.retries: Counter[FailureKind] = Counter()
        self.cache_faults = 0
        self.busy = 0.0
        self.usage = Usage()
        self._slots = slots
        self._began = now

    def ran(self, usage: Usage, seconds: float) -> None:
        self.runs += 1
        self.usage = self.usage + usage
        self.busy += seconds

    def snapshot(self, now: float) -> CompilerStats:
        return CompilerStats(
            requests=sum(self.sources.values()),
            compiled=self.sources["compiled"],
            cached=self.sources["cached"],
            coalesced=self.sources["coalesced"],
            failed=self.failed,
            runs=self.runs,
            retries=FrozenMap({kind.value: count for kind, count in self.retries.items()}),
            cache_faults=self.cache_faults,
            cpu=self.usage.cpu,
            busy=self.busy,
            slots=self._slots,
            wall=now - self._began,
            max_rss=self.usage.max_rss,
        )
