"""A CUDA device without one. Its kernels are JSON behind an ELF magic: {"ok": true, "seconds": 1e-3, ...}."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from teeny_async.tuning.workers.stdio import Refused

MAGIC = b"\x7fELF"


class FakeDevice:
    def __init__(self, number: int) -> None:
        if number == 9:
            raise RuntimeError("no CUDA-capable device is detected")
        self._number = number
        self._memory: dict[int, np.ndarray[Any, Any]] = {}

    def describe(self) -> dict[str, Any]:
        return {"name": "Fake H200", "cpu": "sm_90"}

    def clocks(self) -> dict[str, Any]:
        return {"sm_mhz": 1980.0}

    def load(self, code: bytes, symbol: str, shared: int) -> dict[str, Any]:
        assert symbol == "kernel"
        return dict(json.loads(code.removeprefix(MAGIC)))

    def allocate(self, size: int) -> int:
        data = np.zeros(size, dtype=np.uint8)
        self._memory[data.ctypes.data] = data
        return int(data.ctypes.data)

    def upload(self, address: int, data: np.ndarray[Any, Any]) -> None:
        self._memory[address][:] = np.frombuffer(data.tobytes(), dtype=np.uint8)

    def download(self, address: int, data: np.ndarray[Any, Any]) -> None:
        data[...] = np.frombuffer(self._memory[address].tobytes(), dtype=data.dtype).reshape(data.shape)

    def free(self, address: int) -> None:
        del self._memory[address]

    def launch(self, kernel: dict[str, Any], launch: Mapping[str, Any], arguments: Sequence[Any]) -> None:
        assert launch["grid"][0] * launch["block"][0] >= int(arguments[2])
        match kernel.get("fault"):
            case "launch":
                raise Refused("infeasible", "the device does not launch it: too many resources requested")
            case "hang":
                time.sleep(1000)
            case "crash":
                os.abort()
            case "context":
                raise RuntimeError("an illegal memory access was encountered")
        print("a kernel may print")
        x, y = (np.frombuffer(self._memory[address], dtype=np.float32) for address in arguments[:2])
        y[:] = x * (3 if kernel.get("fault") == "wrong" else 2)

    def time(self, kernel: dict[str, Any], launch: Mapping[str, Any], arguments: Sequence[Any]) -> float:
        return float(kernel["seconds"])
