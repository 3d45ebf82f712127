"""Strategies by themselves: asked and told, no compiler, no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from teeny_async import Kernel, RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import ParamValue
from teeny_async.tuning.budget import Budget
from teeny_async.tuning.space import Config, Space
from teeny_async.tuning.strategies import Strategy, Trial, strategy_named

KERNEL = Kernel(name="k", source="", language="c")


def space(**dimensions: range) -> Space:
    values: FrozenMap[Sequence[ParamValue]] = FrozenMap({name: tuple(each) for name, each in dimensions.items()})
    return Space(KERNEL, None, values, (lambda config: config["X"] != 7,))


SPACE = space(X=range(9), Y=range(9))


def score(config: Config) -> float | None:
    return None if config["X"] == 0 else (int(config["X"]) - 4) ** 2 + (int(config["Y"]) - 2) ** 2


def play(strategy: Strategy, at_once: int = 4, worth: Callable[[Config], float | None] = score) -> list[Trial]:
    """Ask and tell until the end, several at a time, the last one asked for told first."""
    asked: list[Trial] = []
    open_trials: list[Trial] = []
    while True:
        trial = strategy.ask() if len(open_trials) < at_once else None
        if trial is not None:
            asked.append(trial)
            open_trials.append(trial)
        elif open_trials:
            told = open_trials.pop()
            strategy.tell(told, worth(told.config))
        else:
            assert strategy.finished
            return asked


def test_grid_is_everything_in_order() -> None:
    assert [trial.config for trial in play(strategy_named("grid")(SPACE))] == list(SPACE.configs())
    assert len(play(strategy_named("grid")(SPACE, limit=10))) == 10


def test_random_is_everything_once_in_the_order_of_the_seed() -> None:
    make = strategy_named("random")
    first, again, other = (play(make(SPACE, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert {trial.config for trial in first} == set(SPACE.configs())
    assert len(first) == 72


def test_random_of_a_space_too_large_to_be_shuffled() -> None:
    huge = Space(KERNEL, None, FrozenMap({f"P{n}": tuple(range(100)) for n in range(9)}))
    trials = play(strategy_named("random")(huge, seed=3, limit=50), worth=lambda config: 1.0)
    assert len({trial.config for trial in trials}) == 50


def test_halving_spends_more_on_the_better() -> None:
    trials = play(strategy_named("halving")(SPACE, seed=1))
    rungs = {
        fidelity: [t.config for t in trials if t.fidelity == fidelity] for fidelity in {t.fidelity for t in trials}
    }
    assert {round(fidelity, 3): len(configs) for fidelity, configs in rungs.items()} == {
        0.037: 72,
        0.111: 24,
        0.333: 8,
        1.0: 2,
    }
    assert FrozenMap({"X": 4, "Y": 2}) in rungs[1.0]


def test_halving_does_not_depend_on_who_comes_first() -> None:
    make = strategy_named("halving")
    assert set(play(make(SPACE, seed=5), 1)) == set(play(make(SPACE, seed=5), 30))


def test_halving_ends_when_everything_fails() -> None:
    assert len(play(strategy_named("halving")(SPACE), worth=lambda config: None)) == 72


@pytest.mark.parametrize("name", ["optuna", "optuna-nsga2"])
def test_optuna_learns_and_repeats_nothing(name: str) -> None:
    pytest.importorskip("optuna")
    trials = play(strategy_named(name)(SPACE, seed=0, limit=40))
    configs = [trial.config for trial in trials]
    assert len(configs) == len(set(configs)) == 40
    assert all(config["X"] != 7 for config in configs)
    best = min(value for config in configs if (value := score(config)) is not None)
    assert best <= 2


def test_optuna_ends_when_the_space_is_searched() -> None:
    pytest.importorskip("optuna")
    tiny = space(X=range(2), Y=range(2))
    assert {t.config for t in play(strategy_named("optuna-random")(tiny))} == set(tiny.configs())


def test_unknown_ones_are_refused() -> None:
    with pytest.raises(RequestError, match="grid, random, halving"):
        strategy_named("magic")
    with pytest.raises(RequestError, match="sampler"):
        strategy_named("optuna-magic")


def test_budgets() -> None:
    assert Budget.parse("200") == Budget(configs=200)
    assert Budget.parse("1.5m, 20") == Budget(configs=20, seconds=90)
    assert Budget(seconds=2).exhausted(2.0)
    assert not Budget(configs=2).exhausted(1e9)
    for text in ("", "0", "x", "5 apples", "0s"):
        with pytest.raises(RequestError):
            Budget.parse(text)
