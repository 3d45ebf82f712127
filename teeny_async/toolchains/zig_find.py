"""Where zig is, and what it is: shared by the drivers that run a part of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from teeny_async.frozen import FrozenMap
from teeny_async.toolchains.base import Host, Toolchain, ToolNotFound


async def find_zig(host: Host, name: str, more: Mapping[str, Path] = FrozenMap()) -> Toolchain:
    """Zig as toolchain `name`. Raises ToolNotFound. more: files that it is made of, for this use of it."""
    path = _locate(host)
    if path is None:
        raise ToolNotFound("zig: not installed; run: pip install 'teeny_async[zig]'")
    probe = await host.run([path, "version"])
    version = probe.stdout.decode("utf-8", "replace").strip()
    if probe.code != 0 or not version:
        raise ToolNotFound(f"zig: {path} does not answer `zig version` (exit {probe.code}); reinstall ziglang")
    fingerprint = await host.fingerprint(name, version, {"zig": Path(path), **more})
    return Toolchain(name=name, path=path, version=f"zig {version}", fingerprint=fingerprint)


def library(host: Host) -> Path | None:
    """The folder of zig's own headers and standard library."""
    path = _locate(host)
    return Path(path).parent / "lib" if path else None


def _locate(host: Host) -> str | None:
    """The wheel's program, else one from PATH; links followed, since its headers lie beside the file itself."""
    path = host.package_file("ziglang", "zig") or host.which("zig")
    return os.path.realpath(path) if path else None
