"""`RemoteStore`: entries in an object store, shared by machines; it may be slow, down, or wrong.

A remote is asked in the way of compiles and written to behind their backs:

    get    up to 32 requests at a time for a batch of keys, and a time limit for the batch as a whole
    put    queued, and written by four threads; a full queue drops what comes; closing waits a while
    both   a time limit for each request, and a circuit breaker: after three failures in a row the remote is
           left alone for 30 s (then 60, ... 600), with one warning; whether it is back is found out by a
           request that nobody waits for

So a remote that is down or that never answers costs a sweep the time limit of one batch, some seconds, and
then nothing. What it answers is checked (`teeny_async.store.remote_layout`): a wrong, cut or foreign object
is a miss, and is replaced by the next good one; it is never deleted, since the damage may be on our side.
The checks guard against accidents, not against somebody who may write to the remote and forges an entry
with a right checksum. Give builds that are not trusted credentials that cannot write, and `read_only`.

Written only if new: artifacts have one author, the first (create-only puts, where the server has them;
plain HTTP and WebDAV do not). Failures are not shared: they can depend on the machine. Of notes only those
about files that compilers read are shared; what was probed and measured is the machine's own.

An entry's `info` goes along: kernel name, target, params, the compiler's version, the key's components. A
kernel's text does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from teeny_async.errors import CacheError, RequestError
from teeny_async.result import Artifact
from teeny_async.store.base import Entry, OnFault, StoreStats
from teeny_async.store.framing import key_bytes
from teeny_async.store.openers import Openers, Opening
from teeny_async.store.remote_bucket import Bucket
from teeny_async.store.remote_layout import is_shared_note
from teeny_async.store.remote_threads import Threads, finished
from teeny_async.store.remote_worker import Query, RemoteWorker

_READERS = 32
_WRITERS = 4
_QUEUE_BYTES = 64 << 20
_QUEUE_LENGTH = 4096
_SOME_KEY = "0" * 64
"""What is asked for where only it matters whether an answer comes."""


@dataclass(slots=True)
class _Opening:
    """From the first opener's coming to the last one's going."""

    threads: Threads = field(default_factory=lambda: Threads(_READERS, _WRITERS))
    queue: set[Future[object]] = field(default_factory=set)
    """Uploads that have not ended."""
    queued: int = 0
    """Bytes of them."""


class RemoteStore:
    """A store behind a URL, through obstore (pip install 'teeny_async[remote]').

    url: s3://bucket/prefix, gs://, az://, http(s):// (WebDAV, whose folder has to be there, or any server that
        takes GET and PUT), file:///folder (one that machines share), memory:///.
    read_only: look up, write nothing.
    timeout: seconds for one request; a batch of look-ups may take twice that together.
    flush_timeout: seconds that closing waits for uploads that are under way; the rest is dropped.
    options: for obstore's `from_url`: credentials, region, endpoint, `client_options`. What is not there it
        takes from the environment (AWS_..., GOOGLE_..., AZURE_...).

    `stats` asks the remote nothing, so it has no sizes; `clear` raises CacheError, since others use it too.
    Raises RequestError for a URL or a number that makes no sense. Opening it asks the network nothing; it
    raises CacheError when obstore is not installed or refuses the options.
    """

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        timeout: float = 3.0,
        flush_timeout: float = 10.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not timeout > 0 or not flush_timeout >= 0:
            raise RequestError("timeout is a number of seconds above 0, flush_timeout one of 0 or more")
        self._bucket = Bucket(url, timeout=timeout, options=options or {})
        self._patience = 2 * timeout
        self._flush_timeout = flush_timeout
        self.read_only = read_only
        self._openers = Openers()
        self._worker = RemoteWorker(self._bucket, self._openers.tell)
        self._opening = Opening(_Opening)
        self._queueing = threading.Lock()
        self._is_full = False

    def __repr__(self) -> str:
        return f"RemoteStore({self._bucket.location!r})"

    @property
    def uploaded(self) -> int:
        """Entries written, or found to be there already, since the object was made."""
        return self._worker.uploaded

    async def open(self, on_fault: OnFault) -> None:
        self._opening.join()
        self._openers.join(on_fault)
        try:
            await anyio.to_thread.run_sync(self._bucket.open)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        opening = self._opening.leave()
        try:
            if opening is not None:
                with anyio.CancelScope(shield=True):
                    await self._flush(opening)
        finally:
            self._openers.leave()

    async def get_many(self, digests: Sequence[str]) -> list[Entry | None]:
        for digest in digests:
            key_bytes(digest)
        opening = await self._ready()
        query = Query(list(digests), [None] * len(digests))
        if not digests or not self._asks(opening, len(digests), partial(self._worker.try_again, _SOME_KEY)):
            return query.found
        work = [opening.threads.read(partial(self._worker.read, query)) for _ in range(min(_READERS, len(digests)))]
        try:
            if not await finished(work, self._patience, self._worker.is_silent):
                self._worker.gave_up(len(digests), self._patience)
        finally:
            query.stopped = True
            if query.damaged:
                self._openers.tell("quarantine", f"{len(query.damaged)} damaged in {self!r}, first {query.damaged[0]}")
            self._openers.deliver()
        return list(query.found)

    async def put(self, digest: str, entry: Entry) -> None:
        await self.put_many([(digest, entry)])

    async def put_many(self, entries: Sequence[tuple[str, Entry]]) -> None:
        for digest, _ in entries:
            key_bytes(digest)
        opening = await self._ready()
        for digest, entry in entries if not self.read_only else ():
            if isinstance(entry.outcome, Artifact):
                size = sum(map(len, entry.outcome.outputs.values())) + len(entry.outcome.log or "")
                self._upload(opening, size, partial(self._worker.write, digest, entry))
        self._openers.deliver()

    async def delete(self, digest: str) -> None:
        key_bytes(digest)
        opening = await self._ready()
        if not self.read_only:
            work = [opening.threads.write(partial(self._worker.delete, digest))]
            await finished(work, self._patience, self._worker.is_deaf)
        self._openers.deliver()

    async def get_note(self, name: str) -> str | None:
        return (await self.get_notes([name]))[0]

    async def get_notes(self, names: Sequence[str]) -> list[str | None]:
        opening = await self._ready()
        found: dict[str, str] = {}
        reads = [partial(self._worker.read_note, found, name) for name in dict.fromkeys(names) if is_shared_note(name)]
        if reads and self._asks(opening, len(reads), partial(self._worker.try_again, _SOME_KEY)):
            work = [opening.threads.read(read) for read in reads]
            if not await finished(work, self._patience, self._worker.is_silent):
                self._worker.gave_up(len(reads), self._patience)
            self._openers.deliver()
        return [found.get(name) for name in names]

    async def put_note(self, name: str, text: str) -> None:
        opening = await self._ready()
        if is_shared_note(name) and not self.read_only:
            self._upload(opening, len(text), partial(self._worker.write_note, name, text))
        self._openers.deliver()

    async def stats(self) -> StoreStats:
        await self._ready()
        return StoreStats(location=self._bucket.location, trouble=self._worker.trouble, **asdict(self._worker.tally))

    async def clear(self) -> int:
        await self._ready()
        raise CacheError(f"{self._bucket.location} is shared and is not cleared from here; use its own tools and rules")

    async def _ready(self) -> _Opening:
        opening = self._opening.current
        if opening is None:
            raise RuntimeError(f"{self!r} is not open")
        await checkpoint()
        return opening

    def _asks(self, opening: _Opening, count: int, attempt: Callable[[], object]) -> bool:
        """Whether the remote is asked now. attempt: what finds out, in nobody's way, whether it is back."""
        state = self._worker.may_read()
        if state == "try":
            opening.threads.read(attempt)
        if state != "closed":
            self._worker.left_out(count)
        return state == "closed"

    def _upload(self, opening: _Opening, size: int, work: Callable[[], object]) -> None:
        """Queue it, or drop it when the queue is full: no compile waits for an upload."""
        with self._queueing:
            waiting = len(opening.queue)
            full = waiting >= _QUEUE_LENGTH or (waiting > 0 and opening.queued + size > _QUEUE_BYTES)
            if not full:
                future = opening.threads.write(work)
                opening.queue.add(future)
                opening.queued += size
            is_news, self._is_full = full and not self._is_full, full
        if full:
            self._worker.left_out(1)
        else:
            future.add_done_callback(partial(self._uploaded, opening, size))
        if is_news:
            self._openers.tell("put", f"{self!r} is too slow: {waiting} uploads wait, further ones are dropped")

    def _uploaded(self, opening: _Opening, size: int, future: Future[object]) -> None:
        with self._queueing:
            opening.queue.discard(future)
            opening.queued -= size

    async def _flush(self, opening: _Opening) -> None:
        """Wait for uploads, for a while, and end the threads."""
        with self._queueing:
            pending = list(opening.queue)
        began = time.monotonic()
        done = await finished(pending, self._flush_timeout, self._worker.is_deaf)
        if not done and not self._worker.is_deaf():  # or it has been told of
            left = sum(not future.done() for future in pending)
            seconds = time.monotonic() - began
            self._openers.tell(
                "put", f"{left} uploads to {self!r} were dropped: they did not end within {seconds:.1f} s"
            )
        opening.threads.end()
        self._openers.deliver()
