"""zig, nvcc and rustc themselves: what a session makes of them."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeny_async import Compiler, CompileRequest, FailureKind, Kernel, RequestError, RetryPolicy, Target
from teeny_async.events import Event, Queued, Started
from teeny_async.settings import Settings
from teeny_async.target import host_triple
from teeny_async.toolchains import outputs
from teeny_async.toolchains.registry import DRIVERS
from tests.standins import Teenyc
from tests.support import KERNELS, changed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leftovers")]

SAXPY_C = Kernel.from_file(KERNELS / "saxpy.c")
ADD_CU = Kernel.from_file(KERNELS / "vector_add.cu")
SAXPY_RS = Kernel.from_file(KERNELS / "saxpy.rs")
CPU_RS = Kernel(
    name="same",
    language="rust",
    source="""\
#![feature(no_core, lang_items)]
#![allow(internal_features)]
#![no_core]
#[lang = "pointee_sized"] pub trait PointeeSized {}
#[lang = "meta_sized"] pub trait MetaSized: PointeeSized {}
#[lang = "sized"] pub trait Sized: MetaSized {}
#[lang = "copy"] pub trait Copy {}
impl Copy for f32 {}
#[no_mangle] pub extern "C" fn same(a: f32) -> f32 { a }
""",
)
SCALE_HIP = Kernel(
    name="scale",
    language="hip",
    source='extern "C" __attribute__((global)) void scale(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= 2; }',
)


def session(settings: Settings, **options: Any) -> Compiler:
    return Compiler(**{"settings": settings, "jobs": 2, "retry": RetryPolicy(initial=0, jitter=0), **options})


def request(kernel: Kernel, target: str | None = None, **options: Any) -> CompileRequest:
    return CompileRequest(kernel, None if target is None else Target.parse(target), **options)


def ptx_version(ptx: bytes) -> int:
    found = re.search(rb"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    assert found
    return int(found[1]) * 10 + int(found[2])


# -- zig ----------------------------------------------------------------------------------------


async def test_the_ptx_version_is_written_as_asked(settings: Settings) -> None:
    cases = [
        (kernel, f"{cpu}+ptx{version}", version)
        for kernel in (SAXPY_C, ADD_CU)
        for cpu, version in (("sm_75", 63), ("sm_80", 75), ("sm_90", 86), ("sm_120", 87), ("sm_90", 90))
    ] + [(SAXPY_C, "sm_90", 88), (ADD_CU, "sm_110", 90)]
    async with session(settings) as compiler:
        results = await compiler.compile_many([request(kernel, target, toolchain="zig") for kernel, target, _ in cases])
    assert [ptx_version(result.outputs["ptx"]) for result in results] == [version for *_, version in cases]


async def test_zigs_output_does_not_depend_on_an_installed_cuda(settings: Settings, tmp_path: Path) -> None:
    cuda = fake_cuda(tmp_path / "cuda", version=122)
    kinds = [request(SAXPY_C, "sm_90"), request(ADD_CU, "sm_90", toolchain="zig")]
    found = []
    variables: dict[str, str | os.PathLike[str]] = {
        "CUDA_PATH": cuda,
        "CUDA_HOME": cuda,
        "PATH": f"{cuda}/bin:{settings.environ['PATH']}",
    }
    for environment in (settings, changed(settings, variables)):
        async with session(environment, mode="no_cache") as compiler:
            results = await compiler.compile_many(kinds)
        found.append([(result.key, result.artifact.digest) for result in results])
    assert found[0] == found[1]


def fake_cuda(folder: Path, version: int) -> Path:
    """What clang takes for a CUDA installation, of another version than the one that may be here."""
    for name in ("bin", "include", "lib64", "nvvm/libdevice"):
        (folder / name).mkdir(parents=True)
    (folder / "include" / "cuda.h").write_text(f"#define CUDA_VERSION {version}00\n")
    (folder / "version.json").write_text(f'{{"cuda": {{"version": "{version // 10}.{version % 10}.0"}}}}')
    for program in ("ptxas", "fatbinary"):
        (folder / "bin" / program).write_text("#!/bin/sh\nexit 9\n")
        (folder / "bin" / program).chmod(0o755)
    return folder


async def test_hip(settings: Settings) -> None:
    async with session(settings) as compiler:
        for target in ("gfx90a", "gfx942", "gfx1100"):
            artifact = await compiler.compile(request(SCALE_HIP, target))
            assert f"amdgcn-amd-amdhsa--{target}".encode() in artifact["asm"]


async def test_assembly_and_levels(settings: Settings) -> None:
    requests = [request(SAXPY_C, "znver4", emit="asm", opt_level=level, params={"BLOCK": 64}) for level in (0, 3, "s")]
    async with session(settings) as compiler:
        results = await compiler.compile_many(requests)
    texts = [result.outputs["asm"] for result in results]
    assert all(b"saxpy:" in text for text in texts)
    assert len(set(texts)) == 3


async def test_params_change_the_output(settings: Settings) -> None:
    requests = [request(SAXPY_C, "sm_90", params={"UNROLL": unroll}) for unroll in (1, 2, 4, 2)]
    async with session(settings) as compiler:
        results = await compiler.compile_many(requests)
    assert len({result.outputs["ptx"] for result in results}) == 3
    assert [result.source for result in results] == ["compiled"] * 3 + ["coalesced"]


async def test_a_source_with_an_include_is_compiled(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text('#include "body.h"\n#include <stddef.h>\nsize_t n(void) { return BODY; }\n')
    (tmp_path / "body.h").write_text("#define BODY 1\n")
    async with session(settings) as compiler:
        first = await compiler.compile(request(Kernel.from_file(tmp_path / "k.c"), "znver4"))
        (tmp_path / "body.h").write_text("#define BODY 2\n")
        second = await compiler.compile(request(Kernel.from_file(tmp_path / "k.c"), "znver4"))
    assert first["object"] != second["object"]


# -- nvcc ---------------------------------------------------------------------------------------


async def test_nvcc_writes_ptx_and_cubin(settings: Settings) -> None:
    async with session(settings) as compiler:
        ptx, cubin = await compiler.compile_many(
            [request(ADD_CU, "sm_90", toolchain="nvcc", emit=emit) for emit in ("ptx", "cubin")]
        )
    assert re.search(rb"\.target sm_90\b", ptx.outputs["ptx"])
    assert set(cubin.outputs) == {"ptx", "cubin"}
    assert cubin.artifact.metrics["registers"]
    assert not ptx.artifact.metrics


@pytest.mark.parametrize("flags", ["", "-Xptxas -O1,-dlcm=cg -maxrregcount=32"])
async def test_the_two_stages_of_nvcc_write_what_it_writes_by_itself(settings: Settings, flags: str) -> None:
    asked = request(ADD_CU, "sm_90a", toolchain="nvcc", emit="cubin", flags=tuple(flags.split()))
    by_itself = replace(asked, flags=(*asked.flags, "-fmad=true"))  # which is so anyway, but not known to us
    async with session(settings) as compiler:
        assert [len((await compiler.plan(one)).stages) for one in (asked, by_itself)] == [2, 1]
        two, one = await compiler.compile_many([asked, by_itself])
    assert two.outputs["cubin"] == one.outputs["cubin"]
    assert two.artifact.metrics == one.artifact.metrics


async def test_what_only_ptxas_is_told_needs_nvcc_once(settings: Settings) -> None:
    asked = request(ADD_CU, "sm_90", toolchain="nvcc", emit="cubin")
    async with session(settings) as compiler:
        for level in range(4):
            assert (await compiler.compile_result(replace(asked, flags=("-Xptxas", f"-O{level}")))).ok
    assert (compiler.stats.runs, compiler.stats.reused) == (5, 3), "one nvcc, four ptxas"


async def test_nvcc_writes_fat_binaries(settings: Settings) -> None:
    async with session(settings) as compiler:
        one, several = await compiler.compile_many(
            [
                request(replace(ADD_CU, entry_point="vector_add"), "sm_80", toolchain="nvcc", emit="fatbin"),
                request(replace(ADD_CU, entry_point="vector_add"), "sm_80+sm_90a+compute_90", toolchain="nvcc"),
            ]
        )
        assert set(one.outputs) == set(several.outputs) == {"fatbin"}
        assert outputs.fatbin(one.outputs["fatbin"], cpus=["sm_90a"]) == "the fat binary has nothing for sm_90a"
        assert outputs.fatbin(several.outputs["fatbin"], cpus=["sm_80", "sm_90a", "compute_90"]) is None
        assert several.artifact.metrics["registers"]
        for target, message in {
            "sm_80+sm_91": "unknown target CPU 'sm_91' for nvcc",
            "sm_80+compute_30": "unknown target CPU 'compute_30' for nvcc",
        }.items():
            with pytest.raises(RequestError, match=message):
                await compiler.compile(request(ADD_CU, target, toolchain="nvcc"))
        with pytest.raises(RequestError, match="zig compiles for one processor at a time, not for sm_80"):
            await compiler.compile(request(SAXPY_C, "sm_80+sm_90"))


@pytest.mark.parametrize("place", ["PATH", "CUDA_HOME", "wheel"])
async def test_where_nvcc_is_found(
    settings: Settings, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each place has one, of which the first that may be used is."""
    monkeypatch.setattr("teeny_async.toolchains.nvcc_find._CUDA", str(tmp_path / "gone"))
    monkeypatch.setattr("sys.path", [str(tmp_path / "wheel"), *sys.path])
    for name in ("PATH", "CUDA_HOME", "wheel/nvidia/cu13"):
        program = tmp_path / name / "bin" / "nvcc"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\ncase "$1" in -M) echo "x : /dev/null" ;; *) echo "release 1, V1" ;; esac\n')
        program.chmod(0o755)
    variables = {"PATH": f"{tmp_path}/PATH/bin" if place == "PATH" else str(tmp_path)}
    if place != "wheel":
        variables["CUDA_HOME"] = str(tmp_path / "CUDA_HOME")
    async with session(changed(settings, variables)) as compiler:
        found = await compiler.toolchain(DRIVERS["nvcc"])
    assert found.path.startswith(str(tmp_path / place))


