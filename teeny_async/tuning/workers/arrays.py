"""The arguments of a kernel as numpy arrays, what they must be afterwards, and whether they are."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from teeny_async.tuning.expressions import FUNCTIONS, evaluate
from teeny_async.tuning.workers.stdio import Refused

Array = npt.NDArray[Any]
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_FUNCTIONS = {
    **FUNCTIONS,
    **{
        name: getattr(np, name)
        for name in (
            *("sum", "max", "min", "abs", "exp", "log", "sqrt", "tanh", "maximum", "minimum", "where", "mean"),
            *("transpose", "cumsum", "dot", "roll", "pad", "zeros_like", "ones_like", "clip", "outer"),
        )
    },
}


def dtype(name: str) -> np.dtype[Any]:
    """The numpy type of `f32`, `i64`, ..."""
    return np.dtype(_KINDS[name[0]] + name[1:])


class Problem:
    """The arrays for one message's arguments. inputs: filled by a seed; outputs: filled with what no kernel leaves."""

    def __init__(self, arguments: Sequence[Mapping[str, Any]], reference: str | None) -> None:
        self.arguments = arguments
        generator = np.random.default_rng(0)
        self.initial: dict[str, Array] = {}
        self.values: dict[str, Any] = {}
        for argument in arguments:
            if argument["role"] == "scalar":
                self.values[argument["name"]] = dtype(argument["type"]).type(argument["value"])
            else:
                self.initial[argument["name"]] = _filled(argument, generator)
        self.expected = _expected(arguments, self.initial, self.values, reference)
        self._allowed = {
            argument["name"]: _allowed(
                self.expected[argument["name"]], self.initial[argument["name"]], argument["rtol"]
            )
            for argument in self.outputs
            if self.expected is not None and argument["name"] in self.expected
        }

    @property
    def outputs(self) -> list[Mapping[str, Any]]:
        return [argument for argument in self.arguments if argument["role"] in ("out", "inout")]

    def check(self, found: Mapping[str, Array]) -> None:
        """Raise Refused("wrong") unless every output is what the reference gives."""
        for name, (low, high) in self._allowed.items():
            _compare(name, found[name], low, high)


class ProblemCache:
    """The last problems, so that a search does not make arrays and references anew for each configuration."""

    def __init__(self, size: int = 4) -> None:
        self._known: dict[str, Problem] = {}
        self._size = size

    def get(self, message: Mapping[str, Any]) -> Problem:
        name = json.dumps([message["arguments"], message["reference"]], sort_keys=True)
        if name not in self._known:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            self._known[name] = Problem(message["arguments"], message["reference"])
        return self._known[name]


def aligned(array: Array, boundary: int = 64) -> Array:
    """A copy that starts at a multiple of `boundary` bytes: where an array happens to lie would change times."""
    room = np.empty(array.nbytes + boundary, dtype=np.uint8)
    start = -room.ctypes.data % boundary
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _filled(argument: Mapping[str, Any], generator: np.random.Generator) -> Array:
    kind, shape = dtype(argument["type"]), tuple(argument["shape"])
    if argument["role"] == "out":
        return aligned(np.full(shape, np.nan if kind.kind == "f" else np.iinfo(kind).max // 3, dtype=kind))
    if kind.kind == "f":
        return aligned(generator.uniform(-1.0, 1.0, shape).astype(kind))
    return aligned(generator.integers(0, 100, shape).astype(kind))


def _expected(
    arguments: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array], scalars: Mapping[str, Any], text: str | None
) -> dict[str, Array] | None:
    """The outputs by the reference, in double precision."""
    if text is None:
        return None
    names = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in arrays.items()}
    file, colon, function = text.rpartition(":")
    if colon and file.endswith(".py") and function.isidentifier():
        found = runpy.run_path(str(Path(file)))[function](**names, **scalars)
        outputs = [argument["name"] for argument in arguments if argument["role"] != "in"]
        return dict(found) if isinstance(found, Mapping) else {outputs[0]: np.asarray(found)}
    results: dict[str, Array] = {}
    for statement in filter(str.strip, text.split(";")):
        name, equals, expression = statement.partition("=")
        if not equals or name.strip() not in names:
            raise Refused("error", f"reference {statement!r}: write OUTPUT = EXPRESSION")
        results[name.strip()] = np.asarray(evaluate(expression, {**names, **scalars, **results}, _FUNCTIONS))
    return results


def _allowed(expected: Array, like: Array, rtol: float) -> tuple[Array, Array]:
    """The least and the greatest that each element may be. Once for a problem: it costs more than a comparison."""
    wanted = np.broadcast_to(expected, like.shape).astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    room = rtol * (np.abs(wanted) + (float(finite.max()) if finite.size else 0.0))
    with np.errstate(invalid="ignore"):
        low, high = wanted - room, wanted + room
    exact = ~np.isfinite(wanted)
    low[exact] = high[exact] = wanted[exact]
    kind = like.dtype if like.dtype.kind == "f" else np.dtype(np.float64)
    return low.astype(kind), high.astype(kind)


def _compare(name: str, found: Array, low: Array, high: Array) -> None:
    right = (found >= low) & (found <= high)
    if right.all():
        return
    wrong = ~(right | (np.isnan(found) & np.isnan(low)))
    count = int(np.count_nonzero(wrong))
    if count:
        place = tuple(int(edge) for edge in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        middle = (float(low[place]) + float(high[place])) / 2
        where = f"{name}{list(place)} is {found[place]:.6g}, not {middle:.6g}"
        raise Refused("wrong", f"{count:,} of {found.size:,} elements of {name} are wrong: {where}")
