"""Bulk kernel compilation: many compilers as concurrent subprocesses, each artifact made once.

results = await compile_many(Sweep(kernels, ["sm_80", "sm_90", "znver4"]))
"""

from teeny_async.api import Compiler, compile_many, compile_many_sync, compile_one, compile_one_sync
from teeny_async.errors import (
    CacheError,
    CompileError,
    CompileTimeoutError,
    NotCachedError,
    RequestError,
    ResourceError,
    TeenyAsyncError,
    ToolchainCrashError,
    ToolchainError,
    ToolchainNotFoundError,
)
from teeny_async.failures import FailureKind
from teeny_async.keys import CacheKey
from teeny_async.model import CompileRequest, Kernel
from teeny_async.pipeline.retry import RetryPolicy
from teeny_async.pipeline.stats import CompilerStats
from teeny_async.result import Artifact, Attempt, CompileResult, Diagnostic, Failure, Timings, Usage
from teeny_async.target import Target
from teeny_async.tuning.sweep import Sweep

__all__ = [
    "Artifact",
    "Attempt",
    "CacheError",
    "CacheKey",
    "CompileError",
    "CompileRequest",
    "CompileResult",
    "CompileTimeoutError",
    "Compiler",
    "CompilerStats",
    "Diagnostic",
    "Failure",
    "FailureKind",
    "Kernel",
    "NotCachedError",
    "RequestError",
    "ResourceError",
    "RetryPolicy",
    "Sweep",
    "Target",
    "TeenyAsyncError",
    "Timings",
    "ToolchainCrashError",
    "ToolchainError",
    "ToolchainNotFoundError",
    "Usage",
    "compile_many",
    "compile_many_sync",
    "compile_one",
    "compile_one_sync",
]

__version__ = "0.1.0"
