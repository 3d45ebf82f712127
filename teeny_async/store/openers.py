"""The sessions that share one store object, and what each is still to be told."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import current_token

from teeny_async.store.base import OnFault

T = TypeVar("T")


class Opening(Generic[T]):
    """What the openers of a store use together: made for the first of them, let go by the last.

    Sessions of different event loops come here from different threads.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self.current: T | None = None

    def join(self) -> T:
        with self._lock:
            if self.current is None:
                self.current = self._make()
            self._users += 1
            return self.current

    def leave(self) -> T | None:
        """What is to be closed, when the last user has left."""
        with self._lock:
            if self.current is None:
                return None
            self._users -= 1
            if self._users:
                return None
            left, self.current = self.current, None
            return left


@dataclass(slots=True, eq=False)  # two openers may look alike
class _Opener:
    task: int
    loop: object
    on_fault: OnFault
    untold: deque[tuple[str, str]] = field(default_factory=deque)


class Openers:
    """Who has a store open. A fault is a fact about the store, so all of them are told.

    Each is told in its own event loop: when an operation of that loop ends, by `deliver`.
    """

    def __init__(self) -> None:
        self._openers: list[_Opener] = []

    def __len__(self) -> int:
        return len(self._openers)

    def join(self, on_fault: OnFault) -> None:
        """The current task opens the store."""
        self._openers.append(_Opener(anyio.get_current_task().id, current_token().native_token, on_fault))

    def leave(self) -> None:
        """The current task closes the store: of those it has opened, the latest.

        A session is opened and closed in one task, since it holds a task group; and sessions of one
        task nest. So this is the opener that joined with the same session.
        """
        task, loop = anyio.get_current_task().id, current_token().native_token
        mine = [opener for opener in self._openers if opener.task == task and opener.loop is loop]
        if mine or self._openers:
            self._openers.remove((mine or self._openers)[-1])

    def tell(self, operation: str, message: str) -> None:
        """Note a fault for everybody; from any thread."""
        for opener in tuple(self._openers):
            opener.untold.append((operation, message))

    def deliver(self) -> None:
        """Pass on what is untold to the openers of the current event loop."""
        loop = current_token().native_token
        for opener in tuple(self._openers):
            while opener.loop is loop and opener.untold:
                opener.on_fault(*opener.untold.popleft())
