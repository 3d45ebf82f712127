"""Options of a request that a driver checks before it plans: what it would ignore or choke on is refused."""

from __future__ import annotations

from collections.abc import Sequence

from teeny_async.errors import RequestError
from teeny_async.model import CompileRequest
from teeny_async.toolchains.base import Driver

DEPFILE = "kernel.d"
"""The file in which a compiler says what it read."""


def check_opt_level(driver: Driver, request: CompileRequest, allowed: Sequence[int | str]) -> None:
    """Raise RequestError for an optimisation level that the compiler does not have."""
    if request.opt_level not in allowed:
        known = ", ".join(str(level) for level in allowed)
        raise RequestError(f"toolchain {driver.name}: opt_level is one of {known}, not {request.opt_level!r}")


def refuse_log(driver: Driver, request: CompileRequest) -> None:
    """Raise RequestError when a log is asked of a compiler that writes none."""
    if request.log_level is not None:
        raise RequestError(f"toolchain {driver.name} writes no log; log_level is for teenyc")
