"""zig: the clang 22 inside the `ziglang` wheel, the toolchain that `pip install teeny_async[zig]` brings.

`zig clang` is used, never `zig cc`: that one has a cache of its own, which drops warnings and side files on
a hit and can spin for ever on a damaged folder.

The PTX version is always written out. Left alone, clang takes it from whatever CUDA installation it finds
on the machine (measured: 8.8 beside CUDA 13, 8.2 beside 12.2, none at all without), which would make the
output depend on something that no key holds; `--cuda-path` points nowhere for the same reason.
"""

from __future__ import annotations

import functools
from pathlib import Path

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target, host_triple
from teeny_async.target_names import PTX_MINIMUM
from teeny_async.toolchains import amd_info, clang
from teeny_async.toolchains.base import Draft, Driver, Host, Toolchain, check_emit, neutral_env
from teeny_async.toolchains.c_flags import Defines, Reading, define_args, draft, refuse_ours
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.finishing import can_link, finisher, first_output
from teeny_async.toolchains.options import DEPFILE, check_opt_level, refuse_log
from teeny_async.toolchains.zig_find import find_zig

DEFAULT_PTX_VERSION = 88
_OPT_LEVELS = (0, 1, 2, 3, "s", "z", "g", "fast")
_SUFFIX = {"c": ".c", "cuda": ".cu", "hip": ".hip"}
_OUTPUT_SUFFIX = {"ptx": ".ptx", "asm": ".s", "object": ".o"}
_HIP_DEPFILE = [
    word
    for option in ("-dependency-file", DEPFILE, "-sys-header-deps", "-MT", "kernel")
    for word in ("-Xclang", option)
]
"""For HIP the driver of clang leaves -MD out, and says that it is unused."""
_NO_CUDA = "--cuda-path=/nonexistent"


class Zig(Driver):
    """C, CUDA C++ and HIP to PTX, AMD code, CPU objects and shared libraries."""

    name = "zig"
    languages = frozenset({"c", "cuda", "hip"})
    emits = ("ptx", "object", "asm", "cubin", "hsaco", "shared")

    async def find(self, host: Host) -> Toolchain:
        return await find_zig(host, self.name)

    def default_target(self, kernel: Kernel) -> Target:
        return Target() if kernel.language == "cuda" else Target(None, host_triple())

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        return finisher(request.emit)

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        kernel = request.kernel
        emit = first_output(self._emit(request, target))
        check_opt_level(self, request, _OPT_LEVELS)
        refuse_log(self, request)
        refuse_ours(self, request.flags)
        inputs, (defines, read) = self.draft(request, toolchain)
        source, output = inputs[0].name, "kernel" + _OUTPUT_SUFFIX[emit]
        argv = [
            "zig",
            "clang",
            *self._target_args(kernel.language, target),
            "-fno-crash-diagnostics",
            "--no-default-config",
            "-fdebug-compilation-dir=.",  # -g would write the scratch folder's name into the output
        ]
        argv += [*([amd_info.FLAG] if target.is_amd else []), f"-O{request.opt_level}", *define_args(defines)]
        noted = read.args(_HIP_DEPFILE) if kernel.language == "hip" else read.args()
        argv += [*noted, *request.flags, *_mode(request, emit), source, "-o", output]
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            inputs=inputs,
            outputs=FrozenMap({emit: output}),
            required=(emit,),
            expect=expectations(kernel, target, ptx_version=_ptx_version(target) if emit == "ptx" else None),
            depfile=DEPFILE if read.files else None,
            search=read.search,
            uncacheable=read.uncacheable,
        )

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[tuple[Defines, Reading]]:
        return draft("kernel" + _SUFFIX[request.kernel.language], request, request.flags, _headers(toolchain.path))

    def _emit(self, request: CompileRequest, target: Target) -> str:
        language = request.kernel.language
        if language == "hip" and not target.is_amd:
            raise RequestError(f"a HIP kernel compiles for AMD targets only, not {target}")
        if target.is_nvidia:
            allowed = ["ptx", "cubin"]
        elif language == "cuda":
            raise RequestError(f"a CUDA kernel compiles for NVIDIA targets only, not {target}")
        elif target.is_amd:
            allowed = ["asm", "object", "hsaco"] if language == "hip" else ["object", "asm", "hsaco"]
        else:
            allowed = ["object", "asm", *(["shared"] if can_link(target) else [])]
        check_emit(self, request, allowed, target)
        return request.emit or allowed[0]

    def _target_args(self, language: str, target: Target) -> list[str]:
        if language == "cuda":
            args = ["-x", "cuda", "--cuda-device-only", "-nocudalib", "-nocudainc"]
            args += [f"--cuda-gpu-arch={target.cpu}"] if target.cpu else []
        elif language == "hip":
            args = ["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc"]
            args += [f"--offload-arch={target.cpu}"] if target.cpu else []
        else:
            args = ["-target", clang.triple_of(target.triple)]
            args += ["-nogpulib"] if target.is_gpu else []
            args += [f"{clang.cpu_flag(target)}={target.cpu}"] if target.cpu else []
        if target.is_nvidia:
            args += [_NO_CUDA, f"--cuda-feature=+ptx{_ptx_version(target)}"]
        return args + clang.feature_args(target)

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        numbers = amd_info.metrics if amd_info.FLAG in action.argv else None
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check, metrics=numbers)

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return await clang.cpus(host, (toolchain.path, "clang"), triple)

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        found = await clang.native(host, (toolchain.path, "clang"), target)
        return found or await super().native(host, toolchain, target)


def _mode(request: CompileRequest, output: str) -> list[str]:
    if output != "object":
        return ["-S"]
    if request.kernel.language == "hip":
        # For HIP, -c would also link, by a program `lld` that the wheel does not have.
        return ["-S", "-Xclang", "-emit-obj"]
    return ["-fPIC", "-c"] if request.emit == "shared" else ["-c"]


@functools.lru_cache(maxsize=8)
def _headers(path: str) -> tuple[str]:
    """The folders of the headers that belong to a zig."""
    return (str(Path(path).parent / "lib" / "include"),)


def _ptx_version(target: Target) -> int:
    return target.ptx_version or max(DEFAULT_PTX_VERSION, PTX_MINIMUM.get(target.cpu or "", 0))
