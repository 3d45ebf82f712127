"""What a run says of itself while it runs, besides its verdicts and the events of its compiles. Frozen data."""

from __future__ import annotations

from dataclasses import dataclass

from teeny_async.tuning.space import Config
from teeny_async.tuning.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A verdict that an earlier part of the run has reached."""

    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """A measurement begins. time: monotonic seconds."""

    device: str
    target: str
    config: Config
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurement on a device has ended, in whatever way."""

    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirming:
    """The search of a target is over; so many of its best are measured again, in so many rounds."""

    target: str
    configs: int
    rounds: int


Step = Known | Measuring | Measured | Confirming
