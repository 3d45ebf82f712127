"""Asking rustup where a toolchain's programs are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from teeny_async.toolchains.base import Host, ToolNotFound

_NO_DOWNLOADS = {"RUSTUP_AUTO_INSTALL": "0"}
"""Looking for a toolchain never installs one."""
_PASSED = ("RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN", "HOME")


async def which(host: Host, program: str, toolchain: str | None = None) -> str | None:
    """`rustup which [--toolchain NAME] PROGRAM`: the real file, or None where rustup cannot say."""
    rustup = host.which("rustup")
    if rustup is None:
        return None
    selector = ["--toolchain", toolchain] if toolchain else []
    probe = await host.run([rustup, "which", *selector, program], _env(host), remember=False)
    return os.fsdecode(probe.stdout).strip() or None if probe.code == 0 else None


async def toolchains(host: Host) -> list[str] | None:
    """Names of the installed toolchains; None where there is no rustup."""
    rustup = host.which("rustup")
    if rustup is None:
        return None
    probe = await host.run([rustup, "toolchain", "list"], _env(host), remember=False)
    if probe.code != 0:
        raise ToolNotFound(f"`rustup toolchain list` failed (exit {probe.code}): {probe.text.strip()[:200]}")
    lines = probe.stdout.decode("utf-8", "replace").splitlines()
    return [line.split()[0] for line in lines if line.strip() and line != "no installed toolchains"]


def is_shim(path: str) -> bool:
    """Whether a program in cargo's bin folder is rustup under another name (a link to it, or a copy beside it)."""
    if os.path.basename(os.path.realpath(path)) == "rustup":
        return True
    beside = os.path.join(os.path.dirname(path), "rustup")
    return os.path.exists(beside) and os.path.samefile(path, beside)


async def libraries(host: Host, rustc: str, env: Mapping[str, str] | None = None) -> dict[str, Path]:
    """The files that decide what a rustc puts out besides its program, which is a stub of 0.6 MB over them.

    By their place in its sysroot. None are found, and that is no error, where the sysroot it names is not there.
    """
    probe = await host.run([rustc, "--print", "sysroot"], env)
    return _library_files(Path(os.fsdecode(probe.stdout).strip() or "/nonexistent"))


_IN_EVERY_SYSROOT = ("lib/rustlib/*/lib/*", "lib/rustlib/*/codegen-backends/*")
_IN_ITS_OWN = ("lib/*.so*", "lib/*.dylib")
_IN_A_SHARED_ONE = tuple(
    f"{lib}/{name}*" for lib in ("lib", "lib64", "lib/*-linux-*") for name in ("librustc", "libLLVM")
)


def _library_files(sysroot: Path) -> dict[str, Path]:
    """Driver, LLVM, backends, libraries; in a distribution's sysroot, `/usr`, those only and not all of its own."""
    shared = str(sysroot) in ("/usr", "/usr/local")
    patterns = (*_IN_EVERY_SYSROOT, *(_IN_A_SHARED_ONE if shared else _IN_ITS_OWN))
    found = (path for pattern in patterns for path in sysroot.glob(pattern) if path.is_file())
    return {str(path.relative_to(sysroot)): path for path in found}


def _env(host: Host) -> dict[str, str]:
    return {**_NO_DOWNLOADS, **{name: host.environ[name] for name in _PASSED if name in host.environ}}
