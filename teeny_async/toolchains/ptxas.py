"""ptxas: NVIDIA's assembler, the second stage of every toolchain that writes PTX (emit="cubin").

Its `-v` text gives registers, spills, stack, shared and constant memory: the metrics of an artifact.
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
from teeny_async.model import CompileRequest
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound, neutral_env
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.ptxas_info import metrics

NO_SETTINGS: Mapping[str, str] = FrozenMap()
_TARGET = re.compile(rb"^\s*\.target\s+(\w+)", re.MULTILINE)
ARCH_OF_PTX = "-arch=<.target>"
"""Stands in an action for the architecture that the PTX names, which is known once there is PTX."""


class Ptxas(Driver):
    """PTX to cubin, with metrics."""

    name = "ptxas"
    languages = frozenset()
    emits = ("cubin",)

    async def find(self, host: Host) -> Toolchain:
        path = host.which("ptxas") or self._beside_cuda(host)
        if path is None:
            raise ToolNotFound("ptxas: not installed; install the CUDA toolkit, or run: pip install nvidia-cuda-nvcc")
        return await self.identify(host, path)

    async def identify(self, host: Host, path: str, settings: Mapping[str, str] = NO_SETTINGS) -> Toolchain:
        """The ptxas that is there. Raises ToolNotFound."""
        probe = await host.run([path, "--version"])
        version = probe.stdout.decode("utf-8", "replace").strip()
        if probe.code != 0 or not version:
            raise ToolNotFound(f"ptxas: {path} does not answer `ptxas --version` (exit {probe.code})")
        release = re.search(r"release [^,]+, (\S+)", version)
        return Toolchain(
            name=self.name,
            path=path,
            version=f"ptxas {release[1] if release else version.splitlines()[-1]}",
            fingerprint=await host.fingerprint(self.name, version, {"ptxas": Path(path)}),
            settings=settings,
        )

    def _beside_cuda(self, host: Host) -> str | None:
        folders = [host.environ.get("CUDA_HOME"), host.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        tried = (os.path.join(folder, "bin", "ptxas") for folder in folders if folder)
        found = next((path for path in tried if os.access(path, os.X_OK)), None)
        return found or host.package_file("nvidia", "cu13/bin/ptxas", "cuda_nvcc/bin/ptxas")

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        """The architecture is the PTX's own: a front end may have written sm_90a where sm_90 was asked for."""
        if not target.is_nvidia:
            raise RequestError(f"ptxas assembles for NVIDIA targets only, not {target}")
        return Action(
            argv=("ptxas", *self._options(request, toolchain), "kernel.ptx", "-o", "kernel.cubin"),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            chained=FrozenMap({"kernel.ptx": "ptx"}),
            outputs=FrozenMap({"cubin": "kernel.cubin"}),
            required=("cubin",),
            expect=expectations(request.kernel, target),
        )

    def _options(self, request: CompileRequest, toolchain: Toolchain) -> Sequence[str]:
        return ("-v", ARCH_OF_PTX, f"-O{_level(request.opt_level)}")

    def chain(self, action: Action, outputs: Mapping[str, bytes]) -> Action:
        found = _TARGET.search(outputs["ptx"])
        arch = found[1].decode() if found else "unknown"
        return replace(action, argv=tuple(f"-arch={arch}" if arg == ARCH_OF_PTX else arg for arg in action.argv))

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        verdict = judge(action, exit, tool=self.name, parse=diagnostics.ptxas_text, check=check)
        return with_metrics(verdict, exit)


def _level(opt_level: int | str) -> int:
    """Ptxas has levels 0 to 4 and no names: "s", "z" and "fast" of a front end are its default."""
    return opt_level if isinstance(opt_level, int) and 0 <= opt_level <= 4 else 3


def with_metrics(verdict: Artifact | Failure, exit: Exit) -> Artifact | Failure:
    """An artifact with the numbers that `ptxas -v` printed."""
    if isinstance(verdict, Failure):
        return verdict
    return replace(verdict, metrics=FrozenMap(metrics(exit.text)))
