"""A sweep on a Dask cluster, twice: the second cluster finds all in the cache that both share, and compiles nothing."""

import tempfile
from collections import Counter
from pathlib import Path

import anyio
from distributed import Client, LocalCluster

from teeny_async import Compiler, DaskRunner, Kernel, Sweep

KERNELS = Path(__file__).parent / "kernels"
SWEEP = Sweep(
    [Kernel.from_file(KERNELS / "saxpy.c"), Kernel.from_file(KERNELS / "softmax.c")],
    ["sm_90", "gfx942", "znver4"],
    params={"BLOCK": [64, 128]},
)


async def sweep(client: Client, remote: str, own: Path) -> str:
    # `remote` is what machines share: s3://bucket/kernels, or a folder that all of them see; `own` is this machine's.
    async with Compiler(runner=DaskRunner(client), remote=remote, store=own) as compiler:
        results = await compiler.compile_many(SWEEP)
        sources = Counter(result.source for result in results if result.ok)
        return f"{dict(sources)}, {compiler.stats.runs} compiler runs on {len(client.nthreads())} workers"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in (1, 2):
            # In its place: SLURMCluster, KubeCluster, SSHCluster; see the docstring of DaskRunner.
            options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "local_directory": folder}
            with LocalCluster(**options) as cluster, Client(cluster) as client:
                what = anyio.run(sweep, client, f"file://{folder}/shared", folder / f"own-{number}")
            print(f"cluster {number}: {what}")


if __name__ == "__main__":  # the workers are processes that import this file
    main()
