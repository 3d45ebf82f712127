"""Theoretical occupancy of an NVIDIA multiprocessor: how many warps of a kernel fit on it at once. Pure.

Source of the limits: CUDA Programming Guide 13, appendix "Compute Capabilities", the tables of technical
specifications for each compute capability (resident blocks, warps, registers, shared memory). Source of the
rounding: the occupancy calculator of CUDA and Nsight Compute: registers are given to a warp in units of 256,
warps take them four at a time (one for each of the SM's quarters), shared memory comes in units of 128 bytes
(256 before compute capability 8), and from 8.0 on the system keeps 1 KiB of it for itself in every block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

WARP = 32
MAX_THREADS = 1024
"""Threads of a block, on every compute capability."""
MAX_REGISTERS = 255
"""Registers of a thread."""
REGISTERS = 1 << 16
"""32-bit registers of a multiprocessor, and the most a block may have."""
_REGISTER_UNIT = 256
_QUARTERS = 4

Limit = Literal["blocks", "warps", "registers", "shared"]


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """blocks, warps: resident at most. shared: bytes of it all; shared_block: the most one block may have."""

    blocks: int
    warps: int
    shared: int
    shared_block: int
    shared_unit: int = 128
    shared_reserved: int = 1024


def _row(blocks: int, warps: int, shared: int, shared_block: int) -> Multiprocessor:
    return Multiprocessor(blocks, warps, shared << 10, shared_block << 10)


TABLE: Mapping[str, Multiprocessor] = {
    # resident blocks, resident warps, KiB of shared memory: of the SM, of a block
    "sm_75": Multiprocessor(16, 32, 64 << 10, 64 << 10, shared_unit=256, shared_reserved=0),
    "sm_80": _row(32, 64, 164, 163),
    "sm_86": _row(16, 48, 100, 99),
    "sm_87": _row(16, 48, 164, 163),
    "sm_88": _row(16, 48, 100, 99),
    "sm_89": _row(24, 48, 100, 99),
    "sm_90": _row(32, 64, 228, 227),
    "sm_100": _row(32, 64, 228, 227),
    "sm_101": _row(24, 48, 228, 227),  # CUDA 12's name of sm_110
    "sm_103": _row(32, 64, 228, 227),
    "sm_110": _row(24, 48, 228, 227),
    "sm_120": _row(24, 48, 100, 99),
    "sm_121": _row(24, 48, 100, 99),
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """share: resident warps by what the multiprocessor could hold, 0 to 1. limit: what allows no more."""

    share: float
    blocks: int
    warps: int
    limit: Limit


def multiprocessor(cpu: str | None) -> Multiprocessor | None:
    """The limits of an `sm_...`, its `a` and `f` forms too; None for one that is not in the table."""
    return TABLE.get(re.sub(r"[af]$", "", cpu or ""))


def occupancy(sm: Multiprocessor, *, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of blocks of `threads` threads.

    registers: of a thread. shared: bytes of a block, static and dynamic. A block that does not fit at all,
    and would fail to launch, has an occupancy of 0.
    """
    warps = -(-threads // WARP)
    limits: dict[Limit, int] = {
        "warps": sm.warps // warps if 0 < threads <= MAX_THREADS else 0,
        "registers": _blocks_by_registers(warps, registers),
        "shared": _blocks_by_shared(sm, shared),
        "blocks": sm.blocks,
    }
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(blocks * warps / sm.warps, blocks, blocks * warps, limit)


def best_block(sm: Multiprocessor, *, registers: int, shared: int) -> tuple[int, Occupancy]:
    """(threads, occupancy) of the smallest block size that reaches the highest occupancy."""
    sizes = range(WARP, MAX_THREADS + 1, WARP)
    found = {size: occupancy(sm, threads=size, registers=registers, shared=shared) for size in sizes}
    best = max(found, key=lambda size: (found[size].share, -size))
    return best, found[best]


def _blocks_by_registers(warps: int, registers: int) -> int:
    if registers > MAX_REGISTERS or not warps:
        return 0
    per_warp = _round_up(max(registers, 1) * WARP, _REGISTER_UNIT)
    if _round_up(warps, _QUARTERS) * per_warp > REGISTERS:
        return 0
    return REGISTERS // per_warp // _QUARTERS * _QUARTERS // warps


def _blocks_by_shared(sm: Multiprocessor, shared: int) -> int:
    if shared > sm.shared_block:
        return 0
    taken = _round_up(shared + sm.shared_reserved, sm.shared_unit)
    return sm.shared // taken if taken else sm.blocks


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
