"""The machine's own C compiler: gcc as it is here, and clang, which zig stands in for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teeny_async import CompileRequest, FailureKind, Kernel, RequestError, Target, compile_many_sync
from teeny_async.execution.probe import MachineHost, ProbeMemory
from teeny_async.execution.runner import LocalRunner
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.settings import Settings
from teeny_async.target import host_triple
from teeny_async.testing import FakeHost
from teeny_async.toolchains.base import Toolchain, ToolNotFound
from teeny_async.toolchains.cc import Cc
from tests.support import KERNELS, changed
from tests.toolchains.test_stages import check_sum, compiled, request

pytestmark = pytest.mark.usefixtures("no_leftovers")

GCC_SETTINGS = {"kind": "gcc", "machine": "x86_64-linux-gnu"}
CLANG_SETTINGS = {"kind": "clang", "machine": "x86_64-unknown-linux-gnu"}


def line(target: str, settings: dict[str, str] = GCC_SETTINGS, source: str = "", **options: Any) -> str:
    tool = Toolchain(name="cc", path="/bin/cc", version="1", fingerprint="00", settings=FrozenMap(settings))
    kernel = Kernel(name="k", source=source, language="c")
    return " ".join(Cc().plan(request(kernel, target, **options), Target.parse(target), tool).argv)


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (line("znver3"), "cc -march=znver3 -O3 -c kernel.c -o kernel.o"),
        (
            line("znver3+avx512f+-fma", emit="asm", opt_level="s"),
            "cc -march=znver3 -mavx512f -mno-fma -Os -S kernel.c -o kernel.s",
        ),
        (
            line("x86-64-v3", emit="shared", params={"N": 4}),
            "cc -march=x86-64-v3 -O3 -DN=4 -fPIC -shared -nostdlib kernel.c -o kernel.so",
        ),
        (line("default@x86_64-unknown-linux-gnu"), "cc -O3 -c kernel.c -o kernel.o"),
        (
            line("neoverse-v2+sve2+-crypto", {"kind": "gcc", "machine": "aarch64-redhat-linux"}),
            "cc -mcpu=neoverse-v2+sve2+nocrypto -O3 -c kernel.c -o kernel.o",
        ),
        (
            line("neoverse-v2+sve2", CLANG_SETTINGS),
            (
                "cc -target aarch64-unknown-linux-gnu -mcpu=neoverse-v2 -Xclang -target-feature -Xclang +sve2 "
                "-fno-crash-diagnostics -fdebug-compilation-dir=. -O3 -c kernel.c -o kernel.o"
            ),
        ),
        (
            line("znver3", source="#include <math.h>"),
            "cc -march=znver3 -O3 -MD -MF kernel.d -c kernel.c -o kernel.o",
        ),
    ],
)
def test_command_lines(planned: str, expected: str) -> None:
    assert planned == expected


def test_what_it_refuses() -> None:
    with pytest.raises(RequestError, match="a gcc for x86_64-linux-gnu, and cannot compile for neoverse-v2; zig and"):
        line("neoverse-v2")
    with pytest.raises(RequestError, match="cc compiles for CPUs only, not sm_90"):
        line("sm_90")
    with pytest.raises(RequestError, match="cannot emit 'shared' for apple-m1"):
        line("apple-m1@aarch64-apple-darwin", CLANG_SETTINGS, emit="shared")
    # The linker is this machine's own.
    with pytest.raises(RequestError, match="cannot emit 'shared' for neoverse-v1; it can emit object, asm"):
        line("neoverse-v1", CLANG_SETTINGS, emit="shared")


@pytest.mark.parametrize("flag", ["-lm", "-fuse-ld=gold"])
def test_a_library_that_is_linked_is_not_in_the_key(flag: str) -> None:
    tool = Toolchain(name="cc", path="/bin/cc", version="1", fingerprint="00", settings=FrozenMap(GCC_SETTINGS))
    kernel = Kernel(name="k", source="", language="c")
    action = Cc().plan(request(kernel, "znver3", emit="shared", flags=(flag,)), Target.parse("znver3"), tool)
    assert f"{flag!r} brings in a file that is not in the key" in (action.uncacheable or "")


@pytest.mark.anyio
async def test_its_identity() -> None:
    gcc: dict[tuple[str, ...], bytes] = {
        ("/bin/cc", "--version"): b"cc (Debian) 12\n",
        ("/bin/cc", "-dumpmachine"): b"x86_64-linux-gnu\n",
        ("/bin/cc", "-print-prog-name=cc1"): b"/bin/sh\n",
        **{("/bin/cc", f"-print-prog-name={part}"): b"sh\n" for part in ("as", "ld", "collect2")},
        ("/bin/cc", "-M", "-x", "c", "/dev/null"): b"null.o: /dev/null /usr/include/stdc-predef.h\n",
    }
    answers = {argv: Exit(code=0, stdout=text) for argv, text in gcc.items()}
    found = await Cc().find(FakeHost(programs={"gcc": "/bin/cc"}, answers=answers))
    assert (found.version, found.settings) == ("cc (Debian) 12", GCC_SETTINGS)
    assert bytes.fromhex(found.fingerprint).decode() == (
        "cc cc (Debian) 12\nx86_64-linux-gnu ['/usr/include/stdc-predef.h', 'as', 'cc', 'cc1', 'collect2', 'ld']"
    )
    mine = await Cc().find(FakeHost({"CC": "mycc"}, {"gcc": "/no", "mycc": "/bin/cc"}, answers))
    assert mine.path == "/bin/cc"
    with pytest.raises(ToolNotFound, match="neither gcc nor clang is on PATH"):
        await Cc().find(FakeHost({"CC": "ccache gcc"}))
    with pytest.raises(ToolNotFound, match="/no does not answer `--version`"):
        await Cc().find(FakeHost(programs={"cc": "/no"}))


@pytest.mark.anyio
async def test_clangs_libraries_are_known_wherever_the_loader_finds_them(tmp_path: Path) -> None:
    (tmp_path / "llvm/bin").mkdir(parents=True)
    clang, beside, elsewhere = (
        tmp_path / name for name in ("llvm/bin/clang", "llvm/lib/libclang-cpp.so.14", "libLLVM-14.so.1")
    )
    beside.parent.mkdir()
    for file in (clang, beside, elsewhere):
        file.write_bytes(b"")
    listed = f"\tlinux-vdso.so.1 (0x7)\n\tlibLLVM-14.so.1 => {elsewhere} (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n"
    says: dict[tuple[str, ...], str] = {
        (str(clang), "--version"): "Debian clang version 14.0.6\n",
        (str(clang), "-dumpmachine"): "x86_64-pc-linux-gnu\n",
        (str(clang), "-print-prog-name=ld"): "ld\n",
        (str(clang), "-M", "-x", "c", "/dev/null"): "null.o: /dev/null\n",
        ("/bin/ldd", str(clang)): listed,
    }
    answers = {argv: Exit(code=0, stdout=text.encode()) for argv, text in says.items()}
    found = await Cc().find(FakeHost(programs={"clang": str(clang), "ldd": "/bin/ldd"}, answers=answers))
    assert bytes.fromhex(found.fingerprint).decode().endswith("['cc', 'libLLVM-14.so.1', 'libclang-cpp.so.14']")


@pytest.fixture(params=["gcc", "clang"])
def with_cc(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Settings:
    """Settings in which cc is a gcc, or a clang: zig's, by a script that says which part of it is meant."""
    if request.param == "gcc":
        return changed(settings, {"CC": "gcc"})
    zig = MachineHost({}, LocalRunner(""), ProbeMemory()).package_file("ziglang", "zig")
    script = tmp_path / "myclang"
    script.write_text(f'#!/bin/sh\nexec {zig} clang "$@"\n')
    script.chmod(0o755)
    return changed(settings, {"CC": str(script)})


