"""cli-warm: what one waits for at the command line when nothing has to be compiled; and what the import costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import clean_env, in_child, measured
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row, Sample
from benchmarks.rows.cold import missing

WALL = Metric("wall", "wall", "ms")
CPU = Metric("whole_cpu", "tree CPU", "ms")
IMPORT = Metric("cpu", "CPU of the import", "ms")
IMPORT_WALL = Metric("import_wall", "wall", "ms")
BARE = "python -c pass"
IMPORTS = (
    "import anyio",
    "import teeny_async",
    "from teeny_async import compile_many",
    "import diskcache",
)


def cases(context: Context) -> Iterator[Case]:
    yield _command_line(context, context.size(100, 100))
    yield _imports(context)


def _command_line(context: Context, kernels: int) -> Case:
    folder = context.place("cli")
    absent = missing("zig")
    sources = folder / "kernels"
    if absent is None:
        in_child(context, "rows.cli_warm:write_kernels", folder=str(sources), count=kernels)
    env = clean_env(TEENY_ASYNC_CACHE_DIR=str(folder / "cache"), TMPDIR=str(folder))
    files = sorted(str(path) for path in sources.glob("*.c"))
    argv = [sys.executable, "-m", "teeny_async", "sweep", *files, "--target-cpu", "sm_90", "--jsonl"]

    def run(command: list[str]) -> Sample:
        return measured(command, folder, env=env, stdout=folder / "stdout")

    def ours() -> Sample:
        whole = run(argv)
        lines = (folder / "stdout").read_text().splitlines()
        cached = sum('"cached"' in line for line in lines)
        if cached != kernels:
            raise OSError(f"{cached} of {kernels} results came from the cache")
        return whole

    if absent is None:
        run(argv)
    return Case(
        title=f"{kernels} kernels, all cached",
        metrics=(WALL, CPU),
        base=BARE,
        contestants=(
            Contestant(name=BARE, command=BARE, run=partial(run, [sys.executable, "-c", "pass"])),
            Contestant(
                name="teeny-async sweep",
                command="python -m teeny_async sweep *.c --target-cpu sm_90 --jsonl",
                absent=absent,
                run=ours,
            ),
        ),
        goals=(Goal(contestant="teeny-async sweep", metric=WALL, how="over", limit=0.150, versus=BARE),),
    )


def _imports(context: Context) -> Case:
    contestants = [
        Contestant(
            name=statement,
            command=f"python -c '{statement}', timed inside",
            run=partial(in_child, context, "rows.cli_warm:run_import", statement=statement),
        )
        for statement in IMPORTS
    ]
    return Case(
        title="the import alone",
        metrics=(IMPORT, IMPORT_WALL),
        base=IMPORTS[0],
        contestants=contestants,
        goals=(Goal(contestant=IMPORTS[1], metric=IMPORT, how="ratio", limit=2.0, versus=IMPORTS[0]),),
    )


# In the child


def write_kernels(folder: str, count: int) -> dict[str, float]:
    """`count` kernels as files."""
    from benchmarks.kernels import requests

    Path(folder).mkdir()
    for number, request in enumerate(requests("zig", count)):
        (Path(folder) / f"k{number:03d}.c").write_text(f"{request.kernel.source}// number {number}\n")
    return {}


def run_import(statement: str) -> dict[str, float]:
    """Run an import statement in a fresh interpreter, from warm bytecode."""
    import json
    import subprocess

    timed = (
        "import time; cpu, wall = time.process_time(), time.perf_counter()\n"
        f"{statement}\n"
        "print(f'[{time.process_time() - cpu}, {time.perf_counter() - wall}]')"
    )
    done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
    cpu, wall = json.loads(done.stdout)
    return {"cpu": cpu, "import_wall": wall}


ROW = Row(id="cli-warm", title="A warm start of the command line, and the import", cases=cases)
