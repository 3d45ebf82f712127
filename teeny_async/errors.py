"""The exceptions that reach a caller.

Three of them say who is to blame, and so what to do next:

* `RequestError`: the caller. Nothing was started; mend the request.
* `CompileError`: the kernel. The tool ran and said no; running it again changes nothing.
* `ToolchainError`: the machine or the tool. No verdict could be had; it may be worth another try.

Inside the package an expected outcome is a value (`teeny_async.Failure`); it becomes one of these
exceptions at the public edge only, a new instance for each caller, so that no traceback is shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teeny_async.keys import CacheKey
    from teeny_async.model import CompileRequest
    from teeny_async.result import Attempt, Diagnostic, Failure


class TeenyAsyncError(Exception):
    """Base of every error that teeny_async raises on purpose."""


class RequestError(TeenyAsyncError, ValueError):
    """A request that cannot be compiled as it stands; raised before any compiler starts."""


class CacheError(TeenyAsyncError):
    """An explicit cache operation failed, or `mode="cached_only"` found no entry."""


class FailedCompile(TeenyAsyncError):
    """Base of the errors made from a `Failure`: it carries the failure and what led to it."""

    def __init__(self, message: str, *, failure: Failure, request: CompileRequest, key: CacheKey | None):
        super().__init__(message)
        self.failure = failure
        self.request = request
        self.key = key

    @property
    def exit(self) -> int | None:
        """Exit status of the last attempt: negative for a signal, None when nothing ran."""
        return self.failure.exit

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        return self.failure.diagnostics

    @property
    def attempts(self) -> Sequence[Attempt]:
        return self.failure.attempts


class CompileError(FailedCompile):
    """The tool ran and refused the kernel: deterministic, never retried."""


class ToolchainError(FailedCompile):
    """No verdict on the kernel could be had; `attempts` says what was tried."""


class ToolchainNotFoundError(ToolchainError, FileNotFoundError):
    """The compiler is not installed, is ambiguous, or vanished while in use."""


class CompileTimeoutError(ToolchainError, TimeoutError):
    """The compiler was stopped at its time limit."""


class ToolchainCrashError(ToolchainError):
    """The compiler died of a signal or an internal error."""


class ResourceError(ToolchainError, OSError):
    """The machine ran out of memory, disk, processes or descriptors."""


class NotCachedError(CacheError, FailedCompile):
    """`mode="cached_only"` and the artifact is not in the cache; nothing was started."""
