"""`Study`: the search of one kernel on one target. Synchronous; it decides, others act."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from teeny_async.model import CompileRequest
from teeny_async.result import Artifact
from teeny_async.target import Target
from teeny_async.tuning.finals import Watched
from teeny_async.tuning.objectives import Objective, family
from teeny_async.tuning.result import ranked
from teeny_async.tuning.space import Config, Space
from teeny_async.tuning.strategies import Strategy, Trial
from teeny_async.tuning.sweep import Sweep
from teeny_async.tuning.verdict import Identity, Phase, Verdict


class Study:
    """objective: what its target is ranked by. target: resolved. toolchain: its version, for records.

    total: how many configurations it will try, where that is known. keep: how many winners' artifacts to hold.
    """

    def __init__(
        self,
        sweep: Sweep,
        space: Space,
        *,
        objective: Objective,
        strategy: Strategy,
        target: Target,
        toolchain: str,
        flags: Sequence[str] = (),
        total: int | None = None,
        keep: int = 1,
    ) -> None:
        self.space = space
        self.objective = objective
        self.target = target
        self.toolchain = toolchain
        self.total = total
        self.verdicts: list[Verdict] = []
        self.best: Verdict | None = None
        self.watched = Watched()
        self._sweep = sweep
        self._strategy = strategy
        self._flags = tuple(flags)
        self._pending = 0
        self._keep = keep
        self._kept: dict[Config, tuple[Verdict, Artifact]] = {}
        self._settled: set[Config] = set()

    @property
    def done(self) -> int:
        """Configurations that have a verdict."""
        return len(self._settled)

    @property
    def idle(self) -> bool:
        """Nothing of it is under way and nothing will be asked for."""
        return not self._pending

    def next(self, known: Mapping[Identity, Verdict], on_known: Callable[[Verdict], None]) -> Trial | None:
        """The next trial that has no verdict yet; known ones are told on the way. None when there is none now."""
        while (trial := self._strategy.ask()) is not None:
            self._pending += 1
            verdict = known.get(self.identity(trial))
            if verdict is None:
                return trial
            on_known(verdict)
            self.settle(trial, verdict)
        return None

    def identity(self, trial: Trial, phase: Phase = "search") -> Identity:
        return self.space.kernel.name, self.space.target_name, trial.config, trial.fidelity, phase

    def settle(self, trial: Trial, verdict: Verdict, artifact: Artifact | None = None) -> None:
        """Take the verdict of a trial of the search."""
        self._pending -= 1
        self.note(verdict, artifact)
        # A tie is put in order for the strategy too: a sampler that sees only equal scores learns nothing.
        self._strategy.tell(trial, verdict.score)

    def note(self, verdict: Verdict, artifact: Artifact | None = None) -> None:
        """Take a verdict that the strategy need not hear of."""
        self.verdicts.append(verdict)
        self._settled.add(verdict.config)
        if verdict.value is None:
            return
        if self.best is None or (verdict.fidelity, *_negative(verdict)) >= (self.best.fidelity, *_negative(self.best)):
            self.best = verdict
        if artifact is not None:
            self._kept[verdict.config] = verdict, artifact
            if len(self._kept) > self._keep:
                worst = max(
                    self._kept, key=lambda config: (-self._kept[config][0].fidelity, self._kept[config][0].order)
                )
                del self._kept[worst]

    def kept(self, config: Config) -> Artifact | None:
        """The artifact of one of the best, if it was made here and now."""
        found = self._kept.get(config)
        return found[1] if found else None

    def ranked(self) -> list[Verdict]:
        return ranked(self.verdicts)

    def request(self, config: Config) -> CompileRequest:
        """What is compiled for a configuration."""
        request = self._sweep.request(self.space, config)
        emit = self.objective.emit.get(family(self.target), request.emit)
        return replace(request, emit=emit, flags=(*request.flags, *self._flags))


def _negative(verdict: Verdict) -> tuple[float, ...]:
    return tuple(-number for number in verdict.order)
