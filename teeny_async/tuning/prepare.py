"""Before a run starts: which objective can be had where, the studies, and the first line of the journal."""

from __future__ import annotations

import hashlib
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teeny_async.api import Compiler
from teeny_async.errors import RequestError
from teeny_async.execution.machine import available_cpus
from teeny_async.failures import FailureKind
from teeny_async.result import Failure
from teeny_async.target import Target
from teeny_async.toolchains.base import ToolNotFound
from teeny_async.tuning.budget import Budget
from teeny_async.tuning.mca import Mca
from teeny_async.tuning.measurement import Measurer
from teeny_async.tuning.objectives import Objective
from teeny_async.tuning.space import Space
from teeny_async.tuning.strategies import StrategyMaker
from teeny_async.tuning.study import Study
from teeny_async.tuning.sweep import Sweep
from teeny_async.tuning.tuner import Settings

COUNTED = 1 << 20
"""Spaces up to this size are counted before they are searched."""
_MIN_WORKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is said before a run starts. describe: lines for people. total: trials over all targets, None where nobody
    knows. seconds: of the budget. objectives: kernel and target -> objective. notes: what cannot be had, and why."""

    describe: str
    total: int | None
    seconds: float | None
    objectives: Mapping[tuple[str, str], str]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What was asked of a run, read and checked."""

    sweep: Sweep
    wanted: Sequence[Objective]
    measurer: Measurer | None
    maker: StrategyMaker
    strategy: str
    seed: int
    budget: Budget
    confirm: int
    rounds: int
    hopeless: float
    threads: str | None
    shared: str | None

    def engine(self, jobs: int | None) -> Settings:
        return Settings(
            budget=self.budget,
            hopeless=self.hopeless,
            confirm=self.confirm,
            rounds=self.rounds,
            threads=self.threads,
            shared=self.shared,
            workers=max(_MIN_WORKERS, 3 * (jobs or available_cpus())),
        )


async def make_studies(setting: Setting, compiler: Compiler, mca: Mca | None) -> tuple[list[Study], list[str]]:
    """A study for each space, with the objective that can be had for it; and why others cannot."""
    studies, cautions = [], []
    refused: dict[str, list[str]] = {}
    _check_names(setting.sweep)
    for space in setting.sweep.spaces():
        sample = next(iter(space.configs()), None)
        if sample is None:
            raise RequestError(f"{space.kernel.name} for {space.target_name}: the constraints leave no configuration")
        request = setting.sweep.request(space, sample)
        try:
            plan = await compiler.plan(request)
        except ToolNotFound as error:
            failure = Failure(kind=FailureKind.TOOL_MISSING, message=str(error))
            raise failure.error(request, None) from None
        objective, refusals = await _objective(setting, space.target, plan.target, mca)
        for refusal in refusals:
            refused.setdefault(refusal, []).append(space.target_name.partition("@")[0])
        if objective.name == "mca" and mca is not None:
            cautions.append(mca.caution)
        measurer = setting.measurer if objective.measured else None
        strategy = setting.maker(space, seed=setting.seed, limit=setting.budget.configs)
        study = Study(
            setting.sweep,
            space,
            objective=objective,
            strategy=strategy,
            target=plan.target,
            toolchain=", ".join(stage.toolchain.version for stage in plan.stages),
            flags=measurer.flags if measurer is not None else (),
            total=_total(space, setting.budget) if strategy.trials is None else strategy.trials,
            keep=max(1, setting.confirm),
        )
        await compiler.plan(study.request(sample))
        studies.append(study)
    notes = [f"{', '.join(dict.fromkeys(targets))}: {refusal}" for refusal, targets in refused.items()]
    return studies, [*notes, *dict.fromkeys(cautions)]


def _check_names(sweep: Sweep) -> None:
    """Raises RequestError where a journal could not tell two searches apart."""
    for what, names in (
        ("kernels", [kernel.name for kernel in sweep.kernels]),
        ("targets", ["default" if target is None else str(target) for target in sweep.targets]),
    ):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise RequestError(f"{what} of one run need different names: {', '.join(twice)} comes twice")