def test_what_it_makes(with_cc: Settings, tmp_path: Path) -> None:
    (tmp_path / "n.h").write_text("#define N 1\n")
    (tmp_path / "k.c").write_text('#include "n.h"\nint k(void) { return N; }\n')
    add = Kernel.from_file(KERNELS / "vector_add.c", entry_point="vector_add")
    including = Kernel.from_file(tmp_path / "k.c", entry_point="k")
    requests = [
        request(add, "native", toolchain="cc", emit="object"),
        request(including, "x86-64-v3", toolchain="cc", emit="asm"),
    ]
    first = compiled(requests, with_cc)
    assert b"k:" in first[1].outputs["asm"]
    assert [one.source for one in compile_many_sync(requests, settings=with_cc)] == ["cached", "cached"]
    (tmp_path / "n.h").write_text("#define N 2\n")
    assert [one.source for one in compile_many_sync(requests, settings=with_cc)] == ["cached", "compiled"]


def test_gccs_library_loads_and_computes(settings: Settings, tmp_path: Path) -> None:
    add = Kernel.from_file(KERNELS / "vector_add.c", entry_point="vector_add")
    [result] = compiled([request(add, "native", toolchain="cc", emit="shared")], changed(settings, {"CC": "gcc"}))
    library = tmp_path / "k.so"
    library.write_bytes(result.outputs["shared"])
    check_sum(library)


def test_what_goes_wrong(with_cc: Settings) -> None:
    bad = Kernel(name="k", language="c", source="int k(void) { return nothing; }\n")
    [result] = compile_many_sync([request(bad, "x86-64-v3", toolchain="cc")], settings=with_cc)
    assert result.failure
    assert result.failure.kind is FailureKind.DIAGNOSTIC
    assert (result.failure.diagnostics[0].file, result.failure.diagnostics[0].line) == ("kernel.c", 1)
    with pytest.raises(RequestError, match="unknown target CPU 'x86-64-v9' for cc"):
        compile_many_sync([request(bad, f"x86-64-v9@{host_triple()}", toolchain="cc")], settings=with_cc)


def test_without_zig_auto_takes_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*_: Any) -> Toolchain:
        raise ToolNotFound("zig: not installed")

    monkeypatch.setattr("teeny_async.toolchains.zig.find_zig", gone)
    kernel = Kernel(name="k", language="c", source="int k(void) { return 1; }\n")
    [result] = compile_many_sync([CompileRequest(kernel)], settings=changed(settings, {"CC": "gcc"}))
    assert result.outputs["object"].startswith(b"\x7fELF")
