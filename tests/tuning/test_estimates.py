"""Numbers without hardware: occupancy, AMD's metadata, llvm-mca's loops, and what is read off an artifact."""

from __future__ import annotations

import pytest

from teeny_async import Artifact, CompileRequest, CompileResult, Kernel, RequestError, Target
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.target_names import PTX_MINIMUM
from teeny_async.testing import FakeHost, FakeRunner
from teeny_async.toolchains.base import ToolNotFound
from teeny_async.tuning import amd, mca
from teeny_async.tuning.expressions import constraint, evaluate, names_in
from teeny_async.tuning.facts import facts, launch_bound
from teeny_async.tuning.objectives import OBJECTIVES, objective_named
from teeny_async.tuning.occupancy import TABLE, best_block, multiprocessor, occupancy

KERNEL = Kernel(name="k", source="", language="c")

AMD_ASM = """
; NumSgprs: 42
; Occupancy: 4
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .offset:         0
        .size:           8
    .group_segment_fixed_size: 8192
    .name:           matmul
    .private_segment_fixed_size: 16
    .sgpr_count:     42
    .sgpr_spill_count: 1
    .vgpr_count:     96
    .vgpr_spill_count: 3
...
"""
X86_ASM = """
k:
\tjmp\t.LBB0_1
.LBB0_1:                                # =>This Loop Header: Depth=1
\txorl\t%eax, %eax
\t.p2align\t4
.LBB0_2:                                #   Parent Loop BB0_1 Depth=1
\tvmovups\t(%rdi,%rax), %ymm0
\tvfmadd231ps\t(%rsi,%rax), %ymm0, %ymm1  # ymm1 = ...
\tvaddsd\t%xmm1, %xmm2, %xmm2
\taddq\t$32, %rax
\tjne\t.LBB0_2
# %bb.3:
\tdecl\t%ecx
\tjne\t.LBB0_1
\tretq
"""


def result(outputs: dict[str, bytes], metrics: dict[str, int] | None = None) -> CompileResult:
    artifact = Artifact(outputs=FrozenMap(outputs), metrics=FrozenMap(metrics or {}))
    return CompileResult(request=CompileRequest(KERNEL), key=None, outcome=artifact, source="cached")