async def test_flags_of_nvccs_environment_are_in_the_key(settings: Settings) -> None:
    keys = []
    for flags in ("", "-lineinfo", "-DN=1"):
        async with session(changed(settings, {"NVCC_APPEND_FLAGS": flags})) as compiler:
            plan = await compiler.plan(request(ADD_CU, "sm_90", toolchain="nvcc"))
            keys.append(plan.booking.key)
    assert len(set(keys)) == 3
    assert keys[1].explain()["env.NVCC_APPEND_FLAGS"] == "-lineinfo"


async def test_nvccs_headers_are_in_its_fingerprint(settings: Settings, tmp_path: Path) -> None:
    """One of those that it puts in front of every source: the same nvcc over another one is another compiler."""
    async with session(settings) as compiler:
        known = await compiler.toolchain(DRIVERS["nvcc"])
    toolkit = Path(known.path).parent.parent
    private = tmp_path / "cuda"
    (private / "bin").mkdir(parents=True)
    for item in (toolkit / "bin").iterdir():
        (private / "bin" / item.name).symlink_to(item)
    found = set()
    for header in ("", "// changed\n"):
        folder = private / "targets" / "x86_64-linux" / "include"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cuda_runtime.h").write_text(header)
        script = private / "bin" / "nvcc"
        script.unlink()
        script.write_text(
            f'#!/bin/sh\ncase "$1" in -M) echo "x : {folder}/cuda_runtime.h" ;; *) exec {known.path} "$@" ;; esac\n'
        )
        script.chmod(0o755)
        path = f"{private / 'bin'}:{settings.environ['PATH']}"
        async with session(changed(settings, {"PATH": path})) as compiler:
            found.add((await compiler.toolchain(DRIVERS["nvcc"])).fingerprint)
    assert len(found) == 2


