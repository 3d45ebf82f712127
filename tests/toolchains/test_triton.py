"""Triton: Python kernels and TTIR, for NVIDIA and AMD, by worker processes on a machine without a GPU."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeny_async import (
    Compiler,
    CompileRequest,
    FailureKind,
    Kernel,
    RequestError,
    RetryPolicy,
    Target,
    compile_many_sync,
)
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.settings import Settings
from teeny_async.testing import FakeHost
from teeny_async.toolchains.base import Toolchain, ToolNotFound
from teeny_async.toolchains.registry import DRIVERS
from teeny_async.toolchains.triton import Triton
from tests.support import KERNELS, changed
from tests.toolchains.test_stages import compiled, request

pytestmark = pytest.mark.usefixtures("no_leftovers")

ADD_PY, ADD_TTIR = (
    Kernel.from_file(KERNELS / name, entry_point="vector_add") for name in ("vector_add.py", "vector_add.ttir")
)
TOOL = Toolchain(
    name="triton", path="/bin/python", version="1", fingerprint="00", settings=FrozenMap({"folder": "/lib/triton"})
)
HEAD = "import triton\nimport triton.language as tl\n\n"


def python(body: str, arguments: str = 'x: "*fp32", N: tl.constexpr = 64', **fields: Any) -> Kernel:
    """A kernel `k` whose body begins in line 6."""
    source = f"{HEAD}@triton.jit\ndef k({arguments}):\n    {body}\n"
    return Kernel(name="k", source=source, language="triton", **fields)


STORE = python("tl.store(x + tl.arange(0, N), 1.0)")


def planned(kernel: Kernel, target: str = "sm_90", **options: Any) -> Action:
    return Triton().plan(request(kernel, target, **options), Target.parse(target), TOOL)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (planned(STORE), "kernel.py cuda:90 emit=ptx kernel=k type:x=*fp32"),
        (
            planned(STORE, "sm_90a+ptx87", emit="cubin", params={"N": 32, "num_warps": 8, "enable_fp_fusion": False}),
            (
                "kernel.py cuda:90 emit=cubin kernel=k type:x=*fp32 constant:N=32 option:enable_fp_fusion=false "
                "option:num_warps=8 option:ptx_version=87"
            ),
        ),
        (
            planned(STORE, "mi300x", params={"x": "*bf16:16"}),
            "kernel.py hip:gfx942 emit=hsaco kernel=k type:x=*bf16:16",
        ),
        (planned(STORE, "gfx1100", emit="asm", params={"kpack": 2, "x": 7}), None),
        (planned(ADD_TTIR, params={"num_stages": 4}), "kernel.ttir cuda:90 emit=ptx option:num_stages=4"),
        (planned(python("pass", "x, y=None, N: tl.constexpr = 1", defines={"x": "i32"})), None),
    ],
)
def test_command_lines(found: Action, line: str | None) -> None:
    assert found.argv[:6] == ("python", "-P", "-s", "-S", "-B", "worker.py")
    assert line is None or " ".join(found.argv[6:]) == line
    assert dict(found.env) == {"PYTHONHASHSEED": "0"}
    assert found.neutral["TEENY_ASYNC_TRITON"] == "/lib/triton"
    assert found.inputs[0].name == "worker.py"
    assert not found.uncacheable


HELPERS = f"{HEAD}@triton.jit\ndef one(x):\n    return x\n\n@triton.jit\ndef two(x):\n    return one(x)\n"


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (python("pass", "x"), {}, "argument 'x' has no type; annotate it, x: \"\\*fp32:16\", or give the type as a param"),
        (python("pass", "x=3"), {}, "argument 'x' has no type"),
        (python("pass", 'x: "*float"'), {}, "argument 'x' has no type '\\*float'; write it as in"),
        (STORE, {"params": {"x": "*fp31"}}, "argument 'x' has no type '\\*fp31'"),
        (python("pass", "N: tl.constexpr"), {}, "constexpr 'N' has no value; give it as a param, N=128"),
        (STORE, {"params": {"M": 1, "num_warp": 4}}, "nothing reads M, num_warp; .* argument of it \\(x, N\\), .* num_warps"),
        (ADD_TTIR, {"params": {"BLOCK": 4}}, "nothing reads BLOCK"),
        (STORE, {"params": {"waves_per_eu": 2}}, "nothing reads waves_per_eu"),
        (Kernel(name="k", source="def k(): pass", language="triton"), {}, "no kernel: decorate a function with @triton.jit"),
        (Kernel(name="k", source=HELPERS.replace("one(x)\n", "x\n"), language="triton"), {}, "several kernels \\(one, two\\)"),
        (Kernel(name="k", source=HELPERS, language="triton"), {}, "argument 'x' has no type"),
        (Kernel(name="k", source=HELPERS, language="triton", entry_point="three"), {}, "no kernel 'three', but one, two"),
        (python("import numpy"), {}, "line 6 imports numpy, which is in no key"),
        (python("from .shared import f"), {}, "line 6 imports .shared"),
        (STORE, {"flags": ("-O3",)}, "triton takes no flags: -O3"),
        (STORE, {"opt_level": 2}, "opt_level is one of 3"),
        (STORE, {"emit": "object"}, "cannot emit 'object' for sm_90; it can emit ptx, cubin, ttir, ttgir, llir"),
        (STORE, {"target": "gfx942", "emit": "ptx"}, "it can emit hsaco, asm, ttir"),
        (STORE, {"target": "sm_100f"}, "triton cannot aim at sm_100f"),
        (STORE, {"target": "x86-64-v3"}, "triton compiles for NVIDIA and AMD GPUs, not for x86-64-v3"),
        (STORE, {"target": "default@nvptx64-nvidia-cuda"}, "no default target"),
        (STORE, {"target": "gfx942+xnack"}, "takes no target features"),
    ],
)  # fmt: skip
def test_what_it_refuses(kernel: Kernel, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        planned(kernel, options.pop("target", "sm_90"), **options)


def test_what_reads_other_things_is_not_kept() -> None:
    found = planned(python("pass", "N: tl.constexpr = int(open('/etc/n').read())"))
    assert found.uncacheable == "the source has open: what it reads is not in the key"


def test_placeholders_are_found_where_python_has_them() -> None:
    body = "n = 7 // `N=2`  # not `N=2` here; \"it's\"\n    s = '''it's `N=2`\n#'''; m = `N=2`"
    filled = planned(python(body, "N: tl.constexpr = 1"), params={"N": 3}).inputs[1].data().decode()
    assert "n = 7 // 3  # not `N=2` here; \"it's\"\n    s = '''it's 3\n#'''; m = 3" in filled


@pytest.mark.anyio
async def test_how_it_is_found(settings: Settings) -> None:
    with pytest.raises(ToolNotFound, match="triton: not installed; run: pip install 'teeny_async\\[triton\\]'"):
        await Triton().find(FakeHost())
    elsewhere = {"/bin/true": "which is no Python", os.path.realpath(sys.executable): "which has no triton"}
    for interpreter, message in elsewhere.items():
        async with Compiler(settings=changed(settings, {"TEENY_ASYNC_TRITON_PYTHON": interpreter})) as compiler:
            with pytest.raises(ToolNotFound, match=message):
                await compiler.plan(request(STORE, "sm_90"))
    found = []
    for asked in ({}, {"TEENY_ASYNC_TRITON_PYTHON": sys.executable}):
        async with Compiler(settings=changed(settings, asked)) as compiler:
            found.append(await compiler.toolchain(DRIVERS["triton"]))
    assert found[0].fingerprint == found[1].fingerprint
    assert found[0].version.startswith("triton 3.")


# -- what it makes ------------------------------------------------------------------------------

TARGETS = ("sm_80", "sm_90", "gfx942")


def test_kernels_for_nvidia_and_amd(settings: Settings) -> None:
    """Binaries that ptxas and lld were content with, with their numbers, and what a launch needs to know of them."""
    requests = [
        request(kernel, target, emit="hsaco" if target.startswith("gfx") else "cubin", params={"num_warps": 8})
        for kernel in (ADD_PY, ADD_TTIR)
        for target in TARGETS
    ]
    for result in compiled(requests, settings):
        assert 0 < int(result.artifact.metrics["registers"]) < 64
        assert result.artifact.metrics["shared"] == 0
        launch = json.loads(result.outputs["json"])
        assert launch["name"] == "vector_add"
        assert launch["num_warps"] == 8
        assert launch["shared"] == 0
        assert [type for _, type in launch["arguments"]][-1] == "i32"
        assert str(settings.cache_dir.parent) not in result.outputs["json"].decode()


def test_every_output_and_the_same_bytes_again(settings: Settings, tmp_path: Path) -> None:
    """In any scratch folder, and whatever the environment says."""
    emits = [("sm_90", emit) for emit in ("ptx", "cubin", "ttir", "ttgir", "llir")] + [("gfx942", "asm")]
    requests = [request(ADD_PY, target, emit=emit) for target, emit in emits]
    first = compiled([*requests, request(ADD_PY, "sm_90+ptx87")], settings)
    assert [set(result.outputs) for result in first[:-1]] == [{emit, "json"} for _, emit in emits]
    assert b".version 8.7" in first[-1].outputs["ptx"]
    assert b'.file\t1 "kernel.py"' in first[0].outputs["ptx"]
    (tmp_path / "math.py").write_text("raise SystemExit(3)\n")
    steered: dict[str, str | os.PathLike[str]] = {
        "TEENY_ASYNC_CACHE_DIR": tmp_path / "other",
        "TRITON_DEFAULT_FP_FUSION": "0",
        "TRITON_OVERRIDE_ARCH": "sm80",
        "TRITON_PTXAS_PATH": "/bin/false",
        "DISABLE_PTXAS_OPT": "1",
        "PYTHONPATH": tmp_path,
    }
    again = compiled(requests, changed(settings, steered))
    assert {result.source for result in again} == {"compiled"}
    assert [result.outputs for result in again] == [result.outputs for result in first[:-1]]
    assert [result.key for result in again] == [result.key for result in first[:-1]]


class Fresh(Triton):
    """Each compile in an interpreter of its own."""

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return replace(super().plan(request, target, toolchain), warm=None)


def test_a_fork_makes_what_a_fresh_process_makes(settings: Settings) -> None:
    outputs = []
    for tool in (Fresh(), Triton()):
        requests = [
            request(kernel, target, toolchain=tool, emit="hsaco" if target.startswith("gfx") else "cubin")
            for kernel in (ADD_PY, ADD_TTIR)
            for target in TARGETS
        ]
        results = compile_many_sync(requests, settings=settings, mode="no_cache", jobs=2)
        outputs.append([result.outputs for result in results])
    assert outputs[0] == outputs[1]


def test_params_are_constants_types_options_and_placeholders(settings: Settings) -> None:
    body = "i = tl.arange(0, N)\n    tl.store(out + i, tl.load(x + i) * `FACTOR=1.0`)"
    kernel = python(body, "x, out, N: tl.constexpr = 64", entry_point="k")
    asked: list[dict[str, Any]] = [
        {"x": "*fp32", "out": "*fp32:16"},
        {"x": "*bf16", "out": "*fp32:16"},
        {"x": "*fp32", "out": "*fp32:16", "N": 128},
        {"x": "*fp32", "out": "*fp32:16", "FACTOR": 2.5},
        {"x": "*fp32", "out": "*fp32:16", "num_warps": 1},
        {"x": "*fp32", "out": "*fp32:16", "maxnreg": 32},
    ]
    results = compiled([request(kernel, "sm_90", params=params) for params in asked], settings)
    assert len({result.outputs["ptx"] for result in results}) == len(asked)
    assert b".reqntid 32" in results[4].outputs["ptx"]
    assert b".maxnreg 32" in results[5].outputs["ptx"]


def test_a_prelude_is_a_part_of_the_source(settings: Settings) -> None:
    """Helpers that kernels share: what changes in them is compiled, and its line is that of the file."""
    body = "tl.store(x, twice(N))"
    preludes = [f"{HEAD}@triton.jit\ndef twice(x):\n    return x * {by}\n" for by in ("2.0", "3.0", "2.0", "gone")]
    kernels = [python(body, entry_point="k", prelude=prelude) for prelude in preludes]
    kept = [*compiled([request(kernels[0], "sm_90")], settings), *compiled([request(kernels[1], "sm_90")], settings)]
    [again] = compiled([request(kernels[2], "sm_90")], settings)
    assert kept[0].outputs["ptx"] != kept[1].outputs["ptx"]
    assert again.source == "cached"
    [failed] = compile_many_sync([request(kernels[3], "sm_90")], settings=settings)
    assert failed.failure
    assert (failed.failure.diagnostics[0].file, failed.failure.diagnostics[0].line) == ("kernel.py", 6)


WRONG = {
    "a name that is not there": (python("tl.store(x, gone)"), 6, "gone is not defined"),
    "in a helper": (
        Kernel(name="k", source=HELPERS.replace("return x\n", "return x.gone\n", 1), language="triton"), 6, "no attribute 'gone'"
    ),
    "an assertion": (python("tl.static_assert(N > 64, 'too small')"), 6, "too small"),
    "shapes": (python("tl.store(x + tl.arange(0, N), tl.arange(0, 32))"), 6, "64 and 32|incompatible"),
    "no Python": (python("if x"), 6, "expected ':'"),
    "while it is run": (python("pass", "x, N: tl.constexpr = 1 // 0"), 5, "ZeroDivisionError"),
    "TTIR": (Kernel(name="k", source=ADD_TTIR.source.replace("addf %x", "addf %gone"), language="ttir"), 21, "undeclared SSA"),
}  # fmt: skip


def test_errors_have_a_place(settings: Settings) -> None:
    typed = ("in a helper", "while it is run")
    requests = [
        request(kernel, "sm_90", params={"x": "i32"} if name in typed else {}) for name, (kernel, *_) in WRONG.items()
    ]
    for (_, line, message), result in zip(WRONG.values(), compile_many_sync(requests, settings=settings), strict=True):
        assert result.failure
        assert result.failure.kind is FailureKind.DIAGNOSTIC
        assert re.search(message, result.failure.message), result.failure.message
        error = next(each for each in result.failure.diagnostics if each.severity == "error")
        assert (error.line, error.file) == (
            line,
            "kernel.ttir" if "addf" in result.request.kernel.source else "kernel.py",
        )


def test_a_crash_fails_its_kernel_alone(settings: Settings) -> None:
    """LLVM gives up on one, MLIR dereferences nothing for another; both end the process that they run in."""
    nothing = Kernel(name="nothing", source="module {}\n", language="ttir")
    requests = [
        request(nothing, "sm_90"),
        request(ADD_TTIR, "sm_88"),
        request(ADD_TTIR, "sm_90", params={"num_warps": 3}),
        request(ADD_TTIR, "sm_90"),
    ]
    crashed, infeasible, wrong, good = compile_many_sync(requests, settings=settings, retry=RetryPolicy(max_attempts=1))
    assert crashed.failure
    assert infeasible.failure
    assert wrong.failure
    assert crashed.failure.kind is FailureKind.CRASH
    assert infeasible.failure.kind is FailureKind.INFEASIBLE
    assert wrong.failure.kind is FailureKind.DIAGNOSTIC
    assert "num_warps must be a power of 2" in wrong.failure.message
    assert good.ok
