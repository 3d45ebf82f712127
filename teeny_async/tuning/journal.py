"""The journal of a tuning run: one JSON line for each verdict, from which a run goes on after any end.

    {"schema": 1, "type": "run", ...}        what the run is: kernels, objective, problem, seed; the first line
    {"schema": 1, "type": "verdict", ...}    one for each configuration, in the order they came
    {"schema": 1, "type": "resume", ...}     a later process took over here
    {"schema": 1, "type": "end", ...}        it ended by itself

What is safe when: a line is written and handed to the kernel before its verdict counts, so a process that is
killed, by -9 too, loses nothing that it had a verdict for. The disk is told (fsync) every `FSYNC_SECONDS` and at
the end; a machine that loses power may lose that much, and those configurations are done again.

Reading forgives a torn last line, which a kill or a full disk can leave: it is cut off before anything is added.
Lines that are damaged elsewhere are left out and counted. Tuning records live here alone, never in the cache of
artifacts: an artifact is good for ever, a time only for a device and its clocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from teeny_async.errors import RequestError
from teeny_async.files import StreamedFile, open_streamed
from teeny_async.tuning.verdict import SCHEMA, Identity, Verdict

NAME = "journal.jsonl"
FSYNC_SECONDS = 5.0


@dataclass(slots=True)
class Record:
    """What a journal says. run: its first line, None when it has none. sound: bytes up to the last whole line.

    elapsed: seconds that the run has taken so far, in all its parts. damaged: lines that were left out.
    """

    run: dict[str, Any] | None = None
    verdicts: dict[Identity, Verdict] = field(default_factory=dict)
    elapsed: float = 0.0
    ended: bool = False
    parts: int = 0
    sound: int = 0
    torn: bool = False
    damaged: int = 0


def read(data: bytes) -> Record:
    """Read a journal's content. Raises RequestError for one of a later version than this one can read."""
    record = Record()
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            record.torn = True
            break
        record.sound += len(line)
        try:
            _take(record, json.loads(line))
        except _Newer:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            record.damaged += 1
    return record


def load(folder: Path) -> Record:
    """The journal of a run's folder. Raises RequestError when there is none or it cannot be read."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}; is {folder} the folder of a tuning run?") from None
    record = read(data)
    if record.run is None:
        raise RequestError(f"{path} is not the journal of a tuning run")
    return record


def _take(record: Record, line: dict[str, Any]) -> None:
    if int(line["schema"]) > SCHEMA:
        raise _Newer(f"the journal is of version {line['schema']}; this teeny_async reads up to {SCHEMA}")
    kind = line["type"]
    if kind == "verdict":
        verdict = Verdict.from_dict(line)
        record.verdicts[verdict.identity] = verdict
        record.elapsed = max(record.elapsed, verdict.at)
    elif kind == "run":
        record.run = record.run or line
        record.parts += 1
    elif kind == "resume":
        record.parts += 1
        record.ended = False
    elif kind == "end":
        record.ended = True
        record.elapsed = max(record.elapsed, float(line["at"]))


class _Newer(RequestError):
    """Not a damaged line: nothing of it may be lost by writing on."""


class Journal:
    """The journal of one run, open for writing. `record` is what it held when it was opened."""

    def __init__(self, file: StreamedFile, path: Path, record: Record) -> None:
        self._file = file
        self._path = path
        self._lock = anyio.Lock()
        self._synced = time.monotonic()
        self.record = record

    async def append(self, line: Mapping[str, Any]) -> None:
        """Add a line; it is with the kernel when this returns, and whole even if it is cancelled. Raises OSError."""
        data = json.dumps({"schema": SCHEMA, **line}, separators=(",", ":")).encode() + b"\n"
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._file.write(data)
                await self._file.flush()
                if time.monotonic() - self._synced >= FSYNC_SECONDS:
                    await self.sync()

    async def sync(self) -> None:
        """Tell the disk."""
        self._synced = time.monotonic()
        await anyio.to_thread.run_sync(_fsync, self._path)


@contextlib.asynccontextmanager
async def open_journal(folder: Path, run: Mapping[str, Any], *, resume: bool) -> AsyncIterator[Journal]:
    """Open the journal of a run's folder, which is made when it is missing.

    run: what the run is; when it goes on, it must be what the journal's first line says.
    Raises RequestError for a journal that is there without `resume`, that belongs to another run, or that another
    process is writing, and OSError.
    """
    with _only_writer(folder) as data:
        path = folder / NAME
        record = _checked(read(data), data, run, path, resume)
        if record.torn:
            os.truncate(path, record.sound)
        stack = contextlib.AsyncExitStack()
        with anyio.CancelScope(shield=True):
            file = await stack.enter_async_context(open_streamed(path, "ab"))
        try:
            journal = Journal(file, path, record)
            kind = "run" if record.run is None else "resume"
            await journal.append({"type": kind, "time": time.time(), **run})
            yield journal
        finally:
            with anyio.CancelScope(shield=True):
                await stack.aclose()
                await anyio.to_thread.run_sync(_fsync, path)


def _checked(record: Record, data: bytes, run: Mapping[str, Any], path: Path, resume: bool) -> Record:
    """The record, if this run may go on with it. Raises RequestError."""
    if data and not resume:
        raise RequestError(f"{path} is there already: go on with it (resume), or name another folder")
    if record.run is not None:
        _check_same(record.run, run, path)
    elif record.sound:
        raise RequestError(f"{path} is not the journal of a tuning run")
    return record


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[bytes]:
    """The journal's content, under a lock that dies with this process."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with open(path, "ab+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"{path}: another process is tuning into this folder") from None
        file.seek(0)
        yield file.read()


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    identity_before, identity_now = before.get("identity", {}), now.get("identity", {})
    # What an older version did not write down cannot be compared.
    shared = [name for name in identity_now if name in identity_before]
    changed = [name for name in shared if identity_before[name] != identity_now[name]]
    if changed:
        raise RequestError(
            f"{path} belongs to another run ({_changes(identity_before, identity_now, changed)}): name another folder"
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], names: list[str]) -> str:
    """As in "kernels changed" or "devices changed from H100 to H200"."""
    listed = [name for name in names if all(isinstance(side[name], list) for side in (before, now))]
    return "; ".join(
        f"{name} changed"
        + (f" from {', '.join(before[name]) or 'none'} to {', '.join(now[name]) or 'none'}" if name in listed else "")
        for name in names
    )


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
