"""Asking rustup where a toolchain's programs are."""

from __future__ import annotations

import os
from pathlib import Path

from teeny_async.toolchains.base import Host, ToolNotFound

_PASSED = ("RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN", "HOME")


async def which(host: Host, program: str, toolchain: str | None = None) -> str | None:
    """`rustup which [--toolchain NAME] PROGRAM`: the real file, or None where rustup cannot say."""
    rustup = host.which("rustup")
    if rustup is None:
        return None
    selector = ["--toolchain", toolchain] if toolchain else []
    probe = await host.run([rustup, "which", *selector, program], _env(host), remember=False)
    return probe.stdout.decode().strip() or None if probe.code == 0 else None


async def toolchains(host: Host) -> list[str] | None:
    """Names of the installed toolchains; None where there is no rustup."""
    rustup = host.which("rustup")
    if rustup is None:
        return None
    probe = await host.run([rustup, "toolchain", "list"], _env(host), remember=False)
    if probe.code != 0:
        raise ToolNotFound(f"`rustup toolchain list` failed (exit {probe.code}): {probe.text.strip()[:200]}")
    return [line.split()[0] for line in probe.stdout.decode().splitlines() if line.strip()]


def is_shim(path: str) -> bool:
    """Whether a program in cargo's bin folder is rustup under another name (a link to it, or a copy beside it)."""
    if os.path.basename(os.path.realpath(path)) == "rustup":
        return True
    beside = os.path.join(os.path.dirname(path), "rustup")
    return os.path.exists(beside) and os.path.samefile(path, beside)


def library_files(sysroot: Path) -> dict[str, Path]:
    """The files of a sysroot that decide what its compiler puts out: driver, LLVM, backends, libraries.

    The `rustc` program itself is a stub of 0.6 MB over them.
    """
    patterns = ("lib/*.so*", "lib/*.dylib", "lib/rustlib/*/lib/*", "lib/rustlib/*/codegen-backends/*")
    found = (path for pattern in patterns for path in sysroot.glob(pattern) if path.is_file())
    return {str(path.relative_to(sysroot)): path for path in found}


def _env(host: Host) -> dict[str, str]:
    return {name: host.environ[name] for name in _PASSED if name in host.environ}
