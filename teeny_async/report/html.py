"""The report of a tuning run as one HTML page: no network, no script, under 200 KB. Pure."""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from teeny_async.report.html_charts import convergence, device_names, histogram, timeline
from teeny_async.report.html_heat import heat_map
from teeny_async.report.html_svg import heat_styles
from teeny_async.report.text import plural, seconds_text
from teeny_async.report.tune_tables import failure_groups, first_message
from teeny_async.tuning.result import TuneResult, config_text, target_names, tied, value_text
from teeny_async.tuning.verdict import Verdict

LIMIT = 190_000
"""Bytes. The page leaves out tips, then maps, until it is below that."""
_MAX_FAILURES = 12
_MAX_TIES = 6

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5b6575;--line:#d9dee6;--paper:#fff;--tile:#f4f6f9;--bar:#3b6fb6;
--good:#2f855a;--bad:#c53030}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa5b5;--line:#343c49;--paper:#14181f;--tile:#1d232d;
--bar:#6ea0e6;--good:#68d391;--bad:#fc8181}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:940px;margin:32px auto;padding:0 20px}
h1{font-size:23px;margin:0}h2{font-size:17px;margin:34px 0 6px}p{margin:4px 0;color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:16px 0}.tile{background:var(--tile);border-radius:8px;padding:9px 14px;min-width:92px}
.tile b{display:block;font-size:19px}.tile span{color:var(--soft);font-size:12.5px}
table{border-collapse:collapse;width:100%;font-size:13.5px}th{text-align:left;color:var(--soft);font-weight:500}
td,th{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}.w{white-space:nowrap}
code{font:12.5px ui-monospace,monospace}pre{font:12px/1.45 ui-monospace,monospace;background:var(--tile);padding:8px;
border-radius:6px;overflow-x:auto;white-space:pre-wrap;margin:4px 0}
.scroll{overflow-x:auto}.scroll svg{min-width:640px}.maps{display:flex;flex-wrap:wrap;gap:18px}figure{margin:0}figcaption{font-size:13px}figcaption span{color:var(--soft)}
svg{max-width:100%;height:auto;display:block}svg text{fill:var(--ink);font:11px system-ui,sans-serif}svg .tick{fill:var(--soft)}
svg .axis{font-weight:600}.grid{stroke:var(--line)}.axisline{stroke:var(--soft)}.mark{stroke:var(--bad);stroke-dasharray:4 3}
.curve{fill:none;stroke-width:2}.bar,.compile{fill:var(--bar)}.measure{fill:var(--good)}.bad{fill:var(--bad)}
.none{fill:none;stroke:var(--line)}.winner{fill:none;stroke:#e53e3e;stroke-width:2.5}
.tag{display:inline-block;background:var(--tile);border-radius:4px;padding:1px 6px;font-size:12px;color:var(--soft)}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;vertical-align:-1px;margin:0 4px 0 12px}
"""
_LINES = ("#3b6fb6", "#d97706", "#2f855a", "#c53030", "#805ad5", "#0f9aa8", "#b7791f", "#d53f8c", "#718096", "#5a67d8")


def page(result: TuneResult) -> str:
    """The whole page."""
    for detail in (2, 1, 0):
        text = _page(result, detail)
        if len(text.encode()) <= LIMIT:
            break
    return text


def _page(result: TuneResult, detail: int) -> str:
    kernels = ", ".join(dict.fromkeys(kernel for kernel, _ in result.places)) or "tuning"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(kernels)}: tuning report</title><style>{_STYLE}{heat_styles()}{_line_styles()}</style>",
        f"<h1>{html.escape(kernels)}</h1><p>{html.escape(_subtitle(result))}</p>",
        _tiles(result),
        _section("Winners", _winners(result)),
        _section("Heat maps", _maps(result, detail), _HEAT_NOTE),
        _section("Convergence", convergence(result.verdicts, _names(result)), _CONVERGENCE_NOTE),
        _section(
            "Compile times", histogram(result.verdicts), "How many compiles took how long, on a logarithmic scale."
        ),
        _section("Failures", _failures(result.verdicts)),
        _section("Timeline", timeline(result.verdicts, single=detail == 2), _timeline_note(result)),
        _section("Notes", "".join(f"<p>{html.escape(note)}</p>" for note in result.notes)),
    ]
    return "".join(parts)


_HEAT_NOTE = (
    "The two params that matter most for each target. A cell is the best of all configurations with its two values; "
    "bright is good, on a logarithmic scale; the frame is the winner; an empty frame gave no value."
)
_CONVERGENCE_NOTE = "The best so far, as a ratio to the best of the search; it ends at 1x."
_TIMELINE_NOTE = (
    "<span class=key style='background:var(--bar)'></span>compile<span class=key style='background:var(--good)'></span>"
    "measurement<span class=key style='background:var(--bad)'></span>failed"
)


def _timeline_note(result: TuneResult) -> str:
    """The colours, and which device is which."""
    devices = device_names(result.verdicts)
    shown = [name if short == name else f"{short}: {name}" for name, short in devices.items()]
    return _TIMELINE_NOTE + (f"<br>{html.escape(', '.join(shown))}" if devices else "")


def _line_styles() -> str:
    return "".join(f".c{index}{{stroke:{color}}}.k{index}{{fill:{color}}}" for index, color in enumerate(_LINES))


def _section(title: str, content: str | None, note: str = "") -> str:
    if not content:
        return ""
    return f"<h2>{title}</h2>" + (f"<p>{note}</p>" if note else "") + content


def _subtitle(result: TuneResult) -> str:
    run = result.run
    parts = [plural(len(result.places), "search").replace("searchs", "searches")]
    if run.get("strategy"):
        parts.append(f"strategy {run['strategy']}, seed {run.get('seed', 0)}")
    parts += [str(name) for name in run.get("toolchains", ())]
    parts += [str(name) for name in run.get("devices", ())]
    return " · ".join(parts)


def _tiles(result: TuneResult) -> str:
    stats = result.stats
    statuses, sources = stats.get("statuses", {}), stats.get("sources", {})
    bad = sum(count for status, count in statuses.items() if status not in ("ok", "unranked"))
    compiling, measuring = stats.get("compile_seconds", 0.0), stats.get("measure_seconds", 0.0)
    tiles = [
        (f"{len({(v.kernel, v.target, v.config) for v in result.verdicts}):,}", "configurations"),
        (f"{statuses.get('ok', 0):,}", "with a value"),
        (f"{bad:,}", "failed"),
        (f"{sources.get('cached', 0):,}", "from the cache"),
        (seconds_text(result.elapsed), "wall time"),
    ]
    if compiling:
        tiles.append((seconds_text(compiling), "compiling, summed"))
    if measuring:
        tiles.append((seconds_text(measuring), "measuring, summed"))
    return (
        "<div class=tiles>" + "".join(f"<div class=tile><b>{a}</b><span>{b}</span></div>" for a, b in tiles) + "</div>"
    )


def _winners(result: TuneResult) -> str:
    rows = []
    for kernel, target in result.places:
        found = result.ranked(target, kernel)
        name = html.escape(_names(result)[kernel, target])
        if not found:
            rows.append(f"<tr><td>{name}<td colspan=4>no configuration has a value")
            continue
        best, equal = found[0], tied(found)[1:]
        median = found[len(found) // 2]
        ratio = _times(best, median)
        device = best.measurement.get("device")
        tag = "estimate" if best.estimate else f"measured on {device}" if device else "exact"
        rows.append(
            f"<tr><td class=w>{name}<td><code>{html.escape(config_text(best.config))}</code>{_tied(equal)}"
            f"<td class=w>{html.escape(value_text(best))}<td>{html.escape(best.objective)} <span class=tag>{html.escape(tag)}</span>"
            f"<td class='n w'>{ratio}"
        )
    head = "<tr><th>target<th>best configuration<th>value<th>objective<th class=n>against the median"
    return f"<div class=scroll><table>{head}{''.join(rows)}</table></div>"


def _names(result: TuneResult) -> dict[tuple[str, str], str]:
    """What to call each search, in the order they were asked for."""
    targets = target_names(result.places)
    many = len({kernel for kernel, _ in result.places}) > 1
    return {place: f"{place[0]} {targets[place[1]]}" if many else targets[place[1]] for place in result.places}


def _tied(equal: Sequence[Verdict]) -> str:
    if not equal:
        return ""
    names = "<br>".join(html.escape(config_text(verdict.config)) for verdict in equal[:_MAX_TIES])
    more = f"<br>and {len(equal) - _MAX_TIES} more" if len(equal) > _MAX_TIES else ""
    return f"<details><summary>{plural(len(equal), 'tie')}</summary><code>{names}{more}</code></details>"


def _times(best: Verdict, other: Verdict) -> str:
    if not best.value or not other.value:
        return "-"
    ratio = best.value / other.value if best.goal.higher else other.value / best.value
    return f"{ratio:.2f}x better" if ratio >= 1.005 else "equal"


def _maps(result: TuneResult, detail: int) -> str:
    figures = []
    groups: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in result.verdicts:
        groups[verdict.kernel, verdict.target].append(verdict)
    names = {place: name for place, name in _names(result).items() if place in groups}
    for place, name in list(names.items())[: None if detail else 6]:
        found = heat_map(groups[place], single=detail > 0)
        if found is not None:
            caption = f"<figcaption><b>{html.escape(name)}</b> <span>{html.escape(found[1])}</span></figcaption>"
            figures.append(f"<figure>{caption}{found[0]}</figure>")
    left = f"<p>{plural(len(groups) - 6, 'more map')} left out.</p>" if not detail and len(groups) > 6 else ""
    return f"<div class=maps>{''.join(figures)}</div>{left}" if figures else ""


def _failures(verdicts: Iterable[Verdict]) -> str:
    rows = []
    groups = failure_groups(verdicts)
    for members in groups[:_MAX_FAILURES]:
        counts = Counter(verdict.target.partition("@")[0] for verdict in members).most_common(6)
        targets = ", ".join(f"{target} {count}" for target, count in counts)
        message, kind = first_message(members[0]), str((members[0].failure or {}).get("kind"))
        rows.append(
            f"<tr><td class=n>{len(members):,}<td>{html.escape(kind)}<td>{html.escape(message[:300])}{_details(members[0])}"
            f"<td>{html.escape(targets)}"
        )
    more = (
        f"<p>and {plural(len(groups) - _MAX_FAILURES, 'more kind')} of failure</p>"
        if len(groups) > _MAX_FAILURES
        else ""
    )
    return (
        f"<table><tr><th class=n>count<th>kind<th>what was said<th>targets{''.join(rows)}</table>{more}" if rows else ""
    )


def _details(verdict: Verdict) -> str:
    failure: Mapping[str, Any] = verdict.failure or {}
    lines = [f"for example {config_text(verdict.config)} on {verdict.target}", *_messages(failure)]
    return f"<details><summary>diagnostics</summary><pre>{html.escape(chr(10).join(lines))[:1500]}</pre></details>"


def _messages(failure: Mapping[str, Any]) -> list[str]:
    found = []
    for diagnostic in failure.get("diagnostics") or ():
        place = ":".join(
            str(diagnostic[name]) for name in ("file", "line", "column") if diagnostic.get(name) is not None
        )
        found.append(f"{place}: {diagnostic.get('severity')}: {diagnostic.get('message')}".removeprefix(": "))
    return found
