"""What can go wrong with a compile, and what is done about each kind.

`POLICIES` is the one table: how a kind is retried, whether it may be remembered as a failure, what
a sweep does with it, and the sentence that tells a user what to do. Code that needs to treat kinds
differently reads a column of this table instead of comparing kinds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal


class FailureKind(enum.Enum):
    """Why a compile gave no artifact. The value is the stable spelling in JSON and logs."""

    DIAGNOSTIC = "diagnostic"
    INFEASIBLE = "infeasible"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    DISK_FULL = "disk_full"
    SPAWN = "spawn"
    INFRA = "infra"
    BAD_OUTPUT = "bad_output"
    TOOL_MISSING = "tool_missing"
    CANCELLED = "cancelled"
    NOT_CACHED = "not_cached"


Retry = Literal["never", "once", "backoff", "opt-in"]
OnSweep = Literal["continue", "prune", "stop"]
DAY = 86_400.0
WEEK = 7 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPolicy:
    """One row of the table."""

    retry: Retry
    """never; once: a single further attempt; backoff: up to the policy's attempts; opt-in: only if asked for."""
    alone: bool = False
    """A further attempt runs with no other compiler beside it."""
    cached: bool = False
    """A deterministic verdict about the request, which may be remembered."""
    cached_when_repeated: bool = False
    """As `cached`, once two attempts have ended in just the same way."""
    lasts: float = 0.0
    """Seconds for which a remembered one is served, at most."""
    on_sweep: OnSweep = "continue"
    """continue: with the others. stop: start nothing more; what was not started fails, and says why.
    prune: it is recorded, and remembered like any verdict; nothing else is left out for it. That a larger
    tile or another target would fail too is likely but not certain, so only who knows the kernel can tell."""
    stops_all: bool = False
    """Where `on_sweep` is stop: compiles by all toolchains, not by the one that failed alone."""
    exit_code: int = 1
    """Exit code of the command line when nothing worse happened."""
    hint: str
    """One sentence for the user."""


POLICIES: dict[FailureKind, KindPolicy] = {
    FailureKind.DIAGNOSTIC: KindPolicy(
        retry="never",
        cached=True,
        lasts=WEEK,
        hint="The compiler refused its input; mend the kernel, or the flags and macros it was given.",
    ),
    FailureKind.INFEASIBLE: KindPolicy(
        retry="never",
        cached=True,
        lasts=WEEK,
        on_sweep="prune",
        hint="This target cannot hold this configuration; use smaller tiles or leave the pair out.",
    ),
    FailureKind.CRASH: KindPolicy(
        retry="once",
        alone=True,
        cached_when_repeated=True,
        lasts=DAY,
        hint="The compiler itself crashed; report it with the command that reproduces it.",
    ),
    FailureKind.OUT_OF_MEMORY: KindPolicy(
        retry="backoff", alone=True, hint="The compiler ran out of memory; lower jobs or raise the memory limit."
    ),
    FailureKind.TIMEOUT: KindPolicy(
        retry="opt-in", hint="The compiler took longer than its time limit; raise timeout= or simplify the kernel."
    ),
    FailureKind.DISK_FULL: KindPolicy(
        retry="backoff",
        on_sweep="stop",
        stops_all=True,
        hint="The disk is full; free some space where TMPDIR points.",
    ),
    FailureKind.SPAWN: KindPolicy(
        retry="backoff", hint="The machine could not start another process; lower jobs or raise its limits."
    ),
    FailureKind.INFRA: KindPolicy(
        retry="backoff", hint="The machine failed under the compiler (file system, shared library, lock); look at it."
    ),
    FailureKind.BAD_OUTPUT: KindPolicy(
        retry="once", hint="The compiler claimed success but its output is not what was asked for."
    ),
    FailureKind.TOOL_MISSING: KindPolicy(
        retry="never",
        on_sweep="stop",
        exit_code=3,
        hint="The compiler is not installed; `teeny-async doctor` says how.",
    ),
    FailureKind.CANCELLED: KindPolicy(retry="never", exit_code=130, hint="The compile was cancelled before it ended."),
    FailureKind.NOT_CACHED: KindPolicy(
        retry="never", hint='Only cached results were allowed; compile it once with mode="normal".'
    ),
}
