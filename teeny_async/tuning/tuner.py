"""`Tuner`: carries trials from a strategy through the compiler and the measurement into the journal.

    strategy.ask -> known? tell -> compile (the session's slots) -> facts -> measure (one at a time on a device)
                 -> journal -> strategy.tell

Workers share nothing but what is decided synchronously here, between two awaits. There are more of them than
slots, so that the next artifacts are ready when a device becomes free, and not so many that an adaptive strategy
would have to ask for everything before it has learned anything. A verdict counts when its line is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from teeny_async.errors import RequestError
from teeny_async.failures import POLICIES, FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.pipeline.session import Session
from teeny_async.result import Artifact, CompileResult
from teeny_async.tuning import finals
from teeny_async.tuning.budget import Budget
from teeny_async.tuning.expressions import evaluate
from teeny_async.tuning.facts import Numbers, facts
from teeny_async.tuning.journal import Journal
from teeny_async.tuning.mca import Mca
from teeny_async.tuning.measurement import DevicePool, MeasureContext, MeasureFailed, Measurement, Measurer
from teeny_async.tuning.space import Config
from teeny_async.tuning.steps import Confirming, Known, Measured, Measuring, Step
from teeny_async.tuning.strategies import Trial
from teeny_async.tuning.study import Study
from teeny_async.tuning.verdict import Identity, Phase, Status, Verdict, compile_record, failure_record
from teeny_async.tuning.watch import Watch

OnVerdict = Callable[[Verdict], None]
OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """hopeless: a run that takes this many times the best is not repeated. confirm: how many of the best are
    measured again at the end, when nothing compiles any more, and in how many rounds (see `tuning.finals`).
    threads, shared: of a block, as expressions."""

    budget: Budget
    hopeless: float
    confirm: int
    rounds: int
    threads: str | None
    shared: str | None
    workers: int


class Tuner:
    """known: verdicts of earlier parts of the run. offset: seconds those took."""

    def __init__(
        self,
        session: Session,
        studies: Sequence[Study],
        settings: Settings,
        *,
        watch: Watch,
        measurer: Measurer | None,
        mca: Mca | None,
        journal: Journal | None,
        on_verdict: OnVerdict | None,
        on_step: OnStep | None = None,
    ) -> None:
        self._session = session
        self._studies = list(studies)
        self._settings = settings
        self._watch = watch
        self._measurer = measurer
        self._pool = DevicePool(measurer.devices()) if measurer is not None else None
        self._mca = mca
        self._journal = journal
        self._on_verdict = on_verdict
        self._on_step = on_step or (lambda step: None)
        self._known: Mapping[Identity, Verdict] = journal.record.verdicts if journal is not None else {}
        self._offset = journal.record.elapsed if journal is not None else 0.0
        self._began = time.monotonic()
        self._turn = 0
        self._changed = anyio.Event()

    @property
    def elapsed(self) -> float:
        """Seconds of the run, in all its parts."""
        return self._offset + time.monotonic() - self._began

    async def search(self) -> None:
        """Try what the strategies ask for, until they have nothing more or the budget is spent."""
        await _all(self._work for _ in range(self._settings.workers))

    async def confirm(self) -> None:
        """Measure the best few of each study again, with nothing else going on; see `tuning.finals`."""
        for study in self._studies:
            for _ in range(finals.WAVES if study.objective.measured and self._settings.confirm else 0):
                wave = finals.contenders(study.ranked(), self._settings.confirm)
                if not wave:
                    break
                await self._final(study, wave)

    async def _final(self, study: Study, wave: Sequence[Verdict]) -> None:
        """A verdict for each finalist, from rounds in turns. One that has it already is not measured again."""
        rounds: dict[Config, list[Verdict]] = {}
        ready: dict[Config, tuple[Verdict, Artifact]] = {}
        for verdict in wave:
            known = self._known.get(study.identity(Trial(verdict.config), "confirm"))
            found, artifact = (known, None) if known is not None else await self._finalist(study, verdict)
            if known is not None:
                self._on_step(Known(verdict=known))
            elif artifact is None:
                await self._write(found)
            if artifact is None:
                study.note(found)
            else:
                ready[verdict.config] = found, artifact
                rounds[verdict.config] = []
        if ready:
            count = self._settings.rounds
            self._on_step(Confirming(target=study.space.target_name, configs=len(ready), rounds=count))
        for _ in range(self._settings.rounds):
            for config, (verdict, artifact) in ready.items():
                trial = Trial(config)
                async with self._device(study) as device:
                    rounds[config].append(await self._evaluate(study, trial, verdict, artifact, device))
        for config, (_, artifact) in ready.items():
            verdict = finals.pooled(rounds[config], study.watched.of(config))
            await self._write(verdict)
            study.note(verdict, artifact)

    async def _finalist(self, study: Study, searched: Verdict) -> tuple[Verdict, Artifact | None]:
        """What there is to measure of a finalist, without a compile where this process still has it."""
        artifact = study.kept(searched.config)
        if artifact is None:
            return await self._compiled(study, Trial(searched.config), "confirm")
        return finals.again(searched), artifact

    async def _watch_best(self, study: Study) -> None:
        """Measure the best so far once more, when it is time for that; see `tuning.finals`."""
        best = study.best
        if best is None or not study.objective.measured or not self._settings.confirm:
            return
        artifact = study.kept(best.config)
        if artifact is None or best.fidelity < 1.0 or not study.watched.due(self.elapsed):
            return
        async with self._device(study) as device:
            study.watched.add(await self._evaluate(study, Trial(best.config), finals.again(best), artifact, device))

    async def _work(self) -> None:
        while True:
            changed = self._changed
            found = self._next()
            if found is not None:
                study, trial = found
                verdict, artifact = await self._compiled(study, trial, "search")
                verdict = await self._judged(study, trial, verdict, artifact)
                study.settle(trial, verdict, artifact)
                self._wake()
                await self._watch_best(study)
            elif self._over():
                self._wake()
                return
            else:
                await changed.wait()

    async def _judged(self, study: Study, trial: Trial, verdict: Verdict, artifact: Artifact | None) -> Verdict:
        """The verdict of a trial, written down."""
        if artifact is None:
            await self._write(verdict)
            return verdict
        async with self._device(study) as device:
            verdict = await self._evaluate(study, trial, verdict, artifact, device)
            # Before the device is another's, so that a kill loses one measurement of each device and no more.
            await self._write(verdict)
        return verdict

    @contextlib.asynccontextmanager
    async def _device(self, study: Study) -> AsyncIterator[str]:
        """The device to measure on; none where nothing is measured."""
        if self._pool is None or not study.objective.measured:
            yield ""
            return
        async with self._pool.one() as device:
            yield device

    def _next(self) -> tuple[Study, Trial] | None:
        """The next trial, of the studies in turn."""
        if self._settings.budget.exhausted(self.elapsed):
            return None
        for _ in self._studies:
            study = self._studies[self._turn % len(self._studies)]
            self._turn += 1
            trial = study.next(self._known, self._tell_known)
            if trial is not None:
                return study, trial
        return None

    def _tell_known(self, verdict: Verdict) -> None:
        self._on_step(Known(verdict=verdict))

    def _over(self) -> bool:
        return self._settings.budget.exhausted(self.elapsed) or all(study.idle for study in self._studies)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _write(self, verdict: Verdict) -> None:
        if self._journal is not None:
            await self._journal.append(verdict.to_dict())
        if self._on_verdict is not None:
            self._on_verdict(verdict)

    async def _compiled(self, study: Study, trial: Trial, phase: Phase) -> tuple[Verdict, Artifact | None]:
        """A configuration's verdict as far as it goes without an artifact, and that, if there is one.

        Raises a ToolchainError for what would fail all of them.
        """
        verdict = Verdict(
            kernel=study.space.kernel.name,
            target=study.space.target_name,
            config=trial.config,
            objective=study.objective.name,
            status="failed",
            fidelity=trial.fidelity,
            phase=phase,
        )
        try:
            request = study.request(trial.config)
            result = await self._session.compile_result(request)
        except RequestError as error:
            return self._ended(verdict, failure={"kind": "request", "message": str(error)}), None
        now = time.monotonic()
        started = self._watch.started(result, now) - self._began + self._offset
        # The session has kept the artifact since the compiler ended; that is not the slot's time.
        ended = now - self._began + self._offset
        ended = min(ended, started + result.timings.ran) if len(result.attempts) == 1 else ended
        compiled = compile_record(result, study.toolchain, started, ended)
        verdict = replace(verdict, compile=FrozenMap(compiled))
        if result.failure is not None:
            _stop_if_hopeless(result)
            status: Status = "infeasible" if result.failure.kind is FailureKind.INFEASIBLE else "failed"
            return self._ended(verdict, status=status, failure=failure_record(result)), None
        try:
            numbers = self._facts(study, trial.config, result)
        except RequestError as error:
            return self._ended(verdict, failure={"kind": "request", "message": str(error)}), None
        return replace(verdict, facts=FrozenMap(numbers)), result.artifact

    def _facts(self, study: Study, config: Config, result: CompileResult) -> Numbers:
        settings = self._settings
        threads = None if settings.threads is None else int(evaluate(settings.threads, config))
        shared = None if settings.shared is None else int(evaluate(settings.shared, config))
        return facts(result, study.target, threads=threads, shared=shared)

    async def _evaluate(self, study: Study, trial: Trial, verdict: Verdict, artifact: Artifact, device: str) -> Verdict:
        """The verdict of what was compiled, by what the study is after."""
        if study.objective.measured:
            if verdict.facts.get("occupancy") == 0:
                message = "a block of it does not fit on the multiprocessor"
                return self._ended(verdict, status="infeasible", failure={"kind": "infeasible", "message": message})
            return await self._measure(verdict, artifact, self._context(study, trial, verdict.phase, device))
        if study.objective.name == "mca":
            assert self._mca is not None
            cycles = await self._mca.cycles(artifact["asm"].decode("utf-8", "replace"), study.target)
            verdict = replace(
                verdict, facts=FrozenMap({**verdict.facts, **({} if cycles is None else {"mca": cycles})})
            )
        value = verdict.facts.get(study.objective.fact)
        if value is None:
            message = f"{study.objective.name} has nothing to say about it"
            return self._ended(verdict, status="unranked", failure={"kind": "unranked", "message": message})
        return self._ended(verdict, status="ok", value=float(value))

    def _context(self, study: Study, trial: Trial, phase: Phase, device: str) -> MeasureContext:
        best = study.best.value if study.best is not None and phase == "search" else None
        return MeasureContext(
            request=study.request(trial.config),
            target=study.target,
            device=device,
            fidelity=trial.fidelity,
            confirming=phase == "confirm",
            best=best,
            give_up_above=None if best is None else best * self._settings.hopeless,
        )

    async def _measure(self, verdict: Verdict, artifact: Artifact, context: MeasureContext) -> Verdict:
        assert self._measurer is not None
        with self._watch.measuring() as contention, self._telling(verdict, context.device):
            began = self.elapsed
            try:
                found = Measurement.of(await self._measurer(artifact, verdict.config, context))
            except MeasureFailed as failed:
                status: Status = failed.kind
                failure = {"kind": f"measure-{failed.kind}", "message": str(failed)}
                return self._ended(verdict, status=status, failure=failure)
            except Exception as error:  # noqa: BLE001 - the user's function: its failure is this configuration's
                failure = {"kind": "measure-error", "message": f"{type(error).__name__}: {error}"}
                return self._ended(verdict, status="error", failure=failure)
            record = {
                "device": context.device,
                **found.record(),
                "contention": {**contention.record(), **(found.contention or {})},
                "started": round(began, 6),
                "ended": round(self.elapsed, 6),
            }
        return self._ended(verdict, status="ok", value=found.value, measurement=FrozenMap(record))

    @contextlib.contextmanager
    def _telling(self, verdict: Verdict, device: str) -> Iterator[None]:
        now = time.monotonic()
        self._on_step(Measuring(device=device, target=verdict.target, config=verdict.config, time=now))
        try:
            yield
        finally:
            self._on_step(Measured(device=device))

    def _ended(self, verdict: Verdict, **changes: Any) -> Verdict:
        return replace(verdict, at=round(self.elapsed, 6), **changes)


def _stop_if_hopeless(result: CompileResult) -> None:
    """Raise the failure where every other configuration would end the same way."""
    failure = result.failure
    assert failure is not None
    if POLICIES[failure.kind].on_sweep == "stop":
        raise failure.error(result.request, result.key)


async def _all(functions: Any) -> None:
    """Run them all; the first error, alone, ends the others."""
    try:
        async with anyio.create_task_group() as group:
            for function in functions:
                group.start_soon(function)
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
