"""`Budget`: how much memory compilers may be expected to hold, now and a second later."""

from __future__ import annotations

from collections.abc import Callable

from teeny_async.pipeline.admission import Admission

_STALE = 1.0
"""Seconds after which what there is, is asked for again."""


class Budget:
    """Keeps an admission's budget true.

    While nothing runs, what is left is all ours. While compilers run, what is left does not count what they
    already hold, so what they are charged is added to it: then the next one starts only when what it needs
    is there at this very moment, whoever else has taken memory since, and never more runs than the machine
    had room for when it was idle.

    limit: bytes that the user allows. left: asks the machine; None where that plays no part.
    """

    def __init__(self, admission: Admission, limit: int | None, left: Callable[[], int | None] | None) -> None:
        self._admission = admission
        self._limit = limit
        self._left = left
        self._ceiling = limit
        self._asked_at = float("-inf")

    def refresh(self, now: float) -> None:
        """Ask again, unless that was done a moment ago; this may start what waits."""
        if self._left is None:
            if self._admission.budget != self._limit:
                self._admission.resize(self._limit)
            return
        if now - self._asked_at < _STALE:
            return
        self._asked_at = now
        left = self._left()
        if not self._admission.running:
            self._ceiling = _least(self._limit, left)
        self._admission.resize(_least(self._ceiling, None if left is None else left + self._admission.charged))


def _least(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)
