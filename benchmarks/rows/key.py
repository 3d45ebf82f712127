"""key: the identity of a small kernel behind a large prelude that thousands of kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.measure import in_child
from benchmarks.model import Case, Contestant, Context, Goal, Metric, Row

CPU = Metric("cpu", "CPU a key", "us")
SOURCE, PRELUDE = 1024, 93 * 1024
_WAYS = {
    "sha256 of the text": "sha256(prelude + source): no labels, no fingerprint, no environment",
    "key": "KeyStart.key(inputs): the prelude hashed once, all that is no input begun once, as a planner does",
    "key, prelude hashed each time": "request_key(stages, PartDigests())",
    "its hashing": "the digests of both parts, as the key takes them",
    "plan and key": "driver.draft(request), and the key: what a planner does for each but the first",
}
WHOLE, KEY, EACH, PARTS, PLAN = _WAYS


def cases(context: Context) -> Iterator[Case]:
    requests = context.size(10_000, 2_000)
    yield Case(
        title=f"{requests:,} kernels of 1 KB behind one prelude of 93 KB",
        metrics=(CPU,),
        base=WHOLE,
        contestants=[
            Contestant(
                name=way, command=call, run=partial(in_child, context, "rows.key:run", way=way, requests=requests)
            )
            for way, call in _WAYS.items()
        ],
        goals=(
            Goal(contestant=KEY, metric=CPU, how="value", limit=10e-6),
            Goal(contestant=PARTS, metric=CPU, how="below", limit=30, versus=WHOLE),
            Goal(contestant=KEY, metric=CPU, how="below", limit=30, versus=WHOLE),
        ),
    )


# In the child


def run(way: str, requests: int) -> dict[str, float]:
    """Keys for all requests, which exist before the clock starts; the prelude is one object."""
    import hashlib
    import time

    from teeny_async import CompileRequest, Kernel, Target
    from teeny_async.keys import KeyStart, PartDigests, request_key
    from teeny_async.toolchains.base import Toolchain
    from teeny_async.toolchains.teenyc import Teenyc

    prelude = "// the DSL\n".ljust(PRELUDE, "/") + "\n"
    kernels = [
        Kernel(name=f"k{number}", source=f"fn k{number}() {{}}\n".ljust(SOURCE, "/"), language="rust", prelude=prelude)
        for number in range(requests)
    ]
    target = Target("sm_90")
    wanted = [CompileRequest(kernel, target, toolchain="teenyc") for kernel in kernels]
    driver, tool = Teenyc(), Toolchain(name="teenyc", path="/teenyc", version="1", fingerprint="0" * 64)
    stages = [[(driver.plan(request, target, tool), tool)] for request in wanted]
    digests = PartDigests()
    start = KeyStart(stages[0], digests)

    def none() -> list[tuple[str, bytes]]:
        return []

    def key_of(number: int) -> object:
        return start.key(start.inputs(stages[number][0][0].inputs), none)

    def plan_of(number: int) -> object:
        return start.key(start.inputs(driver.draft(wanted[number], tool).inputs), none)

    calls = {
        WHOLE: lambda number: hashlib.sha256((prelude + kernels[number].source).encode()).hexdigest(),
        KEY: key_of,
        EACH: lambda number: request_key(stages[number], PartDigests(), none),
        PARTS: lambda number: (digests.of(prelude), digests.of(kernels[number].source)),
        PLAN: plan_of,
    }
    call = calls[way]
    call(0)
    began = time.process_time()
    for number in range(requests):
        call(number)
    return {"cpu": (time.process_time() - began) / requests}


ROW = Row(id="key", title="A cache key", cases=cases)
