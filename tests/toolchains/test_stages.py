"""What a second stage makes of the first one's output: code objects for AMD, libraries that load and compute."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from teeny_async import CompileRequest, CompileResult, FailureKind, Kernel, Target, compile_many_sync
from teeny_async.settings import Settings
from teeny_async.toolchains import amd_info
from tests.support import KERNELS

pytestmark = pytest.mark.usefixtures("no_leftovers")

ADD_C, ADD_ZIG = (
    Kernel.from_file(KERNELS / name, entry_point="vector_add") for name in ("vector_add.c", "vector_add.zig")
)
SCALE_HIP = Kernel(
    name="scale",
    language="hip",
    entry_point="scale",
    source='extern "C" __attribute__((global)) void scale(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= 2; }',
)


def request(kernel: Kernel, target: str, **options: Any) -> CompileRequest:
    return CompileRequest(kernel, Target.parse(target), **options)


def rust(convention: str) -> Kernel:
    """vector_add without loops, for the first element."""
    head = "#![feature(no_core, lang_items, abi_gpu_kernel)]\n#![allow(internal_features)]\n#![no_core]\n"
    items = """
#[lang = "pointee_sized"] pub trait PointeeSized {}
#[lang = "meta_sized"] pub trait MetaSized: PointeeSized {}
#[lang = "sized"] pub trait Sized: MetaSized {}
#[lang = "copy"] pub trait Copy {}
impl Copy for f32 {}
"""
    kernel = (
        f'#[no_mangle] pub unsafe extern "{convention}" fn vector_add(a: *const f32, out: *mut f32) {{ *out = *a; }}'
    )
    return Kernel(name="rust", language="rust", source=f"{head}{items}{kernel}\n", entry_point="vector_add")


def compiled(requests: list[CompileRequest], settings: Settings) -> list[CompileResult]:
    results = compile_many_sync(requests, settings=settings, jobs=2)
    assert [result.failure for result in results if not result.ok] == []
    assert [str(diagnostic) for result in results for diagnostic in result.artifact.diagnostics] == []
    return results


def check_sum(library: Path) -> None:
    """It loads, and gives right numbers."""
    floats = ctypes.c_float * 1000
    a, b, out = floats(*range(1000)), floats(*range(1000)), floats()
    ctypes.CDLL(str(library)).vector_add(a, b, out, ctypes.c_int(1000))
    assert list(out) == [2.0 * i for i in range(1000)]


SHARED = [(ADD_C, "zig"), (ADD_ZIG, "zig")]


def test_a_shared_library_loads_and_computes(settings: Settings, tmp_path: Path) -> None:
    requests = [request(kernel, "native", toolchain=tool, emit="shared") for kernel, tool in SHARED]
    for number, result in enumerate(compiled(requests, settings)):
        library = tmp_path / f"{number}.so"
        library.write_bytes(result.outputs["shared"])
        check_sum(library)


def test_code_objects_for_amd(settings: Settings) -> None:
    targets = ("gfx90a", "gfx942", "gfx1100")
    requests = [request(kernel, target, emit="hsaco") for kernel in (ADD_C, SCALE_HIP) for target in targets]
    requests.append(request(ADD_ZIG, "gfx942", emit="hsaco"))
    for result in compiled(requests, settings):
        assert set(result.outputs) == {"object", "hsaco"}
        assert str(result.request.target).encode() in result.outputs["hsaco"]
        assert result.artifact.metrics["registers"]
        assert ("waves" in result.artifact.metrics) == (result.request.kernel is not ADD_ZIG)


SPILLING = """
extern "C" __attribute__((global, amdgpu_num_vgpr(24))) void k(float *x, int n) {
    __attribute__((shared)) static float shared[500];
    shared[n] = x[0];
    __builtin_amdgcn_s_barrier();
    float held[64];
#pragma unroll
    for (int i = 0; i < 64; i++) held[i] = x[i * n + __builtin_amdgcn_workitem_id_x()] + shared[i];
    __builtin_amdgcn_s_barrier();
#pragma unroll
    for (int i = 0; i < 64; i++) x[i * 5] = held[i] * held[63 - i];
}
extern "C" __attribute__((global)) void two(float *x) { x[0] = 1; }
"""


def test_both_ways_of_counting_agree(settings: Settings) -> None:
    """What clang says, and what is in its assembly and its object."""
    spilling = Kernel(name="k", language="hip", source=SPILLING)
    for emit in ("asm", "object"):
        [result] = compiled([request(spilling, "gfx1100", emit=emit)], settings)
        said = dict(result.artifact.metrics)
        assert said.pop("waves")
        assert said["spills"]
        assert said["shared"] == 2000
        counted = dict(amd_info.of_output(result.outputs[emit]))
        assert {**said, "agprs": 0} == {"agprs": 0, **counted}


def test_rust_is_linked_too(settings: Settings, tmp_path: Path) -> None:
    requests = [
        request(rust("gpu-kernel"), "mi300x", toolchain="rustc", emit="hsaco"),
        request(rust("C"), "native", toolchain="rustc", emit="shared"),
    ]
    code, shared = compiled(requests, settings)
    assert b"gfx942" in code.outputs["hsaco"]
    assert code.artifact.metrics["registers"]
    library = tmp_path / "k.so"
    library.write_bytes(shared.outputs["shared"])
    first, out = ctypes.c_float(7.0), ctypes.c_float()
    ctypes.CDLL(str(library)).vector_add(ctypes.byref(first), ctypes.byref(out))
    assert out.value == 7.0


def test_what_a_gpu_cannot_look_up_does_not_link(settings: Settings) -> None:
    source = "void gone(float *); __attribute__((amdgpu_kernel)) void k(float *x) { gone(x); }"
    kernel = Kernel(name="k", language="c", source=source)
    [result] = compile_many_sync([request(kernel, "gfx942", emit="hsaco")], settings=settings)
    assert result.failure
    assert result.failure.kind is FailureKind.DIAGNOSTIC
    assert "gone" in result.failure.message


def test_zig_for_everything(settings: Settings) -> None:
    cases = {"sm_75": "cubin", "sm_90+ptx87": "cubin", "x86-64-v3": "asm", "neoverse-v2": "shared"}
    requests = [request(ADD_ZIG, target, emit=emit, params={"BLOCK": 64}) for target, emit in cases.items()]
    results = compiled(requests, settings)
    assert b".version 8.7\n.target sm_90" in results[1].outputs["ptx"]
    assert all(result.artifact.metrics["registers"] for result in results[:2])
    assert b"vaddss" in results[2].outputs["asm"]
    again = compile_many_sync(requests, settings=settings)
    assert [result.source for result in again] == ["cached"] * len(results)


def test_zig_that_reads_a_file_is_compiled_and_not_kept(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "n.zig").write_text("pub const n: u32 = 7;\n")
    (tmp_path / "k.zig").write_text('const n = @import("n.zig").n;\nexport fn k() u32 {\n    return n;\n}\n')
    kernel = Kernel.from_file(tmp_path / "k.zig")
    for _ in range(2):
        [result] = compile_many_sync([request(kernel, "x86-64")], settings=settings)
        assert (result.source, result.ok) == ("compiled", True)
        assert "@import" in (result.uncached or "")


def test_zigs_errors_are_diagnostics(settings: Settings) -> None:
    kernel = Kernel(name="k", language="zig", source="export fn k() u32 {\n    return nothing;\n}\n")
    [result] = compile_many_sync([request(kernel, "x86-64")], settings=settings)
    assert result.failure
    assert result.failure.kind is FailureKind.DIAGNOSTIC
    assert str(result.failure.diagnostics[0]) == "kernel.zig:2:12: error: use of undeclared identifier 'nothing'"
