"""nvcc: NVIDIA's CUDA compiler, to PTX, cubin, and fat binaries of several architectures.

    CompileRequest(kernel, "sm_80+sm_90+compute_90", toolchain="nvcc")      # emit="fatbin": two cubins and PTX

A process tree: nvcc runs `sh`, the host compiler as preprocessor, cicc and ptxas. All of them are in the
fingerprint, and so are NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS in the key, which nvcc reads by itself.

A cubin is made in two stages, `nvcc -ptx` and the same toolkit's ptxas (`teeny_async.toolchains.nvcc_ptxas`). It is
one action with flags that only nvcc knows how to hand on (-G, -lineinfo, -rdc, -dlto), and so is a fatbin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains.base import Draft, Driver, Host, Toolchain, ToolNotFound, check_emit, neutral_env
from teeny_async.toolchains.c_flags import Defines, Reading, define_args, draft, refuse_ours
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.nvcc_find import SYSTEM_FOLDERS, all_flags, find_nvcc, helper_folders, user_settings
from teeny_async.toolchains.nvcc_ptxas import assembler_args, front_end_flags
from teeny_async.toolchains.options import DEPFILE, check_opt_level, refuse_log
from teeny_async.toolchains.ptxas import with_metrics

_PARTS = (
    *("bin/nvcc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvcc.profile"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)
_MODE = {"ptx": ["-ptx"], "cubin": ["-cubin", "-Xptxas", "-v"], "fatbin": ["-fatbin", "-Xptxas", "-v"]}


class Nvcc(Driver):
    """CUDA C++ to PTX, cubin and fatbin."""

    name = "nvcc"
    languages = frozenset({"cuda"})
    emits = ("ptx", "cubin", "fatbin")
    fat = True

    async def find(self, host: Host) -> Toolchain:
        path = find_nvcc(host)
        if path is None:
            raise ToolNotFound(
                "nvcc: not on PATH, nor under CUDA_HOME or /usr/local/cuda; install the CUDA toolkit, or run: "
                "pip install nvidia-cuda-nvcc (it needs g++ as well)"
            )
        probe = await host.run([path, "--version"])
        version = probe.stdout.decode("utf-8", "replace").strip()
        if probe.code != 0 or not version:
            raise ToolNotFound(f"nvcc: {path} does not answer `nvcc --version` (exit {probe.code})")
        top = Path(path).parent.parent
        files = {name: top / name for name in _PARTS if (top / name).exists()}
        host_compiler, described = await self._host_compiler(host)
        headers = await self._headers(host, path, top)
        release = re.search(r"release [^,]+, (\S+)", version)
        return Toolchain(
            name=self.name,
            path=path,
            version=f"nvcc {release[1] if release else version.splitlines()[-1]}",
            fingerprint=await host.fingerprint(
                self.name, f"{version}\n{described}", {**files, **host_compiler, **headers}
            ),
            search_path=helper_folders(path),
            settings=user_settings(host),
        )

    async def _host_compiler(self, host: Host) -> tuple[dict[str, Path], str]:
        """The preprocessor that nvcc will find on its PATH: its files by label, and its version text."""
        gcc = next((path for folder in SYSTEM_FOLDERS if os.access(path := f"{folder}/gcc", os.X_OK)), None)
        if gcc is None:
            raise ToolNotFound("nvcc: needs a host compiler; install g++ (Debian: apt-get install g++)")
        described = await host.run([gcc, "-v"])
        part = await host.run([gcc, "-print-prog-name=cc1plus"])
        cc1plus = Path(part.stdout.decode().strip())
        files = {"gcc": Path(gcc)} | ({"cc1plus": cc1plus} if cc1plus.is_absolute() else {})
        return files, described.stderr.decode("utf-8", "replace")

    async def _headers(self, host: Host, path: str, top: Path) -> dict[str, Path]:
        """The headers that nvcc puts in front of every source: the toolkit's, the C++ library's and libc's."""
        probe = await host.run([path, "-M", "-x", "cu", "/dev/null"])
        if probe.code != 0:
            raise ToolNotFound(f"nvcc: {path} cannot compile an empty file: {probe.text.strip()[:200]}")
        return _listed_files(probe.stdout.decode("utf-8", "replace"), top)

    def default_target(self, kernel: Kernel) -> Target:
        return Target()

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        # --list-gpu-code leaves out the `a` and `f` forms; the help text has them.
        probe = await host.run([toolchain.path, "--help"])
        names = frozenset(re.findall(r"'((?:sm|compute)_\d+\w*)'", probe.text))
        return names or None

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        if not target.is_nvidia:
            raise RequestError(f"nvcc compiles for NVIDIA targets only, not {target}")
        if target.ptx_version:
            raise RequestError(f"nvcc writes the PTX version of its own release; leave +ptx{target.ptx_version} out")
        if target.features:
            raise RequestError(f"nvcc takes no target features: {' '.join(target.features)}")
        check_emit(self, request, ("fatbin",) if target.also else self.emits, target)
        check_opt_level(self, request, (0, 1, 2, 3))
        refuse_log(self, request)
        refuse_ours(self, request.flags)
        emit, flags = request.emit or ("fatbin" if target.also else "ptx"), list(request.flags)
        if emit == "cubin" and _has_stages(target, all_flags(toolchain, flags)):
            emit, flags = "ptx", front_end_flags(flags)
        inputs, (defines, read) = self.draft(request, toolchain)
        argv = ["nvcc", *_MODE[emit], *_arch_args(target, emit), f"-O{request.opt_level}"]
        argv += ["--threads", "1", *define_args(defines), *read.args()]
        argv += [*flags, "kernel.cu", "-o", f"kernel.{emit}"]
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            env=toolchain.settings,
            neutral=neutral_env(toolchain),
            inputs=inputs,
            outputs=FrozenMap({emit: f"kernel.{emit}"}),
            required=(emit,),
            expect=expectations(request.kernel, target),
            depfile=DEPFILE if read.files else None,
            search=read.search,
            uncacheable=read.uncacheable,
        )

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        return "nvcc-ptxas" if request.emit == "cubin" else None

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[tuple[Defines, Reading]]:
        return draft("kernel.cu", request, all_flags(toolchain, request.flags))

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        verdict = judge(action, exit, tool=self.name, parse=diagnostics.nvcc_text, check=check)
        return verdict if "ptx" in action.outputs else with_metrics(verdict, exit)


def _has_stages(target: Target, flags: Sequence[str]) -> bool:
    """Whether a cubin is made in two stages: by what nvcc would give to its ptxas, where that is known."""
    return (target.cpu is None or target.cpu.startswith("sm_")) and assembler_args(flags) is not None


def _arch_args(target: Target, emit: str) -> list[str]:
    if emit != "fatbin" or target.cpu is None:
        return [f"-arch={target.cpu}"] if target.cpu else []
    codes = sorted((target.cpu, *target.also))
    return [word for code in codes for word in ("-gencode", f"arch={_virtual(code)},code={code}")]


def _virtual(code: str) -> str:
    """compute_90a for sm_90a."""
    return code.replace("sm_", "compute_")


def _listed_files(rule: str, top: Path) -> dict[str, Path]:
    """The files of a make rule; one of the toolkit is named by where it is in there."""
    names = (name for name in rule.replace("\\\n", " ").split() if name.startswith("/") and name != "/dev/null")
    found = [Path(os.path.realpath(name)) for name in names]
    return {str(path.relative_to(top) if path.is_relative_to(top) else path): path for path in found}