# -- rustc --------------------------------------------------------------------------------------


async def test_rust_for_cpus(settings: Settings) -> None:
    targets = ("znver4", f"generic@{host_triple()}", "znver4+-avx512f")
    requests = [request(CPU_RS, target, toolchain="rustc", emit=emit) for target in targets for emit in (None, "asm")]
    async with session(settings) as compiler:
        results = await compiler.compile_many(requests)
    assert all(result.ok for result in results), [result.failure for result in results]
    assert all(b"same:" in result.outputs["asm"] for result in results[1::2])


async def test_the_default_target_of_rust(settings: Settings) -> None:
    async with session(settings) as compiler:
        gpu, cpu = await compiler.compile_many([request(SAXPY_RS), request(CPU_RS)])
    assert b".target sm_" in gpu.outputs["ptx"]
    assert cpu.outputs["object"].startswith(b"\x7fELF")


async def test_a_rust_error_is_a_diagnostic(settings: Settings) -> None:
    kernel = Kernel(name="bad", source=CPU_RS.source + "\nfn f() -> u8 { nothing }\n", language="rust")
    async with session(settings) as compiler:
        result = await compiler.compile_result(request(kernel))
    assert result.failure
    assert result.failure.kind is FailureKind.DIAGNOSTIC
    [error] = [each for each in result.failure.diagnostics if each.severity == "error"]
    assert (error.code, error.file, error.line) == ("E0425", "kernel.rs", 11)


