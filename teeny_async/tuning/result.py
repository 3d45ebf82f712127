"""`TuneResult`: what a tuning run found, for programs, spreadsheets and notebooks. Pure."""

from __future__ import annotations

import csv
import html
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teeny_async.frozen import FrozenMap
from teeny_async.tuning import finals, journal
from teeny_async.tuning.space import Config
from teeny_async.tuning.verdict import SCHEMA, Verdict

Place = tuple[str, str]
"""(kernel, target), by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """verdicts: all of them, in the order they came. folder: of the run; None when it kept none.

    elapsed: seconds, of all parts of the run. notes: what could not be had, and why.
    stats: compile seconds, measure seconds, counts by status and by source. run: the journal's first line.
    """

    verdicts: Sequence[Verdict]
    folder: Path | None = None
    elapsed: float = 0.0
    notes: Sequence[str] = ()
    stats: Mapping[str, Any] = field(default_factory=FrozenMap)
    run: Mapping[str, Any] = field(default_factory=FrozenMap)

    @property
    def places(self) -> list[Place]:
        """Kernel and target of each search, in order."""
        found = dict.fromkeys((verdict.kernel, verdict.target) for verdict in self.verdicts)
        asked = [tuple(name.rsplit(" ", 1)) for name in self.run.get("dimensions", ())]
        return sorted(found, key=lambda place: asked.index(place) if place in asked else len(asked))

    def ranked(self, target: str | None = None, kernel: str | None = None) -> list[Verdict]:
        """The verdicts with a value, best first; of one target, of one kernel, where they are named.

        A configuration counts with its best founded verdict: confirmed before searched, full before partial.
        """
        return ranked(
            verdict
            for verdict in self.verdicts
            if is_called(verdict.target, target) and kernel in (None, verdict.kernel)
        )

    def top(self, count: int = 5, target: str | None = None, kernel: str | None = None) -> list[Verdict]:
        return self.ranked(target, kernel)[:count]

    def best(self, target: str | None = None, kernel: str | None = None) -> Verdict:
        """The winner. Raises LookupError when nothing has a value."""
        found = self.ranked(target, kernel)
        if not found:
            raise LookupError(f"no configuration has a value for {target or 'any target'}")
        return found[0]

    def ties(self, target: str | None = None, kernel: str | None = None) -> list[Verdict]:
        """The winner and all that cannot be told from it: within the objective's tolerance; or, where it was
        measured, as fast in one of the rounds (see `tuning.finals`), or else with spreads that overlap."""
        return tied(self.ranked(target, kernel))

    def to_json(self) -> str:
        """Everything, as one JSON object."""
        best = {}
        for kernel, target in self.places:
            if found := self.ranked(target, kernel):
                best[f"{kernel} {target}"] = found[0].to_dict()
        data = {"schema": SCHEMA, "best": best, "verdicts": [verdict.to_dict() for verdict in self.verdicts]}
        data |= {"elapsed": self.elapsed, "notes": list(self.notes), "stats": dict(self.stats)}
        return json.dumps(data, indent=1)

    def to_csv(self) -> str:
        """One row for each verdict; params and facts in columns of their own."""
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def to_pandas(self) -> Any:
        """A DataFrame of the rows of `to_csv`. Needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The verdicts as flat mappings."""
        return [_row(verdict) for verdict in self.verdicts]

    def _repr_html_(self) -> str:
        """The winners, as a table for notebooks."""
        head = "<tr><th>kernel</th><th>target</th><th>best</th><th>value</th><th>objective</th><th>tied</th></tr>"
        rows = []
        for kernel, target in self.places:
            found = self.ranked(target, kernel)
            cells = [kernel, target, "-", "-", "-", "-"]
            if found:
                best, count = found[0], len(tied(found))
                cells[2:] = [config_text(best.config), value_text(best), best.goal.label, str(count - 1)]
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        return f"<table>{head}{''.join(rows)}</table>"


def target_names(places: Iterable[Place]) -> dict[str, str]:
    """What to call each target: without its triple, where that tells it from the others."""
    targets = dict.fromkeys(target for _, target in places)
    short = Counter(target.partition("@")[0] for target in targets)
    return {target: name if short[name := target.partition("@")[0]] == 1 else target for target in targets}


def is_called(name: str, target: str | None) -> bool:
    """Whether a target is meant: by its whole name, or without its triple ("native")."""
    return target in (None, name, name.partition("@")[0])


def ranked(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The best founded verdict of each configuration, the best first; those without a value are left out.

    Where some were confirmed, or measured in full, the ones that were not come after them: less was spent on them
    because they were worse, and what is best of many by one measurement owes a part of that to luck. One that failed
    when it was to be confirmed is left out.
    """
    founded: dict[tuple[str, str, Config], Verdict] = {}
    for verdict in verdicts:
        if verdict.value is None and verdict.phase == "search":
            continue
        name = (verdict.kernel, verdict.target, verdict.config)
        known = founded.get(name)
        if known is None or _weight(verdict) > _weight(known):
            founded[name] = verdict
    return sorted((verdict for verdict in founded.values() if verdict.value is not None), key=_rank)