async def _objective(
    setting: Setting, asked: Target | None, target: Target, mca: Mca | None
) -> tuple[Objective, list[str]]:
    refusals: list[str] = []
    inapplicable: list[str] = []  # no news where another one can be had
    for objective in setting.wanted:
        refusal: str | None = None
        if not objective.applies(target):
            inapplicable.append(f"no {objective.name}: not for this kind of target")
            continue
        if objective.measured:
            measurer = setting.measurer
            refusal = "nothing to measure with was given" if measurer is None else measurer.refusal(asked)
        elif objective.name == "mca":
            refusal = "llvm-mca is not installed" if mca is None else await mca.refusal(target)
        if refusal is None:
            return objective, refusals
        refusals.append(f"no {objective.name}: {refusal}")
    raise RequestError(f"{target}: no objective can be had ({'; '.join([*refusals, *inapplicable])})")


def _total(space: Space, budget: Budget) -> int | None:
    if not space.constraints:
        count: int | None = space.size
    else:
        count = sum(1 for _ in space.configs()) if space.size <= COUNTED else None
    if budget.configs is None or count is None:
        return budget.configs if count is None else count
    return min(count, budget.configs)


def plan_of(setting: Setting, studies: Sequence[Study], notes: Sequence[str]) -> Plan:
    totals = [study.total for study in studies]
    counted = all(space.size <= COUNTED for space in setting.sweep.spaces())
    lines = [setting.sweep.describe(count=counted), *_budget_lines(setting.budget), *_objective_lines(setting, studies)]
    return Plan(
        describe="\n".join(lines),
        total=None if None in totals else sum(total or 0 for total in totals),
        seconds=setting.budget.seconds,
        objectives={(s.space.kernel.name, s.space.target_name): s.objective.label for s in studies},
        notes=notes,
    )


def _budget_lines(budget: Budget) -> list[str]:
    limits = [] if budget.configs is None else [f"{budget.configs:,} configurations of each target"]
    limits += [] if budget.seconds is None else [f"{budget.seconds:g} s"]
    return [f"budget: {', '.join(limits)}, at most"] if limits else []


def _objective_lines(setting: Setting, studies: Sequence[Study]) -> list[str]:
    """As in "by time, measured on AMD EPYC (cpu 1): native" and "by mca (estimate): znver3, znver4"."""
    groups: dict[str, list[str]] = {}
    for study in studies:
        devices = setting.measurer.devices() if study.objective.measured and setting.measurer is not None else ()
        where = f", measured on {', '.join(devices)}" if devices else ""
        groups.setdefault(f"{study.objective.label}{where}", []).append(study.space.target_name.partition("@")[0])
    return [f"by {label}: {', '.join(dict.fromkeys(targets))}" for label, targets in groups.items()]


def header_of(setting: Setting, studies: Sequence[Study], notes: Sequence[str]) -> dict[str, Any]:
    """The first line of the journal. `identity`: what must not change when a run goes on."""
    kernels = {
        kernel.name: hashlib.sha256(
            "\0".join(
                (kernel.language, kernel.prelude or "", kernel.source, repr(sorted(kernel.defines.items())))
            ).encode()
        ).hexdigest()[:16]
        for kernel in setting.sweep.kernels
    }
    problem = getattr(setting.measurer, "problem", None)
    devices = list(setting.measurer.devices()) if setting.measurer is not None else []
    return {
        "identity": {
            "kernels": kernels,
            "objectives": {f"{s.space.kernel.name} {s.space.target_name}": s.objective.name for s in studies},
            "problem": problem,
            "flags": list(setting.sweep.flags),
            "opt_level": setting.sweep.opt_level,
            "toolchains": sorted({study.toolchain for study in studies}),
            "resolved": {study.space.target_name: str(study.target) for study in studies},
            "devices": [_model(name) for name in devices],
        },
        "strategy": setting.strategy,
        "seed": setting.seed,
        "budget": {"configs": setting.budget.configs, "seconds": setting.budget.seconds},
        "dimensions": {
            f"{study.space.kernel.name} {study.space.target_name}": {
                name: list(values) for name, values in study.space.dimensions.items()
            }
            for study in studies
        },
        "toolchains": sorted({study.toolchain for study in studies}),
        "devices": devices,
        "machine": {"node": platform.machine(), "system": platform.system(), "cpus": available_cpus()},
        "total": None if any(study.total is None for study in studies) else sum(s.total or 0 for s in studies),
        "notes": list(notes),
    }


def _model(device: str) -> str:
    """A device's name without which one of several it is: "AMD EPYC (cpu 1)" is as good as "AMD EPYC (cpu 0)"."""
    return re.sub(r" \((?:cpu|cuda) \d+\)$", "", device)
