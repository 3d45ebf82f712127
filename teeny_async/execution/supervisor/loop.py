"""The supervisor's loop: requests in, jobs watched, replies out.

The invariant: a reply for a job is sent only when its process group is empty (or could not be ended within
`REAP_DEADLINE`, which the reply says), and just before its scratch folder is removed.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import struct
import time

from .job import READ_SIZE, Capture, Job
from .system import (
    DEFAULT_SIGNALS,
    MAX_RSS_UNIT,
    children,
    group_of,
    is_full,
    limit_cpu,
    open_output,
    read_exactly,
    remove_tree,
    reset_peak_memory,
    write_file,
)
from .wire import Facts, Limits, encode_facts, message_size, unpack

REAP_DEADLINE = 5.0
"""Seconds that a group may take to vanish after SIGKILL; a process in uninterruptible sleep may."""
STRAGGLER_GRACE = 0.5
"""Seconds from TERM to KILL for what outlives its leader."""
WATCH_INTERVAL = 1.0
"""Seconds between looks at whether the session's process still lives (its socket may be held open
by a process that it forked)."""
POLL_DYING = 0.01
RESET_PEAK_ABOVE = 1 << 22
"""Bytes of a reply after which our own peak is reset."""


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
        self._replies: list[bytes] = []
        self._poll = select.poll()
        self._poll.register(sock_fd, select.POLLIN)
        self._wake = self._watch_children()
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
            self._send_replies()
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
            data = self._sock.recv(1 << 18)
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
        _, id, folder, executable, argv, env, inputs, outputs, limits = parts
        wall, cpu, grace, capture, output = limits.split()
        bounds = Limits(float(wall), float(cpu), float(grace), int(capture), int(output))
        job = Job(id, os.path.join(self._root, folder), unpack(outputs) or [], bounds)
        try:
            try:
                self._lay_out(job, unpack(inputs) or [])
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                # Told apart from the same errors of the spawn, which say that the tool is missing.
                raise OSError(errno.EIO, "scratch") from error
            self._spawn(job, executable, unpack(argv) or [], unpack(env) or [])
        except OSError as error:
            self._remove(job)
            self._reply(job, Facts(errno=error.errno or errno.EIO), b"", b"")

    def _lay_out(self, job: Job, inputs: list[bytes]) -> None:
        os.mkdir(job.folder, 0o700)
        os.chdir(job.folder)
        os.mkdir(b"tmp", 0o700)
        for name, data in zip(inputs[::2], inputs[1::2], strict=True):
            if b"/" in name:
                os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
            job.written.append(name)
            write_file(name, data)

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
            job.pid = os.posix_spawn(
                executable, argv, variables, file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULT_SIGNALS
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
        if job.survivors or job.stopped != "-" or not self._jobs:
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
        )
        self._reply(job, facts, *kept)

    def _reply(self, job: Job, facts: Facts, stdout: bytes = b"", stderr: bytes = b"") -> None:
        """Send the exit and the outputs. They go from file to socket: their bytes never enlarge this process."""
        files = [] if facts.errno else [open_output(job.folder, name, job.limits.output) for name in job.outputs]
        missing = [str(index) for index, (fd, _) in enumerate(files) if fd < 0]
        if missing or any(size == 0 for _, size in files) or facts.status:
            facts = facts._replace(missing=",".join(missing) or "-", scratch_full=is_full(self._root))
        head = [job.id, encode_facts(facts), stdout, stderr]
        sizes = [len(part) for part in head] + [size for _, size in files]
        header = struct.pack(f"<II{len(sizes)}I", 4 * (len(sizes) + 1) + sum(sizes), len(sizes), *sizes)
        self._replies.append(b"".join((header, *head)))
        for fd, size in files:
            if fd < 0:
                continue
            if size < READ_SIZE:
                self._replies.append(read_exactly(fd, size))
            else:
                self._send_replies()
                self._send_file(fd, size)
            os.close(fd)
        self._remove(job)
        if sum(sizes) > RESET_PEAK_ABOVE:
            reset_peak_memory()

    def _send_file(self, fd: int, size: int) -> None:
        at = 0
        while at < size and not self._closing:
            try:
                sent = os.sendfile(self._sock_fd, fd, at, min(size - at, 1 << 20))
                if not sent:  # the file shrank under us: keep the length that was announced
                    self._sock.sendall(bytes(size - at))
                    return
                at += sent
            except OSError:
                self._closing = True

    def _send_replies(self) -> None:
        if self._replies:
            data = b"".join(self._replies)
            self._replies.clear()
            try:
                self._sock.sendall(data)
            except OSError:
                self._closing = True

    def _remove(self, job: Job) -> None:
        """Remove the scratch folder: by name what we know of, by walking what we do not."""
        try:
            os.chdir(job.folder)
            for name in {*job.written, *job.outputs}:
                try:
                    os.unlink(name)
                except FileNotFoundError:
                    pass
            os.rmdir(b"tmp")
            os.chdir(self._root)
            os.rmdir(job.folder)
        except OSError:
            os.chdir(self._root)
            remove_tree(job.folder)

    def _end_strays(self) -> None:
        """Kill what left its group (a daemon of a compiler): a child of ours that belongs to no job."""
        for pid in children():
            group = group_of(pid)
            if pid not in self._jobs and group not in self._jobs and group != os.getpgrp():
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
