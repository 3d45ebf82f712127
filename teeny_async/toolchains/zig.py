"""zig: the clang 22 inside the `ziglang` wheel, the toolchain that `pip install teeny_async[zig]` brings.

`zig clang` is used, never `zig cc`: that one has a cache of its own, which drops warnings and side files on
a hit and can spin for ever on a damaged folder.

The PTX version is always written out. Left alone, clang takes it from whatever CUDA installation it finds
on the machine (measured: 8.8 beside CUDA 13, 8.2 beside 12.2, none at all without), which would make the
output depend on something that no key holds; `--cuda-path` points nowhere for the same reason.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import render
from teeny_async.target import Target, host_triple
from teeny_async.target_names import PTX_MINIMUM
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound, check_emit, neutral_env
from teeny_async.toolchains.c_flags import define_args, reading, refuse_ours
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.options import DEPFILE, check_opt_level, refuse_log
from teeny_async.toolchains.verdict import judge

DEFAULT_PTX_VERSION = 88
_OPT_LEVELS = (0, 1, 2, 3, "s", "z", "g", "fast")
_SUFFIX = {"c": ".c", "cuda": ".cu", "hip": ".hip"}
_MODE = {"ptx": "-S", "asm": "-S", "object": "-c"}
_OUTPUT_SUFFIX = {"ptx": ".ptx", "asm": ".s", "object": ".o"}
_NO_CUDA = "--cuda-path=/nonexistent"


class Zig(Driver):
    """C, CUDA C++ and HIP to PTX, AMD code and CPU objects."""

    name = "zig"
    languages = frozenset({"c", "cuda", "hip"})
    emits = ("ptx", "object", "asm", "cubin")

    async def find(self, host: Host) -> Toolchain:
        path = _locate(host)
        if path is None:
            raise ToolNotFound("zig: not installed; run: pip install 'teeny_async[zig]'")
        probe = await host.run([path, "version"])
        version = probe.stdout.decode("utf-8", "replace").strip()
        if probe.code != 0 or not version:
            raise ToolNotFound(f"zig: {path} does not answer `zig version` (exit {probe.code}); reinstall ziglang")
        fingerprint = await host.fingerprint(self.name, version, {"zig": Path(path)})
        return Toolchain(name=self.name, path=path, version=f"zig {version}", fingerprint=fingerprint)

    def default_target(self, kernel: Kernel) -> Target:
        return Target() if kernel.language == "cuda" else Target(None, host_triple())

    def assembles(self, request: CompileRequest, target: Target) -> bool:
        return request.emit == "cubin" and target.is_nvidia

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        kernel = request.kernel
        emit = self._emit(request, target)
        check_opt_level(self, request, _OPT_LEVELS)
        refuse_log(self, request)
        refuse_ours(self, request.flags)
        rendered = render(request)
        source, output = "kernel" + _SUFFIX[kernel.language], "kernel" + _OUTPUT_SUFFIX[emit]
        read = reading(kernel, rendered, request.flags, [str(Path(toolchain.path).parent / "lib" / "include")])
        argv = [
            "zig",
            "clang",
            *self._target_args(kernel.language, target),
            "-fno-crash-diagnostics",
            "--no-default-config",
            "-fdebug-compilation-dir=.",  # -g would write the scratch folder's name into the output
        ]
        argv += [f"-O{request.opt_level}", *define_args(rendered)]
        argv += [*read.args(), *request.flags, _MODE[emit], source, "-o", output]
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            inputs=(Input(source, (kernel.prelude, rendered.text) if kernel.prelude else (rendered.text,)),),
            outputs=FrozenMap({emit: output}),
            required=(emit,),
            expect=expectations(kernel, target, ptx_version=_ptx_version(target) if emit == "ptx" else None),
            depfile=DEPFILE if read.files else None,
            search=read.search,
            uncacheable=read.uncacheable,
        )

    def _emit(self, request: CompileRequest, target: Target) -> str:
        """The output of this stage: PTX for "cubin", since ptxas makes the rest of it."""
        language = request.kernel.language
        if target.is_nvidia:
            allowed = ["ptx", "cubin"]
        elif language == "cuda":
            raise RequestError(f"a CUDA kernel compiles for NVIDIA targets only, not {target}")
        else:
            allowed = ["asm"] if language == "hip" else ["object", "asm"]
        if language == "hip" and not target.is_amd:
            raise RequestError(f"a HIP kernel compiles for AMD targets only, not {target}")
        check_emit(self, request, allowed, target)
        emit = request.emit or allowed[0]
        return "ptx" if emit == "cubin" else emit

    def _target_args(self, language: str, target: Target) -> list[str]:
        if language == "cuda":
            args = ["-x", "cuda", "--cuda-device-only", "-nocudalib", "-nocudainc"]
            args += [f"--cuda-gpu-arch={target.cpu}"] if target.cpu else []
        elif language == "hip":
            args = ["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc"]
            args += [f"--offload-arch={target.cpu}"] if target.cpu else []
        else:
            args = ["-target", clang_triple(target.triple)]
            args += ["-nogpulib"] if target.is_gpu else []
            args += [f"{_cpu_flag(target)}={target.cpu}"] if target.cpu else []
        if target.is_nvidia:
            args += [_NO_CUDA, f"--cuda-feature=+ptx{_ptx_version(target)}"]
        for feature in target.features:
            args += ["-Xclang", "-target-feature", "-Xclang", feature]
        return args

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check)

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        # --print-supported-cpus promises names that are then refused; the complaint about a bad one does not.
        argv = [toolchain.path, "clang", "-target", clang_triple(triple), "-nogpulib", "-fsyntax-only"]
        probe = await host.run([*argv, "-Xclang", "-target-cpu", "-Xclang", "?", "-x", "c", "/dev/null"])
        listed = re.search(r"valid target CPU values are: (.*)", probe.text)
        if listed is None:
            return None
        names = frozenset(listed[1].split(", "))
        return frozenset(name for name in names if name.startswith("sm_")) if triple.startswith("nvptx") else names

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        if target.triple != host_triple():
            return await super().native(host, toolchain, target)
        argv = [toolchain.path, "clang", "-target", clang_triple(target.triple), f"{_cpu_flag(target)}=native"]
        # Not remembered: the same file answers differently on another machine.
        probe = await host.run([*argv, "-x", "c", "-c", "/dev/null", "-###"], remember=False)
        cpu = re.search(r'"-target-cpu" "([^"]+)"', probe.text)
        if cpu is None:
            return await super().native(host, toolchain, target)
        features = re.findall(r'"-target-feature" "([^"]+)"', probe.text)
        return replace(target, cpu=cpu[1], features=tuple({*features, *target.features}))


def _locate(host: Host) -> str | None:
    """The wheel's program, else one from PATH; links followed, since its headers lie beside the file itself."""
    path = host.package_file("ziglang", "zig") or host.which("zig")
    return os.path.realpath(path) if path else None


def clang_triple(triple: str) -> str:
    """Clang's spelling of a triple: it knows no riscv64gc."""
    return triple.replace("riscv64gc", "riscv64")


def _cpu_flag(target: Target) -> str:
    return "-march" if target.is_nvidia or target.arch in ("x86_64", "i686") else "-mcpu"


def _ptx_version(target: Target) -> int:
    return target.ptx_version or max(DEFAULT_PTX_VERSION, PTX_MINIMUM.get(target.cpu or "", 0))
