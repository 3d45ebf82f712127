"""The circuit breaker, on a clock of the test's own."""

from __future__ import annotations

from teeny_async.store.remote_breaker import Breaker


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    assert [breaker.failed(at, "no") for _ in range(3)] == [False, False, True]
    return breaker


def test_three_failures_in_a_row_open_it() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(0, "no")
        breaker.failed(0, "no")
        breaker.succeeded()
    assert breaker.state(0) == "closed"
    breaker = opened()
    assert breaker.state(29.9) == "open"
    assert breaker.reason == "no"


def test_one_caller_tries_when_the_pause_is_over() -> None:
    breaker = opened()
    assert [breaker.state(30), breaker.state(30), breaker.state(99)] == ["try", "open", "open"]
    breaker.succeeded()
    assert breaker.state(30) == "closed"
    assert breaker.reason is None


def test_each_pause_is_twice_the_one_before_and_warns_no_more() -> None:
    breaker, now = opened(), 0.0
    for pause in (30, 60, 120, 240, 480, 600, 600):
        assert breaker.state(now + pause - 0.1) == "open"
        now += pause
        assert breaker.state(now) == "try"
        assert not breaker.failed(now, "still no")


def test_one_that_fails_again_soon_is_left_alone_longer() -> None:
    breaker = opened()
    assert breaker.state(30) == "try"
    breaker.succeeded()
    assert breaker.trip(31, "slow")
    assert breaker.state(31 + 59) == "open"
    assert breaker.state(31 + 60) == "try"
    breaker.succeeded()
    for _ in range(1000):
        breaker.succeeded()
    assert breaker.trip(200, "slow")
    assert breaker.state(230) == "try"


def test_what_was_asked_before_it_opened_changes_nothing() -> None:
    breaker = opened()
    assert not breaker.failed(5, "late")
    breaker.succeeded()
    assert breaker.state(29) == "open"
    assert breaker.state(30) == "try"


def test_it_trips_at_once() -> None:
    breaker = Breaker()
    assert breaker.trip(0, "forbidden")
    assert not breaker.trip(0, "forbidden")
    assert breaker.is_open
