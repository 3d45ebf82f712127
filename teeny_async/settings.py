"""What the user's environment says: read once, at the public edge, and passed down as an object."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """environ: the variables that tools are looked for with. cache_dir: the default store's folder.
    scratch_dir: the folder for temporary files."""

    environ: Mapping[str, str]
    cache_dir: Path
    scratch_dir: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """TEENY_ASYNC_CACHE_DIR, else the platform's cache folder for this user; TMPDIR as Python reads it."""
        folder = environ.get("TEENY_ASYNC_CACHE_DIR")
        return cls(
            environ=dict(environ),
            cache_dir=Path(folder).expanduser().absolute() if folder else _platform_cache_dir(),
            scratch_dir=environ.get("TMPDIR") or tempfile.gettempdir(),
        )


def _platform_cache_dir() -> Path:
    from platformdirs import user_cache_path  # 15 ms, and only needed without TEENY_ASYNC_CACHE_DIR

    return user_cache_path("teeny_async")
