"""teenyc: teenygrad's rustc fork with an MLIR (Triton) backend. The command line is its contract:

    teenyc kernel.rs -Copt-level=3 -Zcodegen-backend=mlir --emit=obj -o kernel.o
           --target=nvptx64-nvidia-cuda --crate-type=lib -C overflow-checks=off --frontend=triton
           [-Ctarget-cpu=sm_90]

with RUSTC_BOOTSTRAP=1, TEENYC_PTX_VERSION when a PTX version is named, RUSTC_LOG when a log is asked for.
Nothing is ever added to it. `kernel.o` is PTX text; `kernel.mlir` beside it, the kernel in Triton's dialect,
may be absent. The source is the DSL prelude followed directly by the kernel's own text.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.prelude import effective_prelude, read_prelude
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import files_read, render
from teeny_async.target import NVIDIA_TRIPLE, Target
from teeny_async.toolchains import rustup
from teeny_async.toolchains.base import (
    Draft,
    Driver,
    Host,
    Toolchain,
    ToolNotFound,
    check_emit,
    kernel_file,
    neutral_env,
)
from teeny_async.toolchains.expect import check, expectations

CPUS = frozenset({"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"})
LOG_LEVELS = ("error", "warn", "info", "debug", "trace")
_BOOTSTRAP = FrozenMap({"RUSTC_BOOTSTRAP": "1"})
_LOG_LIMIT = 64 << 20
"""Bytes of log kept; at `trace` every pass prints the whole module."""
_INSTALL = (
    "run `cargo teeny install-toolchain`, which installs it for rustup, or set TEENYC_PATH to the teenyc executable"
)


class Teenyc(Driver):
    """Triton-style Rust kernels to PTX and MLIR."""

    name = "teenyc"
    languages = frozenset({"rust"})
    emits = ("ptx", "cubin")

    async def find(self, host: Host) -> Toolchain:
        path = _from_environ(host) or await self._from_rustup(host)
        probe = await host.run([path, "-vV"], _BOOTSTRAP)
        version = probe.stdout.decode("utf-8", "replace").strip()
        if probe.code != 0 or not version:
            raise ToolNotFound(f"teenyc: {path} does not answer `teenyc -vV` (exit {probe.code}); {_INSTALL}")
        libraries = await rustup.libraries(host, path, _BOOTSTRAP)
        return Toolchain(
            name=self.name,
            path=path,
            version=version.splitlines()[0],
            fingerprint=await host.fingerprint(self.name, version, {"bin/teenyc": Path(path), **libraries}),
            settings=_settings(host),
        )

    async def _from_rustup(self, host: Host) -> str:
        installed = await rustup.toolchains(host)
        if installed is None:
            raise ToolNotFound(f"teenyc: TEENYC_PATH is not set and rustup is not installed; {_INSTALL}")
        names = [name for name in installed if "teenyc" in name]
        if not names:
            raise ToolNotFound(f"teenyc: TEENYC_PATH is not set and no rustup toolchain is named teenyc; {_INSTALL}")
        if len(names) > 1:
            raise ToolNotFound(
                f"teenyc: several rustup toolchains are named teenyc ({', '.join(names)}); set TEENYC_PATH to the "
                "one to use, or uninstall the others and run `cargo teeny install-toolchain`"
            )
        path = await rustup.which(host, "teenyc", names[0])
        if path is None:
            raise ToolNotFound(f"teenyc: rustup toolchain {names[0]} has no teenyc in it; {_INSTALL}")
        return path

    def default_target(self, kernel: Kernel) -> Target:
        return Target(None, NVIDIA_TRIPLE)

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        return "ptxas" if request.emit == "cubin" else None

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return CPUS

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        self._refuse(request, target)
        if target.ptx_version is None and "TEENYC_PTX_VERSION" in toolchain.settings:
            target = target.with_ptx_version(int(toolchain.settings["TEENYC_PTX_VERSION"]))
        level = _checked_level("log_level", request.log_level) or toolchain.settings.get("TEENYC_LOG_LEVEL")
        inputs, found = self.draft(request, toolchain)
        argv = ["teenyc", "kernel.rs", "-Copt-level=3", "-Zcodegen-backend=mlir", "--emit=obj", "-o", "kernel.o"]
        argv += ["--target=nvptx64-nvidia-cuda", "--crate-type=lib", "-C", "overflow-checks=off", "--frontend=triton"]
        argv += [f"-Ctarget-cpu={target.cpu}"] if target.cpu else []
        env = dict(_BOOTSTRAP)
        if target.ptx_version:
            env["TEENYC_PTX_VERSION"] = str(target.ptx_version)
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            env=FrozenMap(env),
            neutral=_with_log(neutral_env(toolchain), level),
            inputs=inputs,
            outputs=FrozenMap({"ptx": "kernel.o", "mlir": "kernel.mlir"}),
            required=("ptx",),
            # Where an architecture has a form of its own, that is what comes out: sm_90a for sm_90.
            expect=expectations(request.kernel, target, ptx_version=target.ptx_version, also=(f"{target.cpu}a",)),
            capture_limit=_LOG_LIMIT if level else 1 << 20,
            uncacheable=f"the source has {found!r}: what it stands for is not in the key" if found else None,
        )

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[str | None]:
        prelude, text = effective_prelude(request.kernel.prelude, toolchain.settings), render(request).text
        return Draft(kernel_file("kernel.rs", prelude, text), files_read("rust", prelude, text))

    def _refuse(self, request: CompileRequest, target: Target) -> None:
        """Teenyc takes exactly its contract; whatever asks for more is the request's mistake."""
        check_emit(self, request, self.emits, target)
        if request.opt_level != 3:
            raise RequestError(f"teenyc compiles at opt_level 3 only, not {request.opt_level!r}")
        if request.flags:
            raise RequestError(f"teenyc takes no flags of your own: {' '.join(request.flags)}")
        if target.features:
            raise RequestError(f"teenyc takes no target features: {' '.join(target.features)}")
        if target.triple != NVIDIA_TRIPLE:
            raise RequestError(f"teenyc compiles for {NVIDIA_TRIPLE} only, not {target.triple}")

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        verdict = judge(action, exit, tool=self.name, parse=diagnostics.rustc_text, check=check)
        level = action.neutral.get("RUSTC_LOG", "").rpartition("=")[2]
        if level and isinstance(verdict, Artifact):
            return replace(verdict, log=exit.stderr.decode("utf-8", "replace"), log_level=level)
        return verdict