@pytest.mark.parametrize(
    ("cpu", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("sm_80", 256, 32, 0, 8, "warps"),
        ("sm_80", 256, 64, 0, 4, "registers"),
        ("sm_80", 32, 16, 0, 32, "blocks"),
        ("sm_80", 128, 32, 48 << 10, 3, "shared"),  # 49 KiB each with what the system keeps, of 164
        ("sm_86", 256, 40, 0, 6, "warps"),
        ("sm_89", 64, 32, 0, 24, "warps"),
        ("sm_75", 1024, 64, 0, 1, "warps"),
        ("sm_90", 1024, 65, 0, 0, "registers"),  # 72 registers after rounding: a block does not fit
        ("sm_90", 128, 32, 227 << 10, 1, "shared"),
        ("sm_90a", 128, 32, 228 << 10, 0, "shared"),
        ("sm_90", 2048, 32, 0, 0, "warps"),
        ("sm_120", 96, 168, 0, 4, "registers"),  # 5376 registers a warp, 12 warps in all, three at a time
    ],
)
def test_occupancy(cpu: str, threads: int, registers: int, shared: int, blocks: int, limit: str) -> None:
    sm = multiprocessor(cpu)
    assert sm is not None
    found = occupancy(sm, threads=threads, registers=registers, shared=shared)
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.share == blocks * -(-threads // 32) / sm.warps


def test_every_sm_that_can_be_a_target_from_turing_on_is_in_the_table() -> None:
    known = {cpu.rstrip("af") for cpu in PTX_MINIMUM}
    assert {cpu for cpu in known if int(cpu[3:]) >= 75} <= set(TABLE)
    assert multiprocessor("sm_35") is None


def test_the_best_block_is_the_smallest_that_reaches_the_most() -> None:
    sm = multiprocessor("sm_90")
    assert sm is not None
    assert best_block(sm, registers=32, shared=0)[0] == 64
    assert best_block(sm, registers=32, shared=0)[1].share == 1.0


def test_facts_of_a_cubin() -> None:
    metrics = {"registers": 64, "spill_stores": 8, "spill_loads": 4, "shared": 2048, "stack": 0}
    ptx = b".visible .entry k()\n.maxntid 16, 16\n{"
    found = facts(result({"cubin": b"1234", "ptx": ptx}, metrics), Target.parse("sm_80"))
    assert found["spills"] == 12
    assert found["size"] == 4
    assert (found["threads"], found["occupancy"]) == (256, 0.5)
    assert facts(result({"cubin": b""}, metrics), Target.parse("sm_80"), threads=100)["threads"] == 128
    assert "compile_time" not in found


def test_launch_bounds() -> None:
    assert launch_bound(b"\n.maxntid 64\n") == 64
    assert launch_bound(b"\n\t.reqntid 8, 4, 2\n") == 64
    assert launch_bound(b".entry k") is None


def test_facts_of_amd_assembly() -> None:
    found = facts(result({"asm": AMD_ASM.encode()}), Target.parse("gfx942"))
    assert found == {
        "size": len(AMD_ASM),
        "agprs": 0,
        "shared": 8192,
        "stack": 16,
        "sgprs": 42,
        "registers": 96,
        "spills": 4,
        "occupancy": 0.5,
    }
    assert amd.resources("s_endpgm") == {}


def test_the_hottest_loop_of_x86_assembly() -> None:
    [loop] = list(mca.loops(X86_ASM))
    assert [line.split()[0] for line in loop.lines] == ["vmovups", "vfmadd231ps", "vaddsd", "addq", "jne"]
    assert loop.flops == 16 + 1
    assert mca.hottest("k:\n\tretq\n") is None


@pytest.mark.parametrize(
    ("line", "flops"),
    [
        ("\tvfmadd213pd\t%zmm1, %zmm2, %zmm3", 16),
        ("\tmulss\t%xmm0, %xmm1", 1),
        ("\tfmla\tv0.4s, v1.4s, v2.s[0]", 8),
        ("\tfmadd\ts0, s1, s2, s3", 2),
        ("\tfadd\tv0.2d, v1.2d, v2.2d", 2),
        ("\tfmla\tz0.s, p0/m, z1.s, z2.s", 8),
        ("\taddq\t$1, %rax", 0),
        ("\tvaddps_is_no_instruction", 0),
    ],
)
def test_floating_point_operations(line: str, flops: int) -> None:
    assert mca.flops(line) == flops


@pytest.mark.anyio
async def test_mca_says_what_it_does_not_know() -> None:
    version = Exit(code=0, stdout=b"Debian LLVM version 14.0.6\n")
    host = FakeHost(programs={"llvm-mca": "/mca"}, answers={("/mca", "--version"): version})
    listed = b"  znver3  - Select the znver3 processor.\n"
    summary = b"Iterations:        100\nTotal Cycles:      1700\n"
    runner = FakeRunner(lambda action: Exit(code=0, stdout=listed if "-mcpu=help" in action.argv else summary))
    tool = mca.Mca(await mca.McaFinder().find(host), runner)
    assert tool.version == "llvm-mca 14.0.6"
    assert "llvm-mca 14.0.6" in tool.caution
    assert "cannot rank configurations within 3% of each other" in tool.caution
    assert await tool.refusal(Target.parse("znver3")) is None
    assert await tool.refusal(Target.parse("znver5")) == "llvm-mca 14.0.6 does not know znver5; a newer LLVM may"
    assert await tool.cycles(X86_ASM, Target.parse("znver3")) == 1.0
    assert await tool.cycles("k:\n\tretq\n", Target.parse("znver3")) is None
    with pytest.raises(ToolNotFound):
        await mca.McaFinder().find(FakeHost())


def test_objectives_by_name() -> None:
    assert [name for name, objective in OBJECTIVES.items() if objective.estimate] == [
        "registers",
        "spills",
        "shared",
        "occupancy",
        "mca",
    ]
    occupied = objective_named("occupancy")
    assert occupied.label == "occupancy (estimate)"
    assert occupied.score(0.5) > occupied.score(1.0)
    assert occupied.applies(Target.parse("gfx942"))
    assert not occupied.applies(Target.parse("znver4"))
    assert objective_named("mca").ties(1.0, 1.03)
    assert not objective_named("mca").ties(1.0, 1.04)
    with pytest.raises(RequestError, match="occupancy"):
        objective_named("ocupancy")


def test_expressions_are_arithmetic_and_nothing_else() -> None:
    names = {"TILE": 32, "ROWS": 4, "n": 100}
    assert evaluate("TILE * TILE // ROWS", names) == 256
    assert evaluate("ceil(n / TILE), 1", names) == (4, 1)
    assert evaluate("1 if TILE % ROWS == 0 and not n < 1 else 0", names) == 1
    assert evaluate("TILE in (16, 32)", names) is True
    assert names_in("ceil(n / TILE)") == {"n", "TILE"}
    assert constraint("TILE % ROWS == 0")({"TILE": 8, "ROWS": 4})
    for text in ("__import__('os')", "n.real", "[x for x in n]", "lambda: 1", "n[0]", "open('x')", "f'{n}'", "1 +"):
        with pytest.raises(RequestError):
            evaluate(text, names)
    with pytest.raises(RequestError, match="there is no X"):
        evaluate("X", names)
    with pytest.raises(RequestError, match="zero"):
        evaluate("1 / 0", names)
