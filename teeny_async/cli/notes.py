"""Warnings and log records of the package, as notes for the person at the terminal."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from teeny_async.events import Event, Waiting, Warned
from teeny_async.report.text import waiting_text

_MOST = 20
"""Different notes; a cache on a failing disk would otherwise write one for every result."""


class Notes(logging.Handler):
    """Says each thing once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note
        self._said: set[str] = set()
        self._waited_for: set[int | None] = set()

    def say(self, text: str) -> None:
        if text in self._said or len(self._said) > _MOST:
            return
        self._said.add(text)
        self._note(text if len(self._said) <= _MOST else "warning: there is more of this, which is left out")

    def see(self, event: Event) -> None:
        """Say what a session warns of, and what it waits for: once for each process, which may have a thousand more."""
        if isinstance(event, Warned):
            self.say(f"warning: {event.message}")
        elif isinstance(event, Waiting) and event.pid not in self._waited_for:
            self._waited_for.add(event.pid)
            self.say(waiting_text(event))

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record).removeprefix("teeny_async: ")
        self.say(f"{'error' if record.levelno >= logging.ERROR else 'warning'}: {text}")


@contextlib.contextmanager
def notes_from_logging(note: Callable[[str], None]) -> Iterator[Notes]:
    """Pass on what the package logs and warns of, instead of Python's own way to print it."""
    notes = Notes(note)
    logger = logging.getLogger("teeny_async")
    propagate = logger.propagate
    logger.addHandler(notes)
    logger.propagate = False

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        notes.say(f"warning: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show
            yield notes
    finally:
        logger.removeHandler(notes)
        logger.propagate = propagate
