"""The session's side of the supervisor: start it, send it jobs, hand its replies to those who wait."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import current_token

from teeny_async.execution.scratch import Scratch, make_scratch
from teeny_async.execution.supervisor.job import READ_SIZE
from teeny_async.execution.supervisor.loop import REAP_DEADLINE
from teeny_async.execution.supervisor.main import PROGRAM
from teeny_async.execution.supervisor.system import kill_below, remove_tree
from teeny_async.execution.supervisor.wire import Facts, Inbox, Limits, Request, decode_facts, encode_limits, pack
from teeny_async.execution.tasks import ServiceGroup

_FOLDER = str(Path(__file__).parent)
_CLOSE_DEADLINE = REAP_DEADLINE + 2.0
logger = logging.getLogger("teeny_async")


class SupervisorLost(Exception):
    """The supervisor died: by a kill from outside, or by a bug. Its jobs were ended with it."""


class Job(NamedTuple):
    """What to run. env: of two keys the later counts. inputs: name, bytes. outputs: names of the files wanted back.

    grown: told what its processes hold (bytes), when that is more than `limits.memory`.
    """

    executable: str
    argv: Sequence[str]
    env: Sequence[tuple[str, str]]
    inputs: Sequence[tuple[str, bytes]]
    mirror: str | None
    outputs: Sequence[str]
    limits: Limits
    warm: str | None = None
    grown: Callable[[int], None] | None = None


class Reply(NamedTuple):
    """A job's end. outputs: one for each name asked for, None for a missing file."""

    facts: Facts
    stdout: bytes
    stderr: bytes
    outputs: list[bytes | None]


class _Waiter:
    __slots__ = ("done", "grown", "reply")

    def __init__(self, grown: Callable[[int], None] | None) -> None:
        self.grown = grown
        self.done = anyio.Event()
        self.reply: Reply | None = None


