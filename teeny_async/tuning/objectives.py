"""What a tuning run is after: each objective by name, as data.

registers, spills, shared, occupancy    estimates from the assembler's numbers (NVIDIA, AMD)
size, compile-time                      of any artifact
mca                                     an estimate: cycles by llvm-mca (CPUs it knows)
time                                    measured, where there is something to measure on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from teeny_async.errors import RequestError
from teeny_async.target import Target, nearest

Family = Literal["nvidia", "amd", "cpu"]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A number to make as small, or as large, as can be.

    fact: the name under which `facts` has it, or the measurement gives it. unit: for people.
    estimate: it says something about how fast a kernel may be, and is not that. measured: it takes hardware.
    tolerance: results closer than this share of the best are a tie. then: facts that put ties in order,
    smaller first, or larger with a minus; they remain ties. (Of equal occupancy, the kernel that keeps more in
    registers does more with it.) families: whom it applies to. emit: the output it must have, by family.
    """

    name: str
    fact: str
    unit: str
    higher: bool = False
    estimate: bool = True
    measured: bool = False
    tolerance: float = 0.0
    then: Sequence[str] = ()
    families: frozenset[Family] = frozenset(("nvidia", "amd", "cpu"))
    emit: Mapping[Family, str]

    def applies(self, target: Target | None) -> bool:
        return family(target) in self.families

    def score(self, value: float) -> float:
        """The value turned so that less is better."""
        return -value if self.higher else value

    def ties(self, best: float, value: float) -> bool:
        """Whether a value is as good as the best one, as far as this objective can tell."""
        return abs(value - best) <= self.tolerance * abs(best) * (1 + _ROUNDING)

    @property
    def label(self) -> str:
        """As in "occupancy (estimate)"."""
        return f"{self.name} (estimate)" if self.estimate else self.name


_GPU: frozenset[Family] = frozenset(("nvidia", "amd"))
_LOOKED_AT: Mapping[Family, str] = {"nvidia": "cubin", "amd": "asm"}
_TIE_BREAK = ("spills", "registers", "shared", "size")

OBJECTIVES: Mapping[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            name="registers", fact="registers", unit="registers", then=_TIE_BREAK, families=_GPU, emit=_LOOKED_AT
        ),
        Objective(name="spills", fact="spills", unit="B", then=_TIE_BREAK, families=_GPU, emit=_LOOKED_AT),
        Objective(name="shared", fact="shared", unit="B", then=_TIE_BREAK, families=_GPU, emit=_LOOKED_AT),
        Objective(
            name="occupancy",
            fact="occupancy",
            unit="share",
            higher=True,
            then=("spills", "-registers", "-shared", "size"),
            families=_GPU,
            emit=_LOOKED_AT,
        ),
        Objective(name="size", fact="size", unit="B", estimate=False, emit={}),
        Objective(name="compile-time", fact="compile_time", unit="s", estimate=False, tolerance=0.05, emit={}),
        Objective(
            name="mca",
            fact="mca",
            unit="cycles/flop",
            tolerance=0.03,
            then=("size",),
            families=frozenset(("cpu",)),
            emit={"cpu": "asm"},
        ),
        Objective(
            name="time",
            fact="time",
            unit="s",
            estimate=False,
            measured=True,
            tolerance=0.01,
            emit={"nvidia": "cubin", "cpu": "object"},
        ),
    )
}


def objective_named(name: str) -> Objective:
    """Raises RequestError, with the nearest names, for an unknown one."""
    try:
        return OBJECTIVES[name]
    except KeyError:
        close = nearest(name, OBJECTIVES) or list(OBJECTIVES)
        raise RequestError(f"unknown objective {name!r}; did you mean {', '.join(close)}?") from None


def family(target: Target | None) -> Family:
    """Whose processor it is. None, the compiler's default, is taken for a CPU."""
    if target is None or not target.is_gpu:
        return "cpu"
    return "nvidia" if target.is_nvidia else "amd"