def _from_environ(host: Host) -> str | None:
    """TEENYC_PATH as it is; probes and compiles run in other folders, so a relative one is made absolute."""
    path = host.environ.get("TEENYC_PATH")
    if path and not os.path.isfile(path):
        raise ToolNotFound(f"teenyc: TEENYC_PATH is {path!r}, where there is no file; {_INSTALL}")
    return os.path.abspath(path) if path else None


def _checked_level(what: str, level: str | None) -> str | None:
    if level is not None and level not in LOG_LEVELS:
        raise RequestError(f"{what} is one of {', '.join(LOG_LEVELS)}, not {level!r}")
    return level


def _settings(host: Host) -> FrozenMap[str]:
    """The defaults that the environment sets, checked: an invalid one would otherwise pass for none."""
    settings = {}
    if version := host.environ.get("TEENYC_PTX_VERSION"):
        if not (version.isascii() and version.isdecimal()):
            raise RequestError(
                f"TEENYC_PTX_VERSION is major * 10 + minor of a PTX version (82 is 8.2), not {version!r}"
            )
        Target(ptx_version=int(version))
        settings["TEENYC_PTX_VERSION"] = version
    if level := host.environ.get("TEENYC_LOG_LEVEL"):
        settings["TEENYC_LOG_LEVEL"] = _checked_level("TEENYC_LOG_LEVEL", level) or level
    if prelude := host.environ.get("TEENY_ASYNC_PRELUDE"):
        settings["TEENY_ASYNC_PRELUDE"] = read_prelude(Path(prelude))
    return FrozenMap(settings)


def _with_log(neutral: FrozenMap[str], level: str | None) -> FrozenMap[str]:
    return FrozenMap({**neutral, "RUSTC_LOG": f"rustc_codegen_llvm::mlir={level}"}) if level else neutral