# -- for all ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [SAXPY_C, CPU_RS], ids=["zig", "rustc"])
async def test_native_is_resolved(settings: Settings, kernel: Kernel) -> None:
    async with session(settings) as compiler:
        plan = await compiler.plan(request(kernel, "native"))
        result = await compiler.compile_result(request(kernel, "native"))
        with pytest.raises(RequestError, match="cannot tell what 'native' is"):
            await compiler.compile(request(kernel, "native@riscv64gc-unknown-linux-gnu"))
    assert result.ok
    assert plan.target.cpu not in (None, "native")
    assert plan.target.triple == host_triple()
    assert result.key
    assert not any("native" in value for value in result.key.explain().values())


UNKNOWN_CPUS: list[tuple[str, Kernel, str, str]] = [
    ("zig", SAXPY_C, "sm_91", "sm_90"),
    ("zig", SAXPY_C, "znver9@x86_64-unknown-linux-gnu", "znver5"),
    ("zig", SAXPY_C, "neoverse-v9@aarch64-unknown-linux-gnu", "neoverse-v3"),
    ("zig", SAXPY_C, "gfx943", "gfx942"),
    ("zig", ADD_CU, "sm_91", "sm_90"),
    ("zig", SCALE_HIP, "gfx943", "gfx942"),
    ("nvcc", ADD_CU, "sm_91", "sm_90"),
    ("nvcc", ADD_CU, "sm_70", "sm_75"),
    ("rustc", SAXPY_RS, "sm_91", "sm_90"),
    ("rustc", CPU_RS, "znver9@x86_64-unknown-linux-gnu", "znver5"),
]


async def test_an_unknown_cpu_is_refused_before_anything_starts(settings: Settings) -> None:
    good = {"zig": request(SAXPY_C, "znver4"), "nvcc": request(ADD_CU, "sm_90"), "rustc": request(CPU_RS, "znver4")}
    events: list[Event] = []
    async with session(settings, on_event=events.append) as compiler:
        for tool, kernel, target, near in UNKNOWN_CPUS:
            with pytest.raises(RequestError, match=f"unknown target CPU .* for {tool} .*: did you mean .*{near}"):
                await compiler.compile_many([good[tool], request(kernel, target, toolchain=tool)])
    assert not [event for event in events if isinstance(event, (Queued, Started))]


ENTRY_POINTS: list[tuple[Kernel, str, str, str]] = [
    (SAXPY_C, "sm_90", "ptx", "zig"),
    (SAXPY_C, "sm_90", "cubin", "zig"),
    (SAXPY_C, "znver4", "object", "zig"),
    (SAXPY_C, "znver4", "asm", "zig"),
    (SAXPY_C, "gfx942", "object", "zig"),
    (SAXPY_C, "gfx942", "asm", "zig"),
    (CPU_RS, "znver4", "object", "rustc"),
    (SAXPY_RS, "sm_90", "ptx", "rustc"),
]


async def test_the_entry_point_is_checked(settings: Settings) -> None:
    requests = []
    for kernel, target, emit, toolchain in ENTRY_POINTS:
        there = f"{kernel.name}_entry_point" if kernel is SAXPY_RS else kernel.name
        requests += [
            request(replace(kernel, entry_point=name), target, emit=emit, toolchain=toolchain)
            for name in (there, "saxpy_other")
        ]
    async with session(settings, retry=RetryPolicy(max_attempts=1)) as compiler:
        results = await compiler.compile_many(requests)
    for good, bad in zip(results[::2], results[1::2], strict=True):
        assert good.ok, good.failure
        assert bad.failure
        assert bad.failure.kind is FailureKind.BAD_OUTPUT
        assert "saxpy_other" in bad.failure.message


