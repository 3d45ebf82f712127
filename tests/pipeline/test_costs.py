"""What earlier compiles tell of later ones, and the note it is kept in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from teeny_async import CompileRequest, Kernel, Target
from teeny_async.pipeline.costs import (
    DEFAULT_PEAK,
    MARGIN,
    PACE_LEAST,
    PACE_SAMPLES,
    Learned,
    Work,
    read_note,
    work_of,
    write_note,
)

MIB = 1 << 20


def work(kernel: str = "k", tool: str = "zig", target: str = "sm_90", source: str = "", **options: Any) -> Work:
    request = CompileRequest(Kernel(name=kernel, source=source, language="c"), Target.parse(target), **options)
    assert request.target is not None
    return work_of(request, tool, request.target)


# Memory


def test_a_tool_that_was_never_seen_is_expected_to_need_a_lot_but_two_are_tried_at_once() -> None:
    learned = Learned()
    assert learned.memory(work(), None) == DEFAULT_PEAK
    assert learned.memory(work(), 64 << 30) == DEFAULT_PEAK
    assert learned.memory(work(), 2 * DEFAULT_PEAK - 2) == DEFAULT_PEAK - 1
    assert learned.memory(work(tool="nvcc"), None) > DEFAULT_PEAK


def test_a_kernels_own_peak_is_expected_and_for_a_new_kernel_the_tools() -> None:
    learned = Learned()
    learned.succeeded(work("large"), 1.0, 800 * MIB)
    learned.succeeded(work("small"), 1.0, 100 * MIB)
    assert learned.memory(work("large"), None) == int(800 * MIB * MARGIN)
    assert learned.memory(work("small"), None) == int(100 * MIB * MARGIN)
    assert 100 * MIB < learned.memory(work("new"), None) <= int(800 * MIB * MARGIN)
    assert learned.memory(work("large", tool="rustc"), None) == DEFAULT_PEAK


def test_an_odd_peak_is_forgotten_in_time_and_a_larger_one_taken_up_at_once() -> None:
    learned = Learned()
    learned.succeeded(work(), 1.0, 1000 * MIB)
    for _ in range(40):
        learned.succeeded(work(), 1.0, 100 * MIB)
    assert learned.memory(work(), None) < 120 * MIB * MARGIN
    learned.succeeded(work(), 1.0, 1000 * MIB)
    assert learned.memory(work(), None) == int(1000 * MIB * MARGIN)


def test_what_a_running_one_holds_is_the_least_that_its_like_need() -> None:
    learned = Learned()
    learned.holds(work("a"), 3 * DEFAULT_PEAK)
    assert learned.memory(work("b"), None) == int(3 * DEFAULT_PEAK * MARGIN)
    learned.succeeded(work("a"), 1.0, 4 * DEFAULT_PEAK)
    learned.holds(work("a"), 10 * MIB)
    assert learned.memory(work("a"), None) == int(4 * DEFAULT_PEAK * MARGIN), "less than is known says nothing"


def test_little_held_by_one_that_still_runs_does_not_make_a_tool_known() -> None:
    learned = Learned()
    learned.holds(work(), 10 * MIB)
    assert learned.memory(work(), None) == DEFAULT_PEAK


@pytest.mark.parametrize("known", [True, False])
def test_a_kill_for_memory_raises_what_is_expected_of_all_its_like(known: bool) -> None:
    learned = Learned()
    if known:
        learned.succeeded(work("k"), 1.0, 300 * MIB)
    before = learned.memory(work("k"), None)
    others = learned.memory(work("other"), None)
    learned.killed(work("k"), 50 * MIB, before)
    assert learned.memory(work("k"), None) > before
    assert learned.memory(work("other"), None) > others


# Time


def test_time_goes_by_the_finest_name_that_is_known() -> None:
    learned = Learned()
    learned.succeeded(work("k", params={"N": 1}, source="`N`"), 1.0, 0)
    learned.succeeded(work("k", params={"N": 64}, source="`N`"), 9.0, 0)
    learned.succeeded(work("other"), 30.0, 0)
    assert learned.seconds(work("k", params={"N": 64}, source="edited `N`")) == 9.0
    assert learned.seconds(work("k", params={"N": 2}, source="`N`")) == 5.0
    assert learned.seconds(work("k", target="sm_80")) == 5.0
    assert learned.seconds(work("new")) == pytest.approx((5 + 30) / 2)
    assert learned.seconds(work("new", target="znver4")) is None
    assert learned.seconds(work("k", tool="rustc")) is None


def test_the_text_of_a_kernel_is_no_part_of_a_name() -> None:
    """What is compiled has a key that was never seen: by the key, nothing would ever be known."""
    assert work(source="one") == work(source="two")
    assert work(flags=("-g",)).shapes[0] != work().shapes[0]
    assert work(flags=("-g",)).shapes[1:] == work().shapes[1:]


def test_a_pace_takes_enough_times_and_leaves_the_slowest_tenth_out() -> None:
    learned = Learned()
    for number in range(PACE_LEAST - 1):
        learned.succeeded(work(), 1.0 + number, 0)
    assert learned.pace(work()) is None
    learned.succeeded(work("another kernel"), 500.0, 0)
    assert learned.pace(work()) == 15.0
    assert learned.pace(work(target="sm_80")) is None


# The note


def note_of(learned: Learned, there: str | None = None) -> dict[str, Any]:
    return dict(json.loads(learned.merged(there)))


def again(text: str) -> Learned:
    learned = Learned()
    learned.load(text)
    return learned


def test_a_second_session_knows_what_the_first_one_learned() -> None:
    first = Learned()
    for number in range(PACE_LEAST):
        first.succeeded(work(f"k{number}"), 2.0 + number, (100 + number) * MIB)
    before = first.changed
    second = again(first.merged(None))
    assert (before, first.changed) == (True, False)
    for number in (0, 9):
        assert second.memory(work(f"k{number}"), None) == first.memory(work(f"k{number}"), None)
        assert second.seconds(work(f"k{number}")) == first.seconds(work(f"k{number}"))
    assert second.pace(work()) == first.pace(work())
    assert not second.changed


def test_two_sessions_that_end_at_about_the_same_time_both_leave_what_they_learned() -> None:
    base = Learned()
    base.succeeded(work("both"), 1.0, 100 * MIB)
    text = base.merged(None)
    one, two = again(text), again(text)
    one.succeeded(work("one"), 4.0, 200 * MIB)
    one.succeeded(work("both"), 1.0, 900 * MIB)
    two.succeeded(work("two"), 8.0, 300 * MIB)
    two.succeeded(work("both"), 1.0, 110 * MIB)
    after = again(two.merged(one.merged(text)))
    assert after.seconds(work("one")) == 4.0
    assert after.seconds(work("two")) == 8.0
    assert after.memory(work("both"), None) == int(900 * MIB * MARGIN), "the larger is the safer"


def test_alone_a_session_may_lower_a_peak() -> None:
    base = Learned()
    base.succeeded(work(), 1.0, 800 * MIB)
    text = base.merged(None)
    later = again(text)
    later.succeeded(work(), 1.0, 100 * MIB)
    assert again(later.merged(text)).memory(work(), None) < int(800 * MIB * MARGIN)


def test_the_note_stays_small_and_keeps_the_newest() -> None:
    learned = Learned()
    text = None
    for number in range(6000):
        learned.succeeded(
            work(f"kernel {number}", target=f"sm_{80 + number % 10}@nvptx64-{number}"), number % 900, MIB * 200
        )
        if number % 1000 == 999:
            text = learned.merged(text)
    assert text is not None
    assert len(text) < 150_000
    found = again(text)
    assert found.seconds(work("kernel 5999", target="sm_89@nvptx64-5999")) == 5999 % 900
    for _ in range(200):
        learned.succeeded(work(), 1.0, 0)
    assert len(read_note(learned.merged(text)).paces[work().pace]) == PACE_SAMPLES


GARBAGE = [
    *(None, "", "{", "[]", "null", "3", '"text"', "[" * 100_000, '{"schema": 99, "peaks": {"zig": 5}}'),
    '{"schema": 1, "peaks": [], "seconds": 3, "paces": {"zig": 3}}',
    '{"schema": 1, "peaks": {"zig": -1, "a": true, "b": "c", "d": 1e400, "e": 1.5}, "seconds": {"x": NaN, "y": []}}',
]


@pytest.mark.parametrize("text", GARBAGE)
def test_a_note_that_is_no_note_teaches_nothing(text: str | None) -> None:
    learned = again(text or "")
    assert learned.memory(work(), None) == DEFAULT_PEAK
    assert learned.seconds(work()) is None
    learned.succeeded(work(), 1.0, 100 * MIB)
    assert note_of(learned, text)["peaks"]["zig"] == 100 * MIB


def test_what_is_sound_in_a_damaged_note_is_kept() -> None:
    costs = read_note('{"schema": 1, "peaks": {"zig": 7, "a": null}, "seconds": {}, "paces": {"p": [1, "x", 2.5]}}')
    assert costs.peaks == {"zig": 7}
    assert costs.paces == {"p": [1.0, 2.5]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.fixed_dictionaries({"schema": st.just(1), "peaks": JSON, "seconds": JSON, "paces": JSON}))
def test_any_json_is_read_and_written_again(data: dict[str, Any]) -> None:
    costs = read_note(json.dumps(data))
    assert read_note(write_note(costs)) == costs
