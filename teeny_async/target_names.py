"""CPU names by architecture: what a bare name such as `znver4` is taken to mean.

Source: LLVM 22.1.8, the list that `zig clang -target TRIPLE -Xclang -target-cpu -Xclang ?` prints
(ziglang 0.17.1, 2026-12-02). A compiler may know more or fewer: each driver checks a name against
its own compiler's list as well, and `cpu@triple` reaches a name that is missing here.
"""

from __future__ import annotations

X86_64: frozenset[str] = frozenset(
    """
    alderlake amdfam10 arrowlake arrowlake-s athlon-fx athlon64 athlon64-sse3 atom barcelona bdver1
    bdver2 bdver3 bdver4 bonnell broadwell btver1 btver2 cannonlake cascadelake clearwaterforest
    cooperlake core-avx-i core-avx2 core2 corei7 corei7-avx diamondrapids emeraldrapids goldmont
    goldmont-plus gracemont grandridge graniterapids graniterapids-d haswell icelake-client
    icelake-server ivybridge k8 k8-sse3 knl knm lunarlake meteorlake nehalem nocona novalake opteron
    opteron-sse3 pantherlake penryn raptorlake rocketlake sandybridge sapphirerapids sierraforest
    silvermont skx skylake skylake-avx512 slm tigerlake tremont westmere wildcatlake x86-64
    x86-64-v2 x86-64-v3 x86-64-v4 znver1 znver2 znver3 znver4 znver5
    """.split()
)

AARCH64: frozenset[str] = frozenset(
    """
    a64fx ampere1 ampere1a ampere1b ampere1c apple-a10 apple-a11 apple-a12 apple-a13 apple-a14
    apple-a15 apple-a16 apple-a17 apple-a18 apple-a19 apple-a7 apple-a8 apple-a9 apple-m1 apple-m2
    apple-m3 apple-m4 apple-m5 apple-s10 apple-s4 apple-s5 apple-s6 apple-s7 apple-s8 apple-s9
    c1-nano c1-premium c1-pro c1-ultra carmel cobalt-100 cortex-a320 cortex-a34 cortex-a35
    cortex-a510 cortex-a520 cortex-a520ae cortex-a53 cortex-a55 cortex-a57 cortex-a65 cortex-a65ae
    cortex-a710 cortex-a715 cortex-a72 cortex-a720 cortex-a720ae cortex-a725 cortex-a73 cortex-a75
    cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae cortex-a78c cortex-r82 cortex-r82ae
    cortex-x1 cortex-x1c cortex-x2 cortex-x3 cortex-x4 cortex-x925 cyclone exynos-m3 exynos-m4
    exynos-m5 falkor fujitsu-monaka gb10 grace kryo neoverse-512tvb neoverse-e1 neoverse-n1
    neoverse-n2 neoverse-n3 neoverse-v1 neoverse-v2 neoverse-v3 neoverse-v3ae olympus oryon-1
    saphira thunderx thunderx2t99 thunderx3t110 thunderxt81 thunderxt83 thunderxt88 tsv110
    """.split()
)

RISCV64: frozenset[str] = frozenset(
    """
    andes-ax25 andes-ax45 andes-ax45mpv andes-nx45 generic-rv64 mips-p8700 rocket-rv64 sifive-p450
    sifive-p470 sifive-p550 sifive-p670 sifive-p870 sifive-s21 sifive-s51 sifive-s54 sifive-s76
    sifive-u54 sifive-u74 sifive-x280 sifive-x390 spacemit-x60 syntacore-scr3-rv64
    syntacore-scr4-rv64 syntacore-scr5-rv64 syntacore-scr7 tt-ascalon-d8 veyron-v1
    xiangshan-kunminghu xiangshan-nanhu
    """.split()
)

AMDGCN: frozenset[str] = frozenset(
    """
    gfx10-1-generic gfx10-3-generic gfx1010 gfx1011 gfx1012 gfx1013 gfx1030 gfx1031 gfx1032 gfx1033
    gfx1034 gfx1035 gfx1036 gfx11-generic gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152
    gfx1153 gfx12-generic gfx1200 gfx1201 gfx1250 gfx1251 gfx9-4-generic gfx9-generic gfx900 gfx902
    gfx904 gfx906 gfx908 gfx909 gfx90a gfx90c gfx942 gfx950
    """.split()
)

PTX_MINIMUM: dict[str, int] = {
    "sm_75": 63,
    "sm_80": 70,
    "sm_86": 71,
    "sm_87": 74,
    "sm_88": 90,
    "sm_89": 78,
    "sm_90": 78,
    "sm_90a": 80,
    "sm_100": 86,
    "sm_100a": 86,
    "sm_100f": 88,
    "sm_101": 86,
    "sm_101a": 86,
    "sm_101f": 88,
    "sm_103": 88,
    "sm_103a": 88,
    "sm_103f": 88,
    "sm_110": 90,
    "sm_110a": 90,
    "sm_110f": 90,
    "sm_120": 87,
    "sm_120a": 87,
    "sm_120f": 88,
    "sm_121": 88,
    "sm_121a": 88,
    "sm_121f": 88,
}
"""Lowest PTX version (major * 10 + minor) that can name a target; measured with LLVM 22.1.8, where a
lower one ends in "PTX version X does not support target", and equal to the PTX ISA 9.0 release notes."""

PTX_VERSIONS: tuple[int, ...] = (
    *(32, 40, 41, 42, 43, 50, 60, 61, 62, 63, 64, 65),
    *(70, 71, 72, 73, 74, 75, 76, 77, 78),
    *(80, 81, 82, 83, 84, 85, 86, 87, 88, 90),
)
"""Every PTX ISA version that exists up to 9.0; LLVM ignores an unknown one without an error."""
