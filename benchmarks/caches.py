"""The caches that other tools use, each filled and read through its own door. Runs in a child.

Each has `entries` values of `size` bytes under keys of its own liking: a digest where the tool makes one, the
kernel's text where it takes anything.
"""

from __future__ import annotations

import hashlib
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Get = Callable[[int], bytes]
Put = Callable[[int, bytes], object]


def fill(name: str, folder: str, entries: int, size: int, key_size: int) -> dict[str, float]:
    """Fill one cache."""
    _, put = _DOORS[name](Path(folder), entries, size, key_size)
    for number in range(entries):
        put(number, _value(number, size))
    return {}


def read(name: str, folder: str, entries: int, size: int, key_size: int) -> dict[str, float]:
    """Get every value once. What comes before the first get (imports, opening, the texts) is not counted."""
    get, _ = _DOORS[name](Path(folder), entries, size, key_size)
    get(0)
    cpu, wall = time.process_time(), time.perf_counter()
    found = [get(number) for number in range(entries)]
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if any(len(value) != size for value in found):
        raise RuntimeError(f"{name} does not have what it was given")
    return {"cpu": cpu / entries, "wall": wall / entries}


def _value(number: int, size: int) -> bytes:
    return b"%d" % number + b"/" * (size - len(b"%d" % number))


def _texts(entries: int, size: int) -> list[str]:
    return [f"kernel {number}\n".ljust(size, "/") for number in range(entries)]


def _digests(entries: int, size: int) -> list[bytes]:
    return [hashlib.sha256(text.encode()).digest() for text in _texts(entries, size)]


def _diskcache(folder: Path, entries: int, size: int, key_size: int) -> tuple[Get, Put]:
    module = importlib.import_module("diskcache")
    cache = module.Cache(str(folder / "bare"), eviction_policy="none", disk_min_file_size=1 << 20)
    keys = _digests(entries, key_size)
    return lambda number: cache.get(keys[number]), lambda number, value: cache.set(keys[number], value)


def _triton(folder: Path, entries: int, size: int, key_size: int) -> tuple[Get, Put]:
    manager = importlib.import_module("triton.runtime.cache").FileCacheManager
    keys = [key.hex() for key in _digests(entries, key_size)]

    def get(number: int) -> bytes:
        with open(manager(keys[number]).get_file("kernel.ptx"), "rb") as file:
            return file.read()

    return get, lambda number, value: manager(keys[number]).put(value, "kernel.ptx")


def _joblib(folder: Path, entries: int, size: int, key_size: int) -> tuple[Get, Put]:
    memory = importlib.import_module("joblib").Memory(str(folder / "joblib"), verbose=0)
    call = memory.cache(compile_text, ignore=["size"])
    texts = _texts(entries, key_size)
    get: Get = lambda number: call(texts[number], "sm_90", size)  # noqa: E731  # as for the others
    return get, lambda number, value: get(number)


def compile_text(text: str, target: str, size: int) -> bytes:
    """What joblib remembers."""
    return _value(int(text.split()[1].rstrip("/")), size)


def _tinygrad(folder: Path, entries: int, size: int, key_size: int) -> tuple[Get, Put]:
    helpers = importlib.import_module("tinygrad.helpers")
    texts = _texts(entries, key_size)
    return (
        lambda number: helpers.diskcache_get("compile", texts[number]),
        lambda number, value: helpers.diskcache_put("compile", texts[number], value),
    )


_DOORS: dict[str, Any] = {"diskcache": _diskcache, "triton": _triton, "joblib": _joblib, "tinygrad": _tinygrad}
