"""Brakes: after a failure that the next compile would only repeat, nothing more is started. Pure.

A full disk stops everything, a compiler that has vanished stops its own compiles. What stands by then
stands, what runs runs on, and what was not started gets a failure that says so. A brake holds for the calls
(a `compile_many`, a stream) that had begun when it was pulled: whoever calls again means to try again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from teeny_async.failures import POLICIES
from teeny_async.result import Failure
from teeny_async.toolchains.base import Toolchain


class _Brake(NamedTuple):
    toolchain: Toolchain | None
    failure: Failure
    last_call: int


class Brakes:
    """The brakes of a session. calls: how many calls have begun."""

    def __init__(self) -> None:
        self.calls = 0
        self._pulled: list[_Brake] = []

    def new_call(self) -> int:
        """The number of a call that begins now."""
        self.calls += 1
        return self.calls

    def pull(self, failure: Failure, toolchain: Toolchain) -> bool:
        """Stop what this failure of a toolchain calls for; False when it calls for nothing."""
        policy = POLICIES[failure.kind]
        if policy.on_sweep != "stop":
            return False
        stopped = None if policy.stops_all else toolchain
        self._pulled = [brake for brake in self._pulled if brake.toolchain is not stopped]
        self._pulled.append(_Brake(stopped, failure, self.calls))
        return True

    def why_not(self, toolchains: Sequence[Toolchain], call: int) -> Failure | None:
        """The failure of a compile by these toolchains that must not start; None when it may."""
        for brake in self._pulled:
            stopped = brake.toolchain is None or any(tool is brake.toolchain for tool in toolchains)
            if stopped and call <= brake.last_call:
                cause = brake.failure
                return Failure(kind=cause.kind, message=f"not started: {cause.message}", tool=cause.tool)
        return None
