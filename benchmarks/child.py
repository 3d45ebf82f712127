"""The other end of `measure.in_child`: calls one function and writes its numbers to a file."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def main(target: str, arguments: str, answer: str) -> None:
    module, _, name = target.partition(":")
    numbers = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    Path(answer).write_text(json.dumps(numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
