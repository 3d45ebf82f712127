"""Interpreters that are ready, and fork for each job instead of one being started for it.

A compiler that is a Python library costs its import with every process. A job that says by which program an interpreter
gets ready for it (`warm`) is run in a fork of one that did so before. It stays a process of its own, in a session and
group of its own, and a child of ours: `forker` sees to that. So nothing else here has to know how it was started; what
it may take is counted from its fork. It needs a system that gives orphans to us (Linux); elsewhere, and whenever
anything goes wrong with such an interpreter, a job is started as any other.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import time
from typing import NamedTuple

from .job import Job
from .system import Nursery

IDLE = 30.0
"""Seconds without a job after which an interpreter is ended."""
PATIENCE = 30.0
"""Seconds that one may take to answer, its getting ready included."""
MOST_JOBS = 1000
"""Jobs after which one makes room for a fresh one."""
MOST_FAILURES = 3
"""Interpreters that died before the next is not tried."""
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forker.py")


class Start(NamedTuple):
    """How a job is started: the words of the request."""

    job: Job
    executable: bytes
    argv: list[bytes]
    env: dict[bytes, bytes]
    warm: bytes


class Forker:
    """One interpreter. waiting: what it was asked for and has not yet forked, with the pipe that lets it go."""

    def __init__(self, start: Start, root: bytes, nursery: Nursery) -> None:
        import _socket

        variables = {**start.env, b"HOME": root, b"TMPDIR": root}
        self.sock, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            argv = [start.argv[0], *_options(start.argv), os.fsencode(_PROGRAM)]
            self.pid = nursery.spawn(start.executable, argv, variables, (theirs.fileno(), None, None))
        except OSError:
            self.sock.close()
            raise
        finally:
            theirs.close()
        self.sock.setblocking(False)
        try:
            self.sock.send(start.warm)
        except OSError:
            self.sock.close()
            raise
        self.warm = start.warm
        self.waiting: dict[bytes, tuple[Start, int]] = {}
        self.jobs = 0
        self.heard = time.monotonic()

    def ask(self, start: Start, folder: bytes, writers: list[int]) -> None:
        """Have a job forked, which writes to `writers`. Raises OSError when it does not take the message."""
        import _socket

        options = len(_options(start.argv))
        asked = {
            "name": start.job.name.decode(),
            "folder": os.fsdecode(folder),
            "argv": [os.fsdecode(word) for word in start.argv[1 + options :]],
            "env": {os.fsdecode(name): os.fsdecode(value) for name, value in start.env.items()},
        }
        reader, writer = os.pipe()
        try:
            rights = struct.pack("3i", *writers, reader)
            self.sock.sendmsg([json.dumps(asked).encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        if not self.waiting:
            self.heard = time.monotonic()
        self.waiting[start.job.name] = (start, writer)
        self.jobs += 1


class Forks:
    """The interpreters of one supervisor, by what they are ready for."""

    def __init__(self, root: bytes, poll: select.poll, nursery: Nursery) -> None:
        self._root = root
        self._poll = poll
        self._nursery = nursery
        self._ready: dict[tuple[bytes, ...], Forker] = {}
        self._by_fd: dict[int, Forker] = {}
        self._failures: dict[bytes, int] = {}
        self._lost: list[Start] = []

    @property
    def pids(self) -> set[int]:
        """The interpreters that live."""
        return {forker.pid for forker in self._by_fd.values() if forker.pid}

    @property
    def forking(self) -> bool:
        """Whether one may have forked a job of which we do not know yet."""
        return any(forker.waiting for forker in self._by_fd.values())

    def __contains__(self, fd: int) -> bool:
        return fd in self._by_fd

    def ask(self, start: Start, writers: list[int]) -> bool:
        """Have a job forked; False when it has to be started as any other."""
        if self._failures.get(start.warm, 0) >= MOST_FAILURES:
            return False
        key = _key(start)
        try:
            forker = self._ready.get(key) or self._start(key, start)
            forker.ask(start, b"%s/%s" % (self._root, start.job.name), writers)
        except OSError:  # it cannot be started, has died, or has more to do than it takes messages
            return False
        if forker.jobs >= MOST_JOBS:
            del self._ready[key]
        return True

    def _start(self, key: tuple[bytes, ...], start: Start) -> Forker:
        forker = self._ready[key] = Forker(start, self._root, self._nursery)
        self._by_fd[forker.sock.fileno()] = forker
        self._poll.register(forker.sock.fileno(), select.POLLIN)
        return forker

    def forked(self, fd: int) -> tuple[Start, int] | None:
        """(a job that was forked, the pipe that lets it go), its pid set; None when there is none (any more)."""
        forker = self._by_fd[fd]
        try:
            message = forker.sock.recv(256)
        except BlockingIOError:
            return None
        except OSError:
            message = b""
        if not message:
            self._failures[forker.warm] = self._failures.get(forker.warm, 0) + 1
            self._end(fd)
            return None
        forker.heard = time.monotonic()
        name, _, pid = message.partition(b" ")
        found = forker.waiting.pop(name, None)
        if found is not None:
            found[0].job.pid = int(pid)
        return found

    def cancel(self, name: bytes) -> Job | None:
        """Forget a job that was asked for; it ends by itself when it is forked after all. None for any other."""
        for forker in self._by_fd.values():
            if found := forker.waiting.pop(name, None):
                os.close(found[1])
                return found[0].job
        return None

    def lost(self) -> list[Start]:
        """The jobs that interpreters which are gone will not fork; each is told once."""
        found, self._lost = self._lost, []
        return found

    def reaped(self, pid: int) -> None:
        """A child of ours is gone, and its number another's soon."""
        for forker in self._by_fd.values():
            if forker.pid == pid:
                forker.pid = 0

    def on_time(self, now: float) -> None:
        """End those that have nothing to do, and those that do not answer."""
        for fd, forker in list(self._by_fd.items()):
            if forker.waiting and now - forker.heard > PATIENCE and forker.pid:
                os.kill(forker.pid, signal.SIGKILL)  # the end of its socket tells the rest
                forker.heard = now
            elif not forker.waiting and (forker.jobs >= MOST_JOBS or now - forker.heard > IDLE):
                self._end(fd)

    def _end(self, fd: int) -> None:
        """Close its socket, at whose end it ends."""
        forker = self._by_fd.pop(fd)
        self._ready = {key: known for key, known in self._ready.items() if known is not forker}
        self._poll.unregister(fd)
        forker.sock.close()
        for start, writer in forker.waiting.values():
            os.close(writer)
            self._lost.append(start)


def _options(argv: list[bytes]) -> list[bytes]:
    """The interpreter's own options: what comes before the script."""
    script = next(at for at, word in enumerate(argv) if at and not word.startswith(b"-"))
    return argv[1:script]


def _key(start: Start) -> tuple[bytes, ...]:
    own = sorted(b"%s=%s" % item for item in start.env.items() if item[0] not in (b"HOME", b"TMPDIR"))
    return (start.warm, start.executable, *_options(start.argv), b"", *own)
