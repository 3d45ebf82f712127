"""Ctrl-C and SIGTERM: the first one cancels in an orderly way, the second one leaves at once.

The handlers are plain ones, not the event loop's: the second must work even when the loop does not turn.
Nothing is lost by leaving at once but the report: the supervisor ends every compiler by itself when our end
of its socket closes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn

import anyio
from anyio.lowlevel import current_token

from teeny_async.report.progress import show_cursor

_SAME_PRESS = 0.25
"""Seconds. `timeout` sends its signal to the process and then to its group: that is still the first one."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupts:
    """Handles the signals while it is entered. `received` is the first one; None when none came."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._at = 0.0
        self._cancel: Callable[[], object] | None = None
        self._previous: dict[int, Any] = {}

    @property
    def exit_code(self) -> int | None:
        return None if self.received is None else 128 + self.received

    def __enter__(self) -> Interrupts:
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            # nohup means it; a shell that starts a job in the background ignores SIGINT without meaning it.
            if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                continue
            with contextlib.suppress(ValueError):  # not in the main thread
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def cancelling(self, scope: anyio.CancelScope) -> Iterator[None]:
        """Cancel `scope`, which belongs to the current event loop, when a signal comes or has come."""
        token: Any = current_token().native_token
        post = getattr(token, "run_sync_soon", None) or token.call_soon_threadsafe  # trio's; asyncio's
        self._cancel = lambda: post(scope.cancel)
        if self.received is not None:
            scope.cancel()
        try:
            yield
        finally:
            self._cancel = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.received is not None:
            if number != self.received or now - self._at > _SAME_PRESS:
                _leave(number)
            return
        self.received, self._at = signal.Signals(number), now
        if self._cancel is not None:
            self._cancel()


def _leave(number: int) -> NoReturn:
    with contextlib.suppress(OSError):
        show_cursor()
    os._exit(128 + number)
