"""What a session has used of a folder, until it is noted there."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Saved:
    """Hits, the bytes they gave, and the seconds of compiling that they saved."""

    hits: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Usage:
    """ids: rows that were used. saved: by label (`framing.label`)."""

    ids: set[int] = field(default_factory=set)
    saved: dict[str, Saved] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ids or self.saved)

    def hit(self, label: str, size: int, seconds: float) -> None:
        """Count a hit. size: bytes."""
        saved = self.saved.get(label)
        if saved is None:
            saved = self.saved[label] = Saved()
        saved.hits += 1
        saved.bytes += size
        saved.seconds += seconds
