"""What each driver makes of a request, and what it refuses, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from teeny_async import CompileRequest, Kernel, RequestError, Target
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.model import LANGUAGES
from teeny_async.target import host_triple
from teeny_async.toolchains.base import Driver, Toolchain
from teeny_async.toolchains.nvcc_ptxas import assembler_args
from teeny_async.toolchains.registry import DRIVERS, candidates, driver_named

SOURCES = {"zig": "", "c": "int f(void);", "cuda": "", "hip": "", "rust": "#![no_core]"}


def plan(tool: str, target: str | Target, language: str, source: str | None = None, **options: Any) -> Action:
    fields = {name: options.pop(name) for name in ("entry_point", "prelude", "include_dirs") if name in options}
    settings = FrozenMap(options.pop("settings", {}))
    kernel = Kernel(name="k", source=SOURCES[language] if source is None else source, language=language, **fields)
    target = Target.parse(target) if isinstance(target, str) else target
    toolchain = Toolchain(name=tool, path=f"/opt/{tool}", version="1", fingerprint="00", settings=settings)
    return DRIVERS[tool].plan(CompileRequest(kernel, target, toolchain=tool, **options), target, toolchain)


def line(*args: Any, **options: Any) -> str:
    return " ".join(plan(*args, **options).argv)


# -- what can be written for which target -------------------------------------------------------

EMITS = ("ptx", "cubin", "object", "asm", "hsaco", "shared", "fatbin")
STAGES = {"cubin": ("ptx", "ptxas"), "hsaco": ("object", "lld"), "shared": ("object", "lld")}
"""What is made by a second tool -> what the first one writes for it, and the second one's name."""
MATRIX = {
    ("zig", "c", "sm_90"): {"ptx", "cubin"},
    ("zig", "c", "gfx942"): {"object", "asm", "hsaco"},
    ("zig", "c", "znver4"): {"object", "asm", "shared"},
    ("zig", "c", "neoverse-v2"): {"object", "asm", "shared"},
    ("zig", "c", "apple-m1@aarch64-apple-darwin"): {"object", "asm"},
    ("zig", "cuda", "sm_90"): {"ptx", "cubin"},
    ("zig", "cuda", "gfx942"): set(),
    ("zig", "cuda", "znver4"): set(),
    ("zig", "hip", "gfx942"): {"asm", "object", "hsaco"},
    ("zig", "hip", "sm_90"): set(),
    ("zig", "hip", "znver4"): set(),
    ("zig-lang", "zig", "sm_90"): {"ptx", "cubin"},
    ("zig-lang", "zig", "gfx942"): {"object", "asm", "hsaco"},
    ("zig-lang", "zig", "znver4"): {"object", "asm", "shared"},
    ("nvcc", "cuda", "sm_90"): {"ptx", "cubin", "fatbin"},
    ("nvcc", "cuda", "sm_90+sm_80"): {"fatbin"},
    ("nvcc", "cuda", "gfx942"): set(),
    ("nvcc", "cuda", "znver4"): set(),
    ("rustc", "rust", "sm_90"): {"ptx", "cubin"},
    ("rustc", "rust", "znver4"): {"object", "asm", "shared"},
    ("rustc", "rust", "gfx942"): {"object", "asm", "hsaco"},
    ("teenyc", "rust", "sm_90"): {"ptx", "cubin"},
    ("teenyc", "rust", "znver4"): set(),
    ("teenyc", "rust", "gfx942"): set(),
}


@pytest.mark.parametrize("emit", [*EMITS, ""])
@pytest.mark.parametrize("case", MATRIX, ids="-".join)
def test_emit_matrix(case: tuple[str, str, str], emit: str) -> None:
    tool, language, target = case
    if emit in MATRIX[case]:
        first, finisher = STAGES.get(emit, (emit, None))
        if (tool, emit) == ("nvcc", "cubin"):
            finisher = "nvcc-ptxas"
        assert set(plan(tool, target, language, emit=emit).required) == {first}
        kernel = Kernel(name="k", source="", language=language)
        assert DRIVERS[tool].finish(CompileRequest(kernel, emit=emit), Target.parse(target)) == finisher
        if finisher:
            assert set(plan(finisher, target, language, emit=emit).required) == {emit}
    else:
        with pytest.raises(RequestError):
            plan(tool, target, language, emit=emit)


