"""Runs kernels of cubins on one CUDA device and times them. `python -m teeny_async.tuning.workers.cuda 0`

Times are of events around a launch, with the L2 cache overwritten before each (a kernel that is called in a loop
would find its inputs there, and a program that calls it once would not). Warm-up is by time, since clocks rise
by time. The device is `CudaDevice`, or a class of another module that does what it does, for tests:
`... cuda 0 module:Class`.

A kernel that faults leaves its context useless, so after an error that is not its launch's the worker ends, and
a new one starts with the next question.
"""

from __future__ import annotations

import base64
import importlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from teeny_async.tuning.workers.arrays import Problem, ProblemCache
from teeny_async.tuning.workers.stdio import Refused, serve
from teeny_async.tuning.workers.timing import WARM_UP, measure

_CLOCKS_EVERY = 5.0
"""Seconds between two looks at the clocks: nvidia-smi takes longer than a measurement."""


_STAYS_WARM = 0.5
"""Seconds for which a device that has just worked keeps its clocks up: the next kernel needs less of a warm-up."""
_SHORT_WARM_UP = 0.003


class Device(Protocol):
    """What is needed of a device."""

    def describe(self) -> dict[str, Any]:
        """name, cpu ("sm_90"), and what else there is to say."""

    def clocks(self) -> dict[str, Any]:
        """MHz, as it is set now."""

    def load(self, code: bytes, symbol: str, shared: int) -> Any:
        """A kernel of a cubin, or of PTX. Raises Refused."""

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""

    def upload(self, address: int, data: Any) -> None: ...

    def download(self, address: int, data: Any) -> None: ...

    def free(self, address: int) -> None: ...

    def launch(self, kernel: Any, launch: Mapping[str, Any], arguments: Sequence[Any]) -> None:
        """Start it and wait for its end. Raises Refused("infeasible") when it cannot be started."""

    def time(self, kernel: Any, launch: Mapping[str, Any], arguments: Sequence[Any]) -> float:
        """Seconds of one launch with a cold L2 cache."""


