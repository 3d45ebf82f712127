"""`Verdict`: what came of one configuration on one target, and its line in a journal. Pure.

{"schema": 1, "type": "verdict", "kernel": "matmul", "target": "sm_90", "config": {"TILE": 32}, "status": "ok",
 "objective": "time", "value": 1.2e-4, "facts": {...}, "compile": {...}, "measurement": {...}, ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from teeny_async.frozen import FrozenMap
from teeny_async.result import CompileResult
from teeny_async.tuning.objectives import Objective, objective_named
from teeny_async.tuning.space import Config

SCHEMA = 1
Status = Literal["ok", "failed", "infeasible", "wrong", "error", "unranked"]
"""ok: it has a value. failed: it did not compile. infeasible: its target cannot hold it. wrong: it computes
something else than the reference. error: measuring it failed (a crash, a hang). unranked: the objective has
nothing to say about it."""
Phase = Literal["search", "confirm"]
Identity = tuple[str, str, Config, float, Phase]
_DIAGNOSTICS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """kernel, target: their names. config: dimension -> value.

    fidelity: the share of the full measurement that was spent on it, above 0 to 1.
    value: of the objective, in its unit; None without one. facts: see `teeny_async.tuning.facts`.
    compile: source, seconds, key, toolchain, attempts, started, ended. measurement: device, clocks, problem,
    p20, p80, runs, contention, ... ; empty where nothing was measured. failure: kind, message, diagnostics.
    Times of day are seconds since the run began, those of earlier, interrupted parts included.
    """

    kernel: str
    target: str
    config: Config
    objective: str
    status: Status
    value: float | None = None
    fidelity: float = 1.0
    phase: Phase = "search"
    facts: Mapping[str, Any] = field(default_factory=FrozenMap)
    compile: Mapping[str, Any] = field(default_factory=FrozenMap)
    measurement: Mapping[str, Any] = field(default_factory=FrozenMap)
    failure: Mapping[str, Any] | None = None
    at: float = 0.0

    @property
    def identity(self) -> Identity:
        """What is never done twice in a run."""
        return self.kernel, self.target, self.config, self.fidelity, self.phase

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def score(self) -> float | None:
        """The value, turned so that less is better."""
        return None if self.value is None else self.goal.score(self.value)

    @property
    def goal(self) -> Objective:
        return objective_named(self.objective)

    @property
    def estimate(self) -> bool:
        return self.goal.estimate

    @property
    def order(self) -> tuple[float, ...]:
        """Sorts verdicts with a value, the best first; equal values by the objective's tie-breakers."""
        score = self.score
        return (float("inf") if score is None else score, *(self._fact(name) for name in self.goal.then))

    def _fact(self, name: str) -> float:
        value = float(self.facts.get(name.removeprefix("-"), 0))
        return -value if name.startswith("-") else value

    @property
    def spread(self) -> tuple[float, float] | None:
        """(p20, p80) of a measurement."""
        low, high = self.measurement.get("p20"), self.measurement.get("p80")
        return None if low is None or high is None else (low, high)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        data = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {"schema": SCHEMA, "type": "verdict", **data, "estimate": self.estimate}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The opposite of `to_dict`. Raises KeyError, TypeError or ValueError for anything malformed."""
        if data["status"] not in get_args(Status) or not isinstance(data["config"], Mapping):
            raise ValueError(data["status"])
        fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        for name in ("config", "facts", "compile", "measurement"):
            fields[name] = FrozenMap(fields.get(name) or {})
        objective_named(fields["objective"])
        return cls(**fields)


def compile_record(result: CompileResult, toolchain: str, started: float, ended: float) -> dict[str, Any]:
    """What a verdict keeps of a compile."""
    return {
        "source": result.source,
        "seconds": result.timings.ran,
        "cpu": result.usage.cpu,
        "key": None if result.key is None else result.key.digest,
        "toolchain": toolchain,
        "attempts": len(result.attempts),
        "started": round(started, 6),
        "ended": round(ended, 6),
    }


def failure_record(result: CompileResult) -> dict[str, Any] | None:
    """What a verdict keeps of a failed compile; None for a good one."""
    failure = result.failure
    if failure is None:
        return None
    return {
        "kind": failure.kind.value,
        "message": failure.message,
        "diagnostics": [asdict(diagnostic) for diagnostic in failure.diagnostics[:_DIAGNOSTICS]],
    }


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
