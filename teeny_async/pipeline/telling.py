"""`Teller`: counts what happens, and tells the observer of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from teeny_async.events import CacheFault, Event, Finished, Retried, Slow, ToolchainFound, Waiting, Warned
from teeny_async.model import CompileRequest
from teeny_async.pipeline.stats import Tally
from teeny_async.result import CompileResult, Failure
from teeny_async.toolchains.base import Toolchain

OnEvent = Callable[[Event], None]
logger = logging.getLogger("teeny_async")


class Teller:
    """One session's counts and events."""

    def __init__(self, on_event: OnEvent | None, tally: Tally) -> None:
        self._on_event = on_event
        self.tally = tally

    def emit(self, make: Callable[[float], Event]) -> None:
        """Tell the observer, if there is one; only then is the event made. The observer's errors are logged:
        they are not the compile's."""
        if self._on_event is None:
            return
        try:
            self._on_event(make(time.monotonic()))
        except Exception:
            logger.exception("teeny_async: on_event failed")

    def finished(self, result: CompileResult) -> CompileResult:
        """A result is handed out."""
        self.tally.finished(result)
        self.emit(lambda now: Finished(time=now, result=result))
        return result

    def retried(self, request: CompileRequest, key: str, attempt: int, failure: Failure, delay: float) -> None:
        """A failed attempt will be followed by another."""
        self.tally.retries[failure.kind] += 1
        self.emit(
            lambda now: Retried(
                time=now,
                request=request,
                key=key,
                attempt=attempt,
                kind=failure.kind,
                message=failure.message,
                delay=delay,
            )
        )

    def slow(self, request: CompileRequest, key: str, seconds: float) -> None:
        """A compile takes long."""
        self.tally.slow += 1
        self.emit(lambda now: Slow(time=now, request=request, key=key, seconds=seconds))

    def waiting(self, request: CompileRequest, key: str, pid: int | None, since: float | None) -> None:
        """Another process compiles the same."""
        self.emit(lambda now: Waiting(time=now, request=request, key=key, pid=pid, since=since))

    def warn(self, message: str) -> None:
        """Something a user should know."""
        logger.warning("teeny_async: %s", message)
        self.emit(lambda now: Warned(time=now, message=message))

    def found(self, found: Toolchain) -> None:
        """A compiler was found and identified."""
        self.emit(
            lambda now: ToolchainFound(
                time=now,
                toolchain=found.name,
                version=found.version,
                path=found.path,
                fingerprint=found.fingerprint,
            )
        )

    def fault(self, operation: str, message: str) -> None:
        """The store failed."""
        self.tally.cache_faults += 1
        logger.warning("teeny_async: cache %s failed: %s", operation, message)
        self.emit(lambda now: CacheFault(time=now, operation=operation, message=message))
