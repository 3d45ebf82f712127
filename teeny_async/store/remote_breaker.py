"""When to leave a remote alone: a circuit breaker that knows no clock, no thread and no network.

    closed --three failures in a row--> open --the pause is over--> half open --it answered--> closed
                                          ^------- it failed: twice the pause -------'

A remote that does not answer costs its time-out each time it is asked. So after a few failures it is not
asked at all; when the pause is over one caller may try, on everybody's behalf and in nobody's way.
"""

from __future__ import annotations

from typing import Literal

State = Literal["closed", "open", "try"]

FAILURES = 3
"""Failures in a row that open it."""
PAUSE = 30.0
"""Seconds of the first pause; each further one is twice as long, since a long sweep must not pay for each."""
LONGEST = 600.0
"""Seconds that no pause exceeds."""
_HEALTHY = 1000
"""Answers in a row after which the next pause is the first one again. One that answers a single request and
then fails anew would otherwise cost its time-out every 30 s."""


class Breaker:
    """Times are seconds of any one clock. Not thread-safe: callers hold a lock around each call."""

    def __init__(self, failures: int = FAILURES, pause: float = PAUSE, longest: float = LONGEST) -> None:
        self._limit = failures
        self._first = pause
        self._longest = longest
        self._failures = 0
        self._answers = 0
        self._pause = pause
        self._opened_at: float | None = None
        self._trying = False
        self.reason: str | None = None
        """Why it is open; None when it is closed."""

    @property
    def is_open(self) -> bool:
        return self._opened_at is not None

    def state(self, now: float) -> State:
        """Whether to ask. "try" is said to one caller only, who must report how it went."""
        if self._opened_at is None:
            return "closed"
        if self._trying or now < self._opened_at + self._pause:
            return "open"
        self._trying = True
        return "try"

    def succeeded(self) -> None:
        """It answered. A late answer, to what was asked before it opened, closes nothing."""
        if self._opened_at is not None:
            if not self._trying:
                return
            self._pause = min(2 * self._pause, self._longest)
            self._opened_at = None
            self._trying = False
            self.reason = None
        self._failures = 0
        self._answers += 1
        if self._answers >= _HEALTHY:
            self._pause = self._first

    def failed(self, now: float, reason: str) -> bool:
        """It did not. True when this opened the breaker: the one time to warn, until it has closed again."""
        self._answers = 0
        if self._opened_at is None:
            self._failures += 1
            if self._failures < self._limit:
                return False
            self._open(now, reason)
            return True
        if self._trying:
            self._pause = min(2 * self._pause, self._longest)
            self._open(now, reason)
        return False  # what had been asked before it opened says nothing new

    def trip(self, now: float, reason: str) -> bool:
        """It is no use, at once. True when this opened the breaker."""
        self._failures = self._limit
        return self.failed(now, reason)

    def _open(self, now: float, reason: str) -> None:
        self._opened_at = now
        self._trying = False
        self.reason = reason