class Runner:
    """Answers messages on a device. The arrays of the last problem stay on it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._problems = ProblemCache(1)
        self._problem: Problem | None = None
        self._addresses: dict[str, int] = {}
        self._found: dict[str, Any] = {}
        self._worked_at = -_STAYS_WARM

    def __call__(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        device = self._device
        problem = self._place(message)
        launch = message["launch"]
        kernel = device.load(base64.b64decode(message["code"]), message["symbol"], launch["shared"])
        arguments = self._arguments(problem)
        for argument in problem.outputs:
            device.upload(self._addresses[argument["name"]], problem.initial[argument["name"]])
        device.launch(kernel, launch, arguments)
        if problem.expected is not None:
            for name, array in self._found.items():
                device.download(self._addresses[name], array)
            problem.check(self._found)
        timed = measure(
            lambda: device.time(kernel, launch, arguments),
            fidelity=message["fidelity"],
            best=message["best"],
            give_up_above=message["give_up_above"],
            warm_up=_SHORT_WARM_UP if time.monotonic() - self._worked_at < _STAYS_WARM else WARM_UP,
        )
        self._worked_at = time.monotonic()
        return {
            "time": timed.median,
            "p20": timed.p20,
            "p80": timed.p80,
            "runs": timed.runs,
            "stopped": timed.stopped,
            "checked": True if problem.expected is not None else None,
            "clocks": device.clocks(),
        }

    def _place(self, message: Mapping[str, Any]) -> Problem:
        problem = self._problems.get(message)
        if problem is not self._problem:
            for address in self._addresses.values():
                self._device.free(address)
            self._addresses = {}
            for name, array in problem.initial.items():
                self._addresses[name] = self._device.allocate(array.nbytes)
                self._device.upload(self._addresses[name], array)
            self._found = {each["name"]: problem.initial[each["name"]].copy() for each in problem.outputs}
            self._problem = problem
        return problem

    def _arguments(self, problem: Problem) -> list[Any]:
        return [
            problem.values[argument["name"]] if argument["role"] == "scalar" else self._addresses[argument["name"]]
            for argument in problem.arguments
        ]


class CudaDevice:
    """A device through cuda-core, and through the driver's bindings for what that does not cover."""

    def __init__(self, number: int) -> None:
        core: Any
        try:
            core = importlib.import_module("cuda.core")
            core.LaunchConfig  # noqa: B018 - before 0.5 the package was there without its contents
        except (ImportError, AttributeError):
            core = importlib.import_module("cuda.core.experimental")
        self._core = core
        self._driver: Any = importlib.import_module("cuda.bindings.driver")
        self._device = core.Device(number)
        self._device.set_current()
        self._stream = self._device.create_stream()
        try:
            options = core.EventOptions(timing_enabled=True)
        except TypeError:
            options = core.EventOptions(enable_timing=True)
        self._begin = self._device.create_event(options=options)
        self._end = self._device.create_event(options=options)
        self._number = number
        self._clocks = SmiClocks(number)
        self._l2 = 2 * max(self._attribute("CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE"), 1 << 20)
        self._flush = self.allocate(self._l2)

    def describe(self) -> dict[str, Any]:
        capability = self._device.compute_capability
        major, minor = (capability.major, capability.minor) if hasattr(capability, "major") else tuple(capability)
        return {
            "name": str(self._device.name),
            "cpu": f"sm_{major}{minor}",
            "multiprocessors": self._attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
            "l2_bytes": self._l2 // 2,
            "driver": self._call("cuDriverGetVersion"),
        }

    def clocks(self) -> dict[str, Any]:
        return {
            "sm_mhz_max": self._attribute("CU_DEVICE_ATTRIBUTE_CLOCK_RATE") / 1000,
            "memory_mhz_max": self._attribute("CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE") / 1000,
        } | self._clocks.read()

    def load(self, code: bytes, symbol: str, shared: int) -> Any:
        make = self._core.ObjectCode.from_cubin if code.startswith(b"\x7fELF") else self._core.ObjectCode.from_ptx
        try:
            kernel = make(code).get_kernel(symbol)
        except Exception as error:  # noqa: BLE001 - cuda-core's classes differ by version
            raise Refused("infeasible", f"the device does not load it: {_line(error)}") from None
        if shared > 48 << 10:
            driver = self._driver
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            handle = driver.CUkernel(int(kernel.handle))
            self._call("cuKernelSetAttribute", attribute, shared, handle, driver.CUdevice(self._number))
        return kernel

    def allocate(self, size: int) -> int:
        return int(self._call("cuMemAlloc", max(size, 1)))

    def upload(self, address: int, data: Any) -> None:
        self._call("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)
        self._call("cuCtxSynchronize")  # the copy may still be under way, and our stream does not wait for it

    def download(self, address: int, data: Any) -> None:
        self._call("cuMemcpyDtoH", data.ctypes.data, address, data.nbytes)

    def free(self, address: int) -> None:
        self._call("cuMemFree", address)

    def launch(self, kernel: Any, launch: Mapping[str, Any], arguments: Sequence[Any]) -> None:
        try:
            self._start(kernel, launch, arguments)
        except Exception as error:  # noqa: BLE001
            raise Refused("infeasible", f"the device does not launch it: {_line(error)}") from None
        self._stream.sync()

    def time(self, kernel: Any, launch: Mapping[str, Any], arguments: Sequence[Any]) -> float:
        self._call("cuMemsetD8Async", self._flush, 0, self._l2, self._driver.CUstream(int(self._stream.handle)))
        self._stream.record(self._begin)
        self._start(kernel, launch, arguments)
        self._stream.record(self._end)
        self._end.sync()
        return float(self._end - self._begin) / 1000  # events give milliseconds

    def _start(self, kernel: Any, launch: Mapping[str, Any], arguments: Sequence[Any]) -> None:
        config = self._core.LaunchConfig(
            grid=tuple(launch["grid"]), block=tuple(launch["block"]), shmem_size=launch["shared"]
        )
        self._core.launch(self._stream, config, kernel, *arguments)

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._driver.CUdevice_attribute, name)
        return int(self._call("cuDeviceGetAttribute", attribute, self._driver.CUdevice(self._number)))

    def _call(self, function: str, *arguments: Any) -> Any:
        """A function of the driver; its one result. Raises RuntimeError."""
        status, *results = getattr(self._driver, function)(*arguments)
        if int(status):
            raise RuntimeError(f"{function}: {status}")
        return results[0] if results else None


class SmiClocks:
    """The clocks as nvidia-smi says them: a few seconds old, since nobody waits for it but the first time."""

    def __init__(self, number: int) -> None:
        query = ("--query-gpu=clocks.sm,clocks.mem", "--format=csv,noheader,nounits")
        self._command = ["nvidia-smi", f"--id={number}", *query]
        self._running: subprocess.Popen[str] | None = None
        self._asked_at = 0.0
        self._last: dict[str, Any] | None = None

    def read(self) -> dict[str, Any]:
        """MHz; empty without nvidia-smi."""
        if self._running is None and (self._last is None or time.monotonic() - self._asked_at > _CLOCKS_EVERY):
            self._ask()
        if self._running is not None and (self._last is None or self._running.poll() is not None):
            self._last = _clocks_of(self._running)
            self._running = None
        return self._last or {}

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        try:
            self._running = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._last = {}


def _clocks_of(running: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        said, _ = running.communicate(timeout=10)
        sm, memory = (float(part) for part in said.strip().split(","))
    except (subprocess.SubprocessError, ValueError):
        running.kill()
        running.communicate()
        return {}
    return {"sm_mhz": sm, "memory_mhz": memory}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def main() -> None:
    """argv: the device's number, and the device class where it is not `CudaDevice`."""
    module, _, name = (sys.argv[2] if len(sys.argv) > 2 else f"{__name__}:CudaDevice").partition(":")
    make = CudaDevice if module == __name__ else getattr(importlib.import_module(module), name)
    device: Device = make(int(sys.argv[1]))
    runner = Runner(device)

    def handle(message: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return runner(message)
        except Refused:
            raise
        except Exception as error:
            print(f"{type(error).__name__}: {_line(error)}", file=sys.stderr, flush=True)
            sys.stdout.flush()
            raise SystemExit(70) from error  # its context may be lost; a fresh process has a fresh one

    serve(handle, {"device": device.describe()})


if __name__ == "__main__":
    main()
