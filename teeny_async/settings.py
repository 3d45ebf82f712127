"""What the user's environment says: read once, at the public edge, and passed down as an object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUNTIME = "/tmp"  # noqa: S108  # a folder of this user alone is made in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """environ: the variables that tools are looked for with. cache_dir: the default store's folder.
    cache_size, cache_count: its limits, as they were written; None is the default. shared_caches: folders that
    are looked into as well, and never written to. scratch_dir: the folder for temporary files.
    runtime_dir: where sessions of one machine meet; see `teeny_async.store.claims`. remote: URL of a store that
    machines share; None is none. remote_read_only: it is only read."""

    environ: Mapping[str, str]
    cache_dir: Path
    scratch_dir: str
    cache_size: str | None = None
    cache_count: str | None = None
    shared_caches: tuple[Path, ...] = ()
    runtime_dir: str = RUNTIME
    remote: str | None = None
    remote_read_only: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """TEENY_ASYNC_CACHE_DIR, else the platform's cache folder for this user; TEENY_ASYNC_CACHE_SIZE ("20GiB"),
        TEENY_ASYNC_CACHE_COUNT; TEENY_ASYNC_SHARED_CACHES, a list like PATH; TMPDIR as Python reads it;
        XDG_RUNTIME_DIR, else /tmp: wherever TMPDIR is, all sessions of a user have to meet. TEENY_ASYNC_REMOTE, and
        TEENY_ASYNC_REMOTE_READ_ONLY: anything but "", "0", "false" and "no" is yes."""
        folder = environ.get("TEENY_ASYNC_CACHE_DIR")
        return cls(
            environ=dict(environ),
            cache_dir=Path(folder).expanduser().absolute() if folder else _platform_cache_dir(),
            scratch_dir=environ.get("TMPDIR") or tempfile.gettempdir(),
            cache_size=environ.get("TEENY_ASYNC_CACHE_SIZE") or None,
            cache_count=environ.get("TEENY_ASYNC_CACHE_COUNT") or None,
            shared_caches=tuple(
                Path(folder).expanduser().absolute()
                for folder in environ.get("TEENY_ASYNC_SHARED_CACHES", "").split(os.pathsep)
                if folder
            ),
            runtime_dir=environ.get("XDG_RUNTIME_DIR") or RUNTIME,
            remote=environ.get("TEENY_ASYNC_REMOTE") or None,
            remote_read_only=environ.get("TEENY_ASYNC_REMOTE_READ_ONLY", "").lower() not in ("", "0", "false", "no"),
        )


def _platform_cache_dir() -> Path:
    from platformdirs import user_cache_path  # 15 ms, and only needed without TEENY_ASYNC_CACHE_DIR

    return user_cache_path("teeny_async")