@pytest.mark.parametrize("case", [case for case, emits in MATRIX.items() if emits], ids="-".join)
def test_default_emit(case: tuple[str, str, str]) -> None:
    tool, language, target = case
    default = "fatbin" if "+" in target else "ptx" if target == "sm_90" else "asm" if language == "hip" else "object"
    assert list(plan(tool, target, language).required) == [default]


def test_an_emit_that_is_refused_is_explained() -> None:
    with pytest.raises(RequestError, match="toolchain zig cannot emit 'object' for sm_90; it can emit ptx, cubin"):
        plan("zig", "sm_90", "c", emit="object")
    with pytest.raises(RequestError, match="a CUDA kernel compiles for NVIDIA targets only, not znver4"):
        plan("zig", "znver4", "cuda")
    with pytest.raises(RequestError, match="a HIP kernel compiles for AMD targets only, not sm_90"):
        plan("zig", "sm_90", "hip")


# -- command lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            ("zig", "sm_90", "c"),
            (
                "zig clang -target nvptx64-nvidia-cuda -nogpulib -march=sm_90 --cuda-path=/nonexistent "
                "--cuda-feature=+ptx88 -fno-crash-diagnostics --no-default-config -fdebug-compilation-dir=. -O3 -S kernel.c -o kernel.ptx"
            ),
        ),
        (
            ("zig", "sm_120+ptx87", "cuda"),
            (
                "zig clang -x cuda --cuda-device-only -nocudalib -nocudainc --cuda-gpu-arch=sm_120 "
                "--cuda-path=/nonexistent --cuda-feature=+ptx87 -fno-crash-diagnostics --no-default-config -fdebug-compilation-dir=. "
                "-O3 -S kernel.cu -o kernel.ptx"
            ),
        ),
        (
            ("zig", "gfx942", "hip"),
            (
                "zig clang -x hip --cuda-device-only -nogpulib -nogpuinc --offload-arch=gfx942 "
                "-fno-crash-diagnostics --no-default-config -fdebug-compilation-dir=. "
                "-Rpass-analysis=kernel-resource-usage -O3 -S kernel.hip -o kernel.s"
            ),
        ),
        (
            ("zig", "gfx942", "c"),
            (
                "zig clang -target amdgcn-amd-amdhsa -nogpulib -mcpu=gfx942 "
                "-fno-crash-diagnostics --no-default-config -fdebug-compilation-dir=. "
                "-Rpass-analysis=kernel-resource-usage -O3 -c kernel.c -o kernel.o"
            ),
        ),
        (
            ("zig", "znver4+avx512f", "c"),
            (
                "zig clang -target x86_64-unknown-linux-gnu -march=znver4 -Xclang -target-feature -Xclang +avx512f "
                "-fno-crash-diagnostics --no-default-config -fdebug-compilation-dir=. -O3 -c kernel.c -o kernel.o"
            ),
        ),
        (
            ("zig", "sifive-x280", "c"),
            (
                "zig clang -target riscv64-unknown-linux-gnu -mcpu=sifive-x280 "
                "-fno-crash-diagnostics --no-default-config -fdebug-compilation-dir=. -O3 -c kernel.c -o kernel.o"
            ),
        ),
        (
            ("nvcc", "sm_90", "cuda"),
            "nvcc -ptx -arch=sm_90 -O3 --threads 1 kernel.cu -o kernel.ptx",
        ),
        (
            ("nvcc", "sm_90a+sm_80+compute_90", "cuda"),
            (
                "nvcc -fatbin -Xptxas -v -gencode arch=compute_90,code=compute_90 -gencode arch=compute_80,code=sm_80 "
                "-gencode arch=compute_90a,code=sm_90a -O3 --threads 1 kernel.cu -o kernel.fatbin"
            ),
        ),
        (
            ("rustc", "sm_90+ptx86", "rust"),
            (
                "rustc kernel.rs -Copt-level=3 --emit=asm -o kernel.ptx --target=nvptx64-nvidia-cuda --crate-type=lib "
                "-Ccodegen-units=1 -Coverflow-checks=off -Ctarget-cpu=sm_90 -Ctarget-feature=+ptx86 "
                "--error-format=json --json=artifacts"
            ),
        ),
        (
            ("rustc", "znver4+avx512f+-fma", "rust"),
            (
                "rustc kernel.rs -Copt-level=3 --emit=obj -o kernel.o --target=x86_64-unknown-linux-gnu --crate-type=lib "
                "-Ccodegen-units=1 -Coverflow-checks=off -Ctarget-cpu=znver4 -Ctarget-feature=+avx512f,-fma "
                "--error-format=json --json=artifacts"
            ),
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_command_lines(args: tuple[str, str, str], expected: str) -> None:
    assert line(*args) == expected


def test_a_target_without_a_cpu_names_none() -> None:
    for tool, language in (("zig", "c"), ("zig", "cuda"), ("nvcc", "cuda"), ("rustc", "rust"), ("teenyc", "rust")):
        assert "sm_" not in line(tool, Target(), language)
        assert "cpu" not in plan(tool, Target(), language).expect


@pytest.mark.parametrize("tool", ["zig", "rustc", "teenyc"])
def test_the_ptx_version_asked_for_is_expected(tool: str) -> None:
    language = "c" if tool == "zig" else "rust"
    assert plan(tool, "sm_90+ptx82", language).expect["ptx_version"] == "82"


def test_zig_always_says_which_ptx_version() -> None:
    assert "--cuda-feature=+ptx88" in line("zig", "sm_120", "c")
    assert "--cuda-feature=+ptx90" in line("zig", "sm_110", "c")
    assert "--cuda-feature=+ptx63" in line("zig", "sm_75+ptx63", "cuda")


def test_macros_and_flags_keep_their_order() -> None:
    argv = plan("zig", "znver4", "c", params={"N": 4, "A": True}, flags=("-g", "-fno-inline"), opt_level="s").argv
    assert argv[-9:] == ("-Os", "-DA=1", "-DN=4", "-g", "-fno-inline", "-c", "kernel.c", "-o", "kernel.o")


def test_the_source_is_the_prelude_followed_by_the_kernel() -> None:
    for tool, language in (("zig", "c"), ("nvcc", "cuda"), ("rustc", "rust"), ("teenyc", "rust")):
        [source] = plan(tool, "sm_90", language, "kernel `N=1`", prelude="prelude\n", params={"N": 2}).inputs
        assert source.data() == b"prelude\nkernel 2"
        [source] = plan(tool, "sm_90", language, "kernel").inputs
        assert source.parts == ("kernel",)


def test_only_a_source_that_reads_files_is_told_where_they_are() -> None:
    plain = plan("zig", "znver4", "c", include_dirs=("/kernels",))
    assert not any(arg.startswith(("-I", "-isystem")) for arg in plain.argv)
    assert plain.uncacheable is None
    reading = plan("zig", "znver4", "c", '#include "a.h"', include_dirs=("/kernels", "/more"))
    assert [arg for arg in reading.argv if arg.startswith("-I")] == ["-I/kernels", "-I/more"]
    assert "-isystem/opt/lib/include" in reading.argv
    assert reading.uncacheable is None
    assert (reading.depfile, tuple(reading.search)) == ("kernel.d", ("/kernels", "/more", "/opt/lib/include"))
    assert "-MD -MF kernel.d" in " ".join(reading.argv)
    asked = plan("zig", "znver4", "c", '#include "a.h"\n#if __has_include("b.h")\n#endif')
    assert asked.uncacheable == "the source has '__has_include': what it stands for is not in the key"


def test_nvcc_passes_on_the_flags_of_its_environment() -> None:
    action = plan("nvcc", "sm_90", "cuda", settings={"NVCC_APPEND_FLAGS": "-lineinfo"})
    assert dict(action.env) == {"NVCC_APPEND_FLAGS": "-lineinfo"}
    assert action.uncacheable is None
    reading = plan("nvcc", "sm_90", "cuda", settings={"NVCC_PREPEND_FLAGS": "-O2 -include /x.h"})
    assert reading.uncacheable == "flag '-include' can read a file that is not in the key"


@pytest.mark.parametrize(
    ("flags", "front_end", "ptxas"),
    [
        ("", "", "-v"),
        ("-Xptxas -O1,-dlcm=cg -DN=1", "-DN=1", "-v -O1 -dlcm=cg"),
        ("--ptxas-options=-O1 -use_fast_math -Xptxas=-O2", "-use_fast_math", "-v -O1 -O2"),
        ("-maxrregcount 32 -std=c++20", "-maxrregcount 32 -std=c++20", "-v -maxrregcount=32"),
        ("--maxrregcount=32 -maxrregcount=40", "--maxrregcount=32 -maxrregcount=40", "-v -maxrregcount=40"),
    ],
)
def test_nvcc_has_two_stages_where_it_is_known_what_it_tells_ptxas(flags: str, front_end: str, ptxas: str) -> None:
    action = plan("nvcc", "sm_90", "cuda", emit="cubin", flags=tuple(flags.split()))
    expected = f"nvcc -ptx -arch=sm_90 -O3 --threads 1 {front_end} kernel.cu -o kernel.ptx"
    assert action.argv == tuple(expected.split())
    assert assembler_args(flags.split()) == ptxas.split()
    by_itself = plan("nvcc-ptxas", "sm_90", "cuda", settings={"NVCC_APPEND_FLAGS": flags})
    chained = DRIVERS["nvcc-ptxas"].chain(by_itself, {"ptx": b"// .target sm_1\n.target sm_90a, debug\n"})
    assert chained.argv == tuple(f"ptxas -arch=sm_90a -m64 {ptxas} kernel.ptx -o kernel.cubin".split())


@pytest.mark.parametrize(
    "flags",
    [*("-G", "-lineinfo", "-rdc=true", "-dlto", "-fmad=false", "-w", "-Xptxas", "-Xptxas=", "-Xptxas -O1,/x", "--new")],
)
def test_nvcc_makes_a_cubin_by_itself_where_it_is_not(flags: str) -> None:
    for settings, own in ({"NVCC_APPEND_FLAGS": flags}, ""), ({}, flags):
        action = plan("nvcc", "sm_90", "cuda", emit="cubin", flags=tuple(own.split()), settings=settings)
        assert action.argv[:4] == ("nvcc", "-cubin", "-Xptxas", "-v")
        assert set(action.outputs) == {"cubin"}
    virtual = plan("nvcc", "compute_90@nvptx64-nvidia-cuda", "cuda", emit="cubin")
    assert set(virtual.outputs) == {"cubin"}, "nvcc says why it cannot"


# -- flags --------------------------------------------------------------------------------------

TOOLS = {"zig": "c", "nvcc": "cuda", "rustc": "rust"}
REFUSED = {
    "zig": [
        *("-o", "-ok.o", "-c", "-S", "-E", "-MD", "-MF", "-MFx", "-M", "-x", "-xc++", "--", "-target", "--target=x"),
        *("-march=sm_80", "-mcpu=gfx942", "--cuda-gpu-arch=sm_80", "--offload-arch=gfx90a", "--output=x"),
    ],
    "nvcc": [
        *("-o", "-c", "-dc", "-ptx", "-cubin", "-fatbin", "--cubin", "--output-file=x", "-arch=sm_80", "-arch"),
        *("-gencode", "-gencode=arch=x", "--gpu-architecture=sm_80", "--generate-code=x", "-optf", "-code=sm_80"),
    ],
    "rustc": [
        *("-o", "-ox", "--emit", "--emit=obj", "--target=x", "--out-dir=x", "--crate-type=bin", "--print=cfg"),
        *("--error-format=human", "--json=artifacts", "-Ctarget-cpu=x", "-Copt-level=1", "-O", "--test"),
        "--codegen=target-feature=+x",
    ],
}
UNCACHED = {
    "zig": [
        *("-include", "-includex.h", "-imacros", "-Idir", "-isystem", "--sysroot=/", "@file", "-fplugin=x.so"),
        *("-fprofile-use=x", "-fprofile-instr-use=x", "-Xclang", "-mllvm", "-Wp,-include,x", "-Wa,-Ix", "-Bdir"),
        *("--config=x", "-fsanitize-ignorelist=x", "-DWHEN=__TIME__", '-DASM=".incbin"', "--include=x"),
    ],
    "nvcc": [
        *("-include", "--pre-include=x", "-Xcompiler", "--compiler-options=x", "-ccbin=gcc", "--compiler-bindir"),
        *("--options-file=x", "-Idir", "--system-include=x", "-ldir=x", "-Xptxas=-optf,x"),
    ],
    "rustc": [
        *("-Ldir", "-lfoo", "--extern=a=b", "@file", "--sysroot=x", "-Zcodegen-backend=x", "-Clinker=x"),
        *("-Clink-arg=x", "-Cprofile-use=x", "-Cllvm-args=-load=x", "--codegen=profile-use=x"),
    ],
}
HARMLESS = {
    "zig": ["-g", "-DN=1", "-UN", "-Wall", "-fno-inline", "-ffast-math", "-mavx2", "-std=c11", "-O1", "-mno-red-zone"],
    "nvcc": ["-lineinfo", "-DN=1", "-use_fast_math", "--maxrregcount=32", "-Xptxas=-dlcm=ca", "-std=c++17", "-G"],
    "rustc": [
        "-g",
        "-Cdebuginfo=2",
        "-Cpanic=abort",
        "--cfg=x",
        "--edition=2021",
        "-Awarnings",
        "-Cinline-threshold=9",
    ],
}


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(tool, flag) for tool, flags in table.items() for flag in flags]


