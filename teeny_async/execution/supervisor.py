"""The supervisor: one small process that is the parent of every compiler of a session.

It is run as a program of its own (`python -I -S supervisor.py`), imports nothing of the package, and
talks to the session over the socket that is its standard input. It writes a job's files, starts its
compiler in a new session (and so process group), drains its output, watches its time, ends the whole
group, and sends back the exit, the usage and the outputs. Why another process:

* The peak memory that the kernel reports for a child starts at its parent's peak, carried over exec.
  Under a parent of 2 GB every compiler would seem to need 2 GB; this parent needs 12 MB.
* It outlives the session: when the socket ends, by a clean close or by kill -9, it kills every group
  and removes the scratch folder. PR_SET_PDEATHSIG cannot do that: it watches a thread, is not
  inherited by grandchildren, and has to be set between fork and exec.
* Neither spawning nor scratch files ever hold up the session's event loop.
* As a subreaper it adopts, counts and ends what a compiler leaves behind, in its group or out of it.

The invariant: a reply for a job is sent only when its process group is empty (or could not be ended
within `REAP_DEADLINE`, which the reply says), and after its scratch folder was removed.

A message is a list of byte strings:

    total length u32 | count u32 | count * length u32 | the strings      (little-endian)

    to us   "run", id, folder, executable, argv, env, inputs (name, data, ...), outputs (names), limits
            "kill", id
    from us id, facts, stdout, stderr, output...      `facts` is the repr-free text of `Facts`
            "", traceback                             we failed and are gone
"""

from __future__ import annotations

import errno
import os
import select
import signal
import struct
import sys
import time
from typing import NamedTuple

REAP_DEADLINE = 5.0
"""Seconds that a group may take to vanish after SIGKILL; a process in uninterruptible sleep may."""
STRAGGLER_GRACE = 0.5
"""Seconds from TERM to KILL for what outlives its leader."""
WATCH_INTERVAL = 1.0
"""Seconds between looks at whether the session's process still lives (its socket may be held open
by a process that it forked)."""
_POLL_DYING = 0.01
_READ = 1 << 16
_RESET_PEAK_ABOVE = 1 << 22


def pack(parts: list[bytes]) -> bytes:
    """One message, or a list inside a message."""
    sizes = [len(part) for part in parts]
    header = struct.pack(f"<II{len(sizes)}I", 4 * (len(sizes) + 1) + sum(sizes), len(sizes), *sizes)
    return b"".join((header, *parts))


def unpack(data: bytes | memoryview, offset: int = 0) -> list[bytes] | None:
    """The strings of the message at `offset`; None while it is incomplete."""
    if len(data) - offset < 8:
        return None
    total, count = struct.unpack_from("<II", data, offset)
    if len(data) - offset < 4 + total:
        return None
    sizes = struct.unpack_from(f"<{count}I", data, offset + 8)
    parts = []
    at = offset + 8 + 4 * count
    for size in sizes:
        parts.append(bytes(data[at : at + size]))
        at += size
    return parts


def message_size(data: bytes | bytearray, offset: int = 0) -> int:
    """Bytes of the message at `offset`, its length field included."""
    return 4 + int.from_bytes(data[offset : offset + 4], "little")


class Limits(NamedTuple):
    """Seconds and bytes; 0 is no limit."""

    wall: float
    cpu: float
    grace: float
    capture: int
    output: int


class Facts(NamedTuple):
    """How a job ended, as it goes over the wire. status: a wait status, -1 when nothing was started."""

    status: int = -1
    stopped: str = "-"
    errno: int = 0
    survivors: int = 0
    unreaped: int = 0
    scratch_full: int = 0
    dropped: int = 0
    wall: float = 0.0
    cpu_user: float = 0.0
    cpu_system: float = 0.0
    max_rss: int = 0
    missing: str = "-"
    """Indices of the outputs that are not there, joined by commas."""


def encode_facts(facts: Facts) -> bytes:
    return " ".join(str(value) for value in facts).encode()


def decode_facts(text: bytes) -> Facts:
    words = text.decode().split(" ")
    kinds = (int, str, int, int, int, int, int, float, float, float, int, str)
    return Facts(*(kind(word) for kind, word in zip(kinds, words, strict=True)))


class Capture:
    """What is kept of one output stream: the first three quarters of the cap, and the end."""

    __slots__ = ("_head", "_head_cap", "_tail", "_tail_cap", "dropped", "fd")

    def __init__(self, fd: int, cap: int) -> None:
        self.fd = fd
        self._tail_cap = cap // 4
        self._head_cap = cap - self._tail_cap
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def read(self) -> bool:
        """Take what is there, a megabyte at most; False when the stream has ended."""
        for _ in range(16):
            try:
                data = os.read(self.fd, _READ)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._keep(data)
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
        self.read()
        os.close(self.fd)
        surplus = max(0, len(self._tail) - self._tail_cap)
        self.dropped += surplus
        if not self.dropped:
            return bytes(self._head + self._tail)
        return b"%s\n[... %d bytes left out ...]\n%s" % (self._head, self.dropped, self._tail[surplus:])


