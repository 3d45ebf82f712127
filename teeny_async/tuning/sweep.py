"""`Sweep`: kernels x targets x params, as a lazy iterable of requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel, ParamValue
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver

Constraint = Callable[[Mapping[str, Any]], bool]
"""Given a configuration (param -> value), whether it is worth compiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The product of kernels, targets and params, minus what a constraint rejects.

    kernels: `Kernel` objects. targets: `Target` objects or their names; None is the compiler's default.
    params: name -> the values to try. constraints: each is called with a configuration and must be true
    for it to be compiled. The other fields are those of every request.

    Iterating makes the requests one at a time, kernels outermost and the last param innermost, and can be
    done again. `len()` is not defined: it would have to try every constraint.
    """

    kernels: Sequence[Kernel]
    targets: Sequence[Target | str | None] = (None,)
    params: Mapping[str, Sequence[ParamValue]] = field(default_factory=FrozenMap)
    constraints: Sequence[Constraint] = ()
    toolchain: str | Driver = "auto"
    emit: str | None = None
    opt_level: int | str = 3
    flags: Sequence[str] = ()
    timeout: float | None = None
    log_level: str | None = None

    def __init__(
        self,
        kernels: Iterable[Kernel] | Kernel,
        targets: Iterable[Target | str | None] | Target | str | None = (None,),
        params: Mapping[str, Iterable[ParamValue]] | None = None,
        constraints: Iterable[Constraint] | Constraint = (),
        **options: Any,
    ) -> None:
        set_field = object.__setattr__
        for name, value in {**_DEFAULTS, **options}.items():
            if name not in _DEFAULTS:
                raise TypeError(f"Sweep has no field {name!r}")
            set_field(self, name, value)
        set_field(self, "kernels", (kernels,) if isinstance(kernels, Kernel) else tuple(kernels))
        if targets is None or isinstance(targets, (str, Target)):
            targets = (targets,)
        set_field(self, "targets", tuple(Target.parse(t) if isinstance(t, str) else t for t in targets))
        set_field(self, "params", FrozenMap({name: _values(name, values) for name, values in (params or {}).items()}))
        set_field(self, "constraints", (constraints,) if callable(constraints) else tuple(constraints))

    def __iter__(self) -> Iterator[CompileRequest]:
        options = {name: getattr(self, name) for name in _DEFAULTS}
        for kernel, target in itertools.product(self.kernels, self.targets):
            for config in self.configs():
                yield CompileRequest(kernel, target, params=config, **options)  # type: ignore[arg-type]

    def configs(self) -> Iterator[FrozenMap[ParamValue]]:
        """The configurations that pass every constraint, in order."""
        names = list(self.params)
        for values in itertools.product(*self.params.values()):
            config: FrozenMap[ParamValue] = FrozenMap(zip(names, values, strict=True))
            if all(constraint(config) for constraint in self.constraints):
                yield config


_DEFAULTS: dict[str, Any] = {
    "toolchain": "auto",
    "emit": None,
    "opt_level": 3,
    "flags": (),
    "timeout": None,
    "log_level": None,
}


def _values(name: str, values: Iterable[ParamValue]) -> tuple[ParamValue, ...]:
    if isinstance(values, (str, int, float)):
        raise RequestError(f"param {name!r}: give a list of values, not {values!r}")
    found = tuple(values)
    if not found:
        raise RequestError(f"param {name!r} has no values")
    return found
