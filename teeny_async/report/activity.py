"""`Activity`: how far a run has come, read from its events. Pure: the time is passed in."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from teeny_async.events import Event, Finished, Queued, Retried, Started
from teeny_async.report.summary import State
from teeny_async.report.text import failure_text, request_text

_MEMORY = 20.0
"""Seconds of the past that the speed is taken from: hits come first and fast, and promise too much."""
_ENOUGH = 2.0
"""Seconds that must have gone by before anything is promised at all."""


@dataclass(frozen=True, slots=True)
class Running:
    """A compile under way. since: seconds, monotonic."""

    name: str
    since: float


class Activity:
    """total: how many results there will be; None where nobody knows."""

    def __init__(self, total: int | None, now: float) -> None:
        self.total = total
        self.began = now
        self.states: Counter[State] = Counter()
        self.retries = 0
        self.last_failure: str | None = None
        self._running: dict[str, Running] = {}
        self._waiting: set[str] = set()
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])

    @property
    def done(self) -> int:
        return self.states.total()

    @property
    def running(self) -> list[Running]:
        """The compiles under way, the oldest first."""
        return sorted(self._running.values(), key=lambda running: running.since)

    @property
    def waiting(self) -> int:
        """Compiles that want a slot, or another attempt."""
        return len(self._waiting)

    def see(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case Finished(result=result):
                self.states["failed" if not result.ok else result.source] += 1
                if result.key is not None:
                    self._running.pop(result.key.digest, None)
                    self._waiting.discard(result.key.digest)
                if result.failure is not None:
                    self.last_failure = f"{request_text(result.request)}: {failure_text(result.failure)}"
            case Queued(key=key):
                self._waiting.add(key)
            case Started(key=key, request=request, time=time):
                self._waiting.discard(key)
                self._running[key] = Running(request_text(request), time)
            case Retried(key=key):
                self.retries += 1
                self._running.pop(key, None)
                self._waiting.add(key)

    def skip(self) -> None:
        """One of the results was there before the run began: it says nothing about the speed."""
        self._samples = deque((at, done + 1) for at, done in self._samples)

    def seconds_left(self, now: float) -> float | None:
        """A guess from the speed of the last seconds; None while there is nothing to go by."""
        if now - self._samples[-1][0] >= _MEMORY / 100:
            self._samples.append((now, self.done))
        while len(self._samples) > 1 and now - self._samples[1][0] > _MEMORY:
            self._samples.popleft()
        since, done_then = self._samples[0]
        made, took = self.done - done_then, now - since
        if self.total is None or not made or took < _ENOUGH:
            return None
        return (self.total - self.done) * took / made
