"""zig-lang: kernels in the Zig language, by the same `ziglang` wheel; toolchain="zig" means it for a Zig kernel.

    export fn scale(x: [*]addrspace(.global) f32) callconv(.nvptx_kernel) void {
        x[@workItemId(0)] *= 2;
    }

A driver of its own since it is made of more: Zig's standard library (565 files) is a part of every compile, and so
of this toolchain's identity, but no part of a C compile. Each compile has a cache folder of its own inside its
scratch folder: Zig's shared one is a state outside of every key. That costs the parsing of the standard library, 0.4 s
instead of 0.05 s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import files_read, render
from teeny_async.target import Target, host_triple
from teeny_async.toolchains import amd_info, clang
from teeny_async.toolchains.base import Draft, Driver, Host, Toolchain, check_emit, kernel_file, neutral_env
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.finishing import can_link, finisher, first_output
from teeny_async.toolchains.options import check_opt_level, refuse_log
from teeny_async.toolchains.zig_find import find_zig, library

_MODES: Mapping[int | str, str] = {0: "Debug", 3: "ReleaseFast", "s": "ReleaseSmall"}
_FILES = {"ptx": "kernel.ptx", "asm": "kernel.s", "object": "kernel.o"}
_HARMLESS = re.compile(r"-f(?:no-)?[a-z][a-zA-Z-]* | -D\w+(?:=.*)?", re.VERBOSE)
_OURS = re.compile(r"-f(?:no-)?emit-.* | -target | -m(?:cpu|arch)=?.* | -O.* | --(?:global-)?cache-dir", re.VERBOSE)


class ZigLang(Driver):
    """Zig to PTX, AMD code, CPU objects and shared libraries."""

    name = "zig-lang"
    languages = frozenset({"zig"})
    emits = ("ptx", "object", "asm", "cubin", "hsaco", "shared")

    async def find(self, host: Host) -> Toolchain:
        lib = library(host)
        parts = sorted((lib / "std").rglob("*.zig")) if lib else []
        return await find_zig(host, self.name, {str(path.relative_to(lib or "/")): path for path in parts})

    def default_target(self, kernel: Kernel) -> Target:
        return Target(None, host_triple())

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        return finisher(request.emit)

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        kernel, emit = request.kernel, self._emit(request, target)
        check_opt_level(self, request, tuple(_MODES))
        refuse_log(self, request)
        inputs, (reads, mirror) = self.draft(request, toolchain)
        output = _FILES[emit]
        argv = ["zig", "build-obj", "kernel.zig", "-target", _triple(target.triple), f"-mcpu={_cpu(target)}"]
        argv += ["-O", _MODES[request.opt_level], "-fstrip", "-j1", "--color", "off"]
        argv += ["--cache-dir", "zig-cache", "--global-cache-dir", "zig-cache"]
        argv += ["-fPIC"] if request.emit == "shared" else []
        argv += request.flags
        argv += [f"-femit-bin={output}"] if emit == "object" else ["-fno-emit-bin", f"-femit-asm={output}"]
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            inputs=inputs,
            outputs=FrozenMap({emit: output}),
            required=(emit,),
            expect=expectations(kernel, target, ptx_version=target.ptx_version if emit == "ptx" else None),
            mirror=mirror,
            uncacheable=_uncacheable(reads, request.flags),
        )

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[tuple[str | None, str | None]]:
        kernel, text = request.kernel, render(request).text
        reads = files_read("zig", kernel.prelude, text)
        mirror = os.path.realpath(kernel.include_dirs[0]) if reads and kernel.include_dirs else None
        return Draft(kernel_file("kernel.zig", kernel.prelude, text), (reads, mirror))

    def _emit(self, request: CompileRequest, target: Target) -> str:
        for flag in request.flags:
            if _OURS.fullmatch(flag):
                raise RequestError(f"toolchain {self.name}: flag {flag!r} is ours to set; use the request's fields")
        if target.is_nvidia:
            allowed = ["ptx", "cubin"]
        elif target.is_amd:
            allowed = ["object", "asm", "hsaco"]
        else:
            allowed = ["object", "asm", *(["shared"] if can_link(target) else [])]
        check_emit(self, request, allowed, target)
        return first_output(request.emit or allowed[0])

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        verdict = judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check)
        return amd_info.with_metrics(verdict, action)

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        # It says so before it looks for the file.
        probe = await host.run([toolchain.path, "build-obj", "none.zig", "-target", _triple(triple), "-mcpu=?"])
        names = frozenset(re.findall(r"^ (\w+)$", probe.text, re.MULTILINE))
        return names | {name.replace("_", "-") for name in names} or None

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        found = await clang.native(host, (toolchain.path, "clang"), target)
        return found or await super().native(host, toolchain, target)


def _uncacheable(reads: str | None, flags: Sequence[str]) -> str | None:
    if reads:
        return f"the source has {reads}: what it reads is not in the key"
    unknown = next((flag for flag in flags if not _HARMLESS.fullmatch(flag)), None)
    return f"flag {unknown!r} can read a file that is not in the key" if unknown else None


def _cpu(target: Target) -> str:
    """Zig spells names of CPUs and features with underscores."""
    extra = "".join(feature[0] + feature[1:].replace("-", "_").replace(".", "_") for feature in target.features)
    version = f"+ptx{target.ptx_version}" if target.ptx_version else ""
    return (target.cpu or "baseline").replace("-", "_") + version + extra


def _triple(triple: str) -> str:
    """Zig's spelling: no vendor, and its own names for systems."""
    arch, *rest = triple.split("-")
    system = [part for part in rest if part not in ("unknown", "pc", "nvidia", "amd", "apple")]
    names = {"darwin": "macos"}
    return "-".join([arch.replace("riscv64gc", "riscv64"), *(names.get(part, part) for part in system)])