class Job:
    """A compiler and its group, from its folder's making to its reply."""

    __slots__ = (
        *("captures", "cpu_system", "cpu_user", "ended", "folder", "give_up_at", "id", "kill_at", "limits"),
        *("max_rss", "outputs", "pid", "started", "status", "stopped", "survivors", "term_at", "written"),
    )

    def __init__(self, id: bytes, folder: bytes, outputs: list[bytes], limits: Limits) -> None:
        self.id = id
        self.folder = folder
        self.outputs = outputs
        self.limits = limits
        self.written: list[bytes] = []
        self.captures: list[Capture] = []
        self.pid = 0
        self.status = -1
        self.stopped = "-"
        self.started = self.ended = 0.0
        self.term_at = self.kill_at = self.give_up_at = float("inf")
        self.cpu_user = self.cpu_system = 0.0
        self.max_rss = 0
        self.survivors = 0

    @property
    def leader_gone(self) -> bool:
        return self.status != -1

    def next_time(self) -> float:
        return min(self.term_at, self.kill_at, self.give_up_at)

    def signal(self, number: int) -> bool:
        """Signal the group; False when it is empty. Until its last member is reaped its id is not reused."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # some member changed its user; the rest got the signal
            return True
        return True

    def stop(self, reason: str, now: float, grace: float) -> None:
        """TERM now, KILL after the grace; the first reason stands."""
        if self.kill_at == float("inf") and self.give_up_at == float("inf"):
            if self.stopped == "-":
                self.stopped = reason
            self.term_at = float("inf")
            self.kill_at = now + grace
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)

    def add_usage(self, usage: tuple[float, ...]) -> None:
        self.cpu_user += usage[0]
        self.cpu_system += usage[1]
        self.max_rss = max(self.max_rss, int(usage[2]))


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
        self._close()

    def _timeout(self) -> float:
        """Milliseconds until something has to be looked at."""
        soonest = WATCH_INTERVAL
        now = time.monotonic()
        for job in self._jobs.values():
            soonest = min(soonest, job.next_time() - now)
            if job.leader_gone:
                soonest = min(soonest, _POLL_DYING)
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
            self._lay_out(job, unpack(inputs) or [])
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
            if size < _READ:
                self._replies.append(read_exactly(fd, size))
            else:
                self._send_replies()
                self._send_file(fd, size)
            os.close(fd)
        self._remove(job)
        if sum(sizes) > _RESET_PEAK_ABOVE:
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

    def _close(self) -> None:
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


def open_output(folder: bytes, name: bytes, limit: int) -> tuple[int, int]:
    """(descriptor, size) of an output; (-1, 0) when it is missing, no regular file, or over the limit."""
    try:
        fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return -1, 0
    found = os.fstat(fd)
    if found.st_mode & 0o170000 != 0o100000 or found.st_size > limit:
        os.close(fd)
        return -1, 0
    return fd, found.st_size


def read_exactly(fd: int, size: int) -> bytes:
    data = os.read(fd, size)
    while len(data) < size:
        more = os.read(fd, size - len(data))
        data += more or bytes(size - len(data))
    return data


def write_file(name: bytes, data: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        at = os.write(fd, data)
        while at < len(data):
            at += os.write(fd, memoryview(data)[at:])
    finally:
        os.close(fd)


def is_full(folder: bytes) -> int:
    """1 when the file system has no free block or inode for us."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return int(found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0))


def remove_tree(folder: bytes) -> None:
    """Remove a folder whatever is in it; what cannot be removed is left, silently."""
    try:
        os.chmod(folder, 0o700)
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            pass
    try:
        os.rmdir(folder)
    except OSError:
        pass


def sweep(base: bytes) -> None:
    """Remove the scratch folders of sessions that are gone: those whose lock nobody holds."""
    import fcntl

    for entry in os.scandir(base):
        try:
            fd = os.open(os.path.join(entry.path, b"lock"), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(entry.path)
        except OSError:
            pass
        finally:
            os.close(fd)


def group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def children() -> list[int]:
    """Our children, zombies included, where the system lists them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            return [int(word) for word in listing.read().split()]
    except OSError:
        return []


def limit_cpu(pid: int, seconds: float) -> None:
    """SIGXCPU after `seconds` of CPU time in any one process of the job (Linux; elsewhere no limit)."""
    import resource

    if hasattr(resource, "prlimit"):
        whole = max(1, int(seconds + 0.999))
        try:
            resource.prlimit(pid, resource.RLIMIT_CPU, (whole, whole + 2))
        except ProcessLookupError:
            pass


def reset_peak_memory() -> None:
    """Forget our own peak, which the compilers started next would inherit as theirs (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def become_subreaper() -> None:
    """Adopt orphaned descendants (Linux's PR_SET_CHILD_SUBREAPER)."""
    if sys.platform == "linux":
        try:
            import ctypes
        except ImportError:
            return
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def close_inherited(keep: set[int]) -> None:
    """Close every descriptor that the session's process let through, but for those in `keep`."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass


MAX_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of ru_maxrss."""
DEFAULT_SIGNALS = [getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGHUP", "SIGTERM")]


def main(base: str, root: str, lock: str) -> None:
    """Serve on descriptor 0. `lock`: the descriptor whose flock marks the scratch folder as in use."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    close_inherited({0, 1, 2, int(lock)})
    os.set_inheritable(int(lock), False)
    sock = os.dup(0)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.umask(0o077)
    become_subreaper()
    supervisor = Supervisor(sock, os.fsencode(root))
    try:
        sweep(os.fsencode(base))
        supervisor.serve()
    except BaseException:
        import traceback

        report = traceback.format_exc()
        os.write(sock, pack([b"", report.encode()]))
        supervisor._close()
        raise


if __name__ == "__main__":
    main(*sys.argv[1:4])
