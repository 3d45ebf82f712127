"""Plain JSON data of results and events: what `--json`, event logs and journals are made of.

A kernel's text and the bytes of outputs are never part of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from teeny_async.failures import FailureKind
from teeny_async.model import CompileRequest
from teeny_async.result import CompileResult, Failure

if TYPE_CHECKING:
    from teeny_async.events import Event
    from teeny_async.pipeline.explaining import Explanation


def event_to_dict(event: Event) -> dict[str, Any]:
    """An event as plain JSON data; "event" is its kind."""
    fields = {name: _plain(getattr(event, name)) for name in event.__dataclass_fields__}
    return {"event": type(event).__name__, **fields}


def _plain(value: Any) -> Any:
    match value:
        case FailureKind():
            return value.value
        case CompileResult():
            return result_to_dict(value)
        case CompileRequest():
            return request_to_dict(value)
    return value


def request_to_dict(request: CompileRequest) -> dict[str, Any]:
    """What identifies a request to a person, as plain JSON data; its source text is left out."""
    toolchain = request.toolchain
    return {
        "kernel": request.kernel.name,
        "target": None if request.target is None else str(request.target),
        "params": dict(request.params),
        "toolchain": toolchain if isinstance(toolchain, str) else toolchain.name,
    }


def result_to_dict(result: CompileResult) -> dict[str, Any]:
    """A result as plain JSON data, without the bytes of its outputs."""
    failure = result.failure
    return {
        **request_to_dict(result.request),
        "source": result.source,
        "ok": result.ok,
        "key": None if result.key is None else result.key.digest,
        "uncached": result.uncached,
        "failure": None if failure is None else failure_to_dict(failure),
        "metrics": {} if failure is not None else dict(result.artifact.metrics),
        "attempts": [
            {"number": a.number, "kind": a.kind and a.kind.value, "exit": a.exit, "delay": a.delay}
            for a in result.attempts
        ],
        "timings": asdict(result.timings),
        "usage": asdict(result.usage),
    }


def explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain JSON data."""
    nearest, failure = explanation.nearest, explanation.failure
    return {
        **request_to_dict(explanation.request),
        "state": explanation.state,
        "why": explanation.why,
        "key": explanation.key.digest,
        "result_key": explanation.result_key,
        "resolved_target": str(explanation.target),
        "version": explanation.toolchain,
        "components": dict(explanation.components),
        "stored": {name: value for name, value in explanation.stored.items() if name != "components"} or None,
        "failure": None if failure is None else failure_to_dict(failure),
        "nearest": nearest
        and {
            "key": nearest.digest,
            "kernel": nearest.kernel,
            "target": nearest.target,
            "version": nearest.toolchain,
            "params": dict(nearest.params),
            "differs": {
                label: {"asked": asked, "stored": stored} for label, (asked, stored) in nearest.differs.items()
            },
        },
    }


def failure_to_dict(failure: Failure) -> dict[str, Any]:
    """A failure as plain JSON data."""
    return {
        "kind": failure.kind.value,
        "message": failure.message,
        "exit": failure.exit,
        "tool": failure.tool,
        "command": list(failure.command),
        "diagnostics": [asdict(diagnostic) for diagnostic in failure.diagnostics],
        "hint": failure.hint,
    }
