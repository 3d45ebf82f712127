"""Results to report on, made without a compiler."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.keys import CacheKey
from teeny_async.model import CompileRequest, Kernel, ParamValue
from teeny_async.result import Artifact, Attempt, CompileResult, Diagnostic, Failure, Timings, Usage

KERNEL = Kernel(name="saxpy", source="void saxpy() {}", language="c")


def request_for(target: str | None = "sm_90", params: Mapping[str, ParamValue] | None = None) -> CompileRequest:
    return CompileRequest(KERNEL, target, params=params or {})  # type: ignore[arg-type]


def good(request: CompileRequest, **changes: Any) -> CompileResult:
    """A compile that worked: ten bytes of PTX in a quarter of a second."""
    fields: dict[str, Any] = {
        "request": request,
        "key": key_of(request),
        "outcome": Artifact(outputs=FrozenMap({"ptx": b"0123456789"})),
        "source": "compiled",
        "attempts": (Attempt(number=1, kind=None, exit=0, usage=Usage()),),
        "timings": Timings(ran=0.25, total=0.25),
    }
    return CompileResult(**(fields | changes))


def bad(
    request: CompileRequest, message: str = "no such thing", kind: FailureKind = FailureKind.DIAGNOSTIC
) -> CompileResult:
    """A compile that the compiler refused."""
    error = Diagnostic(severity="error", message=message, file="kernel.c", line=3, column=7)
    failure = Failure(kind=kind, message=message, diagnostics=(error,), tool="zig", command=("zig", "clang", "a b"))
    return good(request, outcome=failure)


def key_of(request: CompileRequest) -> CacheKey:
    return CacheKey(hashlib.sha256(f"{request.target}{dict(request.params)}".encode()).hexdigest())
