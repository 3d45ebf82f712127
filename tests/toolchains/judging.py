"""One small action, judged as the driver of zig would judge it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeny_async.action import Action, Input
from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.toolchains import diagnostics, outputs
from teeny_async.toolchains.verdict import Parse, judge

PTX = b".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
ACTION = Action(
    argv=("zig", "clang", "k.c", "-o", "k.ptx"),
    executable="/opt/zig",
    inputs=(Input("k.c", ("",)),),
    outputs=FrozenMap({"ptx": "k.ptx", "mlir": "k.mlir"}),
    required=("ptx",),
)


def check_ptx(_action: Action, found: Mapping[str, bytes]) -> str | None:
    return outputs.ptx(found["ptx"], cpu="sm_90")


def judged(text: str = "", *, parse: Parse = diagnostics.clang_text, **ended: Any) -> Artifact | Failure:
    """The verdict on a run that ended with status 1 and `text`, or as `ended` says."""
    fields: dict[str, Any] = {"code": 1, "stderr": text.encode()} | ended
    return judge(ACTION, Exit(**fields), tool="zig", parse=parse, check=check_ptx)


def failed(text: str = "", *, parse: Parse = diagnostics.clang_text, **ended: Any) -> Failure:
    """The same, when it must be a failure."""
    found = judged(text, parse=parse, **ended)
    assert isinstance(found, Failure), found
    return found


def kind(text: str = "", *, parse: Parse = diagnostics.clang_text, **ended: Any) -> FailureKind:
    return failed(text, parse=parse, **ended).kind
