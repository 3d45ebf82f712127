"""What a session tells its observer: one stream of frozen events.

Pass `on_event=` to a `Compiler` or to `compile_many`; it is called in the event loop's thread, in
order, and must not block. Times are seconds of `time.monotonic()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from teeny_async.failures import FailureKind

if TYPE_CHECKING:
    from teeny_async.model import CompileRequest
    from teeny_async.result import CompileResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. time: seconds, monotonic."""

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainFound(Event):
    """A compiler was found and identified."""

    toolchain: str
    version: str
    path: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent(Event):
    """Base of the events about one compile. key: its cache key's digest."""

    request: CompileRequest
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(RequestEvent):
    """A miss: the compile waits for a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(RequestEvent):
    """Another process compiles the same, and its result is waited for.

    pid: its process, None when that is not known. since: seconds of `time.time()`.
    """

    pid: int | None
    since: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(RequestEvent):
    """An attempt got its slot and is about to run."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(RequestEvent):
    """A compile has been running for `seconds` and is still going. It comes again each time that doubles."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(RequestEvent):
    """An attempt failed in a way that may pass; the next one follows after `delay` seconds.

    message: what the failure says, on one line.
    """

    attempt: int
    kind: FailureKind
    message: str
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """A request has its verdict; one event for each result, hits and duplicates included."""

    result: CompileResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFault(Event):
    """The store failed; the compile did not. `message` says what and where."""

    operation: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """Something a user should know and can act on."""

    message: str
