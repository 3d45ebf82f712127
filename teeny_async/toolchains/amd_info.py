"""Numbers of AMD kernels: registers, spills, memory.

Clang says them with -Rpass-analysis=kernel-resource-usage:

    k.c:4:1: remark: Function Name: shared [-Rpass-analysis=kernel-resource-usage]
    k.c:4:1: remark:     VGPRs: 3 [-Rpass-analysis=kernel-resource-usage]
    k.c:4:1: remark:     LDS Size [bytes/block]: 4096 [-Rpass-analysis=kernel-resource-usage]

Checked with LLVM 22 on gfx942 and gfx1100, for C and HIP; the code is the same with the flag and without. Of other
compilers they are read from what they wrote: assembly has them as YAML, an object as MessagePack in a note, where a
key is followed by its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Failure

FLAG = "-Rpass-analysis=kernel-resource-usage"
_LARGEST: Mapping[str, str] = {
    "VGPRs": "registers",
    "AGPRs": "agprs",
    "TotalSGPRs": "sgprs",
    "ScratchSize [bytes/lane]": "stack",
    "LDS Size [bytes/block]": "shared",
}
_SUMMED: Mapping[str, str] = {"VGPRs Spill": "spills", "SGPRs Spill": "spills"}
_KEYS: Mapping[bytes, str] = {
    b"vgpr_count": "registers",
    b"agpr_count": "agprs",
    b"sgpr_count": "sgprs",
    b"private_segment_fixed_size": "stack",
    b"group_segment_fixed_size": "shared",
    b"vgpr_spill_count": "spills",
    b"sgpr_spill_count": "spills",
}
_VALUE = re.compile(rb"\.(%s)(?::\s+(\d+)|([\x00-\x7f]|\xcc.|\xcd..|\xce....))" % b"|".join(_KEYS), re.DOTALL)
"""A key with its value, in digits or as MessagePack has it: a byte, or one that says how many follow."""
_REMARK = re.compile(r"remark:\s+(.+?): (\d+) \[-Rpass-analysis=kernel-resource-usage\]")


def metrics(text: str) -> FrozenMap[int]:
    """The numbers of a module; empty when the text has none.

    registers, agprs, sgprs: vector, accumulation and scalar registers, the most of any kernel. spills: registers
    spilled, over all kernels. stack: bytes of scratch a lane; shared: bytes of LDS; the most of any kernel.
    waves: resident on a SIMD by the compiler's own estimate, the fewest of any kernel.
    """
    values: dict[str, int] = {}
    for name, digits in _REMARK.findall(text):
        number = int(digits)
        if metric := _LARGEST.get(name):
            values[metric] = max(number, values.get(metric, 0))
        elif metric := _SUMMED.get(name):
            values[metric] = number + values.get(metric, 0)
        elif name == "Occupancy [waves/SIMD]":
            values["waves"] = min(number, values.get("waves", number))
    return FrozenMap(values)


def with_metrics(verdict: Artifact | Failure, action: Action) -> Artifact | Failure:
    """An artifact for an AMD GPU with the numbers that are in its object or assembly; any other as it is."""
    if isinstance(verdict, Failure) or not action.expect.get("triple", "").startswith("amdgcn"):
        return verdict
    data = verdict.outputs.get("object") or verdict.outputs.get("asm") or b""
    return replace(verdict, metrics=of_output(data))


def of_output(data: bytes) -> FrozenMap[int]:
    """The numbers of a module, as `metrics` has them, from an object or assembly; there is no estimate of waves."""
    values: dict[str, int] = {}
    for key, digits, packed in _VALUE.findall(data):
        number = int(digits) if digits else int.from_bytes(packed[1:] or packed, "big")
        metric = _KEYS[key]
        known = values.get(metric, 0)
        values[metric] = known + number if metric == "spills" else max(known, number)
    return FrozenMap(values)
