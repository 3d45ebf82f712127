"""rustc: stock Rust to PTX, CPU and AMD objects, and what is linked of them.

RUSTC_BOOTSTRAP=1 lets a stable compiler build `#![no_core]` kernels, which need no standard library for the
target. `--emit=asm` is PTX for nvptx64 (`--emit=obj` would be LLVM bitcode, with exit 0).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import files_read, render, unlisted
from teeny_async.target import Target, host_triple
from teeny_async.toolchains import amd_info, rustup
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
from teeny_async.toolchains.finishing import can_link, finisher, first_output
from teeny_async.toolchains.options import DEPFILE, check_opt_level, refuse_log

_OURS = re.compile(
    r"""(?:^|\s)(?P<flag> -o | -[OVh]\b
      | --(?:emit|target|out-dir|crate-type|error-format|json|print|test|help|version|explain)\b
      | (?:-C\s?|--codegen[\s=])(?:target-cpu|target-feature|opt-level|codegen-units|extra-filename|save-temps))
    """,
    re.VERBOSE,
)
_READS_FILES = re.compile(
    r"""(?:^|\s)(?P<flag> -L | -l | --extern\b | @ | --sysroot\b | -Z
      | (?:-C\s?|--codegen[\s=])(?:linker|link-|profile-use|incremental|llvm-args))
    """,
    re.VERBOSE,
)
_BOOTSTRAP = FrozenMap({"RUSTC_BOOTSTRAP": "1"})
_EMIT = {"ptx": "asm", "asm": "asm", "object": "obj"}
_SUFFIX = {"ptx": ".ptx", "asm": ".s", "object": ".o"}


class Rustc(Driver):
    """Rust to PTX, AMD code, CPU objects and shared libraries."""

    name = "rustc"
    languages = frozenset({"rust"})
    emits = ("ptx", "object", "asm", "cubin", "hsaco", "shared")

    async def find(self, host: Host) -> Toolchain:
        path = host.which("rustc")
        if path is not None and rustup.is_shim(path):
            path = await rustup.which(host, "rustc")
        if path is None:
            raise ToolNotFound("rustc: not installed; see https://rustup.rs, then run: rustup default stable")
        probe = await host.run([path, "-vV"])
        version = probe.stdout.decode("utf-8", "replace").strip()
        if probe.code != 0 or not version:
            raise ToolNotFound(f"rustc: {path} does not answer `rustc -vV` (exit {probe.code})")
        files = {"bin/rustc": Path(path), **await rustup.libraries(host, path)}
        return Toolchain(
            name=self.name,
            path=path,
            version=version.splitlines()[0],
            fingerprint=await host.fingerprint(self.name, version, files),
        )

    def default_target(self, kernel: Kernel) -> Target:
        return Target() if "ptx-kernel" in kernel.source else Target(None, host_triple())

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        return finisher(request.emit)

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        kernel = request.kernel
        emit = self._emit(request, target)
        check_opt_level(self, request, (0, 1, 2, 3, "s", "z"))
        refuse_log(self, request)
        _refuse_ours(self, request.flags)
        inputs, (reads, mirror, uncacheable) = self.draft(request, toolchain)
        output = "kernel" + _SUFFIX[emit]
        argv = ["rustc", "kernel.rs", f"-Copt-level={request.opt_level}"]
        # With -o, dependency information would take the output's name for itself.
        argv += (
            [f"--emit={_EMIT[emit]}={output},dep-info={DEPFILE}"] if reads else [f"--emit={_EMIT[emit]}", "-o", output]
        )
        argv += [f"--target={target.triple}", "--crate-type=lib", "-Ccodegen-units=1", "-Coverflow-checks=off"]
        argv += [f"-Ctarget-cpu={target.cpu}"] if target.cpu else []
        features = [*([f"+ptx{target.ptx_version}"] if target.ptx_version else []), *target.features]
        argv += [f"-Ctarget-feature={','.join(features)}"] if features else []
        argv += ["--error-format=json", "--json=artifacts", *request.flags]
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            env=_BOOTSTRAP,
            neutral=neutral_env(toolchain),
            inputs=inputs,
            outputs=FrozenMap({emit: output}),
            required=(emit,),
            expect=expectations(kernel, target, ptx_version=target.ptx_version),
            depfile=DEPFILE if reads else None,
            mirror=mirror,
            uncacheable=uncacheable,
        )

    def draft(self, request: CompileRequest, toolchain: Toolchain) -> Draft[tuple[bool, str | None, str | None]]:
        kernel, text = request.kernel, render(request).text
        reads = files_read("rust", kernel.prelude, text) is not None
        mirror = os.path.realpath(kernel.include_dirs[0]) if reads and kernel.include_dirs else None
        return Draft(
            kernel_file("kernel.rs", kernel.prelude, text), (reads, mirror, why_uncacheable(kernel, text, request))
        )

    def _emit(self, request: CompileRequest, target: Target) -> str:
        linked = ["hsaco" if target.is_amd else "shared"] if can_link(target) else []
        allowed = ["ptx", "cubin"] if target.is_nvidia else ["object", "asm", *linked]
        check_emit(self, request, allowed, target)
        return first_output(request.emit or allowed[0])

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        # Nothing is judged where all is cached, and their patterns take longer to compile than such a run has.
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        verdict = judge(action, exit, tool=self.name, parse=diagnostics.rustc_json, check=check)
        return amd_info.with_metrics(verdict, action)

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        probe = await host.run([toolchain.path, "--print", "target-cpus", "--target", triple], _BOOTSTRAP)
        names = frozenset(re.findall(r"^ {4}(\S+)", probe.stdout.decode("utf-8", "replace"), re.MULTILINE))
        return names - {"native"} if probe.code == 0 and names else None

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        # rustc accepts `native` for any target and then writes this machine's CPU into PTX: only the host's.
        if target.triple != host_triple():
            return await super().native(host, toolchain, target)
        cpus = await host.run([toolchain.path, "--print", "target-cpus"], remember=False)
        cpu = re.search(r"currently (\S+?)\)", cpus.text)
        if cpu is None:
            return await super().native(host, toolchain, target)
        # What this machine has beyond the CPU's name, and what it lacks: a hypervisor hides features.
        here, named = await _features(host, toolchain, "native"), await _features(host, toolchain, cpu[1])
        differences = {f"+{name}" for name in here - named} | {f"-{name}" for name in named - here}
        return replace(target, cpu=cpu[1], features=tuple({*differences, *target.features}))


async def _features(host: Host, toolchain: Toolchain, cpu: str) -> set[str]:
    # Not remembered: the same file answers differently on another machine.
    cfg = await host.run([toolchain.path, "--print", "cfg", f"-Ctarget-cpu={cpu}"], _BOOTSTRAP, remember=False)
    return set(re.findall(r'target_feature="([^"]+)"', cfg.text))


def _refuse_ours(driver: Driver, flags: Sequence[str]) -> None:
    """Raise RequestError for a flag that would take an action's inputs or outputs out of our hands."""
    ours = _OURS.search(" ".join(flags))
    if ours:
        raise RequestError(f"toolchain {driver.name}: flag {ours['flag']!r} is ours to set; use the request's fields")


def why_uncacheable(kernel: Kernel, text: str, request: CompileRequest) -> str | None:
    """Why the key would not cover everything rustc reads; None when it does."""
    found = unlisted("rust", kernel.prelude, text)
    if found:
        return f"the source has {found!r}: what it stands for is not in the key"
    reader = _READS_FILES.search(" ".join(request.flags))
    if reader:
        return f"flag {reader['flag']!r} can read a file that is not in the key"
    return None
