"""The table of a run, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.model import UNITS, Metric
from benchmarks.results import CaseResult, Outcome, RowResult, Spread

_WIDTH = 118


def table(results: Sequence[RowResult]) -> Iterator[str]:
    """All rows: for each case its contestants, then its goals; at the end what ran."""
    for result in results:
        yield "=" * _WIDTH
        yield f"{result.row.id}: {result.row.title}"
        if result.error:
            yield f"  ERROR {result.error}"
        for case in result.cases:
            yield from _case(case)
    yield "=" * _WIDTH
    yield from _verdicts(results)
    yield ""
    yield "What ran"
    for result in results:
        yield from _commands(result)


def _case(result: CaseResult) -> Iterator[str]:
    case = result.case
    main, *others = case.metrics
    rounds = max((len(outcome.samples) for outcome in result.outcomes.values()), default=0)
    yield "-" * _WIDTH
    yield f"  {case.title}  [{rounds} rounds]"
    yield f"    {'':36} {main.label:>28}   {'x ' + case.base:>26}   also"
    for outcome in result.outcomes.values():
        yield _contestant(result, outcome, main, others)
    for goal in case.goals:
        found = result.measure(goal)
        unit = "x" if goal.how in ("ratio", "below") else goal.metric.unit
        verdict = {True: "met", False: "NOT MET", None: "not measured"}[result.met(goal)]
        measured = "" if found is None else number(found, unit)
        yield f"    goal  {goal.text:68} {measured:>26}  {verdict}"


def _contestant(result: CaseResult, outcome: Outcome, main: Metric, others: Sequence[Metric]) -> str:
    name = outcome.contestant.name
    if not outcome.samples:
        return f"    {name:36} {outcome.trouble}"
    found = result.spread(name, main.key)
    ratio = result.compare(name, main.key, result.case.base) if name != result.case.base else None
    also = [
        f"{metric.label} {number(spread, metric.unit, brief=True)}"
        for metric in others
        if (spread := result.spread(name, metric.key)) is not None
    ]
    measured = "" if found is None else number(found, main.unit)
    compared = number(ratio, "x") if ratio is not None else "1" if name == result.case.base else ""
    return f"    {name:36} {measured:>28}   {compared:>26}   {', '.join(also)}".rstrip()


def number(spread: Spread, unit: str, *, brief: bool = False) -> str:
    """A median with its unit and, unless `brief`, its spread."""
    median, low, high = (value * UNITS[unit] for value in (spread.median, spread.low, spread.high))
    text = f"{_figure(median)}{'' if unit == 'x' else ' '}{unit}".rstrip()
    return text if brief else f"{text} ({_figure(low)}..{_figure(high)})"


def _figure(value: float) -> str:
    """Three significant figures."""
    size = abs(value)
    if size >= 100 or size == int(size):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def _verdicts(results: Sequence[RowResult]) -> Iterator[str]:
    verdicts = [case.met(goal) for result in results for case in result.cases for goal in case.case.goals]
    met, missed, open_ = (verdicts.count(value) for value in (True, False, None))
    yield f"goals: {met} met, {missed} not met, {open_} not measured"


def _commands(result: RowResult) -> Iterator[str]:
    seen: set[str] = set()
    for case in result.cases:
        for outcome in case.outcomes.values():
            who = outcome.contestant
            if who.name in seen:
                continue
            seen.add(who.name)
            version = f" [{who.version}]" if who.version else ""
            note = f"  ({outcome.trouble})" if outcome.trouble else ""
            yield f"  {result.row.id:12} {who.name}{version}: {who.command}{note}"
