"""What the supervisor sends: replies with the outputs of jobs, and messages about running ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .folder import remove
from .job import READ_SIZE, Job
from .system import is_full, open_output, read_exactly, reset_peak_memory
from .wire import Facts, encode_facts, header, pack

if TYPE_CHECKING:
    from _socket import socket

RESET_PEAK_ABOVE = 1 << 22
"""Bytes of a reply after which our own peak is reset."""


class Outbox:
    """Messages for the session. They go out when `flush` is called. broken: the session is gone."""

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._waiting: list[bytes] = []
        self.broken = False

    def tell(self, parts: list[bytes]) -> None:
        """Send a message."""
        self._waiting.append(pack(parts))

    def reply(self, job: Job, facts: Facts, stdout: bytes = b"", stderr: bytes = b"") -> None:
        """Send the exit and the outputs, then remove the job's folder.

        Outputs go from file to socket: their bytes never enlarge this process.
        """
        files = [] if facts.errno else [open_output(job.name, name, job.limits.output) for name in job.outputs]
        there = bytes([fd >= 0 for fd, _ in files])
        if facts.status or not all(size for _, size in files):
            facts = facts._replace(scratch_full=is_full(b"."))
        head = [job.name, encode_facts(facts), there, stdout, stderr]
        sizes = [len(part) for part in head] + [size for _, size in files]
        self._waiting += (header(sizes), *head)
        for fd, size in files:
            if fd < 0:
                continue
            if size < READ_SIZE:
                self._waiting.append(read_exactly(fd, size))
            else:
                self.flush()
                self._send_file(fd, size)
            os.close(fd)
        remove(job)
        if sum(sizes) > RESET_PEAK_ABOVE:
            reset_peak_memory()

    def _send_file(self, fd: int, size: int) -> None:
        at = 0
        while at < size and not self.broken:
            try:
                sent = os.sendfile(self._fd, fd, at, min(size - at, 1 << 20))
                if not sent:  # the file shrank under us: keep the length that was announced
                    self._sock.sendall(bytes(size - at))
                    return
                at += sent
            except OSError:
                self.broken = True

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            try:
                self._sock.sendall(data)
            except OSError:
                self.broken = True
