"""The supervisor's loop: requests in, jobs watched, replies out.

The invariant: a reply for a job is sent only when its process group is empty (or could not be ended within
`REAP_DEADLINE`, which the reply says), and just before its scratch folder is removed.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from .folder import lay_out, remove
from .job import READ_SIZE, Capture, Job
from .outbox import Outbox
from .system import (
    MAX_RSS_UNIT,
    SIGNALS,
    KillFirst,
    children,
    group_of,
    has_tmp_below,
    limit_cpu,
    remove_tree,
)
from .watch import FIRST_LOOK, look_at
from .wire import Facts, Limits, message_size, unpack

REAP_DEADLINE = 5.0
"""Seconds that a group may take to vanish after SIGKILL; a process in uninterruptible sleep may."""
STRAGGLER_GRACE = 0.5
"""Seconds from TERM to KILL for what outlives its leader."""
WATCH_INTERVAL = 1.0
"""Seconds between looks at whether the session's process still lives (its socket may be held open
by a process that it forked)."""
POLL_DYING = 0.01


class Supervisor:
    """The loop: requests in, jobs watched, replies out. One thread; nothing here waits but `poll`."""

    def __init__(self, sock_fd: int, root: bytes) -> None:
        # The C socket type: importing `socket` would cost the start another 6 ms.
        import _socket

        self._sock = _socket.socket(fileno=sock_fd)
        self._sock_fd = sock_fd
        self._root = root
        self._parent = os.getppid()
        self._jobs: dict[int, Job] = {}
        self._by_id: dict[bytes, Job] = {}
        self._captures: dict[int, tuple[Job, Capture]] = {}
        self._incoming = bytearray()
        self._outbox = Outbox(self._sock, root)
        self._poll = select.poll()
        self._poll.register(sock_fd, select.POLLIN)
        self._wake = self._watch_children()
        self._kill_first = KillFirst()
        self._closing = False
        self._strays_seen = False

    def _watch_children(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        self._poll.register(reader, select.POLLIN)
        return reader

    def _on_term(self, *_: object) -> None:
        self._closing = True

    def serve(self) -> None:
        """Until the socket ends or we are told to go; then nothing of ours is left."""
        while not self._closing:
            for fd, _ in self._poll.poll(self._timeout()):
                if fd == self._sock_fd:
                    self._receive()
                elif fd == self._wake:
                    self._reap()
                elif fd in self._captures:
                    self._drain(fd)
            self._on_time(time.monotonic())
            self._outbox.flush()
            self._closing = self._closing or self._outbox.broken
        self.close()

    def _timeout(self) -> float:
        """Milliseconds until something has to be looked at."""
        soonest = WATCH_INTERVAL
        now = time.monotonic()
        for job in self._jobs.values():
            soonest = min(soonest, job.next_time() - now)
            if job.leader_gone:
                soonest = min(soonest, POLL_DYING)
        return max(0.0, soonest) * 1000 + 1

    # Requests

    def _receive(self) -> None:
        try:
            data = self._sock.recv(READ_SIZE)
        except InterruptedError:
            return
        except OSError:
            data = b""
        if not data:
            self._closing = True
            return
        self._incoming += data
        at = 0
        while (parts := unpack(memoryview(self._incoming), at)) is not None:
            at += message_size(self._incoming, at)
            if parts[0] == b"run":
                self._run(parts)
            elif job := self._by_id.get(parts[1]):
                job.stop("cancelled", time.monotonic(), job.limits.grace)
        if at:
            del self._incoming[:at]

    def _run(self, parts: list[bytes]) -> None:
        _, id, folder, executable, argv, env, inputs, mirror, outputs, limits = parts
        wall, cpu, grace, capture, output, memory = limits.split()
        bounds = Limits(float(wall), float(cpu), float(grace), int(capture), int(output), int(memory))
        job = Job(id, os.path.join(self._root, folder), unpack(outputs) or [], bounds)
        try:
            try:
                lay_out(job, unpack(inputs) or [], mirror)
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                # Told apart from the same errors of the spawn, which say that the tool is missing.
                raise OSError(errno.EIO, "scratch") from error
            self._spawn(job, executable, unpack(argv) or [], unpack(env) or [])
        except OSError as error:
            remove(job, self._root)
            self._outbox.reply(job, Facts(errno=error.errno or errno.EIO))

    def _spawn(self, job: Job, executable: bytes, argv: list[bytes], env: list[bytes]) -> None:
        variables = dict(item.split(b"=", 1) for item in env)
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        writers = []
        try:
            for number in (1, 2):
                reader, writer = os.pipe()
                writers.append(writer)
                os.set_blocking(reader, False)
                job.captures.append(Capture(reader, job.limits.capture))
                actions.append((os.POSIX_SPAWN_DUP2, writer, number))  # type: ignore[arg-type]
            with self._kill_first:
                job.pid = os.posix_spawn(
                    executable, argv, variables, file_actions=actions, setsid=True, setsigmask=(), setsigdef=SIGNALS
                )
        except OSError:
            for capture in job.captures:
                os.close(capture.fd)
            raise
        finally:
            for writer in writers:
                os.close(writer)
        job.started = time.monotonic()
        if job.limits.wall:
            job.term_at = job.started + job.limits.wall
        job.look_at = job.started + FIRST_LOOK
        if job.limits.cpu:
            limit_cpu(job.pid, job.limits.cpu)
        self._jobs[job.pid] = job
        self._by_id[job.id] = job
        for capture in job.captures:
            self._captures[capture.fd] = (job, capture)
            self._poll.register(capture.fd, select.POLLIN)

    # Running jobs

    def _drain(self, fd: int) -> None:
        _, capture = self._captures[fd]
        if not capture.read():
            self._poll.unregister(fd)
            del self._captures[fd]

    def _reap(self) -> None:
        """Collect every child that ended. Its zombie is looked at first: a stranger is counted to its group."""
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if seen is None:
                return
            pid = seen.si_pid
            job = self._jobs.get(pid)
            if job is None:
                owner = self._jobs.get(group_of(pid))
                usage = os.wait4(pid, 0)[2]
                if owner is not None:
                    owner.add_usage(usage)
                    self._settle(owner)
                continue
            _, job.status, usage = os.wait4(pid, 0)
            job.ended = time.monotonic()
            job.add_usage(usage)
            self._settle(job)

    def _settle(self, job: Job) -> None:
        """The leader is gone: finish if its group is empty, else stop what is left of it."""
        if not job.leader_gone:
            return
        if not job.signal(0):
            self._finish(job)
        elif not job.survivors:
            job.survivors = 1
            now = time.monotonic()
            if job.kill_at == float("inf"):
                job.signal(signal.SIGTERM)
                job.signal(signal.SIGCONT)
            job.term_at = float("inf")
            job.kill_at = min(job.kill_at, now + min(STRAGGLER_GRACE, job.limits.grace))

    def _on_time(self, now: float) -> None:
        for job in list(self._jobs.values()):
            if now >= job.term_at:
                job.stop("timeout", now, job.limits.grace)
            if now >= job.kill_at:
                job.kill_at = float("inf")
                job.give_up_at = now + REAP_DEADLINE
                job.signal(signal.SIGKILL)
            if job.leader_gone:
                self._settle(job)
            if now >= job.give_up_at and job.pid in self._jobs:
                self._finish(job, unreaped=1)
        due = [job for job in self._jobs.values() if now >= job.look_at]
        for job, held in look_at(due, now) if due else ():
            self._outbox.tell([b"grown", job.id, b"%d" % held])
        if os.getppid() != self._parent:
            self._closing = True

    # The end of a job

    def _finish(self, job: Job, unreaped: int = 0) -> None:
        del self._jobs[job.pid]
        del self._by_id[job.id]
        kept = []
        dropped = 0
        for capture in job.captures:
            if self._captures.pop(capture.fd, None):
                self._poll.unregister(capture.fd)
            kept.append(capture.close())
            dropped += capture.dropped
        job.note_cpu_limit()
        self._end_strays(job.folder)
        facts = Facts(
            status=job.status,
            stopped=job.stopped,
            survivors=job.survivors,
            unreaped=unreaped,
            dropped=dropped,
            wall=(job.ended or time.monotonic()) - job.started,
            cpu_user=job.cpu_user,
            cpu_system=job.cpu_system,
            max_rss=job.max_rss * MAX_RSS_UNIT,
            peak=max(job.peak, job.max_rss * MAX_RSS_UNIT),
        )
        self._outbox.reply(job, facts, *kept)

    def _end_strays(self, folder: bytes | None = None) -> None:
        """Kill what left its group (a daemon of a compiler): a child of ours in no job's group.

        folder: of the job whose strays are meant, told by their TMPDIR; None: everybody's.
        """
        found = children()
        if len(found) <= len(self._jobs):
            return
        for pid in found:
            group = group_of(pid)
            if pid in self._jobs or group in self._jobs or group == os.getpgrp():
                continue
            if folder is None or has_tmp_below(pid, folder):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def close(self) -> None:
        """Leave nothing: kill every group and stray, reap, remove the scratch folder."""
        deadline = time.monotonic() + REAP_DEADLINE
        while time.monotonic() < deadline:
            for job in self._jobs.values():
                job.signal(signal.SIGKILL)
            self._end_strays()
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                time.sleep(0.002)
        groups = [job for job in self._jobs.values() if job.signal(signal.SIGKILL)]
        while groups and time.monotonic() < deadline:  # where nobody adopts orphans, look until they are gone
            time.sleep(0.005)
            groups = [job for job in groups if job.signal(0)]
        os.chdir("/")
        remove_tree(self._root)
