"""The same for every toolchain: what works, what is refused, what ends a compile, and what asks for another one.

Each on one of the back ends, in turn. The sources that never end keep the real compiler busy: a macro that stands for
10^12 others, none of which is anything; a constant that is a loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import (
    CommandToolchain,
    Compiler,
    CompileRequest,
    FailureKind,
    Kernel,
    RequestError,
    RetryPolicy,
    Target,
)
from teeny_async.execution.probe import MachineHost, ProbeMemory
from teeny_async.execution.runner import LocalRunner
from teeny_async.settings import Settings
from teeny_async.toolchains.base import Driver
from tests.conftest import BACKENDS
from tests.standins import Teenyc
from tests.support import changed, leftovers, the_file_clock_moved_on

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leftovers")]

ENDLESS = "".join(["#define A0\n", *(f"#define A{n} {f'A{n - 1} ' * 10}\n" for n in range(1, 13)), "A12\n"])
RUST = """\
#![feature(no_core, lang_items, abi_ptx, auto_traits)]
#![allow(internal_features, long_running_const_eval)]
#![no_core]
#[lang = "pointee_sized"] pub trait PointeeSized {}
#[lang = "meta_sized"] pub trait MetaSized: PointeeSized {}
#[lang = "sized"] pub trait Sized: MetaSized {}
#[lang = "copy"] pub trait Copy {}
#[lang = "freeze"] pub unsafe auto trait Freeze {}
impl Copy for f32 {}
"""
RUST_KERNEL = '#[no_mangle] pub unsafe extern "ptx-kernel" fn k_entry_point(x: *mut f32) { *x = 1.0; }\n'
ZIG_SLOW = "comptime {\n @setEvalBranchQuota(4294967295);\n var i: u64 = 0;\n while (i < 4000000000) i += 1;\n}\n"
GLOBAL = 'extern "C" __attribute__((global)) '


@dataclass(frozen=True, kw_only=True)
class Case:
    """A toolchain, and kernels for it.

    good, bad: compiles, and does not, with the error in line `line`. slow: what to put in front so that it never ends.
    reads: what to put in front so that it reads the file `shared`; `text` makes that file's content of a number.
    keyed: whether what it reads is followed; if not, it is compiled each time. target; unknown, near: a name
    that it does not know, and the nearest that it does.
    """

    tool: str | Driver
    language: str
    good: str
    bad: str
    line: int = 1
    slow: str = ENDLESS
    reads: str = '#include "shared.h"\n'
    shared: str = "shared.h"
    text: Callable[[int], str] = "#define SHARED {}\n".format
    used: str = "SHARED"
    keyed: bool = True
    target: str = "sm_90"
    unknown: str = "sm_91"
    near: str = "sm_90"

    def kernel(self, source: str, **fields: Any) -> Kernel:
        return Kernel(name="k", source=source, language=self.language, **fields)

    def request(self, source: str | None = None, **options: Any) -> CompileRequest:
        fields = options.pop("fields", {})
        kernel = self.kernel(self.good if source is None else source, **fields)
        return CompileRequest(kernel, Target.parse(self.target), toolchain=self.tool, **options)


C = Case(tool="zig", language="c", good="void k(float *x) { *x = 1; }\n", bad="void k(float *x) { *x = gone; }\n")
CPU = replace(C, target="x86-64-v3", unknown="x86-64-v9@x86_64-unknown-linux-gnu", near="x86-64-v3")
CUDA = replace(C, language="cuda", good=GLOBAL + C.good, bad=GLOBAL + C.bad)
RUSTC = Case(
    tool="rustc",
    language="rust",
    good=RUST + RUST_KERNEL,
    bad=RUST + RUST_KERNEL.replace("1.0", "gone"),
    line=RUST.count("\n") + 1,
    slow=RUST + "pub const SLOW: () = loop {};\npub fn slow() { SLOW }\n",
    reads=RUST + "mod shared;\n",
    shared="shared.rs",
    text="#[inline(always)] pub fn shared() -> f32 {{ {}.0 }}\n".format,
    used="shared::shared()",
)
ZIG = Case(
    tool="zig",
    language="zig",
    good="export fn k(x: *f32) void {\n    x.* = 1;\n}\n",
    bad="export fn k(x: *f32) void {\n    x.* = gone;\n}\n",
    line=2,
    slow=ZIG_SLOW,
    reads='const shared = @import("shared.zig").shared;\n',
    shared="shared.zig",
    text="pub fn shared() f32 {{\n    return {};\n}}\n".format,
    used="shared()",
    keyed=False,
    target="x86-64-v3",
    unknown="x86-64-v9@x86_64-unknown-linux-gnu",
    near="x86-64-v3",
)
OWN = CommandToolchain(
    "mycc",
    "gcc -march={cpu} -O{opt_level} -I{include_dirs} -MD -MF {depfile} -c {source} -o {output}",
    languages=["c"],
    outputs={"object": "kernel.o"},
    cpus=["x86-64-v2", "x86-64-v3"],
)
TRITON = Case(
    tool="triton",
    language="triton",
    good='import triton\n\n@triton.jit\ndef k(x: "*fp32"):\n    triton.language.store(x, 1.0)\n',
    bad='import triton\n\n@triton.jit\ndef k(x: "*fp32"):\n    triton.language.store(x, gone)\n',
    line=5,
    slow="while True:\n    pass\n",
)
TTIR = """\
tt.func public @k(%x: !tt.ptr<f32>) {
  %one = arith.constant 1.0 : f32
  tt.store %x, %one : !tt.ptr<f32>
  tt.return
}
"""
LONG_TTIR = "\n".join(
    [
        "tt.func public @slow(%x: !tt.ptr<f32>) {",
        "%v0 = tt.load %x : !tt.ptr<f32>",
        *(f"%v{n + 1} = arith.mulf %v{n}, %v{n // 2} : f32" for n in range(20000)),
        "tt.store %x, %v20000 : !tt.ptr<f32>\ntt.return\n}\n",
    ]
)
"""It takes seconds."""
CASES = {
    "zig": C,
    "zig-cuda": CUDA,
    "zig-hip": replace(CUDA, language="hip", target="gfx942", unknown="gfx943", near="gfx942"),
    "zig-lang": ZIG,
    "nvcc": replace(CUDA, tool="nvcc"),
    "rustc": RUSTC,
    "teenyc": replace(RUSTC, tool="teenyc", slow=f"{RUST}// standin: hang\n", keyed=False),
    "gcc": replace(CPU, tool="cc"),
    "clang": replace(CPU, tool="cc"),
    "own": replace(CPU, tool=OWN),
    "triton": TRITON,
    "triton-hip": replace(TRITON, target="gfx942", unknown="gfx943", near="gfx942"),
    "ttir": replace(
        TRITON, language="ttir", good=TTIR, bad=TTIR.replace("store %x, %one", "gone %x"), line=3, slow=LONG_TTIR
    ),
}


@pytest.fixture(params=[pytest.param(name, id=name) for name in CASES])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


reading = pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.tool not in ("teenyc", "triton")]
)
"""Those that can read a second file; teenyc and triton take one."""


@pytest.fixture
def case(name: str) -> Case:
    return CASES[name]


@pytest.fixture
def anyio_backend(name: str) -> Any:
    return BACKENDS[list(CASES).index(name) % len(BACKENDS)].values[0]


@pytest.fixture
def machine(name: str, settings: Settings, teenyc: Teenyc, tmp_path: Path) -> Settings:
    """The settings, with the stand-ins that a case needs."""
    if name == "teenyc":
        return changed(settings, {"TEENYC_PATH": teenyc.path})
    if name == "clang":
        script = tmp_path / "clang"
        zig = MachineHost({}, LocalRunner(""), ProbeMemory()).package_file("ziglang", "zig")
        script.write_text(f'#!/bin/sh\nexec {zig} clang "$@"\n')
        script.chmod(0o755)
        return changed(settings, {"CC": script})
    return changed(settings, {"CC": "gcc"})


def session(machine: Settings, **options: Any) -> Compiler:
    return Compiler(settings=machine, jobs=2, **{"retry": RetryPolicy(max_attempts=1), **options})


async def test_it_compiles_and_keeps(case: Case, machine: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A success; the same again from the cache; and again by the compiler, when that is another version."""
    identify = MachineHost.fingerprint

    async def bumped(host: MachineHost, name: str, version: str, files: Any) -> str:
        return await identify(host, name, f"{version} (bumped)", files)

    found = []
    for version in ("first", "again", "bumped"):
        if version == "bumped":
            monkeypatch.setattr(MachineHost, "fingerprint", bumped)
        async with session(machine) as compiler:
            result = await compiler.compile_result(case.request())
        assert result.ok, result.failure
        found.append((result.source, result.key, result.artifact.digest))
    assert [source for source, *_ in found] == ["compiled", "cached", "compiled"]
    assert found[0][1] == found[1][1] != found[2][1]
    assert found[0][2] == found[1][2] == found[2][2]


