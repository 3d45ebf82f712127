"""What the compiler says of an AMD kernel's resources, read from its assembly. Pure.

clang ends the assembly of an AMD kernel with the metadata that the loader reads, as YAML, and puts the rest
into comments; they are the numbers of `-Rpass-analysis=kernel-resource-usage`, without a flag:

    ; Occupancy: 8
      - .group_segment_fixed_size: 4096
        .name:           shared
        .private_segment_fixed_size: 0
        .sgpr_spill_count: 0
        .vgpr_count:     3
        .vgpr_spill_count: 0

Source: LLVM's AMDGPU usage guide ("Code Object V5 metadata"); checked against LLVM 22 for gfx942 and gfx1100.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEYS: Mapping[str, str] = {
    "vgpr_count": "registers",
    "agpr_count": "agprs",
    "sgpr_count": "sgprs",
    "group_segment_fixed_size": "shared",
    "private_segment_fixed_size": "stack",
}
_SPILLS = ("vgpr_spill_count", "sgpr_spill_count")
_PAIR = re.compile(r"^\s*(?:- )?\.(\w+):\s+(\d+)\s*$", re.MULTILINE)
_WAVES = re.compile(r"^\s*; Occupancy:? \[?(?:waves/SIMD\])?:?\s*(\d+)", re.MULTILINE)
_METADATA = "amdhsa.kernels:"
_MAX_WAVES: tuple[tuple[str, int], ...] = (("gfx90a", 8), ("gfx94", 8), ("gfx95", 8), ("gfx9", 10), ("gfx10", 20))
_MAX_WAVES_NEW = 16
"""Of gfx10.3, gfx11, gfx12; source: LLVM's `AMDGPUBaseInfo.cpp`, getMaxWavesPerEU."""


def resources(assembly: str) -> dict[str, int]:
    """The numbers of a module with one kernel, the largest where it has several; empty without metadata.

    registers: VGPRs of a lane; spills: registers spilled; shared: bytes of LDS; stack: bytes of scratch;
    waves: resident on a SIMD, by the compiler's own estimate.
    """
    _, found, metadata = assembly.rpartition(_METADATA)
    if not found:
        return {}
    values: dict[str, int] = {}
    spills: dict[str, int] = {}
    for name, number in _PAIR.findall(metadata):
        if name in _KEYS:
            values[_KEYS[name]] = max(int(number), values.get(_KEYS[name], 0))
        elif name in _SPILLS:
            spills[name] = max(int(number), spills.get(name, 0))
    values["spills"] = sum(spills.values())
    waves = [int(number) for number in _WAVES.findall(assembly)]
    return values | ({"waves": min(waves)} if waves else {})


def max_waves(cpu: str) -> int:
    """Waves that a SIMD can hold at most."""
    if cpu.startswith("gfx103"):
        return _MAX_WAVES_NEW
    return next((waves for name, waves in _MAX_WAVES if cpu.startswith(name)), _MAX_WAVES_NEW)
