"""`tune`: from a search space to the best configuration on each target."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack, cast

import anyio
import anyio.to_thread

from teeny_async.api import Compiler, CompilerOptions
from teeny_async.errors import RequestError
from teeny_async.execution.machine import available_cpus
from teeny_async.execution.runner import LocalRunner
from teeny_async.files import write_whole
from teeny_async.frozen import FrozenMap
from teeny_async.sync import run_sync
from teeny_async.toolchains.base import ToolNotFound
from teeny_async.tuning import best, journal
from teeny_async.tuning.budget import Budget
from teeny_async.tuning.expressions import names_in
from teeny_async.tuning.finals import ROUNDS
from teeny_async.tuning.mca import Mca, McaFinder
from teeny_async.tuning.measurement import Measure, MeasureContext, Measurer, UserMeasure
from teeny_async.tuning.objectives import Objective, objective_named
from teeny_async.tuning.prepare import Plan, Setting, header_of, make_studies, plan_of
from teeny_async.tuning.result import TuneResult, stats_of, tied
from teeny_async.tuning.strategies import StrategyMaker, strategy_named
from teeny_async.tuning.study import Study
from teeny_async.tuning.sweep import Sweep
from teeny_async.tuning.tuner import OnStep, OnVerdict, Tuner
from teeny_async.tuning.watch import Watch


async def tune(
    sweep: Sweep,
    objective: str | Sequence[str] = "time",
    *,
    measure: Measure | Measurer | None = None,
    devices: Sequence[str] = ("default",),
    strategy: str | StrategyMaker = "grid",
    seed: int = 0,
    budget: Budget | str | int | None = None,
    run: str | Path | None = None,
    resume: bool = False,
    confirm: int = 3,
    rounds: int = ROUNDS,
    hopeless: float = 4.0,
    threads: str | None = None,
    shared: str | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_verdict: OnVerdict | None = None,
    on_step: OnStep | None = None,
    **options: Unpack[CompilerOptions],
) -> TuneResult:
    """Search a sweep for the best configuration of each kernel on each target.

    objective: a name (see `teeny_async.tuning.objectives`), or several: each target takes the first that can be
        had for it, as in ("time", "mca", "size").
    measure: for "time": `async measure(artifact, config, context)`, or a `Measurer` such as `CpuMeasurer`.
        devices: what the function may be called for at the same time, by name.
    strategy: "grid", "random", "halving", "optuna", or what makes one. budget: `Budget`, "200,10m", or a number of
        configurations. run: the folder of the run; resume: go on with what its journal has.
    confirm: how many of the best measured ones are measured again at the end, in turns, `rounds` times each; their
        spread is that of the rounds (see `teeny_async.tuning.finals`). hopeless: a run that takes this many
        times the best is not repeated. threads, shared: of a block, as expressions over a configuration, for the
        estimate of occupancy. on_plan, on_verdict, on_step (`teeny_async.tuning.steps`): called in the event loop.
    options: those of `Compiler`.

    Raises RequestError for what cannot be searched, before anything is compiled; a ToolchainError for what would
    fail every configuration; OSError when the journal cannot be written.
    """
    names = (objective,) if isinstance(objective, str) else tuple(objective)
    wanted = [objective_named(name) for name in names]
    if any(each.name == "compile-time" for each in wanted):
        options.setdefault("mode", "refresh")  # a hit says nothing about time
    setting = Setting(
        sweep=sweep,
        wanted=wanted,
        measurer=_measurer(measure, devices),
        maker=strategy_named(strategy) if isinstance(strategy, str) else strategy,
        seed=seed,
        budget=_budget(budget),
        confirm=confirm,
        rounds=_checked_rounds(rounds),
        hopeless=hopeless,
        threads=_expression(threads),
        shared=_expression(shared),
        strategy=strategy if isinstance(strategy, str) else getattr(strategy, "name", "custom"),
    )
    folder = None if run is None else Path(run)
    return await _run(setting, options, folder=folder, resume=resume, told=_Told(on_plan, on_verdict, on_step))


@dataclass(frozen=True, slots=True)
class _Told:
    """Who is told of what."""

    plan: Callable[[Plan], None] | None
    verdict: OnVerdict | None
    step: OnStep | None


async def _run(
    setting: Setting,
    options: CompilerOptions,
    *,
    folder: Path | None,
    resume: bool,
    told: _Told,
) -> TuneResult:
    watch = Watch(options.get("on_event"))
    options["on_event"] = watch
    leaves = getattr(setting.measurer, "leaves", 0)
    if leaves and options.get("jobs") is None:
        options["jobs"] = max(1, available_cpus() - leaves)
    async with contextlib.AsyncExitStack() as stack:
        compiler = await stack.enter_async_context(Compiler(**options))
        if setting.measurer is not None:
            await stack.enter_async_context(setting.measurer)
        mca = await _mca(setting.wanted, compiler, stack)
        studies, notes = await make_studies(setting, compiler, mca)
        if told.plan is not None:
            told.plan(plan_of(setting, studies, notes))
        log = None
        header = header_of(setting, studies, notes)
        if folder is not None:
            log = await stack.enter_async_context(journal.open_journal(folder, header, resume=resume))
        tuner = Tuner(
            compiler,
            studies,
            setting.engine(options.get("jobs")),
            watch=watch,
            measurer=setting.measurer,
            mca=mca,
            journal=log,
            on_verdict=told.verdict,
            on_step=told.step,
        )
        await tuner.search()
        await tuner.confirm()
        result = _result(studies, folder, tuner.elapsed, notes, header)
        if log is not None and folder is not None:
            await _write_best(studies, setting, compiler, folder)
            await log.append({"type": "end", "at": result.elapsed, "stats": dict(result.stats)})
        return result


def tune_sync(sweep: Sweep, *args: Any, backend: Literal["asyncio", "trio"] = "asyncio", **options: Any) -> TuneResult:
    """`tune` for code that is not async; works in a notebook too."""

    async def call() -> TuneResult:
        return await tune(sweep, *args, **options)

    return run_sync(call, backend)


async def _mca(wanted: Sequence[Objective], compiler: Compiler, stack: contextlib.AsyncExitStack) -> Mca | None:
    if all(objective.name != "mca" for objective in wanted):
        return None
    try:
        tool = await compiler.toolchain(McaFinder())
    except ToolNotFound:
        return None
    runner = await stack.enter_async_context(LocalRunner(tempfile.gettempdir()))
    return Mca(tool, runner)


def _result(
    studies: Sequence[Study], folder: Path | None, elapsed: float, notes: Sequence[str], header: dict[str, Any]
) -> TuneResult:
    verdicts = [verdict for study in studies for verdict in study.verdicts]
    verdicts.sort(key=lambda verdict: verdict.at)
    return TuneResult(
        verdicts=verdicts,
        folder=folder,
        elapsed=elapsed,
        notes=tuple(notes),
        stats=FrozenMap(stats_of(verdicts)),
        run=FrozenMap(header),
    )


async def _write_best(studies: Sequence[Study], setting: Setting, compiler: Compiler, folder: Path) -> None:
    winners = []
    for study in studies:
        found = study.ranked()
        if not found:
            continue
        request = study.request(found[0].config)
        artifact = study.kept(found[0].config) or (await compiler.compile_result(request)).artifact
        outputs = dict(artifact.outputs)
        if setting.measurer is not None and study.objective.measured:
            context = MeasureContext(request=request, target=study.target, device="")
            outputs |= await setting.measurer.extras(artifact, context)
        winners.append(
            best.Winner(
                verdict=found[0],
                resolved=str(study.target),
                triple=study.target.triple,
                outputs=outputs,
                tied=len(tied(found)) - 1,
            )
        )
    contents = best.files(winners)
    await anyio.to_thread.run_sync(lambda: (folder / best.FOLDER).mkdir(exist_ok=True))
    for name, data in contents.items():  # best.json is the last: it never names a file that is not there
        await write_whole(folder / name, data)


def _budget(budget: Budget | str | int | None) -> Budget:
    if isinstance(budget, Budget):
        return budget
    if budget is None:
        return Budget()
    return Budget(configs=budget) if isinstance(budget, int) else Budget.parse(budget)


def _checked_rounds(rounds: int) -> int:
    if rounds < 1:
        raise RequestError(f"rounds: 1 or more, not {rounds!r}")
    return rounds


def _expression(text: str | None) -> str | None:
    if text is not None:
        names_in(text)
    return text


def _measurer(measure: Measure | Measurer | None, devices: Sequence[str]) -> Measurer | None:
    if measure is None:
        return None
    if hasattr(measure, "devices") and hasattr(measure, "refusal"):
        return cast("Measurer", measure)
    return UserMeasure(measure, devices)