# -- auto ---------------------------------------------------------------------------------------


async def chosen(settings: Settings, *requests: CompileRequest) -> list[str]:
    async with session(settings, mode="no_cache") as compiler:
        return [(await compiler.plan(each)).stages[0].toolchain.name for each in requests]


async def test_auto_prefers_what_is_installed(settings: Settings, teenyc: Teenyc) -> None:
    requests = [request(SAXPY_C, "sm_90"), request(ADD_CU, "sm_90"), request(SCALE_HIP, "gfx942")]
    assert await chosen(settings, *requests, request(SAXPY_RS, "sm_90")) == ["zig", "nvcc", "zig", "rustc"]
    installed = changed(settings, {"TEENYC_PATH": teenyc.path})
    assert await chosen(installed, *requests, request(SAXPY_RS, "sm_90")) == ["zig", "nvcc", "zig", "teenyc"]


async def test_auto_goes_on_when_the_first_refuses(settings: Settings, teenyc: Teenyc) -> None:
    settings = changed(settings, {"TEENYC_PATH": teenyc.path})
    rust = [
        request(CPU_RS, "znver4"),
        request(SAXPY_RS, "sm_90", opt_level=2),
        request(SAXPY_RS, "sm_90", flags=("-Cdebuginfo=0",)),
        request(SAXPY_RS, "sm_90a"),
        request(SAXPY_RS, "sm_103"),
    ]
    assert await chosen(settings, *rust) == ["rustc"] * len(rust)
    cuda = [request(ADD_CU, "sm_90+ptx86"), request(ADD_CU, "sm_70"), request(ADD_CU, "sm_90", opt_level="s")]
    assert await chosen(settings, *cuda) == ["zig"] * len(cuda)
    async with session(settings) as compiler:
        results = await compiler.compile_many([*rust, *cuda])
    assert all(result.ok for result in results), [result.failure for result in results]
    assert teenyc.calls == []


async def test_the_first_refusal_is_told_when_all_refuse(settings: Settings, teenyc: Teenyc) -> None:
    refusals = [
        (request(SAXPY_RS, "sm_90", emit="object"), "teenyc cannot emit 'object'"),
        (request(SAXPY_RS, "sm_90", log_level="loud"), "log_level is one of"),
        (request(CPU_RS, "znver4", log_level="debug"), "unknown target CPU 'znver4' for teenyc"),
        (request(ADD_CU, "znver4"), "nvcc compiles for NVIDIA|unknown target CPU 'znver4' for nvcc"),
        (request(SAXPY_C, "znver4", emit="ptx"), "zig cannot emit 'ptx'"),
        (request(Kernel(name="k", source="", language="ttir"), "znver4"), "unknown target CPU 'znver4' for triton"),
    ]
    async with session(changed(settings, {"TEENYC_PATH": teenyc.path})) as compiler:
        for refused, message in refusals:
            with pytest.raises(RequestError, match=message):
                await compiler.compile(refused)


async def test_nothing_is_installed(settings: Settings, tmp_path: Path) -> None:
    async with session(changed(settings, {"PATH": tmp_path})) as compiler:
        result = await compiler.compile_result(request(SAXPY_RS, "sm_90"))
    assert result.failure
    assert result.failure.kind is FailureKind.TOOL_MISSING
    assert "teenyc: TEENYC_PATH is not set" in result.failure.message
    assert "rustc: not installed" in result.failure.message


async def test_a_toolchain_that_does_not_fit(settings: Settings) -> None:
    refusals = {
        "rustc": "kernel 'saxpy': toolchain rustc takes rust, not c",
        "ptxas": "toolchain ptxas takes no kernels by itself, not c",
        "zog": "unknown toolchain 'zog'; did you mean zig",
    }
    async with session(settings) as compiler:
        for toolchain, message in refusals.items():
            with pytest.raises(RequestError, match=message):
                await compiler.compile(request(SAXPY_C, "sm_90", toolchain=toolchain))
