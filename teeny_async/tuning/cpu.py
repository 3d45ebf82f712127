"""`CpuMeasurer`: builds a shared library from the compiled kernel and times it in a worker process."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio.to_thread

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.execution.runner import LocalRunner, RunLimits
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact
from teeny_async.target import Target
from teeny_async.toolchains.base import BASE_ENV
from teeny_async.tuning.measurement import MeasureContext, MeasureFailed
from teeny_async.tuning.signature import Signature
from teeny_async.tuning.space import Config
from teeny_async.tuning.worker import Worker

_LINK = RunLimits(wall=60.0)


class CpuMeasurer:
    """Times kernels on this machine's own CPU, one at a time, on one core.

    The object that was compiled is linked into a shared library by the linker of the zig wheel, or the C compiler
    of the system. Needs numpy. runs_on: CPUs by name that this machine can run code for, besides "native" and the
    compiler's default. timeout: seconds until a kernel that does not return is given up, and its worker killed.
    """

    flags: Sequence[str] = ("-fPIC",)
    leaves: int = 1
    """CPUs that compiles should leave alone."""

    def __init__(
        self,
        signature: Signature,
        *,
        runs_on: Sequence[str] = (),
        timeout: float = 20.0,
        linker: Sequence[str] | None = None,
        scratch_dir: str | None = None,
    ) -> None:
        if importlib.util.find_spec("numpy") is None:
            raise RequestError("timing kernels needs numpy; run: pip install 'teeny_async[numpy]'")
        self._signature = signature
        self._runs_on = frozenset(runs_on)
        self._timeout = timeout
        self._linker = tuple(linker) if linker is not None else _find_linker()
        self._scratch_dir = scratch_dir or tempfile.gettempdir()
        self._device = "cpu"
        self.problem = signature.problem()

    def refusal(self, target: Target | None) -> str | None:
        if target is None or (not target.is_gpu and target.cpu in (None, "native", *self._runs_on)):
            arch = platform.machine() if target is None else target.arch
            return None if arch == platform.machine() else f"this machine is no {arch}"
        return "this machine is not known to run code for that; its own target is native"

    def devices(self) -> Sequence[str]:
        return (self._device,)

    async def __aenter__(self) -> CpuMeasurer:
        self._stack = AsyncExitStack()
        self._runner = await self._stack.enter_async_context(LocalRunner(self._scratch_dir))
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=self._scratch_dir)))
        self._worker = Worker([sys.executable, "-m", "teeny_async.tuning.workers.cpu"])
        self._stack.push_async_callback(self._worker.stop)
        try:
            hello = await self._worker.start()
        except MeasureFailed as failed:
            await self._stack.aclose()
            raise RequestError(f"cannot time kernels: {failed}") from None
        found = hello["device"]
        self._device = found["name"] + (f" (cpu {found['cpu']})" if found.get("cpu") is not None else "")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def __call__(self, artifact: Artifact, config: Config, context: MeasureContext) -> Mapping[str, Any]:
        try:
            message = self._signature.message(config)
        except RequestError as refused:
            raise MeasureFailed("error", str(refused)) from None
        library = self._folder / f"{artifact.digest[:32]}.so"
        data = await self._link(artifact)
        await anyio.to_thread.run_sync(library.write_bytes, data)
        message |= {"library": str(library), "fidelity": context.fidelity, "best": context.best}
        message |= {"give_up_above": context.give_up_above, "thorough": context.confirming}
        try:
            answer = await self._worker.ask(message, self._timeout)
        finally:
            await anyio.to_thread.run_sync(lambda: library.unlink(missing_ok=True))
        return {**answer, "problem": dict(self._signature.sizes)}

    async def extras(self, artifact: Artifact, context: MeasureContext) -> Mapping[str, bytes]:
        return {"library": await self._link(artifact)}

    async def _link(self, artifact: Artifact) -> bytes:
        if "object" not in artifact.outputs:
            raise MeasureFailed("error", "there is no object to link")
        name, *args = self._linker
        action = Action(
            argv=(Path(name).name, *args, "-shared", "kernel.o", "-o", "kernel.so"),
            executable=name,
            neutral=FrozenMap({**BASE_ENV, "PATH": "/usr/bin:/bin"}),
            chained=FrozenMap({"kernel.o": "object"}),
            outputs=FrozenMap({"library": "kernel.so"}),
        )
        exit = await self._runner.run(action, {"kernel.o": artifact["object"]}, _LINK)
        if exit.code != 0 or not exit.outputs.get("library"):
            raise MeasureFailed("error", f"the linker failed (exit {exit.code}): {exit.text.strip()[-300:]}")
        return exit.outputs["library"]


def _find_linker() -> tuple[str, ...]:
    spec = importlib.util.find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        return str(Path(spec.origin).parent / "zig"), "ld.lld"
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return (path,)
    raise RequestError("nothing links a shared library; run: pip install 'teeny_async[zig]'")
