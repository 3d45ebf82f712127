"""Slots and memory: how many, in which order, who runs alone, and that nobody waits for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from teeny_async.pipeline.admission import Admission, Ticket


def need(work: Any, _budget: int | None) -> int:
    return int(work or 0)


class Recorder:
    """Starts of tickets, in order. Their work is the bytes they need."""

    def __init__(self, jobs: int, budget: int | None = None) -> None:
        self.admission = Admission(jobs, need)
        self.admission.resize(budget)
        self.started: list[str] = []
        self.tickets: dict[str, Ticket] = {}

    def ask(self, name: str, *, rank: float = 0.0, alone: bool = False, memory: int = 0) -> None:
        self.tickets[name] = self.admission.submit(
            lambda: self.started.append(name), rank=rank, alone=alone, work=memory
        )

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


def test_of_those_gathered_the_first_by_rank_starts_first() -> None:
    slots = Recorder(1)
    with slots.admission.gathering():
        slots.ask("short", rank=-1.0)
        slots.ask("long", rank=-9.0)
        assert slots.started == []
    assert slots.started == ["long"]


def test_alone_means_nothing_beside_it() -> None:
    slots = Recorder(2)
    slots.ask("a")
    slots.ask("alone", alone=True)
    slots.end("a")
    assert slots.started == ["a", "alone"]
    slots.ask("b")
    assert slots.started == ["a", "alone"]
    slots.end("alone")
    assert slots.started == ["a", "alone", "b"]


def test_one_that_runs_alone_is_passed_by_so_many_and_no_more() -> None:
    slots = Recorder(2)
    slots.ask("0")
    slots.ask("alone", alone=True)
    for number in range(1, 20):
        slots.ask(str(number))
    for name in map(str, range(20)):
        if name not in slots.started:
            break
        slots.end(name)
    assert slots.started.index("alone") == slots.admission.bypasses + 1


def test_the_machine_is_emptied_once_for_all_who_run_alone() -> None:
    slots = Recorder(4)
    for name in "abc":
        slots.ask(name)
    slots.ask("alone 1", alone=True)
    slots.ask("alone 2", alone=True)
    for name in "abc":
        slots.end(name)
    assert slots.started[3:] == ["alone 1"]
    slots.ask("d")
    slots.end("alone 1")
    assert slots.started[3:] == ["alone 1", "alone 2"]
    slots.end("alone 2")
    assert slots.started[3:] == ["alone 1", "alone 2", "d"]


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
    slots.admission.withdraw(slots.tickets["alone"])
    for number in range(10):
        slots.ask(str(number))
        slots.end(slots.started[-1])
    assert slots.started == ["a", *map(str, range(10))]


# Memory


def test_no_more_than_the_budget_is_expected_to_be_held() -> None:
    slots = Recorder(8, budget=1000)
    for name in "abcd":
        slots.ask(name, memory=400)
    assert slots.started == ["a", "b"]
    assert slots.admission.charged == 800
    slots.end("a")
    assert slots.started == ["a", "b", "c"]


def test_one_always_runs_however_large() -> None:
    slots = Recorder(8, budget=1000)
    slots.ask("large", memory=5000)
    slots.ask("larger", memory=9000)
    assert slots.started == ["large"]
    slots.end("large")
    assert slots.started == ["large", "larger"]


def test_a_small_one_passes_a_large_one_that_waits_for_memory() -> None:
    slots = Recorder(8, budget=1000)
    slots.ask("a", memory=600)
    slots.ask("large", memory=800)
    slots.ask("small", memory=100)
    assert slots.started == ["a", "small"]


def test_a_large_one_is_passed_by_so_many_and_no_more() -> None:
    slots = Recorder(2, budget=1000)
    slots.ask("0", memory=300)
    slots.ask("large", memory=900)
    for number in range(1, 50):
        slots.ask(str(number), memory=300)
    running = 0
    while "large" not in slots.started:
        slots.end(slots.started[running])
        running += 1
    assert slots.started.index("large") <= slots.admission.bypasses + 1


def test_the_need_is_asked_when_the_turn_comes() -> None:
    """A thousand wait with what was guessed; the first to end teaches what they need."""
    known = {"kind": 1000}
    admission = Admission(8, lambda work, _: known[work])
    admission.resize(1000)
    started: list[int] = []
    tickets = [admission.submit(lambda n=number: started.append(n), work="kind") for number in range(20)]  # type: ignore[misc]
    assert started == [0]
    known["kind"] = 250
    admission.release(tickets[0])
    assert started == [0, 1, 2, 3, 4]


def test_one_that_outgrows_its_charge_holds_the_next_back() -> None:
    slots = Recorder(8, budget=1000)
    slots.ask("a", memory=300)
    slots.admission.grow(slots.tickets["a"], 900)
    slots.ask("b", memory=300)
    assert slots.started == ["a"]
    slots.end("a")
    assert slots.started == ["a", "b"]
    assert slots.admission.charged == 300
    assert slots.admission.most_charged == 900
    slots.admission.grow(slots.tickets["a"], 5000)
    assert slots.admission.charged == 300, "it has ended"


def test_a_budget_that_grows_lets_more_in() -> None:
    slots = Recorder(8, budget=500)
    for name in "abc":
        slots.ask(name, memory=400)
    slots.admission.resize(800)
    assert slots.started == ["a", "b"]
    slots.admission.resize(None)
    assert slots.started == ["a", "b", "c"]


@settings(max_examples=200, deadline=None)
@given(
    jobs=st.integers(1, 6),
    budget=st.none() | st.integers(1, 2000),
    asked=st.lists(st.tuples(st.integers(0, 1500), st.booleans(), st.integers(-3, 3)), max_size=60),
    seed=st.integers(0, 1 << 16),
)
def test_everyone_starts_once_and_within_the_bounds(
    jobs: int, budget: int | None, asked: list[tuple[int, bool, int]], seed: int
) -> None:
    slots = Recorder(jobs, budget)
    chosen = random.Random(seed)
    running: list[str] = []
    pending = [(str(number), *one) for number, one in enumerate(asked)]

    def check() -> None:
        running.extend(slots.started[len(running) + ended :])
        admission = slots.admission
        assert admission.running == len(running) <= jobs
        assert admission.charged == sum(slots.tickets[name].charge for name in running)
        assert budget is None or admission.charged <= budget or len(running) == 1
        assert not any(slots.tickets[name].alone for name in running) or len(running) == 1

    ended = 0
    while pending or running:
        if pending and (not running or chosen.random() < 0.6):
            name, memory, alone, rank = pending.pop()
            # The ticket is wanted in `check`, which `start` precedes.
            slots.ask(name, memory=memory, alone=alone, rank=rank)
        else:
            slots.end(running.pop(chosen.randrange(len(running))))
            ended += 1
        check()
    assert sorted(slots.started) == sorted(str(number) for number in range(len(asked)))


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_long_line_behind_one_that_waits_for_memory_is_not_searched_to_its_end(jobs: int) -> None:
    asked = 0

    def counted(work: Any, _budget: int | None) -> int:
        nonlocal asked
        asked += 1
        return int(work)

    admission = Admission(jobs + 1, counted)
    admission.resize(1000)
    for _ in range(5000):
        admission.submit(lambda: None, work=900)
    assert asked < 5000 * 40
