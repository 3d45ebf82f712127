"""Running rows: each round gives every contestant one turn, so that a busy moment hits them all alike."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.measure import Broken
from benchmarks.model import Case, Context, Row
from benchmarks.results import CaseResult, Outcome, RowResult

Say = Callable[[str], None]


def run_row(row: Row, context: Context, rounds: int, say: Say) -> RowResult:
    """Every case of a row. What goes wrong is in the result; the next row is run all the same."""
    result = RowResult(row)
    began = time.monotonic()
    try:
        for case in row.cases(context):
            say(f"{row.id}: {case.title}")
            result.cases.append(run_case(case, rounds, say))
    except Exception as error:  # noqa: BLE001  # whatever it is, the other rows are worth having
        result.error = f"{type(error).__name__}: {error}"
        say(f"{row.id}: {result.error}")
    result.seconds = time.monotonic() - began
    return result


def run_case(case: Case, rounds: int, say: Say) -> CaseResult:
    """All rounds of a case; who starts changes from round to round."""
    outcomes = {
        contestant.name: Outcome(contestant, trouble=contestant.absent and f"absent: {contestant.absent}")
        for contestant in case.contestants
    }
    here = [outcome for outcome in outcomes.values() if outcome.trouble is None]
    for number in range(min(rounds, case.rounds or rounds)):
        start = number % len(here) if here else 0
        for outcome in (*here[start:], *here[:start]):
            if outcome.trouble is None:
                _take_turn(outcome, say)
    return CaseResult(case, outcomes)


def _take_turn(outcome: Outcome, say: Say) -> None:
    run = outcome.contestant.run
    assert run is not None, f"{outcome.contestant.name} has neither a `run` nor a reason for its absence"
    try:
        outcome.samples.append(run())
    except (Broken, OSError) as error:
        outcome.trouble = f"failed: {error}"
        say(f"  {outcome.contestant.name} {outcome.trouble}")
