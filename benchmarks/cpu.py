"""CPU time of this process and of all its descendants, from the inside: what a span of a program's life cost."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def tree_cpu() -> float:
    """Seconds of user and system time so far: ours, of the children we waited for, and of those that live."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + ended.ru_utime + ended.ru_stime + sum(map(_cpu_of, _living(os.getpid())))


def children_cpu() -> float:
    """Seconds of the children we waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


class Span:
    """From its making to `end`."""

    def __init__(self) -> None:
        self._cpu = tree_cpu()
        self._wall = time.perf_counter()

    def end(self, divisor: int = 1) -> dict[str, float]:
        """tree_cpu and wall, divided by the number of requests."""
        wall = time.perf_counter() - self._wall
        return {"tree_cpu": (tree_cpu() - self._cpu) / divisor, "wall": wall / divisor}


def rss() -> int:
    """Bytes of this process that are in memory now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _living(root: int) -> list[int]:
    """Descendants that live, by walking /proc; none where there is no /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields:
            parents[int(entry.name)] = int(fields[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _cpu_of(pid: int) -> float:
    """A living process: its main thread to the nanosecond, what it waited for to the tick."""
    fields = _stat(pid)
    if not fields:
        return 0.0
    try:
        own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        own = (int(fields[11]) + int(fields[12])) / _TICK
    return own + (int(fields[13]) + int(fields[14])) / _TICK


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: 1 is the parent, 11 to 14 the times."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
