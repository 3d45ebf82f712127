"""cold-rustc and cold-zig: a first sweep of real kernels, beside ninja and xargs on the very same commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.commands import OWN, START_CPU, START_WALL, TREE, WALL, ours, planned, runners
from benchmarks.model import Case, Context, Goal, Row

_MISSING = {
    "rustc": "rustc is not on PATH (https://rustup.rs)",
    "zig": "zig is not installed (pip install ziglang)",
    "nvcc": "nvcc is not on PATH (pip install nvidia-cuda-nvcc, or NVIDIA's packages)",
}


def missing(kind: str) -> str | None:
    """Why a compiler is not here; None when it is."""
    here = shutil.which(kind) or (kind == "zig" and find_spec("ziglang"))
    return None if here else _MISSING[kind]


def cases(kind: str, full: int, quick: int, cpu_limit: float, wall_limit: float, context: Context) -> Iterator[Case]:
    count = context.size(full, quick)
    absent = missing(kind)
    plan = None if absent else planned(context, kind, count)
    peers = runners(context, plan, context.cpus, ("xargs", "ninja"), absent)
    goals = []
    for peer in peers:
        goals += [
            Goal(contestant="teeny_async", metric=TREE, how="ratio", limit=cpu_limit, versus=peer.name),
            Goal(contestant="teeny_async", metric=WALL, how="ratio", limit=wall_limit, versus=peer.name),
        ]
    yield Case(
        title=f"{count} {kind} kernels, {context.cpus} at a time",
        metrics=(TREE, WALL, OWN, START_CPU, START_WALL),
        base="xargs",
        contestants=(*peers, ours(context, kind, count, absent)),
        goals=goals,
    )


# In the child


def plan(kind: str, count: int, path: str) -> dict[str, float]:
    """Write the commands of `count` requests to a file."""
    import json

    from benchmarks.inside import run
    from benchmarks.kernels import requests
    from teeny_async import Compiler

    async def go() -> list[dict[str, object]]:
        commands: list[dict[str, object]] = []
        async with Compiler(mode="no_cache") as compiler:
            for request in requests(kind, count):
                [stage] = (await compiler.plan(request)).stages
                action = stage.action
                commands.append(
                    {
                        "argv": [action.executable, *action.argv[1:]],
                        "env": {**action.neutral, **action.env},
                        "inputs": {item.name: item.data().decode() for item in action.inputs},
                        "outputs": [action.outputs[label] for label in action.required],
                    }
                )
        return commands

    Path(path).write_text(json.dumps(run(go)))
    return {}


def run_ours(kind: str, count: int, jobs: int) -> dict[str, float]:
    """A sweep into an empty cache. Start: the interpreter, the imports, the store, finding and hashing the tool."""
    import os
    import time

    from benchmarks.cpu import Span, tree_cpu
    from benchmarks.inside import all_ok, run
    from benchmarks.kernels import requests
    from teeny_async import Compiler

    began = time.perf_counter()
    wanted = requests(kind, count)

    async def go() -> dict[str, float]:
        async with Compiler(store=os.path.join(os.environ["TMPDIR"], "cache"), jobs=jobs) as compiler:
            for request in {request.target: request for request in wanted}.values():
                await compiler.plan(request)
            start = {"start_cpu": tree_cpu(), "start_wall": time.perf_counter() - began}
            span = Span()
            results = await compiler.compile_many(wanted)
        used = span.end()
        all_ok(results, "compiled")
        own = used["tree_cpu"] - sum(result.usage.cpu for result in results)
        return {**start, "tree_cpu": used["tree_cpu"] / count, "own_cpu": own / count, "wall": used["wall"]}

    return run(go)


RUSTC = Row(
    id="cold-rustc",
    title="A cold sweep of real rustc kernels (no_core Rust to PTX)",
    cases=partial(cases, "rustc", 200, 16, 1.05, 1.10),
)
ZIG = Row(
    id="cold-zig",
    title="A cold sweep of real zig kernels (C to PTX)",
    cases=partial(cases, "zig", 400, 32, 1.10, 1.15),
)
