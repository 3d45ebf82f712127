"""`Rules`: what a session was told, checked; it never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from teeny_async.errors import RequestError
from teeny_async.pipeline.retry import RetryPolicy

Mode = Literal["normal", "cached_only", "refresh", "no_cache"]
Unkeyable = Literal["run", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The options of a session; those of `teeny_async.Compiler`, where they are explained.

    memory_left: says how many bytes there are for compilers now; None where that plays no part.
    Raises RequestError for a value that makes no sense.
    """

    jobs: int
    retry: RetryPolicy
    mode: Mode
    timeout: float | None
    cpu_timeout: float | None
    adaptive_timeout: float | None
    slow_after: float | None
    memory_limit: int | None
    memory_left: Callable[[], int | None] | None
    failure_ttl: float | None
    retry_failed: bool
    wait_for_others: float | None = 60.0
    unkeyable: Unkeyable = "run"

    def __post_init__(self) -> None:
        for name in ("timeout", "cpu_timeout", "slow_after"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise RequestError(f"{name} is a number of seconds above 0, not {limit!r}")
        if self.adaptive_timeout is not None and not self.adaptive_timeout >= 1:
            raise RequestError(f"adaptive_timeout is a factor of 1 or more, not {self.adaptive_timeout!r}")
        if self.unkeyable not in ("run", "refuse"):
            raise RequestError(f'unkeyable is "run" or "refuse", not {self.unkeyable!r}')
        if self.wait_for_others is not None and not self.wait_for_others >= 0:
            raise RequestError(f"wait_for_others is a number of seconds, 0 or more, not {self.wait_for_others!r}")
        if self.failure_ttl is not None and not self.failure_ttl >= 0:
            raise RequestError(f"failure_ttl is a number of seconds, 0 or more, not {self.failure_ttl!r}")

    @property
    def refuses_unkeyable(self) -> bool:
        """Whether what the cache cannot hold is refused; where no cache is used it is nothing special."""
        return self.unkeyable == "refuse" and self.mode != "no_cache"

    @property
    def shares(self) -> bool:
        """Whether other processes that compile the same are waited for."""
        return self.mode == "normal" and self.wait_for_others != 0

    @property
    def reads_store(self) -> bool:
        """Whether results of earlier compiles are looked for."""
        return self.mode in ("normal", "cached_only")

    @property
    def writes_store(self) -> bool:
        """Whether results are kept."""
        return self.mode in ("normal", "refresh")
