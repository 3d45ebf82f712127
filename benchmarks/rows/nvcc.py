"""nvcc: real CUDA kernels, beside make."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.commands import OWN, START_CPU, START_WALL, TREE, WALL, ours, planned, runners
from benchmarks.model import Case, Context, Goal, Row
from benchmarks.rows.cold import missing


def cases(context: Context) -> Iterator[Case]:
    count = context.size(40, 4)
    absent = missing("nvcc")
    plan = None if absent else planned(context, "nvcc", count)
    yield Case(
        title=f"{count} nvcc kernels (CUDA C++ to PTX), {context.cpus} at a time",
        metrics=(WALL, TREE, OWN, START_CPU, START_WALL),
        base="make",
        contestants=(
            *runners(context, plan, context.cpus, ("make",), absent),
            ours(context, "nvcc", count, absent),
        ),
        goals=(Goal(contestant="teeny_async", metric=WALL, how="ratio", limit=1.0, versus="make"),),
    )


ROW = Row(id="nvcc", title="Real nvcc kernels", cases=cases)
