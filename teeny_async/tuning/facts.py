"""The numbers that an artifact gives without hardware: what objectives rank by, and what a journal keeps. Pure.

All of them but size and compile time are estimates of how a kernel will run, and are called that wherever they
are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from teeny_async.result import Artifact, CompileResult
from teeny_async.target import Target
from teeny_async.tuning import amd
from teeny_async.tuning.occupancy import WARP, best_block, multiprocessor, occupancy

MAIN_OUTPUTS = ("cubin", "object", "ptx", "asm")
"""Labels of outputs, the one that counts first."""
_BOUNDS = re.compile(rb"^\s*\.(?:max|req)ntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", re.MULTILINE)

Numbers = dict[str, int | float]


def facts(
    result: CompileResult, target: Target | None, *, threads: int | None = None, shared: int | None = None
) -> Numbers:
    """What is known of a result's artifact, by name; only what the target and the outputs give.

    registers: of a thread (VGPRs of a lane on AMD). spills: bytes of spill code (AMD: registers spilled).
    shared: bytes of a block, the dynamic part (`shared`) included. occupancy: 0 to 1. threads: of the block
    that occupancy was reckoned for: those given, else the kernel's launch bounds, else the best block size.
    size: bytes of the main output. compile_time: seconds in the compiler; absent for a hit.
    """
    artifact = result.artifact
    found: Numbers = {"size": main_size(artifact)}
    if result.source == "compiled" and result.attempts:
        found["compile_time"] = result.timings.ran
    if target is not None and target.is_amd and "asm" in artifact.outputs:
        found |= _amd(artifact, target)
    elif "registers" in artifact.metrics:
        found |= _nvidia(artifact, target, threads, shared or 0)
    return found


def main_size(artifact: Artifact) -> int:
    """Bytes of the output that would be loaded."""
    label = main_output(artifact)
    return len(artifact.outputs[label]) if label else 0


def main_output(artifact: Artifact) -> str | None:
    """The label of the output that would be loaded."""
    labels = [label for label in MAIN_OUTPUTS if label in artifact.outputs]
    return labels[0] if labels else next(iter(artifact.outputs), None)


def launch_bound(ptx: bytes) -> int | None:
    """Threads of a block by the kernel's `.maxntid` or `.reqntid`; None when it has none."""
    match = _BOUNDS.search(ptx)
    if match is None:
        return None
    threads = 1
    for number in match.groups(default=b"1"):
        threads *= int(number)
    return threads


def _nvidia(artifact: Artifact, target: Target | None, threads: int | None, dynamic: int) -> Numbers:
    metrics: Mapping[str, object] = artifact.metrics
    registers, shared = _integer(metrics, "registers"), _integer(metrics, "shared") + dynamic
    found: Numbers = {
        "registers": registers,
        "spills": _integer(metrics, "spill_stores") + _integer(metrics, "spill_loads"),
        "shared": shared,
        "stack": _integer(metrics, "stack"),
    }
    sm = multiprocessor(target.cpu if target is not None else None)
    if sm is None:
        return found
    threads = threads or launch_bound(artifact.outputs.get("ptx", b""))
    if threads:
        reached = occupancy(sm, threads=threads, registers=registers, shared=shared)
    else:
        threads, reached = best_block(sm, registers=registers, shared=shared)
    return {**found, "threads": -(-threads // WARP) * WARP, "occupancy": reached.share}


def _amd(artifact: Artifact, target: Target) -> Numbers:
    found = amd.resources(artifact.outputs["asm"].decode("utf-8", "replace"))
    waves = found.pop("waves", None)
    numbers: Numbers = dict(found)
    if waves is not None:
        numbers["occupancy"] = min(1.0, waves / amd.max_waves(target.cpu or ""))
    return numbers


def _integer(metrics: Mapping[str, object], name: str) -> int:
    value = metrics.get(name, 0)
    return value if isinstance(value, int) else 0
