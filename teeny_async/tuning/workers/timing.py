"""How often a kernel is run, and what its time is: pure, given something that runs it once and says the seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WARM_UP = 0.05
"""Seconds of running before anything counts: clocks rise, caches and branch predictors fill."""
BUDGET = 0.25
"""Seconds of timed runs, for a full measurement."""
LEAST, MOST = 5, 2000
"""Timed runs."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one run: median, and the 20th and 80th percentile. stopped: "hopeless", or None."""

    median: float
    p20: float
    p80: float
    runs: int
    stopped: str | None = None


def measure(
    once: Callable[[], float], *, batch: int = 1, fidelity: float = 1.0, give_up_above: float | None = None
) -> Timed:
    """Warm up by time, then run until the budget is spent.

    once: calls the kernel `batch` times and says the seconds of all of them. give_up_above: seconds of one call;
    when the first two runs (the first one pays for page faults and lazy loading) are both slower, that is the
    whole measurement.
    """
    first = once()
    second = once()
    if give_up_above is not None and min(first, second) > give_up_above * batch:
        fast, slow = sorted((first / batch, second / batch))
        return Timed(fast, fast, slow, 2, "hopeless")
    spent = first + second
    while spent < WARM_UP * fidelity:
        spent += once()
    samples: list[float] = []
    left = BUDGET * fidelity
    while len(samples) < LEAST or (left > 0 and len(samples) < MOST):
        took = once()
        samples.append(took / batch)
        left -= took
    return summary(samples)


def summary(samples: list[float]) -> Timed:
    """The percentiles of some runs, by the nearest rank."""
    ordered = sorted(samples)

    def rank(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Timed(rank(0.5), rank(0.2), rank(0.8), len(ordered))
