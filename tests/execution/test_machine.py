"""What the control groups and the machine leave us, read from files laid out as the kernel lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeny_async import RequestError
from teeny_async.execution.machine import (
    available_cpus,
    available_memory,
    cgroup_cpu_quota,
    cgroup_memory_headroom,
    cgroup_memory_limit,
    memory_left,
    memory_size,
)

MIB = 1 << 20


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def member(root: Path, *lines: str) -> Path:
    path = root / "self-cgroup"
    path.write_text("\n".join(lines) + "\n")
    return path


def stat(**values: int) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def test_version_2_counts_only_what_cannot_be_dropped(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "a/b/memory.max": f"{1000 * MIB}\n",
            "a/b/memory.current": f"{900 * MIB}\n",
            "a/b/memory.stat": stat(
                anon=100 * MIB, inactive_file=500 * MIB, active_file=100 * MIB, slab_reclaimable=50 * MIB
            ),
            "a/memory.max": "max\n",
        },
    )
    assert cgroup_memory_limit(root, member(tmp_path, "0::/a/b")) == 1000 * MIB
    assert cgroup_memory_headroom(root, member(tmp_path, "0::/a/b")) == 750 * MIB


def test_a_limit_of_any_ancestor_holds(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "a/b/memory.max": f"{1000 * MIB}\n",
            "a/b/memory.current": "0\n",
            "a/b/memory.stat": "",
            "a/memory.max": f"{600 * MIB}\n",
            "a/memory.current": f"{200 * MIB}\n",
            "a/memory.stat": stat(inactive_file=50 * MIB),
        },
    )
    assert cgroup_memory_headroom(root, member(tmp_path, "0::/a/b")) == 450 * MIB


def test_version_1_and_its_number_for_no_limit(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "memory/job/memory.limit_in_bytes": f"{2048 * MIB}\n",
            "memory/job/memory.usage_in_bytes": f"{1048 * MIB}\n",
            "memory/job/memory.stat": stat(cache=900 * MIB, total_inactive_file=600 * MIB, total_active_file=200 * MIB),
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert cgroup_memory_headroom(root, member(tmp_path, "4:memory:/job", "1:cpu:/")) == 1800 * MIB
    assert cgroup_memory_headroom(root, member(tmp_path, "4:memory:/", "1:cpu:/")) is None


def test_a_group_that_cannot_be_read_is_as_large_as_its_limit(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a/memory.max": f"{64 * MIB}\n"})
    assert cgroup_memory_headroom(root, member(tmp_path, "0::/a")) == 64 * MIB
    assert cgroup_memory_headroom(root, tmp_path / "absent") is None


def test_a_quota_is_in_cpus(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a/cpu.max": "150000 100000\n", "cpu/b/cpu.cfs_quota_us": "-1\n"})
    assert cgroup_cpu_quota(root, member(tmp_path, "0::/a")) == 1.5
    assert cgroup_cpu_quota(root, member(tmp_path, "1:cpu,cpuacct:/b")) is None


def test_memory_available_is_the_kernels_estimate(tmp_path: Path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable:     7 kB\n")
    assert available_memory(info) == 7 * 1024
    info.write_text("MemTotal: 10 kB\n")
    assert available_memory(info) is None


def test_this_machine_can_run_something() -> None:
    assert available_cpus() >= 1
    left = memory_left()
    assert left is None or left > MIB


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1 << 21, 1 << 21),
        ("2097152", 1 << 21),
        ("2GiB", 2 << 30),
        ("2 gib", 2 << 30),
        ("2G", 2 << 30),
        ("1.5GB", 1_500_000_000),
        ("800m", 800 << 20),
        ("0.5TiB", 1 << 39),
        ("2097152 B", 1 << 21),
    ],
)
def test_sizes(text: int | str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "2 GiBs", "-1GiB", "1e9", "1000", 0, True, 1.5, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(RequestError, match="memory"):
        memory_size(text)  # type: ignore[arg-type]
