"""What this process may use of the machine: CPUs and memory, as the kernel and the control groups allow."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from teeny_async.errors import RequestError

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_SELF_CGROUP = Path("/proc/self/cgroup")


def available_cpus() -> int:
    """CPUs this process may run on, 1 or more: its affinity, capped by its control group's quota."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # no affinity outside Linux
        cpus = os.cpu_count() or 1
    quota = cgroup_cpu_quota()
    return max(1, min(cpus, math.ceil(quota)) if quota else cpus)


def cgroup_cpu_quota(root: Path = _CGROUP_ROOT, membership: Path = _SELF_CGROUP) -> float | None:
    """The tightest CPU quota of this process's control groups, in CPUs; None when there is none.

    Version 2 has it in `cpu.max` ("max 100000" or "200000 100000"), version 1 in `cpu.cfs_quota_us` and
    `cpu.cfs_period_us`; a limit on any ancestor holds too.
    """
    found = [quota for folder in _own_groups(root, membership) if (quota := _quota(folder)) is not None]
    return min(found, default=None)


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that can be had without swapping, as the kernel estimates it; None where it does not say."""
    try:
        lines = meminfo.read_text().splitlines()
        [line] = [line for line in lines if line.startswith("MemAvailable:")]
        return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return None


def cgroup_memory_limit(root: Path = _CGROUP_ROOT, membership: Path = _SELF_CGROUP) -> int | None:
    """Bytes: the tightest limit of this process's control groups; None when there is none.

    Version 2 has it in `memory.max` ("max" is none), version 1 in `memory.limit_in_bytes` (none is a number
    near 2^63).
    """
    groups = _own_groups(root, membership, "memory")
    return min((limit for folder in groups if (limit := _memory_limit(folder)) is not None), default=None)


def cgroup_memory_headroom(root: Path = _CGROUP_ROOT, membership: Path = _SELF_CGROUP) -> int | None:
    """Bytes that the tightest of this process's control groups has left; None when none is limited.

    File pages that can be dropped at any time (`active_file`, `inactive_file`, and version 2's
    `slab_reclaimable`) are counted as free: a group that read many files looks full and is not.
    """
    groups = _own_groups(root, membership, "memory")
    return min((left for folder in groups if (left := _headroom(folder)) is not None), default=None)


def memory_left() -> int | None:
    """Bytes that compilers may take now, by the machine and by the control groups; None when neither says."""
    known = [left for left in (available_memory(), cgroup_memory_headroom()) if left is not None]
    return min(known, default=None)


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b?)?|b)?\s*", re.IGNORECASE)


def byte_count(text: str) -> int | None:
    """Bytes, from a text as `memory_size` takes it; None for what is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number, letter, suffix = match.groups()
    base = 1000 if (suffix or "").lower() == "b" else 1024
    return int(float(number) * base ** (" kmgt".index(letter.lower()) if letter else 0))


def memory_size(size: int | str) -> int:
    """Bytes, from a number of them or a text: "2GiB", "1.5 GB", "800m".

    With "iB", or with no more than the letter, a unit is a power of 1024; with "B" alone, of 1000.
    Raises RequestError for what is no size, and for less than 1 MiB, which no compiler needs.
    """
    if isinstance(size, str):
        number = byte_count(size)
        if number is None:
            raise RequestError(f'not an amount of memory: {size!r}; write it as "2GiB", "800MB" or a number of bytes')
        size = number
    if isinstance(size, bool) or not isinstance(size, int):
        raise RequestError(f"an amount of memory is a number of bytes or a text, not {size!r}")
    if size < 1 << 20:
        raise RequestError(f"{size} bytes of memory is less than any compiler needs")
    return size


def _own_groups(root: Path, membership: Path, controller: str = "cpu") -> list[Path]:
    """The folders of the control groups this process is in, and of their ancestors."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mounts = [root, root / "unified"] if not controllers else [root / controllers, root / controller]
        for mount in mounts:
            group = mount / path.lstrip("/")
            # Inside a container the path is often the host's; the mount itself is then our own group.
            folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(mount)]
    return folders


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
            return None if quota == "max" else int(quota) / int(period)
        limit = int((folder / "cpu.cfs_quota_us").read_text())
        return None if limit <= 0 else limit / int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None


def _memory_limit(folder: Path) -> int | None:
    try:
        if (folder / "memory.max").exists():
            text = (folder / "memory.max").read_text().strip()
            return None if text == "max" else int(text)
        limit = int((folder / "memory.limit_in_bytes").read_text())
    except (OSError, ValueError):
        return None
    return limit if limit < 1 << 60 else None


_USAGE = ("memory.current", "memory.usage_in_bytes")
_DROPPABLE = (
    ("inactive_file", "active_file", "slab_reclaimable"),
    ("total_inactive_file", "total_active_file"),
)
"""Names in `memory.stat`, of version 2 and of version 1, where those with "total_" include the groups below."""


def _headroom(folder: Path) -> int | None:
    limit = _memory_limit(folder)
    if limit is None:
        return None
    version = int(not (folder / "memory.max").exists())
    try:
        used = int((folder / _USAGE[version]).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
        found = {name: int(value) for name, value in (line.split() for line in lines)}
    except (OSError, ValueError):
        return limit
    return max(0, limit - max(0, used - sum(found.get(name, 0) for name in _DROPPABLE[version])))
