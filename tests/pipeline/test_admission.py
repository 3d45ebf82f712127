"""Slots: how many, in which order, and who runs alone."""

from __future__ import annotations

from teeny_async.pipeline.admission import Admission, Ticket


class Recorder:
    """Starts of tickets, in order."""

    def __init__(self, jobs: int) -> None:
        self.admission = Admission(jobs)
        self.started: list[str] = []
        self.tickets: dict[str, Ticket] = {}

    def ask(self, name: str, *, rank: float = 0.0, alone: bool = False) -> None:
        self.tickets[name] = self.admission.submit(lambda: self.started.append(name), rank=rank, alone=alone)

    def end(self, name: str) -> None:
        self.admission.release(self.tickets[name])


def test_no_more_than_jobs_run_and_the_rest_follow_in_order() -> None:
    slots = Recorder(2)
    for name in "abcd":
        slots.ask(name)
    assert slots.started == ["a", "b"]
    slots.end("b")
    assert slots.started == ["a", "b", "c"]
    slots.end("a")
    slots.end("c")
    assert slots.started == ["a", "b", "c", "d"]
    slots.end("d")
    assert slots.admission.running == 0


def test_a_lower_rank_goes_first() -> None:
    slots = Recorder(1)
    for name, rank in (("first", 0.0), ("short", -1.0), ("long", -9.0)):
        slots.ask(name, rank=rank)
    slots.end("first")
    slots.end("long")
    assert slots.started == ["first", "long", "short"]


def test_alone_means_nothing_beside_it() -> None:
    slots = Recorder(3)
    slots.ask("a")
    slots.ask("alone", alone=True)
    slots.ask("b")
    assert slots.started == ["a"]
    slots.end("a")
    assert slots.started == ["a", "alone"]
    slots.end("alone")
    assert slots.started == ["a", "alone", "b"]


def test_a_withdrawn_ticket_never_starts_and_one_that_runs_frees_its_slot() -> None:
    slots = Recorder(1)
    for name in "abc":
        slots.ask(name)
    slots.admission.withdraw(slots.tickets["b"])
    slots.admission.withdraw(slots.tickets["a"])
    assert slots.started == ["a", "c"]


def test_a_withdrawn_ticket_that_would_run_alone_holds_nobody_back() -> None:
    slots = Recorder(2)
    slots.ask("a")
    slots.ask("alone", alone=True)
    slots.ask("b")
    slots.admission.withdraw(slots.tickets["alone"])
    assert slots.started == ["a", "b"]
