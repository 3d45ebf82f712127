"""Bayesian and evolutionary search by Optuna (the extra `optuna`), behind the ask/tell protocol.

Optuna may suggest a configuration twice, or one that a constraint rejects. Neither reaches the compiler: a
repeated one is answered with the score that is known or awaited, a rejected one is told to have failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.tuning.space import Config, Space
from teeny_async.tuning.strategies import Strategy, StrategyMaker, Trial

_SAMPLERS: Mapping[str, str] = {
    "tpe": "TPESampler",
    "random": "RandomSampler",
    "cmaes": "CmaEsSampler",
    "nsga2": "NSGAIISampler",
    "gp": "GPSampler",
    "qmc": "QMCSampler",
}
_PATIENCE = 500
"""Suggestions in a row that are of no use, before the space counts as searched."""


def optuna_maker(sampler: str) -> StrategyMaker:
    """Strategies that use one of Optuna's samplers. Raises RequestError for an unknown one or without Optuna."""
    if sampler not in _SAMPLERS:
        raise RequestError(f"unknown sampler {sampler!r} of Optuna; known are {', '.join(_SAMPLERS)}")
    try:
        import optuna
    except ImportError:
        raise RequestError("Optuna is not installed; run: pip install 'teeny_async[optuna]'") from None

    def make(space: Space, *, seed: int = 0, limit: int | None = None) -> Strategy:
        return OptunaStrategy(optuna, space, sampler, seed, limit)

    return make


class OptunaStrategy(Strategy):
    """optuna: the package. limit: different configurations at most; None is the whole space."""

    name = "optuna"

    def __init__(self, optuna: Any, space: Space, sampler: str, seed: int, limit: int | None) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._study = optuna.create_study(sampler=getattr(optuna.samplers, _SAMPLERS[sampler])(seed=seed))
        self._failed = optuna.trial.TrialState.FAIL
        # By place, so that the order of a param's values means something to the sampler.
        self._distributions = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in space.dimensions.items()
        }
        self._left = space.size if limit is None else limit
        self._awaited: dict[Config, list[Any]] = {}
        self._known: dict[Config, float | None] = {}
        self._over = False

    def ask(self) -> Trial | None:
        for _ in range(_PATIENCE if self._left > 0 else 0):
            suggested = self._study.ask(self._distributions)
            config: Config = FrozenMap(
                (name, values[suggested.params[name]]) for name, values in self._space.dimensions.items()
            )
            if config in self._known:
                self._answer(suggested, self._known[config])
            elif config in self._awaited:
                self._awaited[config].append(suggested)
            elif not self._space.allows(config):
                self._answer(suggested, None)
            else:
                self._awaited[config] = [suggested]
                self._left -= 1
                return Trial(config)
        # While scores are awaited the sampler may yet learn something; without any it never will.
        self._over = self._left <= 0 or not self._awaited
        return None

    def tell(self, trial: Trial, score: float | None) -> None:
        self._known[trial.config] = score
        for suggested in self._awaited.pop(trial.config, []):
            self._answer(suggested, score)

    def _answer(self, suggested: Any, score: float | None) -> None:
        if score is None:
            self._study.tell(suggested, state=self._failed)
        else:
            self._study.tell(suggested, score)

    @property
    def finished(self) -> bool:
        return self._over or self._left <= 0
