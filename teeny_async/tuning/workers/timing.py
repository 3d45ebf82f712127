"""How often a kernel is run, and what its time is: pure, given something that runs it once and says the seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

WARM_UP = 0.05
"""Seconds of running before anything counts: clocks rise, caches and branch predictors fill."""
BUDGET = 0.25
"""Seconds of timed runs, for a full measurement."""
LEAST, MOST = 5, 2000
"""Timed runs."""
PRECISION = 0.005
"""Of the median: a full measurement ends before its budget when the median is known as well as this."""
_FAR = 0.25
"""Of the distance from the best: a kernel that is 20% slower is known well enough when it is known to 5%."""
_FIRST_LOOK = 10
"""Runs until it is first asked how well the median is known; then after twice as many each time."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one run: median, and the 20th and 80th percentile. stopped: "hopeless", or None."""

    median: float
    p20: float
    p80: float
    runs: int
    stopped: str | None = None


def measure(
    once: Callable[[], float],
    *,
    batch: int = 1,
    fidelity: float = 1.0,
    best: float | None = None,
    give_up_above: float | None = None,
    warm_up: float = WARM_UP,
    thorough: bool = False,
) -> Timed:
    """Warm up by time, then run until the median is known to `PRECISION` or the budget is spent.

    once: calls the kernel `batch` times and says the seconds of all of them. best: seconds of one call of the best
    kernel so far: one that is clearly slower is not measured as well. give_up_above: seconds of one call; when the
    first two runs (the first one pays for page faults and lazy loading) are both slower, that is the whole
    measurement. warm_up: seconds. thorough: spend the whole budget: the spread is wanted, and not only the median.
    """
    first = once()
    second = once()
    if give_up_above is not None and min(first, second) > give_up_above * batch:
        fast, slow = sorted((first / batch, second / batch))
        return Timed(fast, fast, slow, 2, "hopeless")
    spent = first + second
    while spent < warm_up * fidelity:
        spent += once()
    samples: list[float] = []
    left = BUDGET * fidelity
    look = _FIRST_LOOK
    while len(samples) < LEAST or (left > 0 and len(samples) < MOST):
        took = once()
        samples.append(took / batch)
        left -= took
        if len(samples) == look and not thorough:
            if uncertainty(samples) <= _wanted(summary(samples).median, best) / fidelity:
                break
            look *= 2
    return summary(samples)


def _wanted(median: float, best: float | None) -> float:
    """How well a median has to be known: the farther from the best, the less."""
    return PRECISION if best is None else max(PRECISION, (median / best - 1) * _FAR)


def uncertainty(samples: list[float]) -> float:
    """How wide the 95% confidence interval of the median is, as a share of it.

    The interval is that of the order statistics, which assumes nothing of how times are distributed: the ranks
    n/2 - 0.98 sqrt(n) and 1 + n/2 + 0.98 sqrt(n) (Conover, Practical Nonparametric Statistics, 3.2).
    """
    ordered = sorted(samples)
    count = len(ordered)
    reach = 0.98 * math.sqrt(count)
    low = max(0, math.floor(count / 2 - reach) - 1)
    high = min(count - 1, math.ceil(count / 2 + reach))
    median = ordered[count // 2]
    return (ordered[high] - ordered[low]) / median if median > 0 else math.inf


def summary(samples: list[float]) -> Timed:
    """The percentiles of some runs, by the nearest rank."""
    ordered = sorted(samples)

    def rank(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Timed(rank(0.5), rank(0.2), rank(0.8), len(ordered))