def _rank(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.phase != "confirm", verdict.fidelity < 1.0, verdict.order, _place(verdict.config)


def _place(config: Config) -> list[tuple[bool, float, str]]:
    """Smaller values first, where nothing else tells two apart: not by when they happened to be done."""
    return [
        (False, float(value), "") if isinstance(value, (int, float)) else (True, 0.0, value)
        for value in config.values()
    ]


def tied(found: Sequence[Verdict]) -> list[Verdict]:
    """Of ranked verdicts, the first and those that are as good."""
    if not found:
        return []
    best = found[0]
    return [verdict for verdict in found if verdict is best or _as_good(best, verdict)]


def _as_good(best: Verdict, other: Verdict) -> bool:
    if best.value is None or other.value is None or other.fidelity < best.fidelity:
        return False
    if best.goal.ties(best.value, other.value):
        return True
    decided = finals.in_every_round(best, other)
    if decided is not None:
        return not decided
    one, two = _near(best), _near(other)
    return one is not None and two is not None and one[0] <= two[1] and two[0] <= one[1]


def _near(verdict: Verdict) -> tuple[float, float] | None:
    """The spread without the drift of a whole run, which would make everything equal."""
    rounds = verdict.measurement.get("rounds")
    return (min(rounds), max(rounds)) if rounds else verdict.spread


def _weight(verdict: Verdict) -> tuple[bool, float]:
    return verdict.phase == "confirm", verdict.fidelity


def _row(verdict: Verdict) -> dict[str, Any]:
    measured = verdict.measurement
    return {
        "kernel": verdict.kernel,
        "target": verdict.target,
        **verdict.config,
        "status": verdict.status,
        "objective": verdict.objective,
        "estimate": verdict.estimate,
        "value": verdict.value,
        "p20": measured.get("p20"),
        "p80": measured.get("p80"),
        "fidelity": verdict.fidelity,
        "phase": verdict.phase,
        "source": verdict.compile.get("source"),
        "compile_seconds": verdict.compile.get("seconds"),
        "device": measured.get("device"),
        **{f"fact_{name}": value for name, value in verdict.facts.items()},
        "failure": verdict.failure and f"{verdict.failure.get('kind')}: {verdict.failure.get('message')}",
        "at": verdict.at,
    }


def stats_of(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts, and what compiling and measuring took, in seconds, summed."""
    searched = [verdict for verdict in verdicts if verdict.phase == "search"]
    measured = [verdict.measurement for verdict in verdicts if "started" in verdict.measurement]
    return {
        "verdicts": len(verdicts),
        "statuses": dict(Counter(verdict.status for verdict in searched)),
        "sources": dict(Counter(str(verdict.compile.get("source")) for verdict in searched if verdict.compile)),
        "compile_seconds": sum(
            verdict.compile["seconds"] for verdict in verdicts if verdict.compile.get("source") == "compiled"
        ),
        "measure_seconds": sum(end - start for record in measured for start, end in spans_of(record)),
    }


def spans_of(measurement: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(started, ended) of each measurement behind a record, seconds of the run: of a confirmed one, of each round."""
    whole = [[measurement["started"], measurement["ended"]]] if "started" in measurement else []
    return [(start, end) for start, end in measurement.get("spans") or whole]


def load_result(folder: str | Path) -> TuneResult:
    """What a run has found so far, from its journal. Raises RequestError when the folder is none of a run."""
    record = journal.load(Path(folder))
    verdicts = list(record.verdicts.values())
    return TuneResult(
        verdicts=verdicts,
        folder=Path(folder),
        elapsed=record.elapsed,
        notes=tuple((record.run or {}).get("notes", ())),
        stats=FrozenMap(stats_of(verdicts)),
        run=FrozenMap(record.run or {}),
    )


def config_text(config: Mapping[str, Any]) -> str:
    """As in "TILE=32 ROWS=4"."""
    return " ".join(f"{name}={value}" for name, value in config.items() if value != "") or "(no params)"


def value_text(verdict: Verdict) -> str:
    """The value with its unit, and the spread of a measured one: "144 us (143 to 147)"."""
    if verdict.value is None:
        return "-"
    unit = verdict.goal.unit
    text = number_text(verdict.value, unit)
    if verdict.spread is None:
        return text
    low, high = (number_text(edge, unit) for edge in verdict.spread)
    _, _, shown = text.partition(" ")
    if shown and low.endswith(f" {shown}") and high.endswith(f" {shown}"):
        low, high = low.removesuffix(f" {shown}"), high.removesuffix(f" {shown}")
    return f"{text} ({low} to {high})"


def number_text(value: float, unit: str) -> str:
    """As in "1.24 ms", "96 registers"; a "share" as "75%"."""
    if unit == "share":
        return f"{value * 100:.3g}%"
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
            if abs(value) >= factor or name == "ns":
                return f"{value / factor:.3g} {name}"
    shown = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.3g}"
    return f"{shown} {unit}".strip()
