"""`CudaMeasurer`: times kernels on the CUDA devices of this machine, one worker process for each."""

from __future__ import annotations

import base64
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from teeny_async.errors import RequestError
from teeny_async.result import Artifact
from teeny_async.target import Target
from teeny_async.tuning.measurement import MeasureContext, MeasureFailed
from teeny_async.tuning.signature import Signature
from teeny_async.tuning.space import Config
from teeny_async.tuning.worker import Worker

_LABELS = ("cubin", "ptx")


class CudaMeasurer:
    """Times kernels on the devices of the given numbers; different devices work at the same time.

    Needs the extra `cuda` and numpy. signature: with its grid and block. timeout: seconds until a kernel that does
    not return is given up: the worker is killed, the run goes on with a new one. device_class: "module:Class",
    something else than cuda-core; see `workers.cuda.Device`.
    """

    flags: Sequence[str] = ()

    def __init__(
        self,
        signature: Signature,
        *,
        devices: Sequence[int] = (0,),
        timeout: float = 30.0,
        device_class: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        missing = [] if device_class else [name for name in ("cuda", "numpy") if importlib.util.find_spec(name) is None]
        if missing:
            raise RequestError(
                "timing kernels on a GPU needs cuda-core and numpy; run: pip install 'teeny_async[cuda]'"
            )
        if signature.grid is None or signature.block is None:
            raise RequestError("a GPU kernel needs the expressions for its grid and its block")
        self.leaves = len(devices)  # each worker checks results, and that takes a CPU
        self._signature = signature
        self._timeout = timeout
        extra = [device_class] if device_class else []
        self._workers = {
            number: Worker([sys.executable, "-m", "teeny_async.tuning.workers.cuda", str(number), *extra], env)
            for number in devices
        }
        self._names: dict[str, Worker] = {}
        self._cpus: set[str] = set()
        self.problem = {**signature.problem(), "grid": signature.grid, "block": signature.block}

    def refusal(self, target: Target | None) -> str | None:
        if target is None or not target.is_nvidia:
            return "it is no NVIDIA target"
        have = sorted(self._cpus)
        if target.cpu is not None and not any(_runs_on(target, cpu) for cpu in have):
            return f"the devices here are {', '.join(have)}, which do not run code for {target.cpu}"
        return None

    def devices(self) -> Sequence[str]:
        return list(self._names)

    async def __aenter__(self) -> CudaMeasurer:
        self._stack = AsyncExitStack()
        for number, worker in self._workers.items():
            self._stack.push_async_callback(worker.stop)
            try:
                hello = (await worker.start())["device"]
            except MeasureFailed as failed:
                await self._stack.aclose()
                raise RequestError(f"CUDA device {number} cannot be used: {failed}") from None
            self._names[f"{hello['name']} (cuda {number})"] = worker
            self._cpus.add(hello["cpu"])
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def __call__(self, artifact: Artifact, config: Config, context: MeasureContext) -> Mapping[str, Any]:
        label = next((label for label in _LABELS if label in artifact.outputs), None)
        if label is None:
            raise MeasureFailed("error", "there is neither a cubin nor PTX to load")
        try:
            message = {**self._signature.message(config), "launch": self._signature.launch(config)}
        except RequestError as refused:
            raise MeasureFailed("error", str(refused)) from None
        message["code"] = base64.b64encode(artifact[label]).decode()
        message |= {"fidelity": context.fidelity, "best": context.best, "give_up_above": context.give_up_above}
        answer = await self._names[context.device].ask(message, self._timeout)
        return {**answer, "problem": dict(self._signature.sizes)}

    async def extras(self, artifact: Artifact, context: MeasureContext) -> Mapping[str, bytes]:
        return {}


def _runs_on(target: Target, cpu: str) -> bool:
    """A cubin runs on its own compute capability, and on later ones of the same generation; an `a` form on its own."""
    assert target.cpu is not None
    if target.cpu[-1] == "a":
        return target.base_cpu == cpu
    wanted, have = int((target.base_cpu or "")[3:]), int(cpu[3:])
    return wanted // 10 == have // 10 and wanted <= have
