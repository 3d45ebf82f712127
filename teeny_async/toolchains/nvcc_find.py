"""Where nvcc is, and what the user's environment tells it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from teeny_async.frozen import FrozenMap
from teeny_async.toolchains.base import Host, Toolchain

SYSTEM_FOLDERS = ("/usr/bin", "/bin")
_CUDA = "/usr/local/cuda"
_BEFORE, _AFTER = "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"


def find_nvcc(host: Host) -> str | None:
    """Its real path: from PATH, a CUDA folder, or the pip wheel."""
    folders = [host.environ.get("CUDA_HOME"), host.environ.get("CUDA_PATH"), _CUDA]
    tried = (os.path.join(folder, "bin", "nvcc") for folder in folders if folder)
    found = host.which("nvcc") or next((path for path in tried if os.access(path, os.X_OK)), None)
    return os.path.realpath(found) if found else host.package_file("nvidia", "cu13/bin/nvcc", "cuda_nvcc/bin/nvcc")


def helper_folders(nvcc: str) -> tuple[str, ...]:
    """Where nvcc, found at that path, looks for the programs that it runs."""
    top = Path(nvcc).parent.parent
    return (str(top / "bin"), str(top / "nvvm" / "bin"), *SYSTEM_FOLDERS)


def user_settings(host: Host) -> FrozenMap[str]:
    """The variables that nvcc takes flags from by itself, where they are set."""
    return FrozenMap({name: host.environ[name] for name in (_BEFORE, _AFTER) if host.environ.get(name)})


def all_flags(toolchain: Toolchain, flags: Sequence[str]) -> list[str]:
    """A request's flags between those of the environment, as nvcc takes them."""
    before, after = (toolchain.settings.get(name, "").split() for name in (_BEFORE, _AFTER))
    return [*before, *flags, *after]
