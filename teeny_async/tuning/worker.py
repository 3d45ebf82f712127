"""`Worker`: the parent's side of a worker process: ask, wait with a watchdog, kill, start again.

A worker that does not answer in time is killed with its group, and so is one whose answer nobody waits for any
more: what it does then is not known. The next question starts a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import anyio
from anyio.abc import Process

from teeny_async.tuning.measurement import MeasureFailed

START = 60.0
"""Seconds that a worker may take to say hello: CUDA starts slowly."""
_END = 5.0
_TAIL = 300


class Worker:
    """argv: of the program, which speaks as `workers.stdio` does. env: None is this process's own."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._argv = list(argv)
        self._env = env
        self._process: Process | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""
        self.starts = 0

    async def start(self) -> dict[str, Any]:
        """Start it, unless it runs; what it says of itself. Raises MeasureFailed."""
        if self._process is not None:
            return {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        self._buffer = b""
        self.starts += 1
        self._process = await anyio.open_process(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env=self._env,
        )
        return await self._answer(START, "did not start")

    async def ask(self, message: Mapping[str, Any], patience: float) -> dict[str, Any]:
        """Its answer. Raises MeasureFailed when it dies, or is killed for saying nothing for `patience` seconds."""
        await self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(json.dumps(message).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise await self._died() from None
        except BaseException:
            await self.stop()
            raise
        return await self._answer(patience, "hung")

    async def _answer(self, patience: float, what: str) -> dict[str, Any]:
        try:
            with anyio.fail_after(patience):
                line = await self._line()
        except TimeoutError:
            await self.stop()
            raise MeasureFailed("error", f"the worker {what}: no answer in {patience:g} s; it was killed") from None
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise await self._died() from None
        except BaseException:
            await self.stop()
            raise
        return dict(json.loads(line))

    async def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            self._buffer += await self._process.stdout.receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    async def _died(self) -> MeasureFailed:
        assert self._process is not None
        with anyio.move_on_after(_END, shield=True):
            await self._process.wait()
        code = self._process.returncode
        text = self._tail()
        await self.stop()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit {code}"
        return MeasureFailed("error", f"the worker died ({how})" + (f": {text}" if text else ""))

    def _tail(self) -> str:
        """The last line that it printed: of a traceback, the one that says what was wrong."""
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read()[-_TAIL * 10 :].decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[-_TAIL:]

    async def stop(self) -> None:
        """End it and all that it started. Bounded in time."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(_END, shield=True):
            await process.wait()
            await process.aclose()
        if self._errors is not None:
            self._errors.close()
