"""What a compile will cost, told from what earlier ones did: memory, and time. Pure; no clock, no file.

`Work` names a compile in several ways, from the finest to the coarsest, and the finest name that is known
answers. None of the names is the cache key: a key that is known is a hit and costs nothing, so what is
compiled has a key that was never seen. Sources are edited and compilers upgraded; names stay.

* Memory goes by the tool and the kernel, and for a kernel that is new by the tool: how much a compiler
  needs is mostly decided by the source it reads and by the tool itself.
* Time goes by the request without its text (kernel, target, output, level, flags, params), then by the
  kernel and the target's family, since a new param value or CPU takes about as long as its siblings, then
  by the tool and the family, so that a new kernel comes in the middle of the others.
* Pace, for time limits, goes by the tool and the target: recent times of all kernels.

All of it is kept as one note of plain JSON, bounded whatever happens, and merged with what another session
may have written meanwhile. Nothing but speed depends on it: whatever is malformed in it is left out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from teeny_async.model import CompileRequest
from teeny_async.target import Target

V = TypeVar("V")

SCHEMA = 1
MARGIN = 1.2
"""A compile is expected to hold this times the most that its like did."""
DEFAULT_PEAK = 1 << 30
"""Bytes expected of a tool that was never seen. A small compiler needs a tenth of it; the first one to
finish says so, and until then a machine is filled only where memory is tight."""
_DEFAULT_PEAKS = {"nvcc": 4 << 30}
"""nvcc: 3 to 8 GiB for kernels full of templates."""
_LEAST_PEAK = 4 << 20
_DECAY = 8
"""A smaller peak takes an eighth of the distance off the one that is kept: one large compile is not
remembered for ever, and not forgotten at once."""
PACE_SAMPLES = 48
"""Times kept of each pace, the newest."""
PACE_LEAST = 16
"""Times that it takes to tell a pace."""
PACE_FLOOR = 10.0
"""Seconds; no pace makes a shorter limit than this."""
_MAX_PEAKS = 512
_MAX_SHAPES = 2048
_MAX_PACES = 64
_NAME = 80


class Work(NamedTuple):
    """The names that a compile's costs are kept under; memory and shapes from the finest on."""

    tool: str
    memory: tuple[str, str]
    shapes: tuple[str, str, str]
    pace: str


def work_of(request: CompileRequest, tool: str, target: Target) -> Work:
    """How a request's costs are named; `tool` is its first toolchain's name, `target` resolved."""
    kernel = request.kernel
    subject = f"{tool}\0{target.arch}\0{kernel.language}\0{kernel.name}"
    params = sorted((name, repr(value)) for name, value in request.params.items())
    detail = f"{subject}\0{target}\0{request.emit}\0{request.opt_level}\0{request.flags}\0{params}"
    return Work(
        tool,
        (f"{tool} {kernel.language} {kernel.name}"[:_NAME], tool[:_NAME]),
        (_hashed(detail), _hashed(subject), _hashed(f"{tool}\0{target.arch}")),
        f"{tool} {target}"[:_NAME],
    )


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


