"""The public calls: what a type checker is told of them is what they take."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from teeny_async.api import Compiler, CompilerOptions


def test_the_options_that_calls_pass_on_are_those_of_a_session() -> None:
    told = get_type_hints(CompilerOptions)
    hints = get_type_hints(Compiler.__init__)
    taken = {name: hints[name] for name in inspect.signature(Compiler.__init__).parameters if name != "self"}
    assert told == taken
    assert list(told) == list(taken), "in the same order, so that both are read side by side"
