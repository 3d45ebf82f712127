"""`Space`: the configurations of one kernel on one target, lazily. Pure.

A configuration is one value for each dimension. Dimensions are the params of the sweep, and "flags" where a
sweep has choices of compiler flags; their product is never laid out in memory, and each configuration has a
place in it by which it can be made alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teeny_async.frozen import FrozenMap
from teeny_async.model import Kernel, ParamValue
from teeny_async.target import Target

FLAGS = "flags"
"""The dimension whose values are compiler flags, as a shell would read them."""

Config = FrozenMap[ParamValue]
Constraint = Callable[[Mapping[str, Any]], bool]
"""Given a configuration (dimension -> value), whether it is worth compiling."""


@dataclass(frozen=True, slots=True)
class Space:
    """dimensions: name -> the values to try. target: None is the compiler's default."""

    kernel: Kernel
    target: Target | None
    dimensions: FrozenMap[Sequence[ParamValue]]
    constraints: Sequence[Constraint] = ()

    @property
    def target_name(self) -> str:
        return "default" if self.target is None else str(self.target)

    @property
    def size(self) -> int:
        """Configurations before constraints."""
        return math.prod(len(values) for values in self.dimensions.values())

    def at(self, place: int) -> Config:
        """The configuration at a place, 0 to `size` - 1; the last dimension changes fastest. Unconstrained."""
        values = []
        for name in reversed(tuple(self.dimensions)):
            place, index = divmod(place, len(self.dimensions[name]))
            values.append((name, self.dimensions[name][index]))
        return FrozenMap(reversed(values))

    def allows(self, config: Mapping[str, Any]) -> bool:
        """Whether every constraint holds."""
        return all(constraint(config) for constraint in self.constraints)

    def configs(self) -> Iterator[Config]:
        """Those that every constraint allows, in order."""
        return (config for place in range(self.size) if self.allows(config := self.at(place)))
