"""Admission: who may run now. Synchronous decisions; nothing here waits.

A ticket stands for one run of a toolchain. `submit` starts it at once or later; `release` gives its slot
back, which may start others. A slot is held only while a process exists: not while a retry backs off, not
while a duplicate waits.

A ticket starts when there is a slot and when the memory it is expected to need is there:

* What a running ticket is expected to need (its *charge*) is taken off the budget until it ends. What a
  waiting one will need is asked for when its turn comes, not when it was submitted: the first compile that
  ends teaches something about the thousand behind it.
* When nothing runs, the first in line starts whatever it needs: one always runs.
* While the first in line waits for memory, smaller ones may start past it, but only so many (`bypasses`):
  after that, nothing starts before it does.
* A ticket that runs alone waits in a line of its own until nothing runs, and is passed by so many at most,
  too. When everything has stopped for one, the others in that line follow it at once: the machine is
  emptied once for all of them, not for each.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_LOOK_AHEAD = 32
"""Tickets behind one that waits for memory that are looked at for a smaller one."""


@dataclass(slots=True, order=True)
class Ticket:
    """A wish to run. Lower `rank` goes first, then first come, first served.

    alone: run with nothing beside it. start: called, once, when it may run. work: what `Admission` asks the
    need of. charge: bytes it holds of the budget while it runs. passed: how many started past it.
    """

    rank: float
    number: int
    start: Callable[[], None] = field(compare=False)
    alone: bool = field(default=False, compare=False)
    work: Any = field(default=None, compare=False)
    charge: int = field(default=0, compare=False)
    passed: int = field(default=0, compare=False)
    withdrawn: bool = field(default=False, compare=False)
    running: bool = field(default=False, compare=False)


class Admission:
    """`jobs` slots and, where `budget` is not None, so many bytes.

    need: bytes that a ticket's work is expected to hold, given the budget. charged: bytes that the running
    ones are expected to hold together. most_running, most_charged: the highest they were.
    """

    def __init__(self, jobs: int, need: Callable[[Any, int | None], int] = lambda _work, _budget: 0) -> None:
        self.jobs = jobs
        self.budget: int | None = None
        self.bypasses = 2 * jobs
        self.running = 0
        self.charged = 0
        self.most_running = 0
        self.most_charged = 0
        self._need = need
        self._alone = False
        self._emptied = False
        self._gathering = False
        self._waiting: list[Ticket] = []
        self._loners: list[Ticket] = []
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        """Tickets that wait, withdrawn ones that were not yet met included."""
        return len(self._waiting) + len(self._loners)

    def submit(self, start: Callable[[], None], *, rank: float = 0.0, alone: bool = False, work: Any = None) -> Ticket:
        """Ask for a slot; `start` may be called before this returns."""
        ticket = Ticket(rank, next(self._numbers), start, alone, work)
        heapq.heappush(self._loners if alone else self._waiting, ticket)
        self._admit()
        return ticket

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Start nobody until the block ends, so that the first by rank of all submitted in it is first."""
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            self._admit()

    def withdraw(self, ticket: Ticket) -> None:
        """Give up a ticket, whether it waits or runs."""
        if ticket.running:
            self.release(ticket)
        else:
            ticket.withdrawn = True
            self._admit()  # it may have been what held the others back

    def release(self, ticket: Ticket) -> None:
        """The process is gone: give the slot and the memory back."""
        ticket.running = False
        self.running -= 1
        self.charged -= ticket.charge
        if ticket.alone:
            self._alone = False
        self._admit()

    def grow(self, ticket: Ticket, held: int) -> None:
        """A running ticket holds more than was expected of it."""
        if ticket.running and held > ticket.charge:
            self._charge(ticket, held)

    def resize(self, budget: int | None) -> None:
        """There is more memory now, or less; less stops nobody who runs."""
        self.budget = budget
        self._admit()

    def close(self) -> None:
        """Start nobody any more."""
        self._waiting.clear()
        self._loners.clear()
        self.jobs = 0

    def _admit(self) -> None:
        # `start` may submit or release in turn; the loop reads the state anew each time round.
        while not self._gathering and not self._alone and self.running < self.jobs:
            ticket = self._next()
            if ticket is None:
                return
            self.running += 1
            self._charge(ticket, self._need(ticket.work, self.budget))
            self.most_running = max(self.most_running, self.running)
            self._alone = self._emptied = ticket.alone
            ticket.running = True
            ticket.start()

    def _charge(self, ticket: Ticket, charge: int) -> None:
        self.charged += charge - ticket.charge
        ticket.charge = charge
        self.most_charged = max(self.most_charged, self.charged)

    def _next(self) -> Ticket | None:
        """The ticket to start now, taken out of its line; None while nobody may."""
        loner = _first(self._loners)
        first = _first(self._waiting)
        if loner is not None and (first is None or self._emptied or loner.passed >= self.bypasses):
            return heapq.heappop(self._loners) if not self.running else None
        found = self._fitting(first) if first is not None else None
        if found is not None and loner is not None:
            loner.passed += 1
        return found

    def _fitting(self, first: Ticket) -> Ticket | None:
        """The first in line, or a smaller one that may pass it; None when no one fits."""
        if self._fits(first):
            return heapq.heappop(self._waiting)
        if first.passed >= self.bypasses:
            return None
        looked_at = [heapq.heappop(self._waiting)]
        found = None
        while self._waiting and len(looked_at) < _LOOK_AHEAD:
            ticket = heapq.heappop(self._waiting)
            if not ticket.withdrawn and self._fits(ticket):
                found = ticket
                first.passed += 1
                break
            looked_at.append(ticket)
        for ticket in looked_at:
            heapq.heappush(self._waiting, ticket)
        return found

    def _fits(self, ticket: Ticket) -> bool:
        if self.budget is None or not self.running:
            return True
        return self.charged + self._need(ticket.work, self.budget) <= self.budget


def _first(line: list[Ticket]) -> Ticket | None:
    """The first of a line, once those that were withdrawn are out of its way."""
    while line and line[0].withdrawn:
        heapq.heappop(line)
    return line[0] if line else None
