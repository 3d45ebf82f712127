"""A job: a compiler, its process group, and what is kept of its output."""

from __future__ import annotations

import os
import signal

from .wire import CPU_TIMEOUT, Limits

READ_SIZE = 1 << 16
"""Bytes of one read from a pipe or a socket, and of the largest output that is copied instead of sent from its
file. A larger buffer is mapped and unmapped each time."""

NEVER = float("inf")


class Capture:
    """What is kept of one output stream: the first three quarters of the cap, and the end."""

    def __init__(self, fd: int, cap: int) -> None:
        self.fd = fd
        self._tail_cap = cap // 4
        self._head_cap = cap - self._tail_cap
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0
        self._ended = False

    def read(self) -> bool:
        """Take what is there, a megabyte at most; False when the stream has ended."""
        for _ in range(16):
            try:
                data = os.read(self.fd, READ_SIZE)
            except BlockingIOError:
                return True
            if not data:
                self._ended = True
                return False
            self._keep(data)
            if len(data) < READ_SIZE:  # that was all; whether it has ended, the next look says
                return True
        return True

    def _keep(self, data: bytes) -> None:
        room = self._head_cap - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        surplus = len(self._tail) - self._tail_cap
        if surplus > self._tail_cap:
            del self._tail[:surplus]
            self.dropped += surplus

    def close(self) -> bytes:
        """Take the rest, close, and give all that was kept."""
        if not self._ended:
            self.read()
        os.close(self.fd)
        surplus = max(0, len(self._tail) - self._tail_cap)
        self.dropped += surplus
        if not self.dropped:
            return bytes(self._head + self._tail)
        return b"%s\n[... %d bytes left out ...]\n%s" % (self._head, self.dropped, self._tail[surplus:])


class Job:
    """A compiler and its group, from its folder's making to its reply."""

    def __init__(self, name: bytes, outputs: list[bytes], limits: Limits) -> None:
        self.name = name
        self.outputs = outputs
        self.limits = limits
        self.written: list[bytes] = []
        self.captures: list[Capture] = []
        self.pid = 0
        self.status = -1
        self.stopped = 0
        self.started = self.ended = 0.0
        self.term_at = self.kill_at = self.give_up_at = self.look_at = self.drain_at = NEVER
        self.cpu_user = self.cpu_system = 0.0
        self.max_rss = self.peak = self.told = 0
        self.survivors = 0

    @property
    def leader_gone(self) -> bool:
        return self.status != -1

    def close_captures(self) -> None:
        """Drop what it was to write, before it began to."""
        for capture in self.captures:
            os.close(capture.fd)
        self.captures.clear()

    def next_time(self) -> float:
        """When it needs attention next, if nothing happens before."""
        return min(self.term_at, self.kill_at, self.give_up_at, self.look_at, self.drain_at)

    def signal(self, number: int) -> bool:
        """Signal the group; False when it is empty. Until its last member is reaped its id is not reused."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # some member changed its user; the rest got the signal
            return True
        return True

    def stop(self, reason: int, now: float, grace: float) -> None:
        """TERM now, KILL after the grace; the first reason stands."""
        if self.kill_at == NEVER and self.give_up_at == NEVER:
            self.stopped = self.stopped or reason
            self.term_at = NEVER
            self.kill_at = now + grace
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)

    def note_cpu_limit(self) -> None:
        """It failed, over its CPU limit, between two looks: the kernel's own limit ended some part of it."""
        used = self.cpu_user + self.cpu_system
        if not self.stopped and self.status and self.limits.cpu and used >= self.limits.cpu:
            self.stopped = CPU_TIMEOUT

    def add_usage(self, usage: tuple[float, ...]) -> None:
        self.cpu_user += usage[0]
        self.cpu_system += usage[1]
        self.max_rss = max(self.max_rss, int(usage[2]))
