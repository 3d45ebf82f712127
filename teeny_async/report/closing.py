"""The last words of a run, in plain text: what failed and why, the counts, and how busy the slots were."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from teeny_async.failures import FailureKind
from teeny_async.pipeline.stats import CompilerStats
from teeny_async.report.style import styled
from teeny_async.report.summary import STATES, FailureGroup, Summary
from teeny_async.report.text import diagnostic_text, failure_text, plural, seconds_text, size_text

_MAX_SHOWN = 10
_MAX_DIAGNOSTICS = 4


def failure_lines(summary: Summary, *, color: bool = False) -> Iterator[str]:
    """Each different failure once, with what the compiler said, the command and what to do."""
    groups = summary.failures
    for group in groups[:_MAX_SHOWN]:
        yield from _group_lines(group, color)
    more = sum(group.count for group in groups[_MAX_SHOWN:]) + summary.ungrouped
    if more:
        yield f"and {plural(more, 'more failure')}, for other reasons"


def _group_lines(group: FailureGroup, color: bool) -> Iterator[str]:
    failure = group.failure
    others = f" (and {group.count - 1:,} more)" if group.count > 1 else ""
    shown = failure_text(failure, group.path)
    yield f"{styled(group.first, 'bold', color)}{others}: {styled(failure.kind.value, 'bold red', color)}: {shown}"
    if failure.kind is FailureKind.TOOL_MISSING:
        return  # its message says how to install it
    texts = [diagnostic_text(diagnostic, group.path) for diagnostic in failure.diagnostics]
    yield from (f"    {text}" for text in [text for text in texts if text != shown][:_MAX_DIAGNOSTICS])
    if failure.command:
        yield styled(f"    command: {shlex.join(failure.command)}", "dim", color)
    yield f"    {failure.hint}"


def count_line(summary: Summary, stats: CompilerStats, total: int | None) -> str:
    """As in "96 results in 3.42 s: 90 compiled, 6 cached"."""
    counts = [f"{summary.states[state]:,} {state}" for state in STATES if summary.states[state]]
    of = f" of {total:,}" if total is not None and total != summary.done else ""
    line = f"{summary.done:,}{of} {'result' if summary.done == 1 and not of else 'results'}"
    return f"{line} in {seconds_text(stats.wall)}" + (f": {', '.join(counts)}" if counts else "") + _layers(stats)


def _layers(stats: CompilerStats) -> str:
    """As in " (40 shared, 6 disk)", where not all hits are the folder's own."""
    if not set(stats.hits) - {"disk", "store"}:
        return ""
    return f" (from the cache: {', '.join(f'{count:,} {layer}' for layer, count in stats.hits.items())})"


def cost_line(stats: CompilerStats) -> str | None:
    """As in "2 slots, 93% busy; 6.10 s of CPU; the largest compiler took 97 MiB"; None when nothing ran."""
    if not stats.runs:
        return None
    parts = [
        f"{plural(stats.slots, 'slot')}, {stats.utilisation:.0%} busy",
        f"{seconds_text(stats.cpu)} of CPU",
        f"the largest compiler took {size_text(stats.max_rss)}",
    ]
    retries = sum(stats.retries.values())
    if retries:
        kinds = ", ".join(f"{kind} {count}" for kind, count in stats.retries.items())
        parts.append(f"{plural(retries, 'attempt')} repeated ({kinds})")
    if stats.cache_faults:
        parts.append(f"{plural(stats.cache_faults, 'cache fault')}")
    return "; ".join(parts)


def uncached_lines(summary: Summary) -> Iterator[str]:
    """Why some results will be compiled again next time."""
    for kernel, why in list(summary.uncached.items())[:_MAX_SHOWN]:
        yield f"not cached: {kernel}: {why}"
