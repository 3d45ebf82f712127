"""Whether code that was compiled for a CPU can run on this one: by the instruction sets that Linux lists.

A program that loads a winner made for a larger CPU dies of an illegal instruction at some later moment, so what
cannot be told to fit is not chosen by itself. Source of the levels: the x86-64 psABI, section 3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_SETS = re.compile(
    r"sse\w*|ssse3|pni|avx\w*|fma4?|f16c|bmi[12]|adx|aes|sha\w*|\w*aes|v?pclmulqdq|gfni|popcnt|movbe|abm|xop|amx_\w+|cx16"
    r"|lahf_lm|xsave|asimd\w*|sve\w*|sme\w*|fp|fphp|atomics|crc32|bf16|i8mm|dcpodp|lrcpc"
)
_V2 = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS: Mapping[str, tuple[str, ...]] = {
    "generic": (),
    "x86-64": (),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
}
"""CPUs by name -> what they are sure to need; no other name says that here."""


def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Those of this machine; empty where the system does not say them."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    listed = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(name for name in (listed[1].split() if listed else ()) if _SETS.fullmatch(name))
