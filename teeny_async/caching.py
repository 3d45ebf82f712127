"""Which stores a session has: memory in front, folders that are shared, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from teeny_async.errors import RequestError
from teeny_async.execution.machine import memory_size
from teeny_async.pipeline.closures import CLOSURE_NOTE
from teeny_async.pipeline.rules import Mode
from teeny_async.settings import RUNTIME, Settings
from teeny_async.store.base import Store
from teeny_async.store.disk import COUNT_LIMIT, SIZE_LIMIT, DiskStore
from teeny_async.store.folder import LAYOUT
from teeny_async.store.layered import Layer, LayeredStore
from teeny_async.store.memory import MemoryStore

IN_MEMORY = 64 * 2**20
"""Bytes of entries that a session keeps in memory."""

Folder = str | os.PathLike[str]


def store_for(
    store: Store | Folder | None,
    shared: Sequence[Folder] | None,
    mode: Mode,
    settings: Settings,
    *,
    remote: Store | str | None = None,
    remote_read_only: bool | None = None,
) -> Store:
    """The store of a session; one that was given is the only one, but for a remote that was named with it.

    shared: folders that are only read; None: those of the settings. remote: behind all others, a store or its URL;
    None: that of the settings, where no store was given. Raises RequestError for what makes no sense.
    """
    if store is None or isinstance(store, (str, os.PathLike)):
        layers = _folders(store, shared, mode, settings)
        remote = settings.remote if remote is None else remote
    elif shared:
        raise RequestError("shared_caches goes with a folder; make a LayeredStore of a store of your own")
    elif not remote or mode == "no_cache":
        return store
    else:
        layers = [Layer("store", store)]
    if remote and mode != "no_cache":
        layers.append(Layer("remote", _remote(remote, remote_read_only, mode, settings)))
    return LayeredStore(layers, shared_notes=(CLOSURE_NOTE,))


def _folders(folder: Folder | None, shared: Sequence[Folder] | None, mode: Mode, settings: Settings) -> list[Layer]:
    if isinstance(shared, (str, os.PathLike)):
        raise RequestError(f"shared_caches is a list of folders, not {shared!r}")
    own = own_store(settings.cache_dir if folder is None else folder, settings, read_only=mode == "cached_only")
    memory = MemoryStore(max_bytes=IN_MEMORY, packed=False)
    others = [DiskStore(other, read_only=True) for other in (settings.shared_caches if shared is None else shared)]
    return [
        Layer("memory", memory, notes="none"),
        *(Layer("shared", other, notes="shared") for other in others),
        Layer("disk", own),
    ]


def store_to_look_into(folder: Path, shared: Sequence[Folder] | None, settings: Settings) -> Store:
    """A user's folder and those that are shared, as they are: nothing is noted in them, and none is made.

    shared: None: those of the settings.
    """
    own = [Layer("disk", DiskStore(folder, read_only=True))] if os.path.isdir(folder / LAYOUT) else []
    others = [DiskStore(other, read_only=True) for other in (settings.shared_caches if shared is None else shared)]
    layers = [*(Layer("shared", other, notes="shared") for other in others), *own]
    return LayeredStore(layers, shared_notes=(CLOSURE_NOTE,)) if layers else MemoryStore()


def _remote(remote: Store | str, read_only: bool | None, mode: Mode, settings: Settings) -> Store:
    if not isinstance(remote, str):
        return remote
    from teeny_async.store.remote import RemoteStore

    read_only = settings.remote_read_only if read_only is None else read_only
    return RemoteStore(remote, read_only=read_only or mode == "cached_only")


def own_store(folder: Folder, settings: Settings, *, read_only: bool = False) -> DiskStore:
    """The user's own folder with the limits of the settings: whoever writes into it removes what is over them.

    Raises RequestError for limits that make no sense.
    """
    return DiskStore(folder, size_limit=_size(settings), count_limit=_count(settings), read_only=read_only)


def _size(settings: Settings) -> int:
    try:
        return SIZE_LIMIT if settings.cache_size is None else memory_size(settings.cache_size)
    except RequestError as error:
        raise RequestError(f"TEENY_ASYNC_CACHE_SIZE: {error}") from None


def _count(settings: Settings) -> int:
    if settings.cache_count is None:
        return COUNT_LIMIT
    if not settings.cache_count.isdecimal() or int(settings.cache_count) < 1:
        raise RequestError(f"TEENY_ASYNC_CACHE_COUNT is a number, 1 or more, not {settings.cache_count!r}")
    return int(settings.cache_count)


def meeting_place(settings: Settings) -> Path:
    """The folder of this user in which the sessions of this machine meet; it is not made yet."""
    runtime = settings.runtime_dir
    # It is often named where it is not: after `su`, or in a container.
    if not (os.path.isabs(runtime) and os.access(runtime, os.W_OK | os.X_OK)):
        runtime = RUNTIME
    return Path(runtime, f"teeny-async-{os.geteuid()}-claims")
