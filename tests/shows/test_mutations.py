"""Each thing that can change an output misses; each thing that cannot hits. With the real compilers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from teeny_async import Compiler, CompileRequest, Kernel, Target
from teeny_async.settings import Settings
from tests.standins import Teenyc, stock_rustc
from tests.support import KERNELS, changed, the_file_clock_moved_on

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One backend: what is asked here is asked of keys and files, not of the event loop."""
    return "asyncio"


class Bench:
    """A cache, and what it says of a request: whether it had to be compiled."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def misses(self, request: CompileRequest, settings: Settings | None = None) -> bool:
        await the_file_clock_moved_on()
        async with Compiler(settings=settings or self.settings) as compiler:
            result = await compiler.compile_result(request)
        assert result.ok, result.failure
        assert result.uncached is None
        return result.source == "compiled"

    async def expect(self, mutations: dict[str, CompileRequest], *, miss: bool) -> None:
        for name, request in mutations.items():
            assert await self.misses(request) is miss, name
            if miss:
                assert not await self.misses(request), f"{name}, again"


@pytest.fixture
def bench(settings: Settings, no_leftovers: None) -> Bench:
    return Bench(settings)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A kernel that includes a header from the second of two folders."""
    for name in ("early", "late"):
        (tmp_path / name).mkdir()
    (tmp_path / "late" / "h.h").write_text("#define STEP 1\n")
    return tmp_path


def c_kernel(tree: Path, language: str, **changes: object) -> Kernel:
    fields: dict[str, object] = {
        "name": "k",
        "source": '#include "h.h"\n' + (KERNELS / ("saxpy.c" if language == "c" else "vector_add.cu")).read_text(),
        "language": language,
        "prelude": "/* prelude */\n",
        "defines": {"EXTRA": 1, "OTHER": 2},
        "include_dirs": (tree / "early", tree / "late"),
    }
    return Kernel(**{**fields, **changes})  # type: ignore[arg-type]


async def mutate_c(bench: Bench, tree: Path, base: CompileRequest) -> None:
    """What zig and nvcc have in common."""
    kernel = base.kernel
    assert await bench.misses(base)
    await bench.expect(
        {
            "source": replace(base, kernel=replace(kernel, source=kernel.source + "// \n")),
            "prelude": replace(base, kernel=replace(kernel, prelude="/* prelude 2 */\n")),
            "define": replace(base, kernel=replace(kernel, defines={"EXTRA": 1, "OTHER": 3})),
            "entry point": replace(base, kernel=replace(kernel, entry_point=base.kernel.name)),
            "param": replace(base, params={"BLOCK": 64}),
            "flag": replace(base, flags=("-DFLAG=1",)),
            "optimisation": replace(base, opt_level=2),
            "target": replace(base, target=Target("sm_89")),
            "output": replace(base, emit="cubin"),
        },
        miss=True,
    )
    link = tree / "link"
    link.symlink_to(tree / "late")
    await bench.expect(
        {
            "itself": base,
            "name": replace(base, kernel=replace(kernel, name="renamed")),
            "id": replace(base, kernel=replace(kernel, id="k__f32")),
            "timeout": replace(base, timeout=77.0),
            "order of macros": replace(base, kernel=replace(kernel, defines={"OTHER": 2, "EXTRA": 1})),
            "spelling of a folder": replace(
                base, kernel=replace(kernel, include_dirs=(str(tree / "early"), str(link)))
            ),
        },
        miss=False,
    )
    await mutate_headers(bench, base, tree)


async def mutate_headers(bench: Bench, base: CompileRequest, tree: Path) -> None:
    """Contents and places of what is included."""
    header = tree / "late" / "h.h"
    was = header.read_text()
    header.write_text(was + "// more\n")
    assert await bench.misses(base), "a changed header"
    header.write_text(was)
    assert not await bench.misses(base), "the header as it was"
    os.utime(header, (1, 1))
    assert not await bench.misses(base), "a touched header"
    earlier = tree / "early" / "h.h"
    earlier.write_text("#define STEP 2\n")
    assert await bench.misses(base), "a header newly found earlier"
    earlier.unlink()
    assert not await bench.misses(base), "that header gone again"
    (tree / "early" / "unrelated.h").write_text("")
    assert not await bench.misses(base), "a header that nobody includes"


async def test_zig(bench: Bench, tree: Path) -> None:
    kernel = c_kernel(tree, "c", name="saxpy")
    base = CompileRequest(kernel, Target("sm_90"), toolchain="zig", params={"BLOCK": 128, "UNROLL": 2})
    await mutate_c(bench, tree, base)
    await bench.expect(
        {
            "PTX version": replace(base, target=Target("sm_90", ptx_version=86)),
            "feature": replace(base, target=Target("znver4", "x86_64-unknown-linux-gnu", features=("+amx-int8",))),
        },
        miss=True,
    )
    await bench.expect({"order of params": replace(base, params={"UNROLL": 2, "BLOCK": 128})}, miss=False)


