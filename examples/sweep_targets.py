"""Every C kernel for GPUs and CPUs at several block sizes; failures are values."""

from collections import Counter
from pathlib import Path

from teeny_async import Kernel, Sweep, compile_many_sync

KERNELS = Path(__file__).parent / "kernels"

sweep = Sweep(
    [Kernel.from_file(path) for path in sorted(KERNELS.glob("*.c"))],
    ["sm_80", "sm_90", "sm_120+ptx87", "gfx942", "znver4", "neoverse-v2"],
    params={"BLOCK": [64, 128, 256], "UNROLL": [1, 4]},
    constraints=lambda config: config["BLOCK"] * config["UNROLL"] <= 512,
)

results = compile_many_sync(sweep)
print(Counter(result.source for result in results))
for result in results:
    if result.failure is not None:
        print(f"{result.request.kernel.name} for {result.request.target}: {result.failure}")
