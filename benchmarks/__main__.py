"""`python -m benchmarks`: run the rows and show the table."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.model import Context
from benchmarks.results import RowResult
from benchmarks.rows import ROWS
from benchmarks.running import run_row
from benchmarks.text import table
from teeny_async import __version__
from teeny_async.execution.machine import available_cpus

SCHEMA = 1
ROUNDS, QUICK_ROUNDS = 5, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 when a row could not be run at all. A goal that is not met is no error."""
    options = _options(argv)
    if options.list:
        for row in ROWS:
            print(f"{row.id:12} {row.title}")
        return 0
    wanted = [row for row in ROWS if not options.only or row.id in options.only]
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    folder = Path(tempfile.mkdtemp(prefix="teeny-async-benchmarks-"))
    try:
        context = Context(folder=folder, quick=options.quick, cpus=available_cpus())
        results = [run_row(row, context, rounds, _say) for row in wanted]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _show(results, options, rounds)
    return 1 if any(result.error for result in results) else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small amount of work: about a minute, and rough")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - is standard output, then no table")
    parser.add_argument(
        "--only",
        metavar="ROW",
        action="append",
        choices=[row.id for row in ROWS],
        help="only this row; may be repeated",
    )
    parser.add_argument(
        "--rounds", type=_rounds, metavar="N", help=f"rounds ({ROUNDS}, or {QUICK_ROUNDS} with --quick)"
    )
    parser.add_argument("--list", action="store_true", help="list the rows and leave")
    return parser.parse_args(argv)


def _rounds(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one round")
    return number


def _show(results: Sequence[RowResult], options: argparse.Namespace, rounds: int) -> None:
    if options.json:
        report = json.dumps(_report(results, options.quick, rounds), indent=1)
        if options.json == "-":
            print(report)
            return
        Path(options.json).write_text(report + "\n")
    machine = _machine()
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(f"rounds: {rounds}{', quick' if options.quick else ''}")
    for line in table(results):
        print(line)


def _report(results: Sequence[RowResult], quick: bool, rounds: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "quick": quick,
        "rounds": rounds,
        "machine": _machine(),
        "rows": [result.to_json() for result in results],
    }


def _machine() -> dict[str, Any]:
    return {
        "teeny_async": __version__,
        "anyio": version("anyio"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": available_cpus(),
        "load": round(os.getloadavg()[0], 2),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
