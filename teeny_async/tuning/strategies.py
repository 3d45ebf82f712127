"""Which configuration to try next: one small ask/tell protocol, and the strategies that need no package.

A strategy serves one space. It is asked for trials, several at a time, and told their scores in whatever order
they come; it does no I/O and knows no clock. Given the same seed and the same scores it asks for the same trials,
which is what lets a resumed run end like an uninterrupted one. (`halving` orders a rung by its scores, not by
when they came; `tuning.optuna_strategy` is the one exception, since a sampler learns in the order it is told.)
"""

from __future__ import annotations

import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from teeny_async.errors import RequestError
from teeny_async.tuning.space import Config, Space

_SHUFFLED_WHOLE = 1 << 20
"""Spaces up to this size are shuffled as a whole; of larger ones places are drawn and remembered."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration to try. fidelity: the share of the full measurement to spend on it, above 0 to 1."""

    config: Config
    fidelity: float = 1.0


class Strategy(ABC):
    """Asked and told from one task at a time."""

    name: ClassVar[str]
    trials: int | None = None
    """How many trials it will ask for, where that is another number than that of the configurations."""

    @abstractmethod
    def ask(self) -> Trial | None:
        """The next trial; None when there is none for now. It is `finished`, or waits to be told."""

    @abstractmethod
    def tell(self, trial: Trial, score: float | None) -> None:
        """The score of a trial that was asked for, less is better; None when it has none."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Nothing will be asked for any more, whatever is told."""


class Listed(Strategy):
    """Tries what an iterator gives, once, and learns nothing."""

    def __init__(self, configs: Iterator[Config], limit: int | None) -> None:
        self._configs = configs
        self._left = limit
        self._over = False

    def ask(self) -> Trial | None:
        config = next(self._configs, None) if self._left != 0 else None
        if config is None:
            self._over = True
            return None
        if self._left is not None:
            self._left -= 1
        return Trial(config)

    def tell(self, trial: Trial, score: float | None) -> None: ...

    @property
    def finished(self) -> bool:
        return self._over or self._left == 0


class Grid(Listed):
    """Every configuration, in order."""

    name = "grid"

    def __init__(self, space: Space, *, seed: int = 0, limit: int | None = None) -> None:
        super().__init__(space.configs(), limit)


class Random(Listed):
    """Configurations in a random order, each once."""

    name = "random"

    def __init__(self, space: Space, *, seed: int = 0, limit: int | None = None) -> None:
        super().__init__(shuffled(space, seed), limit)


class Halving(Strategy):
    """Successive halving on the measurement (Jamieson and Talwalkar, 2016).

    All of `limit` random configurations are measured a little; the better third of them three times as long; and
    so on, until the last rung is measured in full. Without a measurement fidelity has no meaning, and the first
    rung decides.
    """

    name = "halving"
    eta: ClassVar[int] = 3
    least: ClassVar[float] = 1 / 27
    """Share of the full measurement in the first rung, at least."""

    def __init__(self, space: Space, *, seed: int = 0, limit: int | None = None) -> None:
        configs = list(itertools.islice(shuffled(space, seed), limit))
        self._fidelity = self._first_fidelity(len(configs))
        self.trials = self._expected(len(configs))
        self._waiting = configs
        self._pending = 0
        self._scores: dict[Config, float | None] = {}
        self._order = {config: number for number, config in enumerate(configs)}

    def _first_fidelity(self, count: int) -> float:
        """As many rungs as leave some configurations for the last one."""
        rungs, fidelity = 1, 1.0
        while count // self.eta**rungs >= 1 and fidelity / self.eta >= self.least * 0.999:
            rungs, fidelity = rungs + 1, fidelity / self.eta
        return fidelity

    def _expected(self, count: int) -> int:
        """Trials of all rungs."""
        total, fidelity = count, self._fidelity
        while fidelity < 0.99:
            count, fidelity = max(1, count // self.eta), fidelity * self.eta
            total += count
        return total

    def ask(self) -> Trial | None:
        if not self._waiting:
            return None
        self._pending += 1
        return Trial(self._waiting.pop(0), round(self._fidelity, 6))

    def tell(self, trial: Trial, score: float | None) -> None:
        self._pending -= 1
        self._scores[trial.config] = score
        if not self._waiting and not self._pending and self._fidelity < 1.0:
            self._promote()

    def _promote(self) -> None:
        ranked = [(score, self._order[config], config) for config, score in self._scores.items() if score is not None]
        kept = max(1, len(self._scores) // self.eta)
        self._waiting = [config for _, _, config in sorted(ranked)[:kept]]
        self._scores = {}
        self._fidelity = min(1.0, self._fidelity * self.eta)
        if self._fidelity > 0.99:
            self._fidelity = 1.0

    @property
    def finished(self) -> bool:
        return not self._waiting and not self._pending


def shuffled(space: Space, seed: int) -> Iterator[Config]:
    """The configurations that the constraints allow, in an order that the seed decides."""
    generator = random.Random(seed)  # noqa: S311 - a search, no secret
    if space.size <= _SHUFFLED_WHOLE:
        places = iter(generator.sample(range(space.size), space.size))
    else:
        places = _drawn(generator, space.size)
    return (config for place in places if space.allows(config := space.at(place)))


def _drawn(generator: random.Random, size: int) -> Iterator[int]:
    seen: set[int] = set()
    while len(seen) < size:
        place = generator.randrange(size)
        if place not in seen:
            seen.add(place)
            yield place


StrategyMaker = Callable[..., Strategy]
"""Called with a space, `seed=` and `limit=` (configurations at most, None for no limit)."""


def strategy_named(name: str) -> StrategyMaker:
    """grid, random, halving; optuna, or optuna-SAMPLER (tpe, cmaes, nsga2, gp, qmc). Raises RequestError."""
    simple: dict[str, StrategyMaker] = {"grid": Grid, "random": Random, "halving": Halving}
    if name in simple:
        return simple[name]
    tool, _, sampler = name.partition("-")
    if tool == "optuna":
        from teeny_async.tuning.optuna_strategy import optuna_maker

        return optuna_maker(sampler or "tpe")
    raise RequestError(f"unknown strategy {name!r}; known are {', '.join(simple)}, optuna, optuna-SAMPLER")
