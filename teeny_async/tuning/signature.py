"""`Signature`: how a kernel is called and what it must compute, as data that travels to a worker process. Pure.

    a: in f32[m, k]; b: in f32[k, n]; c: out f32[m, n]; m: i32; n: i32; k: i32

An argument is an array (`in`, `out`, `inout`, a type, and its shape) or a scalar (a type, and `= value` unless a
size has its name). Shapes, values and the launch are expressions over the sizes and the configuration; see
`teeny_async.tuning.expressions`. The reference is numpy, in the same language: `c = a @ b`, or several of these
separated by semicolons; or a function of yours, `file.py:function`, called with all the arguments by name, that
returns the outputs by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.tuning.expressions import evaluate, names_in

TYPES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64")
Role = Literal["in", "out", "inout", "scalar"]
_ARGUMENT = re.compile(
    r"\s*(?P<name>\w+)\s*:\s*(?:(?P<role>in|out|inout)\s+)?(?P<type>\w+)\s*(?:\[(?P<shape>[^\]]*)\])?(?:=(?P<value>.+))?\s*"
)
_TOLERANCE = {"f16": 1e-2, "f32": 1e-4, "f64": 1e-9}


@dataclass(frozen=True, slots=True)
class Argument:
    """shape: an expression for the dimensions, for arrays. value: one for a scalar."""

    name: str
    role: Role
    type: str
    shape: str = ""
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Argument:
        match = _ARGUMENT.fullmatch(text)
        if match is None or match["type"] not in TYPES or (match["role"] is None) != (match["shape"] is None):
            raise RequestError(
                f"argument {text.strip()!r}: write NAME: in TYPE[SHAPE], NAME: out TYPE[SHAPE] or NAME: TYPE "
                f"(types: {', '.join(TYPES)})"
            )
        shape, value = match["shape"] or "", match["value"] or ""
        names_in(f"({shape},)" if shape else value or "0")
        role: Role = match["role"] or "scalar"  # type: ignore[assignment]  # the pattern has these alone
        return cls(match["name"], role, match["type"], shape, value.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """symbol: the function's name in the artifact. sizes: the problem, name -> number.

    reference: None leaves results unchecked. rtol: of the largest element of an output; None is 1e-4 for f32,
    1e-2 for f16, 1e-9 for f64, and 0 for integers. grid, block: of a GPU launch. shared: bytes of dynamic shared
    memory.
    """

    symbol: str
    arguments: Sequence[Argument]
    sizes: Mapping[str, int] = field(default_factory=FrozenMap)
    reference: str | None = None
    rtol: float | None = None
    grid: str | None = None
    block: str | None = None
    shared: str | None = None

    @classmethod
    def parse(cls, symbol: str, text: str, sizes: Mapping[str, int], **options: Any) -> Signature:
        """Read the text form. Raises RequestError for what does not parse, or has a name that is no size."""
        parts = [part for part in text.split(";") if part.strip()]
        arguments = tuple(Argument.parse(part) for part in parts)
        for argument in arguments:
            if argument.role == "scalar" and not argument.value and argument.name not in sizes:
                raise RequestError(f"argument {argument.name!r}: give it a value (= ...), or a size of that name")
        return cls(symbol=symbol, arguments=arguments, sizes=FrozenMap(sizes), **options)

    def tolerance(self, type: str) -> float:
        """Of the largest element of an output."""
        return _TOLERANCE.get(type, 0.0) if self.rtol is None else self.rtol

    def launch(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Grid and block of a launch, three numbers each, and the bytes of dynamic shared memory.

        Raises RequestError where an expression does not give whole numbers above 0.
        """
        if self.grid is None or self.block is None:
            raise RequestError("a GPU kernel needs the expressions for its grid and its block")
        names = {**self.sizes, **config}
        shared = int(evaluate(self.shared, names)) if self.shared else 0
        return {"grid": _three(self.grid, names), "block": _three(self.block, names), "shared": shared}

    def message(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """What a worker needs to know to call it, as JSON data."""
        names = {**self.sizes, **config}
        arguments = []
        for argument in self.arguments:
            plain = asdict(argument)
            if argument.role == "scalar":
                plain["value"] = evaluate(argument.value, names) if argument.value else self.sizes[argument.name]
            else:
                shape = evaluate(f"({argument.shape},)", names)
                plain["shape"] = [int(edge) for edge in shape]
                plain["rtol"] = self.tolerance(argument.type)
            arguments.append(plain)
        return {"symbol": self.symbol, "arguments": arguments, "reference": self.reference}

    def problem(self) -> dict[str, Any]:
        """What a time is of: two times compare only when this is the same."""
        return {"symbol": self.symbol, "arguments": [asdict(a) for a in self.arguments], "sizes": dict(self.sizes)}


def _three(text: str, names: Mapping[str, Any]) -> list[int]:
    found = evaluate(text, names)
    edges = [int(edge) for edge in (found if isinstance(found, tuple) else (found,))]
    if not 1 <= len(edges) <= 3 or min(edges) < 1:
        raise RequestError(f"launch {text!r} is {edges}: one to three numbers, 1 or more")
    return [*edges, 1, 1][:3]