@dataclass(slots=True)
class Costs:
    """peaks: bytes by memory name. seconds: by shape. paces: seconds of single compiles, newest last.

    The order of each is the order of use: the least recently touched goes first when there are too many.
    """

    peaks: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    paces: dict[str, list[float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.peaks or self.seconds or self.paces)


class Learned:
    """What is known so far: from the note, and from this session."""

    def __init__(self) -> None:
        self._noted = Costs()
        self._fresh = Costs()
        self._floors: dict[str, int] = {}
        """Bytes that a compile was seen to hold before it had ended: it needs that much or more."""

    # Asking

    def memory(self, work: Work, budget: int | None) -> int:
        """Bytes that a compile is expected to hold. budget: what there is for all; None is not known.

        An unknown tool is expected to need a lot, but no more than half of the budget, so that two of it
        are tried at once wherever more than one may run.
        """
        fine, coarse = work.memory
        known = self._peak(fine) or self._peak(coarse)
        if known is None:
            expected: float = _DEFAULT_PEAKS.get(work.tool, DEFAULT_PEAK)
            if budget is not None:
                expected = min(expected, budget / 2)
        else:
            expected = known * MARGIN
        seen = self._floors.get(fine, 0) if known else max(self._floors.get(name, 0) for name in work.memory)
        return int(max(expected, seen * MARGIN, _LEAST_PEAK))

    def seconds(self, work: Work) -> float | None:
        """How long a compile is expected to run; None when nothing like it was seen."""
        for shape in work.shapes:
            known = self._fresh.seconds.get(shape) or self._noted.seconds.get(shape)
            if known is not None:
                return known
        return None

    def pace(self, work: Work) -> float | None:
        """Seconds within which nine of ten compiles of this tool and target ended; None for too few of them."""
        times = (self._noted.paces.get(work.pace, []) + self._fresh.paces.get(work.pace, []))[-PACE_SAMPLES:]
        if len(times) < PACE_LEAST:
            return None
        return sorted(times)[math.ceil(0.9 * len(times)) - 1]

    def _peak(self, name: str) -> int | None:
        return self._fresh.peaks.get(name) or self._noted.peaks.get(name)

    # Learning

    def succeeded(self, work: Work, seconds: float, peak: int) -> None:
        """A compile ended by itself, with an artifact. peak: bytes; 0 is not known."""
        if peak > 0:
            for name in work.memory:
                before = self._peak(name) or peak
                now = peak if peak >= before else before - (before - peak) // _DECAY
                _touch(self._fresh.peaks, name, now, _MAX_PEAKS)
                self._floors.pop(name, None)
        for shape in work.shapes:
            before_seconds = self._fresh.seconds.get(shape) or self._noted.seconds.get(shape)
            mean = seconds if before_seconds is None else (before_seconds + seconds) / 2
            _touch(self._fresh.seconds, shape, _rounded(mean), _MAX_SHAPES)
        times = self._fresh.paces.get(work.pace, [])
        _touch(self._fresh.paces, work.pace, [*times, _rounded(seconds)][-PACE_SAMPLES:], _MAX_PACES)

    def holds(self, work: Work, held: int) -> None:
        """A compile that still runs holds this many bytes."""
        for name in work.memory:
            if held > self._floors.get(name, 0):
                _touch(self._floors, name, held, _MAX_PEAKS)

    def killed(self, work: Work, held: int, expected: int) -> None:
        """The kernel killed a compile for memory; it held `held` bytes, and `expected` was thought enough.

        What it was expected to hold was too little, or its neighbours held more than they were: either way
        a quarter more is expected of all its like from now on.
        """
        raised = int(max(held, expected / MARGIN) * 1.25)
        self.holds(work, raised)
        for name in work.memory:
            known = self._peak(name)
            if known is not None:
                _touch(self._fresh.peaks, name, max(known, raised), _MAX_PEAKS)

    # The note

    @property
    def changed(self) -> bool:
        """Whether there is anything that the note does not have."""
        return bool(self._fresh)

    def load(self, text: str | None) -> None:
        """Take up a note."""
        self._noted = read_note(text)

    def merged(self, text: str | None) -> str:
        """The note to write, given the one that is there now; from here on it is what was noted."""
        self._noted = _merged(read_note(text), self._noted, self._fresh)
        self._fresh = Costs()
        return write_note(self._noted)


def _merged(there: Costs, before: Costs, fresh: Costs) -> Costs:
    """there: the note as it is; before: as it was when `fresh` was begun."""
    for name, peak in fresh.peaks.items():
        theirs = there.peaks.get(name, 0)
        # Another session has learned too: the larger of the two is the safer.
        _touch(there.peaks, name, peak if theirs == before.peaks.get(name, 0) else max(peak, theirs), _MAX_PEAKS)
    for shape, seconds in fresh.seconds.items():
        _touch(there.seconds, shape, seconds, _MAX_SHAPES)
    for pace, times in fresh.paces.items():
        _touch(there.paces, pace, (there.paces.get(pace, []) + times)[-PACE_SAMPLES:], _MAX_PACES)
    return there


def write_note(costs: Costs) -> str:
    """The note's text."""
    data = {"schema": SCHEMA, "peaks": costs.peaks, "seconds": costs.seconds, "paces": costs.paces}
    return json.dumps(data, separators=(",", ":"))


def read_note(text: str | None) -> Costs:
    """A note's costs, without whatever is malformed in it."""
    try:
        data = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return Costs()
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        return Costs()
    return Costs(
        peaks=_sound(data.get("peaks"), _as_bytes, _MAX_PEAKS),
        seconds=_sound(data.get("seconds"), _as_seconds, _MAX_SHAPES),
        paces=_sound(data.get("paces"), _as_times, _MAX_PACES),
    )


def _sound(items: Any, read: Callable[[Any], V | None], most: int) -> dict[str, V]:
    if not isinstance(items, dict):
        return {}
    found = {name[:_NAME]: value for name, item in items.items() if (value := read(item)) is not None}
    return dict(list(found.items())[-most:])


def _as_bytes(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 50 else None


def _as_seconds(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e7 else None


def _as_times(value: Any) -> list[float] | None:
    if not isinstance(value, list):
        return None
    return [time for item in value if (time := _as_seconds(item)) is not None][-PACE_SAMPLES:]


def _touch(items: dict[str, V], name: str, value: V, most: int) -> None:
    """Set an item and make it the newest; the oldest goes when there are too many."""
    items.pop(name, None)
    items[name] = value
    while len(items) > most:
        del items[next(iter(items))]


def _rounded(seconds: float) -> float:
    """Three digits: the note stays small."""
    return float(f"{seconds:.3g}")
