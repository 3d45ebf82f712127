"""What this process may use of the machine: CPUs, as the scheduler and the control groups allow."""

from __future__ import annotations

import math
import os
from pathlib import Path

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


def _own_groups(root: Path, membership: Path) -> list[Path]:
    """The folders of the control groups this process is in, and of their ancestors."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = [root, root / "unified"] if not controllers else [root / controllers, root / "cpu"]
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
