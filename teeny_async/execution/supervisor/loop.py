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
from .forks import Forks, Start
from .job import NEVER, READ_SIZE, Capture, Job
from .outbox import Outbox
from .strays import end_all_strays, end_strays
from .system import (
    MAX_RSS_UNIT,
    Nursery,
    group_of,
    limit_cpu,
    remove_tree,
)
from .watch import FIRST_LOOK, look_at
from .wire import CANCELLED, TIMEOUT, Facts, Inbox, Request, decode_limits, words

REAP_DEADLINE = 5.0
"""Seconds that a group may take to vanish after SIGKILL; a process in uninterruptible sleep may."""
STRAGGLER_GRACE = 0.5
"""Seconds from TERM to KILL for what outlives its leader."""
WATCH_INTERVAL = 1.0
"""Seconds between looks at whether the session's process still lives (its socket may be held open
by a process that it forked)."""
POLL_DYING = 0.01
FIRST_DRAIN = 0.02
"""Seconds from a job's start until its output is watched. What a shorter job prints fits its pipes, and is read at
its end; watching would wake us for each line of it, and again for each pipe's end."""
PASS_INTERVAL = 0.002
"""Seconds at least between two passes over all jobs for the sake of their clocks."""


class Supervisor:
    """The loop: requests in, jobs watched, replies out. One thread; nothing here waits but `poll`."""

    def __init__(self, sock_fd: int, root: bytes, *, adopts: bool) -> None:
        # The C socket type: importing `socket` would cost the start another 6 ms.
        import _socket

        self._sock = _socket.socket(fileno=sock_fd)
        self._sock_fd = sock_fd
        self._root = root
        os.chdir(root)
        self._root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._parent = os.getppid()
        self._jobs: dict[int, Job] = {}
        self._by_name: dict[bytes, Job] = {}
        self._captures: dict[int, Capture] = {}
        self._inbox = Inbox()
        self._outbox = Outbox(self._sock)
        self._poll = select.poll()
        self._poll.register(sock_fd, select.POLLIN)
        self._wake = self._watch_children()
        self._nursery = Nursery()
        self._forks = Forks(root, self._poll, self._nursery)
        self._adopts = adopts
        self._closing = False
        self._next_pass = 0.0
        self._strays_at = NEVER
        self._stray_wait = POLL_DYING

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
        now = time.monotonic()
        while not self._closing:
            for fd, _ in self._poll.poll(max(0.0, self._next_pass - now) * 1000 + 1):
                if fd == self._wake:
                    self._reap()
                elif fd == self._sock_fd:
                    self._receive()
                elif fd in self._captures:
                    self._drain(fd)
                elif fd in self._forks:
                    self._let_go(fd)
            now = time.monotonic()
            if now >= self._next_pass:
                self._on_time(now)
            self._outbox.flush()
            self._closing = self._closing or self._outbox.broken
        self.close()

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
        for parts in self._inbox.take(data):
            if parts[0] == b"run":
                asked = Request._make(parts[1 : 1 + len(Request._fields)])
                self._run(asked, parts[1 + len(asked) :])
            elif job := self._by_name.get(parts[1]):
                job.stop(CANCELLED, time.monotonic(), job.limits.grace)
                self._next_pass = 0.0
            elif job := self._forks.cancel(parts[1]):
                job.close_captures()
                self._outbox.reply(job, Facts(stopped=CANCELLED))

    def _run(self, asked: Request, data: list[bytes]) -> None:
        job = Job(asked.name, words(asked.outputs), decode_limits(asked.limits))
        tmp = b"%s/%s%s" % (self._root, job.name, b"/tmp" if asked.mirror else b"")
        pairs = words(asked.env)
        env = {b"HOME": tmp, b"TMPDIR": tmp, **dict(zip(pairs[::2], pairs[1::2], strict=True))}
        start = Start(job, asked.executable, asked.argv.split(b"\0"), env, asked.warm if self._adopts else b"")
        try:
            try:
                lay_out(job, words(asked.inputs), data, asked.mirror)
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                # Told apart from the same errors of the spawn, which say that the tool is missing.
                raise OSError(errno.EIO, "scratch") from error
            self._start(start)
            os.fchdir(self._root_fd)
        except OSError as error:
            self._not_started(job, error)

    def _not_started(self, job: Job, error: OSError) -> None:
        os.fchdir(self._root_fd)
        remove(job)
        self._outbox.reply(job, Facts(errno=error.errno or errno.EIO))

    def _start(self, start: Start) -> None:
        """Start a job, in whose folder we are, or have an interpreter fork it, which tells when it has (`_let_go`)."""
        writers: list[int] = []
        try:
            for _ in range(2):
                reader, writer = os.pipe()
                writers.append(writer)
                os.set_blocking(reader, False)
                start.job.captures.append(Capture(reader, start.job.limits.capture))
            if start.warm and self._forks.ask(start, writers):
                return
            start.job.pid = self._nursery.spawn(start.executable, start.argv, start.env, (None, *writers))
        except OSError:
            start.job.close_captures()
            raise
        finally:
            for writer in writers:
                os.close(writer)
        self._begin(start.job)

    def _let_go(self, fd: int) -> None:
        """A job was forked, and waits for us to know of it; or the interpreter is gone, and its jobs start without."""
        if found := self._forks.forked(fd):
            start, writer = found
            self._begin(start.job)
            try:
                os.write(writer, b"g")
            except OSError:  # it has died
                pass
            os.close(writer)
        for start in self._forks.lost():
            start.job.close_captures()
            try:
                os.chdir(start.job.name)
                self._start(start._replace(warm=b""))
                os.fchdir(self._root_fd)
            except OSError as error:
                self._not_started(start.job, error)

    def _begin(self, job: Job) -> None:
        """It runs: watch it."""
        job.started = time.monotonic()
        if job.limits.wall:
            job.term_at = job.started + job.limits.wall
        job.drain_at = job.started + FIRST_DRAIN
        job.look_at = job.started + FIRST_LOOK
        if job.limits.cpu:
            limit_cpu(job.pid, job.limits.cpu)
        self._jobs[job.pid] = job
        self._by_name[job.name] = job
        self._next_pass = min(self._next_pass, job.next_time())

    # Running jobs

    def _watch_output(self, job: Job) -> None:
        job.drain_at = NEVER
        for capture in job.captures:
            self._captures[capture.fd] = capture
            self._poll.register(capture.fd, select.POLLIN)

    def _drain(self, fd: int) -> None:
        if not self._captures[fd].read():
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
                self._forks.reaped(pid)
                if owner is not None:
                    owner.add_usage(usage)
                    self._settle(owner)
                else:  # a stray; its own children are ours now
                    self._end_strays()
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
            if job.kill_at == NEVER:
                job.signal(signal.SIGTERM)
                job.signal(signal.SIGCONT)
            job.term_at = NEVER
            job.kill_at = min(job.kill_at, now + min(STRAGGLER_GRACE, job.limits.grace))
            self._next_pass = 0.0

    def _on_time(self, now: float) -> None:
        """Look at every job's clock, and say when to do so next."""
        for job in list(self._jobs.values()):
            if now >= job.drain_at:
                self._watch_output(job)
            if now >= job.term_at:
                job.stop(TIMEOUT, now, job.limits.grace)
            if now >= job.kill_at:
                job.kill_at = NEVER
                job.give_up_at = now + REAP_DEADLINE
                job.signal(signal.SIGKILL)
            if job.leader_gone:
                self._settle(job)
            if now >= job.give_up_at and job.pid in self._jobs:
                self._finish(job, unreaped=1)
        due = [job for job in self._jobs.values() if now >= job.look_at]
        for job, held in look_at(due, now) if due else ():
            self._outbox.tell([b"grown", job.name, b"%d" % held])
        self._forks.on_time(now)
        if now >= self._strays_at:
            self._end_strays(min(2 * self._stray_wait, WATCH_INTERVAL))
        if os.getppid() != self._parent:
            self._closing = True
        self._next_pass = max(self._soonest(now), now + PASS_INTERVAL)

    def _soonest(self, now: float) -> float:
        soonest = min(now + WATCH_INTERVAL, self._strays_at)
        for job in self._jobs.values():
            soonest = min(soonest, job.next_time(), now + POLL_DYING if job.leader_gone else NEVER)
        return soonest

    # The end of a job

    def _finish(self, job: Job, unreaped: int = 0) -> None:
        del self._jobs[job.pid]
        del self._by_name[job.name]
        kept = []
        dropped = 0
        for capture in job.captures:
            if self._captures.pop(capture.fd, None):
                self._poll.unregister(capture.fd)
            kept.append(capture.close())
            dropped += capture.dropped
        job.note_cpu_limit()
        self._end_strays()
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

    def _end_strays(self, wait: float = POLL_DYING) -> None:
        """End what jobs left behind that have ended; if it cannot be told what is theirs, look again after a wait."""
        self._stray_wait = wait
        unknown = end_strays(self._jobs, self._forks, self._root)
        self._strays_at = time.monotonic() + wait if unknown else NEVER
        self._next_pass = min(self._next_pass, self._strays_at)

    def close(self) -> None:
        """Leave nothing: kill every group and stray, reap, remove the scratch folder."""
        deadline = time.monotonic() + REAP_DEADLINE
        while time.monotonic() < deadline:
            for job in self._jobs.values():
                job.signal(signal.SIGKILL)
            end_all_strays(self._jobs)
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
