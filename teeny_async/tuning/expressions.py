"""Small expressions over names, as text: `TILE * TILE // ROWS`, `ceil(n / TILE)`, `TILE % ROWS == 0`.

They are data: they travel to worker processes and stand in journals. An expression is parsed, checked against
what is listed here and then walked; nothing of it is ever given to `eval`.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from teeny_async.errors import RequestError

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "sum": lambda *values: sum(values),
}


def evaluate(text: str, names: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] = FUNCTIONS) -> Any:
    """The value of an expression. Raises RequestError for an unknown name or anything that is not arithmetic."""
    try:
        return _Walk(text, names, functions).value(_parsed(text))
    except ArithmeticError as error:
        raise RequestError(f"{text!r}: {error}") from None


def names_in(text: str) -> frozenset[str]:
    """The names that an expression reads, functions left out. Raises RequestError for one that is none."""
    tree = _parsed(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


def constraint(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """A constraint of a `Sweep` from an expression."""
    names_in(text)
    return lambda config: bool(evaluate(text, config))


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise RequestError(f"{text!r} is not an expression") from None


class _Walk:
    def __init__(self, text: str, names: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._text = text
        self._names = names
        self._functions = functions

    def value(self, node: ast.expr) -> Any:
        found: Any
        match node:
            case ast.Constant(value=constant) if isinstance(constant, (bool, int, float, str)):
                found = constant
            case ast.Name(id=name):
                found = self._named(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                found = tuple(self.value(part) for part in parts)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                found = _BINARY[type(sign)](self.value(left), self.value(right))
            case ast.UnaryOp(op=sign_of_one, operand=operand) if type(sign_of_one) in _UNARY:
                found = _UNARY[type(sign_of_one)](self.value(operand))
            case ast.BoolOp(op=word, values=parts):
                found = self._words(word, parts)
            case ast.Compare():
                found = self._compared(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                found = self.value(body if self.value(test) else other)
            case ast.Call():
                found = self._called(node)
            case _:
                raise RequestError(f"{self._text!r}: {ast.unparse(node)!r} cannot stand in an expression")
        return found

    def _named(self, name: str) -> Any:
        if name not in self._names:
            known = ", ".join(sorted(self._names)) or "none"
            raise RequestError(f"{self._text!r}: there is no {name}; known are {known}")
        return self._names[name]

    def _words(self, word: ast.boolop, parts: list[ast.expr]) -> Any:
        stop_at = isinstance(word, ast.Or)
        found: Any = not stop_at
        for part in parts:
            found = self.value(part)
            if bool(found) is stop_at:
                break
        return found

    def _compared(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for sign, part in zip(node.ops, node.comparators, strict=True):
            if type(sign) not in _COMPARE:
                raise RequestError(f"{self._text!r}: {ast.unparse(node)!r} cannot stand in an expression")
            right = self.value(part)
            if not _COMPARE[type(sign)](left, right):
                return False
            left = right
        return True

    def _called(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id not in self._functions:
            known = ", ".join(sorted(self._functions))
            raise RequestError(f"{self._text!r}: {ast.unparse(node.func)!r} is no function here; known are {known}")
        named = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
        return self._functions[node.func.id](*(self.value(part) for part in node.args), **named)
