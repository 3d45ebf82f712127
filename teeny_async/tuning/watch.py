"""`Watch`: what a run knows of its compiles while they run, from the session's events."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from teeny_async.events import Event, Finished, Retried, Started
from teeny_async.pipeline.session import OnEvent
from teeny_async.result import CompileResult


@dataclass(slots=True)
class Contention:
    """What else was going on while something was measured. compiles: at a time, at most. load: of the machine."""

    compiles: int
    load: float

    def record(self) -> dict[str, float]:
        return {"compiles": self.compiles, "load": round(self.load, 2)}


class Watch:
    """then: is told of each event after it."""

    def __init__(self, then: OnEvent | None = None) -> None:
        self._then = then
        self._started: dict[str, float] = {}
        self._running: set[str] = set()
        self._measuring: list[Contention] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Started(key=key, time=time):
                self._started.setdefault(key, time)
                self._running.add(key)
                for contention in self._measuring:
                    contention.compiles = max(contention.compiles, len(self._running))
            case Retried(key=key):
                self._running.discard(key)
            case Finished(result=result) if result.key is not None:
                self._running.discard(result.key.digest)
        if self._then is not None:
            self._then(event)

    def started(self, result: CompileResult, now: float) -> float:
        """When the compile of a result began, monotonic seconds; `now` for one that did not run."""
        if result.key is None or result.source == "cached":
            return now
        return self._started.pop(result.key.digest, now - result.timings.ran)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[Contention]:
        """While something is measured."""
        contention = Contention(len(self._running), _load())
        self._measuring.append(contention)
        try:
            yield contention
        finally:
            self._measuring.remove(contention)


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0
