"""The sessions that share one store object, and what each is still to be told."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import current_token

from teeny_async.store.base import OnFault


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
