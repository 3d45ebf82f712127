"""`Watch`: one look a second at all that runs, instead of a timer for each compile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from teeny_async.pipeline.inflight import Flight

_INTERVAL = 1.0


class Watch:
    """What runs, and since when. slow_after: seconds after which a run is slow; None: never."""

    def __init__(self, slow_after: float | None) -> None:
        self._slow_after = slow_after
        self._running: dict[Flight, tuple[float, float]] = {}
        self._wanted: anyio.Event | None = None

    def began(self, flight: Flight, now: float) -> None:
        """An attempt has begun."""
        self._running[flight] = (now, now + (self._slow_after or float("inf")))
        if self._wanted is not None:
            self._wanted.set()

    def ended(self, flight: Flight) -> None:
        """It has ended."""
        del self._running[flight]

    def slow(self, now: float) -> list[tuple[Flight, float]]:
        """Those that have become slow, or slow once more, and the seconds they have run: after the first
        time, each time that doubles, so that a compile of an hour is told of seven times."""
        found = []
        for flight, (since, due) in self._running.items():
            if now >= due:
                seconds = now - since
                self._running[flight] = (since, since + 2 * seconds)
                found.append((flight, seconds))
        return found

    async def serve(self, look: Callable[[float], Awaitable[None]]) -> None:
        """Call `look(seconds since the last look)` every second, for as long as anything runs."""
        interval = min(_INTERVAL, (self._slow_after or _INTERVAL) / 2)
        while True:
            while self._running:
                await anyio.sleep(interval)
                await look(interval)
            self._wanted = anyio.Event()
            await self._wanted.wait()
