"""Tune a C matmul by measurement on this machine's CPU; with --full, and by estimates for four other CPUs.

python examples/tune_cpu_matmul.py [--full] [RUN_FOLDER]
"""

import sys
from pathlib import Path

from teeny_async import Kernel, Sweep
from teeny_async.tuning import tune_sync
from teeny_async.tuning.cpu import CpuMeasurer
from teeny_async.tuning.result import config_text, number_text, value_text
from teeny_async.tuning.signature import Signature

QUICK = "--full" not in sys.argv
FOLDERS = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
KERNEL = Kernel.from_file(Path(__file__).parent / "kernels" / "matmul_tiled.c", entry_point="matmul_tiled")
SIZE = 64 if QUICK else 256
NAIVE = {"TILE": 1, "ROWS": 1}

sweep = Sweep(
    KERNEL,
    ["native"] if QUICK else ["native", "znver3", "skylake-avx512", "icelake-server", "neoverse-n1"],
    params={"TILE": [1, 2, 4, 8, 16] if QUICK else [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128], "ROWS": range(1, 17)},
    constraints=lambda config: config["TILE"] % config["ROWS"] == 0 and config["ROWS"] <= (2 if QUICK else 16),
    flag_choices=[""] if QUICK else ["", "-funroll-loops", "-fno-slp-vectorize"],
    overrides=None if QUICK else {"native": {"ROWS": [1, 2, 3, 4, 6, 8, 12, 16]}},
)
signature = Signature.parse(
    "matmul_tiled",
    "a: in f32[m, k]; b: in f32[k, n]; c: out f32[m, n]; m: i32; n: i32; k: i32",
    sizes={"m": SIZE, "n": SIZE, "k": SIZE},
    reference="c = a @ b",
)

print(sweep.describe())
result = tune_sync(
    sweep, ["time", "mca", "size"], measure=CpuMeasurer(signature), run=FOLDERS[0] if FOLDERS else None, resume=True
)
for _, target in result.places:
    best = result.best(target)
    print(
        f"{target}: {config_text(best.config)}, {best.goal.label} {value_text(best)}, {len(result.ties(target)) - 1} tied"
    )
naive = next(v for v in result.ranked("native") if NAIVE.items() <= v.config.items())
best = result.best("native")
print(
    f"naive {number_text(naive.value or 0, 's')}, best {number_text(best.value or 0, 's')}: "
    f"{(naive.value or 0) / (best.value or 1):.1f}x, measured on {best.measurement['device']}"
)
for note in result.notes:
    print(note)