class Supervised:
    """A running supervisor and the jobs in its care.

    `run` may be called by any number of tasks. When the supervisor is lost every waiting `run`
    raises SupervisorLost; the object is then dead and a new one takes its place.
    """

    def __init__(self, scratch: Scratch, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self._scratch = scratch
        self._process = process
        self._sock = sock
        self._waiting: dict[bytes, _Waiter] = {}
        self._outgoing = bytearray()
        self._inbox = Inbox()
        self._count = 0
        self._ended = anyio.Event()
        self._writable = anyio.Event()
        self.lost = False

    @classmethod
    def start(cls, scratch_parent: str, group: ServiceGroup) -> Supervised:
        """Start one, with its reader and writer in `group`. Takes about 1 ms; it is ready some 15 ms later.

        Raises OSError when there is no place for scratch or no process can be started.
        """
        scratch = make_scratch(scratch_parent)
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM, _FOLDER, *(str(part) for part in _arguments(scratch))],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
                pass_fds=(scratch.lock,),
            )
        except OSError:
            ours.close()
            scratch.release()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self = cls(scratch, process, ours)
        group.start(self._read)
        group.start(self._write)
        return self

    async def run(self, job: Job) -> Reply:
        """Run a job to its end. A cancelled caller returns when the group is gone, or after the deadline."""
        if self.lost:
            raise SupervisorLost
        self._count += 1
        name = b"%d" % self._count
        waiter = self._waiting[name] = _Waiter(job.grown)
        self._post(_message(name, job))
        try:
            await waiter.done.wait()
        except BaseException:
            if not waiter.done.is_set():
                self._post(pack([b"kill", name]))
            with anyio.move_on_after(job.limits.grace + REAP_DEADLINE + 1.0, shield=True):
                await waiter.done.wait()
            raise
        finally:
            self._waiting.pop(name, None)
        if waiter.reply is None:
            raise SupervisorLost
        return waiter.reply

    # Sending. Messages go out whole and in order whatever is cancelled: nobody awaits their sending.

    def _post(self, message: bytes) -> None:
        if self.lost:
            return
        if not self._outgoing:
            try:
                sent = self._sock.send(message)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # the reader sees the end too, and settles it
            if sent == len(message):
                return
            message = message[sent:]
        self._outgoing += message
        self._writable.set()

    async def _write(self) -> None:
        while not self.lost:
            await self._writable.wait()
            self._writable = anyio.Event()
            while self._outgoing:
                await anyio.wait_writable(self._sock)
                try:
                    sent = self._sock.send(self._outgoing)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                del self._outgoing[:sent]

    # Receiving

    async def _read(self) -> None:
        # Shielded: it ends when the supervisor does, and `close` sees to that. Whatever ends it (on trio a
        # KeyboardInterrupt may land here), nobody is left waiting for a reply.
        try:
            with anyio.CancelScope(shield=True):
                await self._pump()
        finally:
            self._end()

    async def _pump(self) -> None:
        """Take messages until the end. asyncio's loop can watch a socket for good, which saves two system calls and
        a future for each reply; elsewhere each is waited for."""
        watch: Any = current_token().native_token
        if not hasattr(watch, "add_reader"):
            while data := await self._receive():
                self._take(data)
            return
        ended = anyio.Event()

        def ready() -> None:
            try:
                data = self._sock.recv(READ_SIZE)
                if data:
                    self._take(data)
                    return
            except BlockingIOError:
                return
            except OSError:
                pass
            except Exception:
                logger.exception("teeny_async: internal error")
            watch.remove_reader(self._sock)
            ended.set()

        watch.add_reader(self._sock, ready)
        try:
            await ended.wait()
        finally:
            with contextlib.suppress(ValueError):  # it was closed
                watch.remove_reader(self._sock)

    async def _receive(self) -> bytes:
        """What has come; empty at the end."""
        while True:
            await anyio.wait_readable(self._sock)
            try:
                return self._sock.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    def _take(self, data: bytes) -> None:
        for parts in self._inbox.take(data):
            waiter = self._waiting.get(parts[0])
            if waiter is not None:
                waiter.reply = _reply(parts)
                waiter.done.set()
            elif parts[0] == b"grown":
                self._tell_growth(*parts[1:])
            elif not parts[0]:
                logger.error("teeny_async supervisor failed:\n%s", parts[1].decode("utf-8", "replace"))

    def _tell_growth(self, name: bytes, held: bytes) -> None:
        waiter = self._waiting.get(name)
        if waiter is not None and waiter.grown is not None:
            waiter.grown(int(held))

    def _end(self) -> None:
        self.lost = True
        self._writable.set()
        if self._waiting:
            kill_below(os.fsencode(self._scratch.root))
        for waiter in self._waiting.values():
            waiter.done.set()
        self._ended.set()

    async def close(self) -> None:
        """End it and whatever it runs; bounded in time. Nothing is left of its scratch folder."""
        with contextlib.suppress(OSError):  # it may be gone already
            self._sock.shutdown(socket.SHUT_WR)
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_DEADLINE):
                await self._ended.wait()
            if not self._ended.is_set():
                self._process.kill()
                await anyio.to_thread.run_sync(kill_below, os.fsencode(self._scratch.root))
                with anyio.move_on_after(1.0):
                    await self._ended.wait()
            await self._collect()
            if self._scratch.root.exists():  # a supervisor that was killed left its folder to us
                await anyio.to_thread.run_sync(remove_tree, os.fsencode(self._scratch.root))
        self._sock.close()
        self._scratch.release()

    async def _collect(self) -> None:
        """Reap the supervisor; its socket has ended, so it is a matter of moments."""
        deadline = time.monotonic() + 1.0
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                self._process.kill()
                logger.warning("teeny_async: supervisor %d did not end in time", self._process.pid)
                deadline = float("inf")
            await anyio.sleep(0.002)


def _arguments(scratch: Scratch) -> tuple[Path, Path, int]:
    return scratch.base, scratch.root, scratch.lock


def _message(name: bytes, job: Job) -> bytes:
    request = Request(
        name=name,
        executable=os.fsencode(job.executable),
        argv=_words(job.argv),
        env=_words(chain.from_iterable(job.env)),
        inputs=_words([file for file, _ in job.inputs]),
        mirror=os.fsencode(job.mirror or ""),
        outputs=_words(job.outputs),
        limits=encode_limits(job.limits),
        warm=(job.warm or "").encode(),
    )
    return pack([b"run", *request, *[data for _, data in job.inputs]])


def _words(words: Iterable[str]) -> bytes:
    return os.fsencode("\0".join(words))


def _reply(parts: list[bytes]) -> Reply:
    _, facts, there, stdout, stderr, *outputs = parts
    present = [data if is_there else None for data, is_there in zip(outputs, there, strict=True)]
    return Reply(decode_facts(facts), stdout, stderr, present)
