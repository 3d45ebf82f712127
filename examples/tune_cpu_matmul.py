"""Tune a C matmul by measurement on this machine's CPU; with --full, and by estimates for four other CPUs.

python examples/tune_cpu_matmul.py [--full] [RUN_FOLDER]
"""

import sys
from pathlib import Path

from teeny_async import Kernel, Sweep
from teeny_async.tuning import tune_sync
from teeny_async.tuning.cpu import CpuMeasurer
from teeny_async.tuning.result import config_text, value_text
from teeny_async.tuning.signature import Signature

QUICK = "--full" not in sys.argv
FOLDERS = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
NAIVE = """
void matmul_naive(const float *a, const float *b, float *c, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[i * k + p] * b[p * n + j];
            c[i * n + j] = sum;
        }
}
"""
KERNEL = Kernel.from_file(Path(__file__).parent / "kernels" / "matmul_tiled.c", entry_point="matmul_tiled")
SIZE = 64 if QUICK else 256

sweep = Sweep(
    KERNEL,
    ["native"] if QUICK else ["native", "znver3", "skylake-avx512", "icelake-server", "neoverse-n1"],
    params={
        "TILE": [8, 16, 32] if QUICK else [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128],
        "ROWS": range(1, 17),
    },
    constraints=lambda config: config["TILE"] % config["ROWS"] == 0 and config["ROWS"] <= (2 if QUICK else 16),
    flag_choices=[""] if QUICK else ["", "-funroll-loops", "-fno-slp-vectorize"],
    overrides=None if QUICK else {"native": {"ROWS": [1, 2, 3, 4, 6, 8, 12, 16]}},
)


def measurer(symbol: str) -> CpuMeasurer:
    """Times a function of that name, and checks what it computes."""
    call = "a: in f32[m, k]; b: in f32[k, n]; c: out f32[m, n]; m: i32; n: i32; k: i32"
    sizes = {"m": SIZE, "n": SIZE, "k": SIZE}
    return CpuMeasurer(Signature.parse(symbol, call, sizes=sizes, reference="c = a @ b"))


print(sweep.describe())
result = tune_sync(
    sweep,
    ["time", "mca", "size"],
    measure=measurer("matmul_tiled"),
    run=FOLDERS[0] if FOLDERS else None,
    resume=True,
)
for _, target in result.places:
    best = result.best(target)
    print(
        f"{target}: {config_text(best.config)}, {best.goal.label} {value_text(best)}, {len(result.ties(target)) - 1} tied"
    )
for note in result.notes:
    print(note)
plain = Sweep(Kernel(name="matmul_naive", source=NAIVE, language="c"), "native")
naive = tune_sync(plain, "time", measure=measurer("matmul_naive")).best()
best = result.best("native")
print(f"measured on {best.measurement['device']}, beside: {dict(best.measurement['contention'])}")
print(
    f"three plain loops {value_text(naive)}, the best of {len(result.ranked('native'))} {value_text(best)}: "
    f"{(naive.value or 0) / (best.value or 1):.1f} times as fast"
)
