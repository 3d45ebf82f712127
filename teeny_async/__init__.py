"""Bulk kernel compilation: many compilers as concurrent subprocesses, each artifact made once.

results = await compile_many(Sweep(kernels, ["sm_80", "sm_90", "znver4"]))

Names are imported when they are first used: a program that may never compile pays nothing for the import.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs more than the rest of this module; type checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from teeny_async.api import (
        Compiler as Compiler,
        CompilerOptions as CompilerOptions,
        compile_many as compile_many,
        compile_many_sync as compile_many_sync,
        compile_one as compile_one,
        compile_one_sync as compile_one_sync,
    )
    from teeny_async.cluster.dask_runner import DaskRunner as DaskRunner
    from teeny_async.errors import (
        CacheError as CacheError,
        CompileError as CompileError,
        CompileTimeoutError as CompileTimeoutError,
        NotCachedError as NotCachedError,
        RequestError as RequestError,
        ResourceError as ResourceError,
        TeenyAsyncError as TeenyAsyncError,
        ToolchainCrashError as ToolchainCrashError,
        ToolchainError as ToolchainError,
        ToolchainNotFoundError as ToolchainNotFoundError,
    )
    from teeny_async.failures import FailureKind as FailureKind
    from teeny_async.keys import CacheKey as CacheKey
    from teeny_async.model import CompileRequest as CompileRequest, Kernel as Kernel
    from teeny_async.nearest import Neighbour as Neighbour
    from teeny_async.pipeline.explaining import Explanation as Explanation
    from teeny_async.pipeline.retry import RetryPolicy as RetryPolicy
    from teeny_async.pipeline.stats import CompilerStats as CompilerStats
    from teeny_async.result import (
        Artifact as Artifact,
        Attempt as Attempt,
        CompileResult as CompileResult,
        Diagnostic as Diagnostic,
        Failure as Failure,
        Timings as Timings,
        Usage as Usage,
    )
    from teeny_async.store.remote import RemoteStore as RemoteStore
    from teeny_async.target import Target as Target
    from teeny_async.toolchains.command import CommandToolchain as CommandToolchain
    from teeny_async.tuning.sweep import Sweep as Sweep

__version__ = "0.1.0"

_HOMES = {
    "Artifact": "result",
    "Attempt": "result",
    "CacheError": "errors",
    "CacheKey": "keys",
    "CommandToolchain": "toolchains.command",
    "CompileError": "errors",
    "CompileRequest": "model",
    "CompileResult": "result",
    "CompileTimeoutError": "errors",
    "Compiler": "api",
    "CompilerOptions": "api",
    "CompilerStats": "pipeline.stats",
    "DaskRunner": "cluster.dask_runner",
    "Diagnostic": "result",
    "Explanation": "pipeline.explaining",
    "Failure": "result",
    "FailureKind": "failures",
    "Kernel": "model",
    "Neighbour": "nearest",
    "NotCachedError": "errors",
    "RemoteStore": "store.remote",
    "RequestError": "errors",
    "ResourceError": "errors",
    "RetryPolicy": "pipeline.retry",
    "Sweep": "tuning.sweep",
    "Target": "target",
    "TeenyAsyncError": "errors",
    "Timings": "result",
    "ToolchainCrashError": "errors",
    "ToolchainError": "errors",
    "ToolchainNotFoundError": "errors",
    "Usage": "result",
    "compile_many": "api",
    "compile_many_sync": "api",
    "compile_one": "api",
    "compile_one_sync": "api",
}
"""Public name -> the module it lives in."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the one list of names


def __getattr__(name: str) -> Any:
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
