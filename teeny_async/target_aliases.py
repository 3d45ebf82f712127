"""Names that people use for processors, and the compilers' own for them.

Sources (2026-12-02): NVIDIA's table of CUDA GPU compute capabilities (developer.nvidia.com/cuda-gpus), LLVM's table of
AMDGPU processors (llvm.org/docs/AMDGPUUsage.html) and ROCm's of GPU hardware, and the vendors' product pages for CPUs.
An alias is never a name that a compiler has itself: `grace` and `gb10` are LLVM's names of two Arm CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping

_BY_TARGET: Mapping[str, str] = {
    "sm_70": "v100",
    "sm_75": "t4 rtx2080 rtx2080ti",
    "sm_80": "a100 a30",
    "sm_86": "a10 a10g a16 a2 a40 a4000 a5000 a6000 rtx3060 rtx3070 rtx3080 rtx3090",
    "sm_87": "orin",
    "sm_89": "l4 l40 l40s rtx4060 rtx4070 rtx4080 rtx4090",
    "sm_90": "h100 h200 h800 h20 gh200",
    "sm_100": "b100 b200 gb200",
    "sm_103": "b300 gb300",
    "sm_110": "thor",
    "sm_120": "rtx5060 rtx5070 rtx5080 rtx5090 rtxpro6000",
    "sm_121": "dgx-spark",
    "gfx906": "mi50 mi60",
    "gfx908": "mi100",
    "gfx90a": "mi210 mi250 mi250x",
    "gfx942": "mi300a mi300x mi325x",
    "gfx950": "mi350x mi355x",
    "gfx1030": "rx6800 rx6900xt",
    "gfx1100": "rx7900xt rx7900xtx w7900",
    "gfx1101": "rx7800xt",
    "gfx1151": "strix-halo",
    "gfx1200": "rx9060xt",
    "gfx1201": "rx9070 rx9070xt",
    "znver1": "zen1 naples",
    "znver2": "zen2 rome",
    "znver3": "zen3 milan",
    "znver4": "zen4 genoa bergamo",
    "znver5": "zen5 turin",
    "icelake-server": "icelake-sp",
    "sapphirerapids": "spr",
    "emeraldrapids": "emr",
    "graniterapids": "gnr",
    "neoverse-n1": "graviton2 altra",
    "neoverse-v1": "graviton3",
    "neoverse-v2": "graviton4 axion",
}
ALIASES: Mapping[str, str] = {alias: target for target, names in _BY_TARGET.items() for alias in names.split()}
"""Alias, in small letters -> the compilers' name."""
