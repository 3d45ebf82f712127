"""Search spaces, objectives, strategies, measurement: `tune` finds the best configuration on each target.

Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teeny_async.tuning.best import Best as Best, load_best as load_best
    from teeny_async.tuning.budget import Budget as Budget
    from teeny_async.tuning.measurement import (
        MeasureContext as MeasureContext,
        MeasureFailed as MeasureFailed,
        Measurement as Measurement,
    )
    from teeny_async.tuning.result import TuneResult as TuneResult
    from teeny_async.tuning.run import tune as tune, tune_sync as tune_sync
    from teeny_async.tuning.strategies import Strategy as Strategy, Trial as Trial
    from teeny_async.tuning.sweep import Sweep as Sweep
    from teeny_async.tuning.values import powers_of_two as powers_of_two
    from teeny_async.tuning.verdict import Verdict as Verdict

_HOMES = {
    "Best": "best",
    "Budget": "budget",
    "MeasureContext": "measurement",
    "MeasureFailed": "measurement",
    "Measurement": "measurement",
    "Strategy": "strategies",
    "Sweep": "sweep",
    "Trial": "strategies",
    "TuneResult": "result",
    "Verdict": "verdict",
    "load_best": "best",
    "powers_of_two": "values",
    "tune": "run",
    "tune_sync": "run",
}
"""Public name -> the module it lives in."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the one list of names


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
