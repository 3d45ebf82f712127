"""What came of a tuning run, in text: the winners as a table, and what failed. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from teeny_async.report.grid import Cell, Grid
from teeny_async.report.style import styled
from teeny_async.report.text import plural, seconds_text, without_numbers
from teeny_async.tuning.result import TuneResult, config_text, target_names, tied, value_text
from teeny_async.tuning.verdict import Verdict

_MAX_FAILURES = 5


def winner_lines(result: TuneResult, *, color: bool) -> Iterator[str]:
    """One line for each kernel and target. A value that is an estimate says so, and so do ties.

    The configuration comes last: it is what may be too long for a line.
    """
    names = target_names(result.places)
    many = len({kernel for kernel, _ in result.places}) > 1
    grid = Grid([*(["kernel"] if many else []), "target", "value", "objective", ">ties", "best configuration"])
    for kernel, target in result.places:
        first = [*([Cell(kernel)] if many else []), Cell(names[target])]
        found = result.ranked(target, kernel)
        if not found:
            grid.add([*first, Cell("-"), Cell("-"), Cell("-"), Cell("nothing has a value", "red")])
            continue
        best, ties = found[0], len(tied(found)) - 1
        label = f"{best.goal.label}" + (" (measured)" if best.goal.measured else "")
        count = Cell(str(ties) if ties else "none")
        grid.add([*first, Cell(value_text(best)), Cell(label), count, Cell(config_text(best.config), "green")])
    yield from grid.lines(color=color, width=None)


def failed_lines(result: TuneResult, *, color: bool) -> Iterator[str]:
    """What kept configurations from having a value, the most frequent first, with an example of each."""
    groups = failure_groups(result.verdicts)
    for members in groups[:_MAX_FAILURES]:
        first = members[0]
        kind = styled(str((first.failure or {}).get("kind")), "bold red", color)
        place = f"{first.target.partition('@')[0]} {config_text(first.config)}"
        yield f"{len(members):,} x {kind}: {first_message(first)} (as {place})"
    if len(groups) > _MAX_FAILURES:
        yield f"and {plural(len(groups) - _MAX_FAILURES, 'more kind')} of failure; see the report"


def failure_groups(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Failed verdicts that say the same but for its numbers, the most frequent first."""
    groups: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.failure is not None:
            groups[str(verdict.failure.get("kind")), without_numbers(first_message(verdict))].append(verdict)
    return sorted(groups.values(), key=lambda members: -len(members))


def first_message(verdict: Verdict) -> str:
    """What was said of a failure first, on one line."""
    failure = verdict.failure or {}
    for diagnostic in failure.get("diagnostics") or ():
        if diagnostic.get("severity") in ("error", "fatal error", "fatal"):
            return " ".join(str(diagnostic.get("message")).split())
    return " ".join(str(failure.get("message", "")).split())


def closing_line(result: TuneResult) -> str:
    """As in "200 configurations (180 with a value) in 16.4 s: 11.4 s of compiling, 9.50 s of measuring"."""
    stats = result.stats
    tried = {(v.kernel, v.target, v.config) for v in result.verdicts}
    ranked = sum(len(result.ranked(target, kernel)) for kernel, target in result.places)
    line = plural(len(tried), "configuration") + (f" ({ranked:,} with a value)" if ranked != len(tried) else "")
    line += f" in {seconds_text(result.elapsed)}: {seconds_text(stats['compile_seconds'])} of compiling"
    return line + (f", {seconds_text(stats['measure_seconds'])} of measuring" if stats["measure_seconds"] else "")
