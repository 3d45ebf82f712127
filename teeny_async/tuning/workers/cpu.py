"""Runs a function of a shared library on one CPU and times it. `python -m teeny_async.tuning.workers.cpu`"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from teeny_async.tuning.workers.arrays import Problem, ProblemCache, aligned, dtype
from teeny_async.tuning.workers.stdio import serve
from teeny_async.tuning.workers.timing import measure

_BATCH = 1e-4
"""Seconds that a timed run takes at least; a kernel faster than that is called several times in each."""
_problems = ProblemCache()


def main() -> None:
    """Pin this process to one CPU and serve."""
    serve(handle, {"device": _pin()})


def handle(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check a library's function against the reference, then time it."""
    problem = _problems.get(message)
    library = ctypes.CDLL(message["library"])
    function = getattr(library, message["symbol"])
    function.restype = None
    arrays = {name: aligned(array) for name, array in problem.initial.items()}
    call = _call(function, problem, arrays)
    call()
    problem.check(arrays)
    once, batch = _timer(call)
    quiet = _Quiet()
    timed = measure(
        once,
        batch=batch,
        fidelity=message["fidelity"],
        best=message["best"],
        give_up_above=message["give_up_above"],
        thorough=message.get("thorough", False),
    )
    return {
        "time": timed.median,
        "p20": timed.p20,
        "p80": timed.p80,
        "runs": timed.runs,
        "stopped": timed.stopped,
        "checked": True if problem.expected is not None else None,
        "clocks": clocks(),
        "contention": quiet.disturbed(),
    }


class _Quiet:
    """How far this process had its CPU to itself, since it was made."""

    def __init__(self) -> None:
        self._began = self._now()

    def disturbed(self) -> dict[str, float]:
        """preempted: times that something else was put in its place. waited: the share of the time without a CPU."""
        wall, cpu, switches = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return {"preempted": switches, "waited": round(max(0.0, 1 - cpu / wall), 4) if wall > 0 else 0.0}

    @staticmethod
    def _now() -> tuple[float, float, float]:
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        return time.perf_counter(), time.process_time(), switches


def _call(function: Any, problem: Problem, arrays: Mapping[str, Any]) -> Callable[[], None]:
    values: list[Any] = []
    for argument in problem.arguments:
        name = argument["name"]
        if argument["role"] == "scalar":
            values.append(_scalar(argument["type"])(problem.values[name].item()))
        else:
            values.append(ctypes.c_void_p(arrays[name].ctypes.data))
    return lambda: function(*values)


def _scalar(type: str) -> Any:
    kinds = {"i": "int", "u": "uint"}
    if type[0] == "f":
        return {"f32": ctypes.c_float, "f64": ctypes.c_double}[type]
    return getattr(ctypes, f"c_{kinds[type[0]]}{dtype(type).itemsize * 8}")


def _timer(call: Callable[[], None]) -> tuple[Callable[[], float], int]:
    """(a timed run, how many calls it makes)."""
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    batch = max(1, int(_BATCH / max(took, 1e-7)))

    def once() -> float:
        began = time.perf_counter()
        for _ in range(batch):
            call()
        return time.perf_counter() - began

    return once, batch


def _pin() -> dict[str, Any]:
    """Stay on the last CPU that may be used: the first ones get most of the rest of the system."""
    model = next(iter(_cpuinfo("model name")), platform.processor() or platform.machine())
    try:
        cpu = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpu})
    except (AttributeError, OSError):
        return {"name": model, "cpu": None}
    return {"name": model, "cpu": cpu}


def clocks() -> dict[str, Any]:
    """How fast the CPU runs now (MHz), and who decides that, as far as the system says."""
    found: dict[str, Any] = {}
    speeds = _cpuinfo("cpu MHz")
    if speeds:
        found["mhz"] = max(float(speed) for speed in speeds)
    with contextlib.suppress(OSError):
        found["governor"] = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    return found


def _cpuinfo(field: str) -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field]


if __name__ == "__main__":
    main()
