"""Helpers for the values of a param: powers of two, and the short forms of the command line. Pure."""

from __future__ import annotations

import re

from teeny_async.errors import RequestError

MAX_VALUES = 1_000_000
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:([+*])(\d+))?")


def powers_of_two(first: int, last: int) -> tuple[int, ...]:
    """The powers of two from `first` to `last`, both included; a bound that is none is rounded inwards.

    Raises RequestError when there are none.
    """
    if first < 1 or last < first:
        raise RequestError(f"powers_of_two({first}, {last}): write the smaller one first, 1 or more")
    values = tuple(1 << power for power in range((first - 1).bit_length(), last.bit_length()))
    if not values:
        raise RequestError(f"powers_of_two({first}, {last}): there is no power of two between them")
    return values


def expand_range(text: str) -> tuple[int, ...] | None:
    """The whole numbers that `1..8`, `0..64+16` (steps of 16) or `16..256*2` (doubling) stand for.

    Both ends are included. None for a text of another form; RequestError for a range that is empty or endless.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return None
    first, last, operator, by = int(match[1]), int(match[2]), match[3] or "+", int(match[4] or 1)
    if last < first or (operator == "+" and by < 1) or (operator == "*" and (by < 2 or first < 1)):
        raise RequestError(f"range {text!r}: write FIRST..LAST, FIRST..LAST+STEP or FIRST..LAST*FACTOR, upwards")
    if operator == "+":
        if (last - first) // by >= MAX_VALUES:
            raise RequestError(f"range {text!r} has more than {MAX_VALUES:,} values")
        return tuple(range(first, last + 1, by))
    values = [first]
    while values[-1] * by <= last:
        values.append(values[-1] * by)
    return tuple(values)
