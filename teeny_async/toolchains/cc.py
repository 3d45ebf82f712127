"""cc: the C compiler of this machine, gcc or clang, for CPU objects, assembly and shared libraries.

Found as CC, then `cc`, `gcc`, `clang` on PATH. gcc compiles for its own architecture only; clang for any. A shared
library is linked against nothing (-nostdlib), as by zig and lld: what it calls of libc or libm is looked up in the
process that loads it, and no file of this machine that is in no key gets into it.

Its identity is what the driver runs: the compiler proper, the assembler and the linker, or clang's libraries, and
the header that comes before every source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target, host_triple
from teeny_async.toolchains import clang
from teeny_async.toolchains.base import Draft, Driver, Host, Toolchain, ToolNotFound, check_emit, neutral_env
from teeny_async.toolchains.c_flags import Defines, Reading, define_args, draft, refuse_ours
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.finishing import can_link
from teeny_async.toolchains.options import DEPFILE, check_opt_level, refuse_log

_SYSTEM_FOLDERS = ("/usr/bin", "/bin")
_LEVELS = (0, 1, 2, 3, "s", "z", "g", "fast")
_OUTPUT: Mapping[str, tuple[str, Sequence[str]]] = {
    "object": ("kernel.o", ["-c"]),
    "asm": ("kernel.s", ["-S"]),
    "shared": ("kernel.so", ["-fPIC", "-shared", "-nostdlib"]),
}
_KIND, _MACHINE = "kind", "machine"
"""What `find` notes in a toolchain's settings: "gcc" or "clang", and what it says that it compiles for."""


class Cc(Driver):
    """C by the machine's own compiler."""

    name = "cc"
    languages = frozenset({"c"})
    emits = ("object", "asm", "shared")

    async def find(self, host: Host) -> Toolchain:
        path = next((found for name in _names(host) if (found := host.which(name))), None)
        if path is None:
            raise ToolNotFound("cc: neither gcc nor clang is on PATH; install one (Debian: apt-get install gcc)")
        version = await _says(host, path, "--version")
        kind = "clang" if "clang" in version else "gcc"
        parts = await (_parts_of_clang if kind == "clang" else _parts_of_gcc)(host, path, version)
        headers = await host.run([path, "-M", "-x", "c", "/dev/null"])
        listed = re.findall(r"(?<=\s)/\S+", headers.stdout.decode("utf-8", "replace"))
        files = {**parts, **{header: Path(header) for header in listed if header != "/dev/null"}}
        machine = await _says(host, path, "-dumpmachine")
        # InstalledDir is a place, and no part of what clang is.
        text = re.sub(r"(?m)^InstalledDir: .*$", "", version)
        return Toolchain(
            name=self.name,
            path=path,
            version=version.splitlines()[0],
            fingerprint=await host.fingerprint(self.name, f"{text}\n{machine}", {"cc": Path(path), **files}),
            search_path=tuple(dict.fromkeys((os.path.dirname(path), *_SYSTEM_FOLDERS))),
            settings=FrozenMap({_KIND: kind, _MACHINE: machine}),
        )

    def default_target(self, kernel: Kernel) -> Target:
        return Target(None, host_triple())

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        is_clang = toolchain.settings.get(_KIND) == "clang"
        if target.is_gpu:
            raise RequestError(f"cc compiles for CPUs only, not {target}")
        links = can_link(target) and _same_machine(target.triple, toolchain.settings[_MACHINE])
        check_emit(self, request, self.emits if links else ("object", "asm"), target)
        check_opt_level(self, request, _LEVELS)
        refuse_log(self, request)
        refuse_ours(self, request.flags)
        emit = request.emit or "object"
        output, mode = _OUTPUT[emit]
        inputs, (defines, read) = self.draft(request, toolchain)
        argv = ["cc", *(_clang_args(target) if is_clang else _gcc_args(target, toolchain.settings[_MACHINE]))]
        argv += [f"-O{request.opt_level}", *define_args(defines), *read.args(), *mode, *request.flags]
        return Action(
            argv=(*argv, "kernel.c", "-o", output),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            inputs=inputs,
            outputs=FrozenMap({emit: output}),
            required=(emit,),
            expect=expectations(request.kernel, target),
            depfile=DEPFILE if read.files else None,
            search=read.search,
            uncacheable=read.uncacheable or _links(emit, request.flags),
        )

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[tuple[Defines, Reading]]:
        return draft("kernel.c", request, request.flags)

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check)

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        if toolchain.settings[_KIND] == "clang":
            return await clang.cpus(host, (toolchain.path,), triple)
        if not _same_machine(triple, toolchain.settings[_MACHINE]):
            return None  # which `plan` then refuses, and says why
        probe = await host.run([toolchain.path, f"{_cpu_flag(triple)}=?", "-E", "-x", "c", "/dev/null"])
        listed = re.search(r"valid arguments[^:]*: (.*?)(?:;|$)", probe.text, re.MULTILINE)
        return frozenset(listed[1].split()) - {"native"} if listed else None

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        found = None
        if target.triple == host_triple():
            command = (toolchain.path,)
            is_clang = toolchain.settings[_KIND] == "clang"
            found = await clang.native(host, command, target) if is_clang else await _gcc_native(host, command, target)
        return found or await super().native(host, toolchain, target)