async def test_nvcc(bench: Bench, tree: Path) -> None:
    kernel = c_kernel(tree, "cuda", name="vector_add")
    base = CompileRequest(kernel, Target("sm_90"), toolchain="nvcc", params={"BLOCK": 128})
    await mutate_c(bench, tree, base)
    for variable in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        steered = changed(bench.settings, {variable: "-lineinfo"})
        assert await bench.misses(base, steered), variable
        assert not await bench.misses(base, steered)
    assert not await bench.misses(base, changed(bench.settings, {"UNRELATED": "1"}))


async def test_rustc(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "part.rs").write_text("pub const C: i32 = 4;")
    text = (KERNELS / "saxpy.rs").read_text() + "\npub const UNROLL: i32 = `N=1`;\nmod part;\n"
    kernel = Kernel(name="k", source=text, language="rust", include_dirs=(str(tmp_path),))
    base = CompileRequest(kernel, Target("sm_90"), toolchain="rustc")
    assert await bench.misses(base)
    await bench.expect(
        {
            "source": replace(base, kernel=replace(kernel, source=text + "// \n")),
            "param": replace(base, params={"N": 2}),
            "flag": replace(base, flags=("-Cdebuginfo=1",)),
            "optimisation": replace(base, opt_level=2),
            "target": replace(base, target=Target("sm_80")),
            "PTX version": replace(base, target=Target("sm_90", ptx_version=86)),
            "output": replace(base, emit="cubin"),
        },
        miss=True,
    )
    await bench.expect({"itself": base, "the default": replace(base, params={"N": 1})}, miss=False)
    (tmp_path / "part.rs").write_text("pub const C: i32 = 5;")
    assert await bench.misses(base), "the file of a module"
    (tmp_path / "part.rs").write_text("pub const C: i32 = 4;")
    assert not await bench.misses(base)


async def test_the_compiler_itself(bench: Bench, tmp_path: Path) -> None:
    """Its contents count; where it lies does not."""
    kernel = Kernel.from_file(KERNELS / "saxpy.rs")
    base = CompileRequest(kernel, Target("sm_90"), toolchain="rustc")

    def installed(folder: str, comment: str) -> Settings:
        program = tmp_path / folder / "rustc"
        program.parent.mkdir(exist_ok=True)
        # More than an `exec`: such a script would be looked through.
        program.write_text(f'#!/bin/sh\n# {comment}\nLC_ALL=C exec {stock_rustc()} "$@"\n')
        program.chmod(0o755)
        return changed(bench.settings, {"PATH": f"{program.parent}:{bench.settings.environ['PATH']}"})

    assert await bench.misses(base, installed("one", "1"))
    assert not await bench.misses(base, installed("one", "1"))
    assert not await bench.misses(base, installed("moved", "1")), "moved"
    assert await bench.misses(base, installed("one", "2")), "upgraded"
    assert not await bench.misses(base, installed("one", "1")), "downgraded again"


async def test_teenyc(bench: Bench, teenyc: Teenyc, tmp_path: Path) -> None:
    settings = changed(bench.settings, {"TEENYC_PATH": teenyc.path})
    bench.settings = settings
    kernel = Kernel.from_file(KERNELS / "saxpy.rs", prelude="// a prelude\n")
    base = CompileRequest(kernel, Target("sm_90"), toolchain="teenyc")
    assert await bench.misses(base)
    await bench.expect(
        {
            "source": replace(base, kernel=replace(kernel, source=kernel.source + "// \n")),
            "prelude": replace(base, kernel=replace(kernel, prelude="// another\n")),
            "target": replace(base, target=Target("sm_80")),
            "no target": replace(base, target=Target()),
            "PTX version": replace(base, target=Target("sm_90", ptx_version=86)),
        },
        miss=True,
    )
    await bench.expect({"itself": base, "id": replace(base, kernel=replace(kernel, id="x"))}, miss=False)
    assert await bench.misses(base, changed(settings, {"TEENYC_PTX_VERSION": "87"})), "the variable"
    sysroot = tmp_path / "sysroot"
    library = sysroot / "lib" / "librustc_driver.so"
    library.parent.mkdir(parents=True)
    library.write_text("1")
    teenyc.claim_sysroot(str(sysroot))
    assert await bench.misses(base), "a library"
    library.write_text("2")
    assert await bench.misses(base), "a library changed in place"
    library.write_text("1")
    assert not await bench.misses(base), "the library as it was"
    with teenyc.path.open("a") as script:
        script.write("# upgraded\n")
    assert await bench.misses(base), "the compiler"
