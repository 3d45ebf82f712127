"""Two processes, one compile: who is at work on a key, among the processes of one machine.

    async with claims.claim(key.digest, patience=60, on_wait=tell) as claim:
        if claim.look_again:
            ...                  # another process was at it: its result may be in the store by now
        ...                      # compile, and put the result into the store before the block ends

A claim is an `flock` on a file named after the key, in a runtime folder of this machine and this user.
It saves work; nothing is right or wrong by it. A holder that dies has let go; one that hangs is waited
for until the caller's patience is over; a folder that cannot hold locks means that nobody waits.

The file of a claim is a second name (`link`) of a file that this process has locked already, and keeps for its
next claim: ext4 looks for a new file's inode past all that were freed in the last five seconds, which took 0.15 to
0.3 ms for each claim when hundreds a second made and removed files of their own; a name takes 10 us.

A claim takes one descriptor, a file that is kept another, a waiting claim none between two looks.
Claim when the compile is about to start, not when it is queued: two processes with the same thousand keys then
share the work between them, and neither has a thousand files open.

Waiting is looking again and again, ever more slowly. (The alternative, a thread that sleeps in `flock`,
cannot be cancelled.) The more claims of a process wait, the slower each of them looks.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import anyio

from teeny_async.errors import CacheError
from teeny_async.store.base import OnFault
from teeny_async.store.folder import make_private
from teeny_async.store.lockfile import remove_and_unlock, try_lock

_SPARE = ".spare"
_KEPT = 64
"""Files that a session keeps for its next claims at most: some more than compiles run at a time."""
_FIRST_LOOK = 0.005
"""Seconds until the second look; each pause is 1.5 times the last one."""
_SLOWEST_LOOK = 0.25
_LOOKS_PER_SECOND = 1000.0
"""Of all waiting claims of one `Claims` together; a look takes some 15 us."""
_STALE_AFTER = 3600.0
"""Seconds after which the file of a dead holder is removed by `sweep`; before that, the next claim reuses it."""
_SPARE_STALE_AFTER = 60.0
"""The same for its own name, which nobody reuses: whoever has just made one is about to lock it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a key. pid, since: None when it could not be read. since: seconds of `time.time()`."""

    pid: int | None
    since: float | None


OnWait = Callable[[Holder], None]
"""Called once, in the event loop, when a claim has to wait; must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What came of claiming a key.

    how: "free": it was had at once. "waited": it was had after another process let go. "late": another
        process still has it and the patience is over, so the caller goes on by itself. "none": there are
        no claims here (see `Claims.trouble`), and the caller goes on by itself.
    holder: who was waited for; None when nobody was.
    waited: seconds.
    """

    how: Literal["free", "waited", "late", "none"]
    holder: Holder | None = None
    waited: float = 0.0

    @property
    def look_again(self) -> bool:
        """Whether another process had the key, so that its result may be in the store by now."""
        return self.holder is not None


_FREE = Claim(how="free")
_NONE = Claim(how="none")


class Claims:
    """The claims of one session.

    folder: made 0700 when it is first used, and not used when it is another user's, a link, or open to
        others. It belongs on a local file system that forgets at a restart: below XDG_RUNTIME_DIR.
    scope: what the keys are about. Only claims of the same scope meet: processes with different stores
        have nothing to wait for.
    on_fault: told once, when there can be no claims here; `trouble` is that message.

    Close it when no claim is held any more.
    """

    def __init__(self, folder: str | os.PathLike[str], *, scope: str = "", on_fault: OnFault | None = None) -> None:
        self._folder = Path(os.path.abspath(folder))
        self._prefix = os.path.join(self._folder, "")
        self._scope = scope.encode("utf-8", "surrogateescape") + b"\0"
        self._on_fault = on_fault
        self._ready = False
        self._waiting = 0
        self._spares: list[_Spare] = []
        self._links = True
        self.trouble: str | None = None

    def close(self) -> None:
        """Remove the files that were kept for the next claim. Blocks for a moment."""
        while self._spares:
            self._spares.pop().drop()

    def try_claim(self, digest: str) -> ClaimedKey | Holder | None:
        """Claim a key without waiting: the claim, or who has it; None when there are no claims here."""
        return self._try(self._path(digest))

    @contextlib.asynccontextmanager
    async def claim(
        self, digest: str, *, patience: float | None = None, on_wait: OnWait | None = None
    ) -> AsyncIterator[Claim]:
        """Have a key to oneself for a block, if that can be.

        patience: seconds to wait for another process at most; None waits as long as it takes.

        When `look_again` is set, look the key up in the store again before anything else.
        """
        path = self._path(digest)
        taken = self._try(path)
        claim = _FREE if taken is not None else _NONE
        if isinstance(taken, Holder):
            taken, claim = await self._wait(path, taken, patience, on_wait)
        try:
            yield claim
        finally:
            if taken is not None:
                taken.release()

    def sweep(self) -> int:
        """Remove the names that dead holders left some time ago; how many. Blocks for a moment."""
        removed = 0
        now = time.time()
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    keep = _SPARE_STALE_AFTER if entry.name.endswith(_SPARE) else _STALE_AFTER
                    if entry.stat(follow_symlinks=False).st_mtime < now - keep:
                        file = try_lock(entry.path, create=False)
                        if file is not None:
                            remove_and_unlock(entry.path, file)
                            removed += 1
        return removed

    async def _wait(
        self, path: str, holder: Holder, patience: float | None, on_wait: OnWait | None
    ) -> tuple[ClaimedKey | None, Claim]:
        began = anyio.current_time()
        told = False
        pause = _FIRST_LOOK
        self._waiting += 1
        try:
            while True:
                left = None if patience is None else began + patience - anyio.current_time()
                if left is not None and left <= 0:
                    return None, Claim(how="late", holder=holder, waited=anyio.current_time() - began)
                await anyio.sleep(pause if left is None else min(pause, left))
                taken = self._try(path)
                if not isinstance(taken, Holder):
                    how: Literal["waited", "none"] = "none" if taken is None else "waited"
                    return taken, Claim(how=how, holder=holder, waited=anyio.current_time() - began)
                # Told after the second look: a claim that is held for a moment only is no news, and by now
                # its holder has written down who it is.
                holder = taken
                if on_wait is not None and not told:
                    told = True
                    on_wait(holder)
                pause = self._next_pause(pause)
        finally:
            self._waiting -= 1

    def _next_pause(self, pause: float) -> float:
        slowest = max(_SLOWEST_LOOK, self._waiting / _LOOKS_PER_SECOND)
        # Spread, so that those who began together do not look together.
        return min(pause * 1.5, slowest) * random.uniform(0.75, 1.25)  # noqa: S311

    def _path(self, digest: str) -> str:
        name = hashlib.sha256(self._scope + digest.encode()).hexdigest()[:40]
        return f"{self._prefix}{name}.claim"

    def _try(self, path: str) -> ClaimedKey | Holder | None:
        if self.trouble is not None:
            return None
        try:
            if not self._ready:
                make_private(self._folder)
                self._ready = True
            spare = self._named(path)
            if spare is not None:
                return ClaimedKey(path, spare.file, partial(self._keep, spare))
            try:
                file = try_lock(path)
            except FileNotFoundError:
                make_private(self._folder)  # somebody cleans the runtime folder
                file = try_lock(path)
            if file is None:
                return _read_holder(path)
            _sign(file)
            return ClaimedKey(path, file)
        except (OSError, CacheError) as error:
            self.trouble = f"other processes may compile the same keys: {error}"
            if self._on_fault is not None:
                self._on_fault("claim", self.trouble)
            return None

    def _named(self, path: str) -> _Spare | None:
        """A file that we have locked, by this name too; None when there is one of the name, or none can be had."""
        if not self._links:
            return None
        spare = None
        try:
            spare = self._spares.pop() if self._spares else _Spare.make(self._folder)
            os.link(spare.path, path)
        except FileExistsError:
            assert spare is not None, "a spare's own name is random"
            self._keep(spare)
        except OSError as error:  # somebody cleans or sweeps the folder, or its file system has no second names
            self._links = isinstance(error, (FileNotFoundError, BlockingIOError))
            if spare is not None:
                spare.drop()
        else:
            return spare
        return None

    def _keep(self, spare: _Spare) -> None:
        if len(self._spares) < _KEPT:
            self._spares.append(spare)
        else:
            spare.drop()


@dataclass(frozen=True, slots=True)
class _Spare:
    """A file that is locked as long as it is there. It says who has it."""

    path: str
    file: int

    @classmethod
    def make(cls, folder: Path) -> _Spare:
        """Raises OSError."""
        path = os.path.join(folder, f"{os.urandom(16).hex()}{_SPARE}")
        file = try_lock(path)
        if file is None:
            raise BlockingIOError(errno.EAGAIN, "somebody else has locked a new file", path)
        _sign(file)
        return cls(path, file)

    def drop(self) -> None:
        remove_and_unlock(self.path, self.file)


class ClaimedKey:
    """A lock that is held. Release it once; it is released too when the process ends, in whatever way.

    file: the lock's descriptor. keep: called when the name is gone, instead of closing the file.
    """

    __slots__ = ("_file", "_keep", "_path")

    def __init__(self, path: str, file: int, keep: Callable[[], None] | None = None) -> None:
        self._path = path
        self._file: int | None = file
        self._keep = keep

    def release(self) -> None:
        """Let go, and remove the file."""
        if self._file is None:
            return
        file, self._file = self._file, None
        if self._keep is not None and _removed(self._path):
            self._keep()
        else:  # a file whose name stays must not stay locked
            remove_and_unlock(self._path, file)


def _removed(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True


def _sign(file: int) -> None:
    with contextlib.suppress(OSError):  # on a full disk it is nameless, and held all the same
        os.pwrite(file, b"%-10d %.3f\n" % (os.getpid(), time.time()), 0)


def _read_holder(path: str) -> Holder:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            pid = int(os.read(file, 100).split()[0])
            return Holder(pid, os.fstat(file).st_ctime)  # when it got this name
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return Holder(None, None)