async def test_an_error_has_its_place(case: Case, machine: Settings) -> None:
    async with session(machine) as compiler:
        result = await compiler.compile_result(case.request(case.bad))
    assert result.failure
    assert result.failure.kind is FailureKind.DIAGNOSTIC
    error = next(one for one in result.failure.diagnostics if one.severity == "error")
    assert error.line == case.line
    assert "gone" in error.message


async def test_an_unknown_target_is_refused(case: Case, machine: Settings) -> None:
    unknown = replace(case.request(), target=Target.parse(case.unknown))
    async with session(machine) as compiler:
        with pytest.raises(RequestError, match=f"unknown target CPU .*: did you mean .*{case.near}"):
            await compiler.compile(unknown)
        assert compiler.stats.requests == 0


async def test_it_is_stopped_in_time(case: Case, machine: Settings) -> None:
    endless = case.request(case.slow + case.good.removeprefix(RUST), timeout=0.3)
    async with session(machine) as compiler:
        result = await compiler.compile_result(endless)
    assert result.failure
    assert result.failure.kind is FailureKind.TIMEOUT


async def test_it_is_cancelled(case: Case, machine: Settings, scratch_dir: Path) -> None:
    """While its compiler runs; `no_leftovers` sees that it does not any more."""
    endless = case.request(case.slow + case.good.removeprefix(RUST))
    async with session(machine) as compiler:
        await compiler.plan(endless)  # so that what is seen to run is no probe
        async with anyio.create_task_group() as group:
            group.start_soon(compiler.compile_result, endless)
            with anyio.fail_after(20):
                while not any(_is_a_compiler(line) for line in leftovers(scratch_dir, patience=0)):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        result = await compiler.compile_result(case.request())
        assert result.ok, "the session goes on"