def _names(host: Host) -> Sequence[str]:
    """CC may hold arguments or a launcher as well; then it is no compiler's name, and not for us."""
    asked = host.environ.get("CC", "").strip()
    return [*([asked] if asked and " " not in asked else []), "cc", "gcc", "clang"]


async def _says(host: Host, path: str, question: str) -> str:
    answer = await host.run([path, question])
    text = answer.stdout.decode("utf-8", "replace").strip()
    if answer.code != 0 or not text:
        raise ToolNotFound(f"cc: {path} does not answer `{question}` (exit {answer.code})")
    return text


async def _parts_of_gcc(host: Host, path: str, version: str) -> dict[str, Path]:
    parts = {}
    for part in ("cc1", "as", "collect2", "ld"):
        name = await _says(host, path, f"-print-prog-name={part}")
        # A bare name is one that gcc looks for on its PATH.
        places = [Path(name), *(Path(folder, name) for folder in (os.path.dirname(path), *_SYSTEM_FOLDERS))]
        if found := _there(places):
            parts[part] = found[0]
    return parts


async def _parts_of_clang(host: Host, path: str, version: str) -> dict[str, Path]:
    """The libraries that a distribution's clang is a thin shell around, its linker, and its configuration files."""
    configured = [Path(name) for name in re.findall(r"(?m)^Configuration file: (.+)$", version)]
    linker = Path(await _says(host, path, "-print-prog-name=ld"))
    found = [*_beside(path), *await _loaded(host, path), *configured, linker]
    return {file.name: file for file in _there(found)}


def _beside(path: str) -> list[Path]:
    lib = Path(os.path.realpath(path)).parent.parent / "lib"
    return [file for name in ("libLLVM*.so*", "libclang-cpp*.so*") for file in sorted(lib.glob(name))]


async def _loaded(host: Host, path: str) -> list[Path]:
    """LLVM's libraries where the loader finds them: Debian's are in another folder than clang's own."""
    ldd = host.which("ldd")
    if ldd is None:
        return []
    # Not remembered: the same ldd answers differently when clang is another one.
    answer = await host.run([ldd, path], remember=False)
    text = answer.stdout.decode("utf-8", "replace")
    return [Path(name) for name in re.findall(r"=> (/\S*/lib(?:LLVM|clang-cpp)\S*)", text)]


def _there(files: Sequence[Path]) -> list[Path]:
    return [file for file in files if file.is_absolute() and file.exists()]


def _cpu_flag(triple: str) -> str:
    return "-march" if triple.startswith(("x86_64", "i686", "riscv")) else "-mcpu"


def _same_machine(triple: str, machine: str) -> bool:
    """The architecture and the system; distributions put what they like between the two."""
    ours, theirs = triple.replace("riscv64gc", "riscv64"), machine
    systems = ("linux", "darwin", "freebsd")
    return ours.split("-")[0] == theirs.split("-")[0] and any(name in ours and name in theirs for name in systems)


def _gcc_args(target: Target, machine: str) -> list[str]:
    if not _same_machine(target.triple, machine):
        raise RequestError(f"cc is a gcc for {machine}, and cannot compile for {target}; zig and clang can")
    signs = {"+": "-m", "-": "-mno-"}
    if _cpu_flag(target.triple) == "-mcpu":  # aarch64 writes its features behind the name
        names = "".join(f"+{'no' if f[0] == '-' else ''}{f[1:]}" for f in target.features)
        return [f"-mcpu={target.cpu or 'generic'}{names}"] if target.cpu or names else []
    flags = [signs[feature[0]] + feature[1:] for feature in target.features]
    return [*([f"-march={target.cpu}"] if target.cpu else []), *flags]


def _clang_args(target: Target) -> list[str]:
    cpu = [f"{clang.cpu_flag(target)}={target.cpu}"] if target.cpu else []
    where = ["-fno-crash-diagnostics", "-fdebug-compilation-dir=."]
    return ["-target", clang.triple_of(target.triple), *cpu, *clang.feature_args(target), *where]


async def _gcc_native(host: Host, command: Sequence[str], target: Target) -> Target | None:
    """Of a gcc, which names the nearest CPU it knows, and then the features in which this one differs."""
    flag = _cpu_flag(target.triple)
    argv = [*command, "-###", f"{flag}=native", "-x", "c", "-c", "/dev/null"]
    probe = await host.run(argv, remember=False)  # the same file answers differently on another machine
    line = next((line for line in probe.text.splitlines() if "cc1" in line and f"{flag}=" in line), "")
    named = re.search(rf"{flag}=(?P<cpu>[\w.-]+)(?P<more>[\w.+-]*)", line)
    if named is None or named["cpu"] == "native":
        return None
    more = [f"-{name[2:]}" if name.startswith("no") else f"+{name}" for name in named["more"].split("+")[1:]]
    switches = re.findall(r"(?<=\s)\"?-m(no-)?([a-z][\w.-]*)(?=[\s\"])", line)
    features = [f"{'-' if no else '+'}{name}" for no, name in switches]
    return replace(target, cpu=named["cpu"], features=tuple({*features, *more, *target.features}))


def _links(emit: str, flags: Sequence[str]) -> str | None:
    library = next((flag for flag in flags if re.match(r"-l|-B|-fuse-ld|--ld-path|[^-]", flag)), None)
    return f"flag {library!r} brings in a file that is not in the key" if emit == "shared" and library else None
