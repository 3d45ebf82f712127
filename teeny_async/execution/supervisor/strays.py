"""Strays: what left its job's group, a daemon of a compiler. Here, a child of ours in no job's group.

A stray lives no longer than its job. Whose it is shows its session, else the TMPDIR in its environment; and what is
older than every job that runs was left by one that has ended. All else cannot be told yet, and is looked at again;
so is what may be a job that an interpreter has just forked (its TMPDIR is the root, as the interpreter's).
"""

from __future__ import annotations

import os
import signal

from .forks import Forks
from .job import Job
from .system import birth_of, children, group_of, session_of, tmpdir_of

END, SPARE, UNKNOWN = 1, 2, 3


def end_strays(jobs: dict[int, Job], forks: Forks, root: bytes) -> bool:
    """Kill the strays of all but these jobs, which run; whether some are left that could not be told."""
    found = children()
    ours = {*jobs, *forks.pids}
    if len(found) <= len(ours):  # each has one at least
        return False
    strays = _strays(found, ours)
    names = {job.name for job in jobs.values()}
    births = [birth_of(pid) for pid in jobs] if strays else []
    unknown = False
    for pid in strays:
        tmpdir = tmpdir_of(pid)
        if session_of(pid) in ours:
            verdict = SPARE
        elif tmpdir == root and forks.forking:
            verdict = UNKNOWN
        else:
            verdict = judge(tmpdir, birth_of(pid), root, names, births)
        if verdict == END:
            _kill(pid)
        unknown = unknown or verdict == UNKNOWN
    return unknown


def end_all_strays(jobs: dict[int, Job]) -> None:
    """Kill the strays of everybody."""
    for pid in _strays(children(), set(jobs)):
        _kill(pid)


def judge(tmpdir: bytes, birth: int, root: bytes, names: set[bytes], births: list[int]) -> int:
    """What to do with a stray, by its TMPDIR and its birth.

    names, births: of the jobs that run. A birth is 0 where it is not known.
    """
    if tmpdir.startswith(root + b"/"):
        return SPARE if tmpdir[len(root) + 1 :].split(b"/")[0] in names else END
    return END if all(0 < birth < other for other in births) else UNKNOWN


def _strays(found: list[int], ours: set[int]) -> list[int]:
    """The children that neither are ours nor belong to the group of one that is."""
    ours = {*ours, os.getpgrp()}
    return [pid for pid in found if pid not in ours and group_of(pid) not in ours]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
