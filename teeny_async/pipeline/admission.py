"""Admission: who may run now. Synchronous decisions; nothing here waits.

A ticket stands for one run of a tool. `submit` starts it at once or later; `release` gives its slot back,
which may start others. A slot is held only while a process exists: not while a retry backs off, not while
a duplicate waits.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, order=True)
class Ticket:
    """A wish to run. Lower `rank` goes first, then first come, first served.

    alone: run with nothing beside it. start: called, once, when the slot is there.
    """

    rank: float
    number: int
    start: Callable[[], None] = field(compare=False)
    alone: bool = field(default=False, compare=False)
    withdrawn: bool = field(default=False, compare=False)
    running: bool = field(default=False, compare=False)


class Admission:
    """`jobs` slots. A ticket that runs alone waits until all are free, and holds the later ones back."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.running = 0
        self._alone = False
        self._waiting: list[Ticket] = []
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, start: Callable[[], None], *, rank: float = 0.0, alone: bool = False) -> Ticket:
        """Ask for a slot; `start` may be called before this returns."""
        ticket = Ticket(rank, next(self._numbers), start, alone)
        heapq.heappush(self._waiting, ticket)
        self._admit()
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Give up a ticket, whether it waits or runs."""
        if ticket.running:
            self.release(ticket)
        else:
            ticket.withdrawn = True
            self._admit()  # it may have been what held the others back

    def release(self, ticket: Ticket) -> None:
        """The process is gone: give the slot back."""
        ticket.running = False
        self.running -= 1
        if ticket.alone:
            self._alone = False
        self._admit()

    def close(self) -> None:
        """Start nobody any more."""
        self._waiting.clear()
        self.jobs = 0

    def _admit(self) -> None:
        # `start` may submit or release in turn; the loop reads the state anew each time round.
        while self._waiting:
            ticket = self._waiting[0]
            if ticket.withdrawn:
                heapq.heappop(self._waiting)
                continue
            if self._alone or self.running >= self.jobs or (ticket.alone and self.running):
                return
            heapq.heappop(self._waiting)
            self.running += 1
            self._alone = ticket.alone
            ticket.running = True
            ticket.start()
