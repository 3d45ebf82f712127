"""Finding tools, telling one state of a compiler from another, and remembering both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from teeny_async.action import Action
from teeny_async.execution.probe import MachineHost, ProbeMemory, follow_wrapper
from teeny_async.execution.runner import LocalRunner, RunLimits
from teeny_async.result import Exit
from teeny_async.store.memory import MemoryStore
from teeny_async.testing import FakeHost
from teeny_async.toolchains.base import Driver, ToolNotFound
from teeny_async.toolchains.registry import DRIVERS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leftovers")]

# A compiler that answers as rustc does, from wherever it lies.
FAKE_RUSTC = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char path[4096] = "";
    if (argc == 3 && !strcmp(argv[1], "--print")) {
        readlink("/proc/self/exe", path, sizeof path - 1);
        *strstr(path, "/bin/") = 0;
        puts(path);
    } else
        puts("rustc 9.9.9 (fake)");
}
"""


class CountingRunner(LocalRunner):
    """Runs programs, and notes which."""

    def __init__(self, scratch_dir: Path) -> None:
        super().__init__(str(scratch_dir))
        self.ran: list[str] = []

    async def run(self, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Exit:
        self.ran.append(" ".join(action.argv[1:]))
        return await super().run(action, chained, limits)


@pytest.fixture
def runner(scratch_dir: Path) -> CountingRunner:
    return CountingRunner(scratch_dir)


@pytest.fixture(scope="session")
def fake_rustc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sysroot: `bin/rustc`, a real program, and the libraries that stand for the compiler proper."""
    sysroot = tmp_path_factory.mktemp("sysroot")
    (sysroot / "bin").mkdir()
    (sysroot / "rustc.c").write_text(FAKE_RUSTC)
    command = ["gcc", "-w", str(sysroot / "rustc.c"), "-o", str(sysroot / "bin" / "rustc")]
    subprocess.run(command, check=True)
    library = sysroot / "lib" / "rustlib" / "nvptx64" / "lib"
    library.mkdir(parents=True)
    (sysroot / "lib" / "librustc_driver-1.so").write_bytes(b"driver")
    (library / "libcore.rlib").write_bytes(b"core")
    return sysroot


@pytest.fixture
def sysroot(fake_rustc: Path, tmp_path: Path) -> Path:
    return copied(fake_rustc, tmp_path / "rust")


def copied(sysroot: Path, where: Path) -> Path:
    return Path(shutil.copytree(sysroot, where, symlinks=True))


async def fingerprint(
    runner: CountingRunner, folder: Path, memory: ProbeMemory | None = None, driver: Driver = DRIVERS["rustc"]
) -> str:
    """Of the compiler in `folder`, the first on PATH."""
    async with runner:
        host = MachineHost({"PATH": f"{folder}:/usr/bin:/bin"}, runner, memory or ProbeMemory())
        return (await driver.find(host)).fingerprint


# -- fingerprints -------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["lib/librustc_driver-1.so", "lib/rustlib/nvptx64/lib/libcore.rlib", "bin/rustc"])
async def test_a_changed_file_changes_it(runner: CountingRunner, sysroot: Path, changed: str) -> None:
    memory = ProbeMemory()
    before = await fingerprint(runner, sysroot / "bin", memory)
    path, times = sysroot / changed, os.stat(sysroot / changed)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as an archive that is unpacked would
    assert await fingerprint(runner, sysroot / "bin", memory) != before


async def test_a_new_library_changes_it(runner: CountingRunner, sysroot: Path) -> None:
    before = await fingerprint(runner, sysroot / "bin")
    backends = sysroot / "lib" / "rustlib" / "x86_64" / "codegen-backends"
    backends.mkdir(parents=True)
    (backends / "librustc_codegen_mlir.so").write_bytes(b"backend")
    with_backend = await fingerprint(runner, sysroot / "bin")
    (sysroot / "lib" / "libtriton.so.3").write_bytes(b"triton")
    assert len({before, with_backend, await fingerprint(runner, sysroot / "bin")}) == 3


async def test_it_is_the_same_wherever_the_compiler_lies(runner: CountingRunner, sysroot: Path, tmp_path: Path) -> None:
    before = await fingerprint(runner, sysroot / "bin")
    moved = copied(sysroot, tmp_path / "elsewhere" / "rust")
    links = tmp_path / "links"
    links.mkdir()
    (links / "rustc").symlink_to(moved / "bin" / "rustc")
    (tmp_path / "linked").symlink_to(moved)
    wrapper = tmp_path / "wrapper"
    wrapper.mkdir()
    (wrapper / "rustc").write_text(f'#!/bin/sh\nexec {moved}/bin/rustc "$@"\n')
    (wrapper / "rustc").chmod(0o755)
    for folder in (moved / "bin", links, tmp_path / "linked" / "bin", wrapper):
        assert await fingerprint(runner, folder) == before


async def test_touching_a_file_does_not_change_it(runner: CountingRunner, sysroot: Path) -> None:
    memory = ProbeMemory()
    before = await fingerprint(runner, sysroot / "bin", memory)
    (sysroot / "lib" / "librustc_driver-1.so").touch()
    assert await fingerprint(runner, sysroot / "bin", memory) == before


async def test_no_two_lists_of_files_have_the_same(runner: CountingRunner, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    a, b = tmp_path / "a", tmp_path / "b"
    cases: list[tuple[str, str, dict[str, Path]]] = [
        ("t", "v", {"x": a, "y": b}),
        ("t", "v", {"x": b, "y": a}),
        ("t", "v", {"xy": a}),
        ("t", "v", {"x": a}),
        ("t", "vx", {"": a}),
        ("tv", "", {"x": a}),
        ("t", "v", {}),
    ]
    host = MachineHost({}, runner, ProbeMemory())
    found = [await host.fingerprint(name, version, files) for name, version, files in cases]
    assert len(set(found)) == len(cases)
    assert await host.fingerprint("t", "v", {"y": b, "x": a}) == found[0]


async def test_a_file_that_is_gone(runner: CountingRunner, tmp_path: Path) -> None:
    with pytest.raises(ToolNotFound, match=r"t: cannot read .*gone: No such file"):
        await MachineHost({}, runner, ProbeMemory()).fingerprint("t", "v", {"x": tmp_path / "gone"})


@pytest.mark.parametrize("name", ["zig", "rustc", "nvcc", "ptxas"])
async def test_every_tool_of_this_machine(runner: CountingRunner, name: str) -> None:
    async with runner:
        found = await DRIVERS[name].find(MachineHost(dict(os.environ), runner, SHARED))
        again = await DRIVERS[name].find(MachineHost(dict(os.environ), runner, SHARED))
    assert found == again
    assert found.version.startswith(f"{name} ")
    assert Path(found.path).is_file()
    assert Path(found.path).name != "rustup"
    assert len(found.fingerprint) == 64


SHARED = ProbeMemory()


# -- what is remembered -------------------------------------------------------------------------


async def test_nothing_is_run_or_read_twice(runner: CountingRunner, sysroot: Path) -> None:
    memory = ProbeMemory()
    first = await fingerprint(runner, sysroot / "bin", memory)
    assert runner.ran == ["-vV", "--print sysroot"]
    assert set(memory.files) == {str(path) for path in sysroot.rglob("*") if path.is_file() and path.suffix != ".c"}
    # A digest that is no file's: where it shows, the file was not read.
    library = str(sysroot / "lib" / "librustc_driver-1.so")
    memory.files[library] = (memory.files[library][0], "00" * 32)
    assert await fingerprint(runner, sysroot / "bin", memory) != first
    assert len(runner.ran) == 2


async def test_it_outlasts_the_process(runner: CountingRunner, sysroot: Path) -> None:
    store = MemoryStore()
    await store.open(lambda *_: None)
    found = []
    for _ in range(2):
        memory = ProbeMemory()
        host = MachineHost({"PATH": f"{sysroot / 'bin'}:/usr/bin:/bin"}, runner, memory)
        await host.recall(store)
        async with runner:
            found.append(await DRIVERS["rustc"].find(host))
        assert memory.changed is not bool(found[1:])
        await host.note(store)
        assert not memory.changed
    await store.aclose()
    assert found[0] == found[1]
    assert runner.ran == ["-vV", "--print sysroot"]


async def test_what_may_be_remembered(runner: CountingRunner, sysroot: Path, tmp_path: Path) -> None:
    program = str(sysroot / "bin" / "rustc")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho $1 $NAME\n")
    script.chmod(0o755)
    async with runner:
        host = MachineHost({"PATH": "/usr/bin:/bin"}, runner, ProbeMemory())

        async def runs(*calls: tuple[list[str], dict[str, Any]]) -> int:
            before = len(runner.ran)
            for argv, options in calls:
                assert (await host.run(argv, **options)).code == 0
            return len(runner.ran) - before

        same: tuple[list[str], dict[str, Any]] = ([program, "-vV"], {})
        assert await runs(same, same) == 1
        assert await runs(same, ([program, "-vV"], {"env": {"NAME": "1"}}), ([program, "-v"], {})) == 2
        assert await runs(([program, "-vV"], {"remember": False}), ([program, "-vV"], {"remember": False})) == 2
        # What a script answers depends on what it runs in turn.
        assert await runs(([str(script), "a"], {}), ([str(script), "a"], {})) == 2
        os.replace(shutil.copy(program, sysroot / "bin" / "new"), program)
        assert await runs(same, same) == 1


async def test_a_probe_that_fails_or_hangs(runner: CountingRunner, tmp_path: Path) -> None:
    async with runner:
        host = MachineHost({}, runner, ProbeMemory())
        assert (await host.run([str(tmp_path / "gone")])).code is None
        assert (await host.run(["/bin/false"])).code == 1
        assert (await host.run(["/bin/false"])).code == 1
    assert len(runner.ran) == 2


@pytest.mark.parametrize(
    "note",
    [
        *("", "null", "[]", "{}", "not json", '{"files": [], "answers": {}}', '{"files": {"a": 1}, "answers": {}}'),
        json.dumps({"files": {"a": [[1], "zz"]}, "answers": {}}),
        json.dumps({"files": {"a": [[1], "00"]}, "answers": {}}),
        json.dumps({"files": {"a": [[1], 7]}, "answers": {}}),
        json.dumps({"files": {}, "answers": {"a": [[1], {"code": 0}]}}),
        json.dumps({"files": {}, "answers": {"a": [[1], {"code": "x", "stdout": "", "stderr": ""}]}}),
        json.dumps({"files": {}, "answers": {"a": [[1], {"code": 0, "stdout": 1, "stderr": ""}]}}),
    ],
)
def test_a_note_that_makes_no_sense_is_no_note(note: str) -> None:
    memory = ProbeMemory()
    memory.load(note)
    assert (memory.files, memory.answers, memory.changed) == ({}, {}, False)


def test_a_note_reads_back_and_gives_way_to_what_is_known() -> None:
    memory = ProbeMemory()
    memory.files["a"] = ([1, 2], "11" * 32)
    memory.answers["x"] = ([3], {"code": 0, "stdout": "a", "stderr": ""})
    other = ProbeMemory()
    other.files["a"] = ([9], "22" * 32)
    other.load(memory.dump())
    assert other.files == {"a": ([9], "22" * 32)}
    assert other.answers == memory.answers


# -- where programs are -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "follows"),
    [
        ('#!/bin/sh\nexec {tool} "$@"\n', True),
        ('#! /bin/bash -e\n# a comment\n\n  exec "{tool}" "$@"', True),
        ('#!/bin/sh\nexec {tool} --flag "$@"\n', False),
        ('#!/bin/sh\nexport A=1\nexec {tool} "$@"\n', False),
        ("#!/bin/sh\nexec {tool} $@\n", False),
        ('#!/bin/sh\nexec tool "$@"\n', False),
        ('#!/bin/sh\nexec "$HOME/tool" "$@"\n', False),
        ('#!/bin/sh\nexec {tool}.gone "$@"\n', False),
        ('exec {tool} "$@"\n', False),
        ('#!/bin/sh\n{tool} "$@"\n', False),
        ("#!/bin/sh\n" + "#\n" * 4096 + 'exec {tool} "$@"\n', False),
    ],
)
def test_wrappers(tmp_path: Path, script: str, follows: bool) -> None:
    tool, wrapper = tmp_path / "tool", tmp_path / "wrapper"
    tool.write_bytes(b"\x7fELF")
    tool.chmod(0o755)
    wrapper.write_text(script.replace("{tool}", str(tool)))
    assert follow_wrapper(str(wrapper)) == str(tool if follows else wrapper)


def test_wrappers_of_wrappers(tmp_path: Path) -> None:
    for name, behind in (("a", "b"), ("b", "c"), ("c", "d"), ("loop", "loop")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {tmp_path / behind} "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "d").write_bytes(b"\x7fELF")
    (tmp_path / "d").chmod(0o755)
    assert follow_wrapper(str(tmp_path / "a")) == str(tmp_path / "d")
    assert follow_wrapper(str(tmp_path / "loop")) == str(tmp_path / "loop")
    assert follow_wrapper(str(tmp_path / "gone")) == str(tmp_path / "gone")


def test_a_link_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "rustup").write_bytes(b"\x7fELF")
    (tmp_path / "rustc").symlink_to("rustup")
    assert follow_wrapper(str(tmp_path / "rustc")) == str(tmp_path / "rustc")


async def test_which_looks_in_the_given_path_only(runner: CountingRunner, sysroot: Path, tmp_path: Path) -> None:
    assert MachineHost({"PATH": str(sysroot / "bin")}, runner, ProbeMemory()).which("rustc") == str(
        sysroot / "bin" / "rustc"
    )
    assert MachineHost({"PATH": str(tmp_path)}, runner, ProbeMemory()).which("rustc") is None


async def test_a_shim_is_not_the_compiler(runner: CountingRunner, sysroot: Path, tmp_path: Path) -> None:
    """rustup under another name, as a link and as a second name of the same file, is asked for the real one."""
    links: list[Callable[[Path, Path], None]] = [os.symlink, os.link]
    for number, link in enumerate(links):
        cargo = tmp_path / f"cargo{number}"
        cargo.mkdir()
        (cargo / "rustup").write_text(f'#!/bin/sh\n[ "$*" = "which rustc" ] && echo {sysroot}/bin/rustc\n')
        (cargo / "rustup").chmod(0o755)
        link(cargo / "rustup", cargo / "rustc")
        async with runner:
            host = MachineHost({"PATH": f"{cargo}:/usr/bin:/bin"}, runner, ProbeMemory())
            assert (await DRIVERS["rustc"].find(host)).path == str(sysroot / "bin" / "rustc")


async def test_rustup_never_installs_anything(runner: CountingRunner, sysroot: Path, tmp_path: Path) -> None:
    cargo = tmp_path / "cargo"
    cargo.mkdir()
    script = f"#!/bin/sh\nenv > {tmp_path}/environ\necho {sysroot}/bin/rustc\n"
    (cargo / "rustup").write_text(script)
    (cargo / "rustup").chmod(0o755)
    (cargo / "rustc").symlink_to("rustup")
    environ = {"PATH": f"{cargo}:/usr/bin:/bin", "RUSTUP_HOME": "/some/home", "SECRET": "1"}
    async with runner:
        await DRIVERS["rustc"].find(MachineHost(environ, runner, ProbeMemory()))
    seen = (tmp_path / "environ").read_text().splitlines()
    assert {"RUSTUP_AUTO_INSTALL=0", "RUSTUP_HOME=/some/home", "LC_ALL=C"} <= set(seen)
    assert "SECRET=1" not in seen


@pytest.mark.parametrize(
    ("name", "advice"), [("rustc", "rustup default stable"), ("zig", r"pip install 'teeny_async\[zig\]'")]
)
async def test_a_missing_tool_says_how_to_install_it(name: str, advice: str) -> None:
    with pytest.raises(ToolNotFound, match=f"{name}: not installed; .*{advice}"):
        await DRIVERS[name].find(FakeHost())
