"""The one door to aiofiles: files that are streamed while compiles go on.

aiofiles works on asyncio alone; under trio the same is done with `anyio.open_file`. Nothing here is cut
short by a cancellation: a file is there whole or not at all, and a log has every line that was given to
it before it was closed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, cast

import anyio
import anyio.to_thread
import sniffio

from teeny_async.execution.tasks import ServiceGroup

_CHUNK = 1 << 20
_FULL = 4096
"""Lines that may wait for the disk before `LineLog.room` holds up whoever makes them."""


class StreamedFile(Protocol):
    """What aiofiles and anyio have in common, of what is needed here."""

    async def write(self, data: bytes, /) -> int: ...

    async def flush(self) -> None: ...


@contextlib.asynccontextmanager
async def open_streamed(path: str | os.PathLike[str], mode: Literal["wb", "ab", "xb"]) -> AsyncIterator[StreamedFile]:
    """Open a file to write to it from the event loop. Raises OSError.

    Use it under a shield: a cancelled write goes on in its thread, and would meet the closing of the file.
    """
    if sniffio.current_async_library() == "asyncio":
        import aiofiles

        async with aiofiles.open(path, mode) as file:
            yield file
    else:
        async with await anyio.open_file(path, mode) as file:
            yield cast("StreamedFile", file)


async def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name beside it and rename it into place. Raises OSError."""
    temporary = path.with_name(f".teeny-async-{secrets.token_hex(8)}.tmp")
    with anyio.CancelScope(shield=True):
        try:
            async with open_streamed(temporary, "xb") as file:
                for start in range(0, len(data), _CHUNK):
                    await file.write(data[start : start + _CHUNK])
            await anyio.to_thread.run_sync(os.replace, temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


class LineLog:
    """JSON lines, given synchronously and written in order by one task. An async context manager.

    Opening it raises OSError. A later failure of the disk stops the log and nothing else: see `error`.
    append: add to the file instead of replacing it.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False) -> None:
        self._path = path
        self._mode: Literal["wb", "ab"] = "ab" if append else "wb"
        self._lines: list[str] = []
        self._closing = False
        self.error: OSError | None = None
        """Why lines are missing at the end; None when all are there."""

    async def __aenter__(self) -> LineLog:
        self._wanted = anyio.Event()
        self._written = anyio.Event()
        self._stack = contextlib.AsyncExitStack()
        with anyio.CancelScope(shield=True):
            self._file = await self._stack.enter_async_context(open_streamed(self._path, self._mode))
        self._group = await ServiceGroup().__aenter__()
        self._group.start(self._serve)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._wanted.set()
        try:
            await self._group.__aexit__(kind, error, trace)
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await self._stack.aclose()
                except OSError as failed:  # the rest of a buffer that the full disk did not take
                    self.error = self.error or failed

    def write(self, data: Mapping[str, Any]) -> None:
        """Add a line. Call it in the event loop; it does not wait."""
        if self._closing or self.error is not None:
            return
        self._lines.append(json.dumps(data, separators=(",", ":")) + "\n")
        self._wanted.set()

    async def room(self) -> None:
        """Wait while too many lines are unwritten. Whoever makes lines in a long loop awaits it there."""
        while len(self._lines) >= _FULL and self.error is None:
            await self._written.wait()

    async def _serve(self) -> None:
        # Shielded: it ends when the log is closed, with everything written.
        with anyio.CancelScope(shield=True):
            while self._lines or not self._closing:
                if not self._lines:
                    self._wanted = anyio.Event()
                    await self._wanted.wait()
                await self._write_out()

    async def _write_out(self) -> None:
        lines, self._lines = self._lines, []
        try:
            await self._file.write("".join(lines).encode())
            await self._file.flush()
        except OSError as error:
            self.error = error
            self._lines.clear()
        self._written.set()
        self._written = anyio.Event()