@pytest.mark.parametrize(("tool", "flag"), cases(REFUSED))
def test_flags_that_are_ours_are_refused(tool: str, flag: str) -> None:
    with pytest.raises(RequestError, match=f"toolchain {tool}: flag .* is ours to set; use the request's fields"):
        plan(tool, "sm_90", TOOLS[tool], flags=("-g", flag))


@pytest.mark.parametrize(("tool", "flag"), cases(UNCACHED))
def test_flags_that_read_files_make_it_uncacheable(tool: str, flag: str) -> None:
    action = plan(tool, "sm_90", TOOLS[tool], flags=("-g", flag))
    assert action.uncacheable
    assert flag in action.argv


@pytest.mark.parametrize(("tool", "flag"), cases(HARMLESS))
def test_other_flags_are_passed_on(tool: str, flag: str) -> None:
    action = plan(tool, "sm_90", TOOLS[tool], flags=(flag,))
    assert action.uncacheable is None
    assert flag in action.argv


def test_a_flag_in_two_words() -> None:
    with pytest.raises(RequestError):
        plan("rustc", "sm_90", "rust", flags=("-C", "target-cpu=sm_80"))
    assert plan("rustc", "sm_90", "rust", flags=("-C", "link-arg=x")).uncacheable


@pytest.mark.parametrize("value", ["__DATE__", "__TIMESTAMP__", "__has_include(<a.h>)"])
def test_a_macro_that_reads_the_clock_or_a_file_makes_it_uncacheable(value: str) -> None:
    assert plan("zig", "znver4", "c", "char *s = N;", params={"N": value}).uncacheable
    assert plan("zig", "znver4", "c", "int n = N;", params={"N": "__LINE__"}).uncacheable is None


