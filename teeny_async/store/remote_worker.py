"""What the threads of a `RemoteStore` do: read, check and write entries; blocking, and never raising.

Any number of threads are in here at once. What they share (counts, breakers, what was found damaged) is
changed under one lock, which is never held while the network is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from teeny_async.result import Artifact
from teeny_async.store.base import Entry
from teeny_async.store.framing import CorruptEntry, pack_note, unpack_note
from teeny_async.store.remote_breaker import FAILURES, PAUSE, Breaker, State
from teeny_async.store.remote_bucket import Bucket, RemoteTrouble
from teeny_async.store.remote_layout import (
    action_name,
    blob_name,
    check_blob,
    join,
    note_name,
    split,
    with_outputs,
)
from teeny_async.store.tally import Tally

Tell = Callable[[str, str], None]


@dataclass(slots=True)
class Query:
    """Keys that several threads look up together. stopped: nobody waits for the rest any more."""

    digests: list[str]
    found: list[Entry | None]
    damaged: list[str] = field(default_factory=list)
    next: int = 0
    stopped: bool = False


class RemoteWorker:
    """The synchronous half of a `RemoteStore`. tell: takes a fault, from any thread."""

    def __init__(self, bucket: Bucket, tell: Tell, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = bucket
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        # Whoever may read may not always write: each has its own breaker.
        self._reads = Breaker()
        self._writes = Breaker()
        self._damaged: set[str] = set()
        """Keys under which something useless lies, so that a good entry replaces it."""
        self.tally = Tally()
        self.uploaded = 0

    @property
    def trouble(self) -> str | None:
        """Why it is left alone; None when it is not."""
        return self._reads.reason or self._writes.reason

    def may_read(self) -> State:
        """Whether to ask; see `Breaker.state`."""
        with self._lock:
            return self._reads.state(self._clock())

    def is_silent(self) -> bool:
        """Whether no answer is worth waiting for any more."""
        return self._reads.is_open

    def is_deaf(self) -> bool:
        """Whether no upload is worth waiting for any more."""
        return self._writes.is_open

    def left_out(self, count: int) -> None:
        """Count operations that were not tried."""
        with self._lock:
            self.tally.skipped += count

    # Reading

    def read(self, query: Query) -> None:
        """Look up keys of a query until none is left; several threads at once share them."""
        while True:
            with self._lock:
                index = query.next
                if query.stopped or self._reads.is_open or index >= len(query.digests):
                    return
                query.next += 1
            entry = self._read_one(query.digests[index], query)
            with self._lock:
                query.found[index] = entry
                self.tally.hits += entry is not None
                self.tally.misses += entry is None

    def try_again(self, digest: str) -> None:
        """Ask once, to see whether the remote is back; the answer is of no interest."""
        try:
            self._bucket.get(action_name(digest))
        except RemoteTrouble as error:
            self._failed(self._reads, "get", str(error))
        else:
            self._succeeded(self._reads)

    def gave_up(self, count: int, patience: float) -> None:
        """The answers to so many look-ups were not waited for any longer; what has not come is a miss."""
        with self._lock:
            if self._reads.is_open:
                return
            self.tally.faults += 1
            opened = self._reads.trip(self._clock(), f"no answer to all of {count} look-ups in time")
        if opened:
            self._warn("get", f"{count} look-ups took more than {patience:g} s together")

    def _read_one(self, digest: str, query: Query) -> Entry | None:
        try:
            data = self._bucket.get(action_name(digest))
            entry = None if data is None else self._whole(digest, data)
        except RemoteTrouble as error:
            self._failed(self._reads, "get", str(error))
            return None
        except CorruptEntry as error:
            with self._lock:
                self.tally.quarantined += 1
                self._damaged.add(digest)
                query.damaged.append(f"{digest}: {error}")
            # A proxy that answers everything with a page of its own is no better than one that is down.
            self._failed(self._reads, "get", f"damaged entries, the last one {digest}: {error}")
            return None
        self._succeeded(self._reads)
        if data is not None and entry is None:
            with self._lock:
                self._damaged.add(digest)  # an output of it is gone
        return entry

    def _whole(self, digest: str, data: bytes) -> Entry | None:
        """The entry with all its outputs; None when one of them is gone."""
        entry, missing = join(digest, data)
        if not missing:
            return entry
        outputs = {}
        for label, reference in missing.items():
            blob = self._bucket.get(blob_name(reference.sha256))
            if blob is None:
                return None
            outputs[label] = check_blob(reference, blob)
        return with_outputs(entry, outputs)

    def read_note(self, found: dict[str, str], name: str) -> None:
        """Look up a note, for `found`."""
        with self._lock:
            if self._reads.is_open:
                return
        try:
            data = self._bucket.get(note_name(name))
            if data is not None:
                found[name] = unpack_note(name, data)
        except (RemoteTrouble, CorruptEntry) as error:
            self._failed(self._reads, "get_note", str(error))
        else:
            self._succeeded(self._reads)

    # Writing

    def write(self, digest: str, entry: Entry) -> None:
        """Upload an artifact's entry: its large outputs, then itself."""

        def work() -> None:
            packed = split(digest, entry)
            with self._lock:
                # The first one stays, unless it is of no use, or this one has a log that was asked for.
                assert isinstance(entry.outcome, Artifact)
                replaces = digest in self._damaged or entry.outcome.log is not None
            for sha256, blob in packed.blobs.items():
                self._bucket.put(blob_name(sha256), blob, replace=replaces)
            self._bucket.put(action_name(digest), packed.action, replace=replaces)
            with self._lock:
                self._damaged.discard(digest)
                self.uploaded += 1

        self._write("put", work)

    def write_note(self, name: str, text: str) -> None:
        """Upload a note over the one that is there."""
        self._write("put_note", lambda: self._bucket.put(note_name(name), pack_note(name, text), replace=True))

    def delete(self, digest: str) -> None:
        """Remove an action; outputs that nothing refers to are left to the remote's own rules."""
        self._write("delete", lambda: self._bucket.delete(action_name(digest)))

    def _write(self, operation: str, work: Callable[[], object]) -> None:
        with self._lock:
            if self._writes.state(self._clock()) == "open":
                self.tally.skipped += 1
                return
        try:
            work()
        except RemoteTrouble as error:
            self._failed(self._writes, operation, str(error), at_once=error.for_good)
        except (TypeError, ValueError, RecursionError) as error:  # its info is not plain JSON
            with self._lock:
                self.tally.faults += 1
            self._tell(operation, str(error))
        else:
            self._succeeded(self._writes)

    # How it goes

    def _succeeded(self, breaker: Breaker) -> None:
        with self._lock:
            breaker.succeeded()

    def _failed(self, breaker: Breaker, operation: str, reason: str, *, at_once: bool = False) -> None:
        with self._lock:
            self.tally.faults += 1
            report = breaker.trip if at_once else breaker.failed
            opened = report(self._clock(), reason)
        if opened:
            self._warn(operation, reason if at_once else f"{FAILURES} failures in a row, the last one: {reason}")

    def _warn(self, operation: str, why: str) -> None:
        self._tell(operation, f"{self._bucket.location} is left alone for {PAUSE:g} s, and longer if need be: {why}")
