"""What a store object has seen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts over all openings of a store object; see `StoreStats`."""

    hits: int = 0
    misses: int = 0
    quarantined: int = 0
    faults: int = 0
    skipped: int = 0