@reading
async def test_a_file_that_changes_is_seen(case: Case, machine: Settings, tmp_path: Path) -> None:
    """Compiled with it, kept, compiled again when it changes; where it cannot be followed: compiled each time."""
    shared = tmp_path / case.shared
    source = case.reads + case.good.removeprefix(RUST).replace("1.0", "1").replace(" 1;", f" {case.used};")
    request = case.request(source, fields={"include_dirs": (str(tmp_path),)})
    found: list[tuple[int, str, str]] = []
    for number in (3, 3, 4, 3) if case.keyed else (3, 3, 4):
        if not found or number != found[-1][0]:
            shared.write_text(case.text(number))
            await the_file_clock_moved_on()
        async with session(machine) as compiler:
            result = await compiler.compile_result(request)
        assert result.ok, result.failure
        found.append((number, result.source, result.artifact.digest))
    kept = "cached" if case.keyed else "compiled"
    assert [source for _, source, _ in found] == ["compiled", kept, "compiled", kept][: len(found)]
    assert {digest for number, _, digest in found if number == 3} == {found[0][2]}
    assert found[2][2] != found[0][2]


def _is_a_compiler(line: str) -> bool:
    """Of what `leftovers` lists: a process with a kernel's file on its command line, the stand-in that hangs, or a fork
    that has taken the kernel's name."""
    if line.startswith("process") and "forker.py" in line:
        with contextlib.suppress(OSError):
            return Path("/proc", line.split()[1], "comm").read_text().startswith("kernel.")
    return line.startswith("process") and ("kernel." in line or "sleep 1000" in line)
