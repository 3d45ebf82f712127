"""`Budget`: how much a tuning run may do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from teeny_async.errors import RequestError

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """configs: different configurations of each kernel on each target. seconds: of the whole run, resumed parts
    included; what is under way then is brought to its end. None is no limit."""

    configs: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.configs is not None and self.configs < 1:
            raise RequestError(f"budget: 1 configuration or more, not {self.configs!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise RequestError(f"budget: a number of seconds above 0, not {self.seconds!r}")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`200` configurations, `60s`, `10m` or `1h`, or both: `200,10m`. Raises RequestError."""
        configs: int | None = None
        seconds: float | None = None
        for part in (part.strip() for part in text.split(",")):
            if match := _SECONDS.fullmatch(part):
                seconds = float(match[1]) * _UNITS[match[2]]
            elif part.isdecimal():
                configs = int(part)
            else:
                raise RequestError(f"budget {text!r}: write 200 (configurations), 60s, 10m, 1h, or 200,10m")
        return cls(configs=configs, seconds=seconds)

    def exhausted(self, elapsed: float) -> bool:
        """Whether the time is up."""
        return self.seconds is not None and elapsed >= self.seconds
