"""Tune a CUDA matmul: by time where there is a CUDA device, by estimates for several GPUs where there is none.

python examples/tune_cuda_matmul.py [--full] [--run DIR] [--size 2048] [--kernel-tuner [--lang NVCUDA]] [--json FILE]

--full searches the whole space; without a device, for eight GPUs. --kernel-tuner has Kernel Tuner search the same
space with the same kernel on the same device afterwards (pip install kernel_tuner), and prints both side by side.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teeny_async import Kernel, Sweep
from teeny_async.tuning import TuneResult, tune_sync
from teeny_async.tuning.best import own_devices
from teeny_async.tuning.cuda import CudaMeasurer
from teeny_async.tuning.result import config_text, number_text, value_text
from teeny_async.tuning.signature import Signature

SOURCE = """
#if defined(__clang__) && !defined(__global__) /* no CUDA headers: the few words that are used here */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
struct Index { unsigned x, y; };
#define threadIdx (Index{unsigned(__nvvm_read_ptx_sreg_tid_x()), 0})
#define blockIdx (Index{unsigned(__nvvm_read_ptx_sreg_ctaid_x()), unsigned(__nvvm_read_ptx_sreg_ctaid_y())})
#endif
#define ACROSS (TILE / WORK)       /* threads along an edge of the tile */
#define THREADS (ACROSS * ACROSS)

struct alignas(4 * VEC) Vec { float v[VEC]; };