def test_rust_that_reads_files_is_followed_by_rustc_and_not_by_teenyc() -> None:
    """teenyc takes no flag that would make it say what it read."""
    for options in ({"prelude": "mod x;\n"}, {"source": 'include!("a");'}):
        assert plan("teenyc", "sm_90", "rust", **options).uncacheable
        followed = plan("rustc", "sm_90", "rust", include_dirs=("/kernels",), **options)
        assert (followed.uncacheable, followed.depfile, followed.mirror) == (None, "kernel.d", "/kernels")
        assert "--emit=asm=kernel.ptx,dep-info=kernel.d" in followed.argv
    for tool in ("rustc", "teenyc"):
        plain = plan(tool, "sm_90", "rust", prelude="mod x {}\n")
        assert (plain.uncacheable, plain.depfile, plain.mirror) == (None, None, None)


# -- other options ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "taken", "refused"),
    [
        ("zig", (0, 1, 2, 3, "s", "z", "g", "fast", "2"), (4, -1, "x", "")),
        ("nvcc", (0, 1, 2, 3, "2"), (4, "s")),
        ("rustc", (0, 1, 2, 3, "s", "z", "2"), (4, "fast", "g")),
    ],
)
def test_opt_levels(tool: str, taken: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for level in taken:
        assert f"{level}" in line(tool, "sm_90", TOOLS[tool], opt_level=level)
    for level in refused:
        with pytest.raises(RequestError, match=f"toolchain {tool}: opt_level is one of 0, 1, 2, 3"):
            plan(tool, "sm_90", TOOLS[tool], opt_level=level)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_log_is_refused_by_who_writes_none(tool: str) -> None:
    with pytest.raises(RequestError, match=f"toolchain {tool} writes no log"):
        plan(tool, "sm_90", TOOLS[tool], log_level="debug")


def test_nvcc_refuses_what_it_does_not_have() -> None:
    with pytest.raises(RequestError, match=r"leave \+ptx86 out"):
        plan("nvcc", "sm_90+ptx86", "cuda")
    with pytest.raises(RequestError, match="takes no target features"):
        plan("nvcc", "sm_90+x", "cuda")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opt_level": 2}, "teenyc compiles at opt_level 3 only, not 2"),
        ({"flags": ("-g", "-Cpanic=abort")}, "teenyc takes no flags of your own: -g -Cpanic=abort"),
        ({"log_level": "verbose"}, "log_level is one of error, warn, info, debug, trace, not 'verbose'"),
        ({"emit": "asm"}, "teenyc cannot emit 'asm'"),
        ({"params": {"N": 1}}, "nothing reads N"),
    ],
)
def test_teenyc_takes_its_contract_only(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        plan("teenyc", "sm_90", "rust", **options)


def test_teenyc_targets() -> None:
    with pytest.raises(RequestError, match=r"takes no target features: \+x"):
        plan("teenyc", "sm_90+x", "rust")
    with pytest.raises(RequestError, match="compiles for nvptx64-nvidia-cuda only"):
        plan("teenyc", "sm_90@nvptx-nvidia-cuda", "rust")
    assert plan("teenyc", "sm_90", "rust").expect["cpu"].split(",") == ["sm_90", "sm_90a"]


def test_ptxas_assembles_for_nvidia() -> None:
    kernel = Kernel(name="k", source="", language="c")
    ptxas = DRIVERS["ptxas"]
    toolchain = Toolchain(name="ptxas", path="/opt/ptxas", version="1", fingerprint="00")
    action = ptxas.plan(CompileRequest(kernel, opt_level="s"), Target("sm_90"), toolchain)
    chained = ptxas.chain(action, {"ptx": b"//\n.version 8.0\n.target sm_90a, debug\n"})
    assert chained.argv == ("ptxas", "-v", "-arch=sm_90a", "-O3", "kernel.ptx", "-o", "kernel.cubin")
    assert dict(chained.chained) == {"kernel.ptx": "ptx"}
    with pytest.raises(RequestError, match="NVIDIA targets only"):
        ptxas.plan(CompileRequest(kernel), Target.parse("znver4"), toolchain)


def test_default_targets() -> None:
    host = Target(None, host_triple())
    for tool, source, language, expected in (
        ("zig", "", "c", host),
        ("zig", "", "cuda", Target()),
        ("nvcc", "", "cuda", Target()),
        ("rustc", "pub fn f() {}", "rust", host),
        ("rustc", 'extern "ptx-kernel" fn f() {}', "rust", Target()),
        ("teenyc", "", "rust", Target()),
    ):
        assert DRIVERS[tool].default_target(Kernel(name="k", source=source, language=language)) == expected


# -- the registry -------------------------------------------------------------------------------


def test_preference_by_language() -> None:
    names = {language: [driver.name for driver in candidates(language)] for language in ("c", "cuda", "hip", "rust")}
    assert names == {"c": ["zig", "cc"], "cuda": ["nvcc", "zig"], "hip": ["zig"], "rust": ["teenyc", "rustc"]}
    assert [driver.name for driver in candidates("ttir")] == ["triton"]


def test_drivers_by_name() -> None:
    assert all(driver_named(name).name == name for name in DRIVERS)
    with pytest.raises(RequestError, match="unknown toolchain 'rust'; did you mean rustc"):
        driver_named("rust")
    with pytest.raises(RequestError, match="unknown toolchain 'qqq'; did you mean cc, lld, nvcc, ptxas, rustc"):
        driver_named("qqq")


def test_every_driver_says_what_it_takes() -> None:
    for driver in DRIVERS.values():
        assert isinstance(driver, Driver)
        assert driver.emits
        assert driver.languages <= set(LANGUAGES.values())
