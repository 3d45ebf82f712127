"""`Sweep`: kernels x targets x flags x params, as a lazy iterable of requests."""

from __future__ import annotations

import fnmatch
import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel, ParamValue
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver
from teeny_async.tuning.space import FLAGS, Config, Constraint, Space

Overrides = Mapping[str, Mapping[str, Iterable[ParamValue]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The product of kernels, targets and params, minus what a constraint rejects.

    kernels: `Kernel` objects. targets: `Target` objects or their names; None is the compiler's default.
    params: name -> the values to try: a list, a range, `powers_of_two(16, 256)`. constraints: each is called
    with a configuration and must be true for it to be compiled.
    ptx_versions: every NVIDIA target that names none is compiled in each of these (86 is 8.6).
    flag_choices: sequences of compiler flags, one of which each compile gets besides `flags`; a configuration
    has them as "flags". overrides: other values of params for some targets, by the target's name, a pattern
    of it ("sm_9*"), or "nvidia", "amd", "cpu"; the last that matches holds.
    The other fields are those of every request.

    Iterating makes the requests one at a time, kernels outermost and the last param innermost, and can be
    done again. `len()` is not defined: it would have to try every constraint; `count()` does that.
    """

    kernels: Sequence[Kernel]
    targets: Sequence[Target | str | None] = (None,)
    params: Mapping[str, Sequence[ParamValue]] = field(default_factory=FrozenMap)
    constraints: Sequence[Constraint] = ()
    flag_choices: Sequence[str] = ()
    overrides: Mapping[str, Mapping[str, Sequence[ParamValue]]] = field(default_factory=FrozenMap)
    toolchain: str | Driver = "auto"
    emit: str | None = None
    opt_level: int | str = 3
    flags: Sequence[str] = ()
    timeout: float | None = None
    cpu_timeout: float | None = None
    log_level: str | None = None

    def __init__(
        self,
        kernels: Iterable[Kernel] | Kernel,
        targets: Iterable[Target | str | None] | Target | str | None = (None,),
        params: Mapping[str, Iterable[ParamValue]] | None = None,
        constraints: Iterable[Constraint] | Constraint = (),
        *,
        ptx_versions: Iterable[int] = (),
        flag_choices: Iterable[Iterable[str] | str] = (),
        overrides: Overrides | None = None,
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
        parsed = [Target.parse(t) if isinstance(t, str) else t for t in targets]
        set_field(self, "targets", tuple(_in_versions(parsed, tuple(ptx_versions))))
        set_field(self, "params", FrozenMap({name: _values(name, values) for name, values in (params or {}).items()}))
        set_field(self, "constraints", (constraints,) if callable(constraints) else tuple(constraints))
        set_field(self, "flag_choices", tuple(_flags_text(choice) for choice in flag_choices))
        if self.flag_choices and FLAGS in self.params:
            raise RequestError(f"a param cannot be called {FLAGS!r} beside flag_choices")
        set_field(self, "overrides", self._checked(overrides or {}))

    def __iter__(self) -> Iterator[CompileRequest]:
        for space in self.spaces():
            for config in space.configs():
                yield self.request(space, config)

    def spaces(self) -> Iterator[Space]:
        """The configurations of each kernel on each target, one space for each pair."""
        for kernel, target in itertools.product(self.kernels, self.targets):
            assert not isinstance(target, str)
            yield Space(kernel, target, self._dimensions(target), self.constraints)

    def request(self, space: Space, config: Config) -> CompileRequest:
        """The request of one configuration of one of the `spaces`."""
        options = {name: getattr(self, name) for name in _DEFAULTS}
        if self.flag_choices:
            options["flags"] = (*self.flags, *shlex.split(str(config[FLAGS])))
            config = FrozenMap((name, value) for name, value in config.items() if name != FLAGS)
        return CompileRequest(space.kernel, space.target, params=config, **options)

    def configs(self, target: Target | str | None = None) -> Iterator[Config]:
        """The configurations that pass every constraint, in order; with the overrides of a target, if any."""
        target = Target.parse(target) if isinstance(target, str) else target
        return Space(self.kernels[0], target, self._dimensions(target), self.constraints).configs()

    def count(self) -> int:
        """How many requests there are. It tries every constraint on every configuration, once."""
        known: dict[Any, int] = {}
        total = 0
        for space in self.spaces():
            if not self.constraints:
                total += space.size
                continue
            name = tuple(space.dimensions.items())
            if name not in known:
                known[name] = sum(1 for _ in space.configs())
            total += known[name]
        return total

    def describe(self, *, count: bool = True) -> str:
        """What the sweep will compile, in a few lines, with the exact count.

        count: try every constraint on every configuration for that; else the last line gives a bound.
        """
        kernels = ", ".join(kernel.name for kernel in self.kernels)
        targets = ", ".join("default" if target is None else str(target) for target in self.targets)
        lines = [f"{len(self.kernels)} x kernel: {kernels}", f"{len(self.targets)} x target: {targets}"]
        lines += [f"{len(values)} x {name}: {_listed(values)}" for name, values in self._dimensions(None).items()]
        for pattern, params in self.overrides.items():
            lines += [f"  on {pattern}, {name}: {_listed(values)}" for name, values in params.items()]
        product = sum(space.size for space in self.spaces())
        if not count and self.constraints:
            bound = f"at most {product:,} compiles ({_plural(len(self.constraints))} not tried yet)"
            return "\n".join([*lines, bound])
        left = self.count()
        rejected = f" (of {product:,}; {_plural(len(self.constraints))} rejected {product - left:,})"
        return "\n".join([*lines, f"{left:,} compiles{rejected if product != left else ''}"])

    def _dimensions(self, target: Target | None) -> FrozenMap[Sequence[ParamValue]]:
        found: dict[str, Sequence[ParamValue]] = {FLAGS: self.flag_choices} if self.flag_choices else {}
        found |= self.params
        for pattern, params in self.overrides.items():
            if target is not None and _matches(pattern, target):
                found |= params
        return FrozenMap(found)

    def _checked(self, overrides: Overrides) -> FrozenMap[Mapping[str, Sequence[ParamValue]]]:
        for pattern, params in overrides.items():
            if not any(_matches(pattern, target) for target in self.targets if isinstance(target, Target)):
                raise RequestError(f"overrides: no target is {pattern!r}")
            unknown = sorted(set(params) - set(self.params))
            if unknown:
                raise RequestError(f"overrides for {pattern!r}: {', '.join(unknown)} is no param of the sweep")
        return FrozenMap(
            (pattern, FrozenMap((name, _values(name, values)) for name, values in params.items()))
            for pattern, params in overrides.items()
        )


_DEFAULTS: dict[str, Any] = {
    "toolchain": "auto",
    "emit": None,
    "opt_level": 3,
    "flags": (),
    "timeout": None,
    "cpu_timeout": None,
    "log_level": None,
}
_SHOWN = 12


def _plural(count: int) -> str:
    return "1 constraint" if count == 1 else f"{count} constraints"


def _in_versions(targets: Sequence[Target | None], versions: Sequence[int]) -> Iterator[Target | None]:
    """Every NVIDIA target that leaves its PTX version open, in each of `versions`. Raises RequestError."""
    if versions and not any(target is None or target.is_nvidia for target in targets):
        raise RequestError("ptx_versions: none of the targets is an NVIDIA one")
    for target in targets:
        if not versions or (target is not None and (not target.is_nvidia or target.ptx_version)):
            yield target
        else:
            yield from ((target or Target()).with_ptx_version(version) for version in versions)


def _flags_text(choice: Iterable[str] | str) -> str:
    return shlex.join(shlex.split(choice) if isinstance(choice, str) else choice)


def _matches(pattern: str, target: Target) -> bool:
    family = "nvidia" if target.is_nvidia else "amd" if target.is_amd else "cpu"
    names = (family, str(target), target.cpu or "default")
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def _values(name: str, values: Iterable[ParamValue]) -> tuple[ParamValue, ...]:
    if isinstance(values, (str, int, float)):
        raise RequestError(f"param {name!r}: give a list of values, not {values!r}")
    found = tuple(values)
    if not found:
        raise RequestError(f"param {name!r} has no values")
    return found


def _listed(values: Sequence[ParamValue]) -> str:
    shown = [repr(value) if value == "" else str(value) for value in values]
    if len(shown) > _SHOWN:
        shown = [*shown[:_SHOWN], f"... {shown[-1]}"]
    return ", ".join(shown)