/* c = a * b, n by n, n a multiple of TILE. Each thread has WORK by WORK results. */
extern "C" __global__ void __launch_bounds__(THREADS) matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ alignas(16) float sa[DEPTH][TILE + 4];
    __shared__ alignas(16) float sb[DEPTH][TILE + 4];
    const int t = threadIdx.x, tx = t % ACROSS, ty = t / ACROSS;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    float acc[WORK][WORK] = {};
    constexpr int unroll = UNROLL; /* in a pragma no macro is expanded */
    for (int k = 0; k < n; k += DEPTH) {
        for (int i = t * VEC; i < TILE * DEPTH; i += THREADS * VEC) {
            const Vec x = *(const Vec *)&a[(row + i / DEPTH) * n + k + i % DEPTH];
#pragma unroll
            for (int v = 0; v < VEC; v++)
                sa[i % DEPTH + v][i / DEPTH] = x.v[v];
            *(Vec *)&sb[i / TILE][i % TILE] = *(const Vec *)&b[(k + i / TILE) * n + col + i % TILE];
        }
        __syncthreads();
#pragma unroll unroll
        for (int i = 0; i < DEPTH; i++) {
            float x[WORK], y[WORK];
#pragma unroll
            for (int w = 0; w < WORK; w++) {
                x[w] = sa[i][ty * WORK + w];
                y[w] = sb[i][tx + w * ACROSS];
            }
#pragma unroll
            for (int r = 0; r < WORK; r++)
#pragma unroll
                for (int s = 0; s < WORK; s++)
                    acc[r][s] += x[r] * y[s];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < WORK; r++)
#pragma unroll
        for (int s = 0; s < WORK; s++)
            c[(row + ty * WORK + r) * n + col + tx + s * ACROSS] = acc[r][s];
}
"""
PARAMS: dict[str, list[int]] = {
    "TILE": [32, 64, 128],
    "DEPTH": [8, 16, 32],
    "WORK": [2, 4, 8],
    "VEC": [1, 2, 4],
    "UNROLL": [1, 2, 4, 8],
}
QUICK = {"TILE": [32, 64], "DEPTH": [16], "WORK": [4, 8], "VEC": [4], "UNROLL": [4]}
TARGETS = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]


def feasible(p: Mapping[str, Any]) -> bool:
    """At most 1,024 threads, and every thread loads as much as the others."""
    threads = (p["TILE"] // p["WORK"]) ** 2
    return bool(32 <= threads <= 1024 and p["TILE"] * p["DEPTH"] % (threads * p["VEC"]) == 0)


def elsewhere(result: TuneResult, target: str) -> list[str]:
    """What the winner of a target comes to on those where it is no winner."""
    config = result.best(target).config
    found = []
    for _, other in result.places:
        value = next((v for v in result.ranked(other) if v.config == config), None)
        if all(tie.config != config for tie in result.ties(other)):
            found.append(f"{value_text(value) if value else 'nothing'} on {other}")
    return found


def show(result: TuneResult) -> None:
    for _, target in result.places:
        best = result.best(target)
        ties = result.ties(target)[1:]
        named = f"; tied: {', '.join(config_text(tie.config) for tie in ties[:3])}" if ties else ""
        print(f"{target}: {config_text(best.config)}, {best.goal.label} {value_text(best)}, {len(ties)} tied{named}")
        others = elsewhere(result, target)
        if others:
            print(f"    the same elsewhere: {', '.join(others)}")
    stats = result.stats
    print(
        f"{stats['verdicts']} verdicts in {result.elapsed:.1f} s: {stats['compile_seconds']:.1f} s of compiling, ",
        end="",
    )
    print(f"{stats['measure_seconds']:.1f} s of measuring")


def measured(sweep: Sweep, size: int, run: str | None) -> TuneResult:
    signature = Signature.parse(
        "matmul",
        "a: in f32[n, n]; b: in f32[n, n]; c: out f32[n, n]; n: i32",
        sizes={"n": size},
        reference="c = a @ b",
        grid="n // TILE, n // TILE",
        block="(TILE // WORK) * (TILE // WORK)",
    )
    result = tune_sync(sweep, "time", measure=CudaMeasurer(signature), run=run, threads="(TILE // WORK) ** 2")
    found = result.ranked()
    best, median = found[0], found[len(found) // 2]
    ratio = (median.value or 0) / (best.value or 1)
    print(
        f"best against the median of {len(found)} configurations: {ratio:.2f}x; measured on {best.measurement['device']}"
    )
    print(f"checked against the reference: {sum(bool(v.measurement.get('checked')) for v in found)} of {len(found)}")
    return result


def kernel_tuner(size: int, lang: str, params: dict[str, list[int]]) -> dict[str, Any]:
    """The same search by Kernel Tuner: {"seconds", "configs", "best", "time"} (seconds)."""
    import numpy as np
    from kernel_tuner import tune_kernel

    generator = np.random.default_rng(0)
    a, b = (generator.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(2))
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    began = time.perf_counter()
    results, _ = tune_kernel(
        "matmul",
        SOURCE,
        (size, size),
        [a, b, np.zeros_like(a), np.int32(size)],
        {"block_size_x": sorted({(t // w) ** 2 for t in params["TILE"] for w in params["WORK"]}), **params},
        restrictions=[
            "block_size_x == (TILE // WORK) ** 2",
            "32 <= block_size_x <= 1024",
            "TILE * DEPTH % (block_size_x * VEC) == 0",
        ],
        grid_div_x=["TILE"],
        grid_div_y=["TILE"],
        answer=[None, None, wanted, None],
        atol=1e-4 * float(np.abs(wanted).max()),
        lang=lang,
    )
    seconds = time.perf_counter() - began
    timed = [each for each in results if isinstance(each["time"], float)]
    best = min(timed, key=lambda each: each["time"])
    config = {name: best[name] for name in params}
    return {"seconds": seconds, "configs": len(timed), "best": config, "time": best["time"] / 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--run")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--kernel-tuner", action="store_true")
    parser.add_argument("--lang", default="NVCUDA")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    params = PARAMS if args.full else QUICK
    kernel = Kernel(name="matmul", source=SOURCE, language="cuda", entry_point="matmul")
    devices = own_devices()
    if not devices:
        print("no CUDA device here: estimates only")
        sweep = Sweep(kernel, TARGETS if args.full else TARGETS[:2], params, feasible, toolchain="zig")
        print(sweep.describe())
        show(tune_sync(sweep, "occupancy", run=args.run))
        return
    sweep = Sweep(kernel, devices[0], params, feasible)
    print(sweep.describe())
    began = time.perf_counter()
    result = measured(sweep, args.size, args.run)
    ours = time.perf_counter() - began
    show(result)
    best = result.best()
    table: dict[str, Any] = {
        "teeny_async": {"seconds": ours, "configs": len(result.ranked()), "best": dict(best.config), "time": best.value,
                        "p20_p80": best.spread, "ties": [dict(tie.config) for tie in result.ties()[1:]]},
        "stats": dict(result.stats),
    }  # fmt: skip
    if args.kernel_tuner and importlib.util.find_spec("kernel_tuner"):
        theirs = kernel_tuner(args.size, args.lang, params)
        table["kernel_tuner"] = theirs
        own = next((v for v in result.ranked() if dict(v.config) == theirs["best"]), None)
        table["kernel_tuner"]["its best, timed by us"] = own.value if own else None
        print(f"Kernel Tuner: {theirs['seconds']:.1f} s, best {theirs['best']} {number_text(theirs['time'], 's')}")
        print(
            f"teeny_async:  {ours:.1f} s, {theirs['seconds'] / ours:.1f}x faster; ours timed by us {value_text(best)}, ",
            end="",
        )
        print(f"theirs timed by us {value_text(own) if own else '-'}")
    if args.json:
        args.json.write_text(json.dumps(table, indent=1) + "\n")


main()
