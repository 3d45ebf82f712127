"""The rows, in the order of the table: one small file for each family."""

from __future__ import annotations

from benchmarks.model import Row
from benchmarks.rows import (
    cli_warm,
    cold,
    duplicates,
    key,
    miss,
    nvcc,
    scale,
    shared,
    skewed,
    spawn,
    stages,
    stall,
    stream,
    warm_hit,
)

ROWS: tuple[Row, ...] = (
    spawn.ROW,
    miss.ROW,
    cold.RUSTC,
    cold.ZIG,
    nvcc.ROW,
    stages.ROW,
    warm_hit.ROW,
    cli_warm.ROW,
    key.ROW,
    duplicates.ROW,
    stream.ROW,
    stall.ROW,
    skewed.ROW,
    shared.ROW,
    scale.ROW,
)
