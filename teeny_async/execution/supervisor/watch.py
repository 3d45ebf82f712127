"""Looks at running jobs: what their processes hold in memory and have used of the CPU (Linux's /proc).

A look costs some 50 us a process, so a job is not looked at in its first moments, and later less and less
often; a short compile is never looked at.
"""

from __future__ import annotations

import os

from .job import Job
from .system import children, group_of
from .wire import CPU_TIMEOUT

FIRST_LOOK = 0.2
"""Seconds from a job's start to the first look at it."""
_SOONEST, _LATEST = 0.2, 1.0
_SOONEST_NEAR_LIMIT = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_GROWTH = 1.25
"""How much more than it told last a job must hold before it is told again."""


def look_at(due: list[Job], now: float) -> list[tuple[Job, int]]:
    """Look at jobs: note their peaks, stop those over their CPU limit; those that outgrew what was expected
    of them, and what they hold (bytes)."""
    roots: dict[int, list[int]] = {}
    for pid in children():
        roots.setdefault(group_of(pid), []).append(pid)
    grown = []
    for job in due:
        held, used = measure(roots.get(job.pid, []))
        used += job.cpu_user + job.cpu_system
        job.peak = max(job.peak, held)
        if job.limits.cpu and used >= job.limits.cpu:
            job.stop(CPU_TIMEOUT, now, job.limits.grace)
        if job.limits.memory and held > max(job.told, job.limits.memory):
            job.told = int(held * _GROWTH)
            grown.append((job, held))
        job.look_at = now + _interval(job, now, used)
    return grown


def _interval(job: Job, now: float, used: float) -> float:
    interval = min(_LATEST, max(_SOONEST, (now - job.started) / 10))
    if job.limits.cpu:
        return min(interval, max(_SOONEST_NEAR_LIMIT, job.limits.cpu - used))
    return interval


def measure(roots: list[int]) -> tuple[int, float]:
    """(bytes, seconds) of processes and all below them.

    Bytes: private memory is summed; of shared and file memory (mostly the compiler's own code, which its
    processes share) the largest counts. Seconds: of the living, and of the dead that they waited for.
    """
    private = shared = 0
    seconds = 0.0
    pending = list(roots)
    while pending:
        pid = pending.pop()
        try:
            resident, mapped = _memory_of(pid)
            seconds += _seconds_of(pid)
            pending += _children_of(pid)
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
        private += resident - mapped
        shared = max(shared, mapped)
    return (private + shared) * _PAGE, seconds


def _memory_of(pid: int) -> tuple[int, int]:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]), int(fields[2])


def _seconds_of(pid: int) -> float:
    # The name in the second field may hold blanks and brackets: count from behind it.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _children_of(pid: int) -> list[int]:
    """Children of every thread: a compiler may start its linker from any of them."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)
