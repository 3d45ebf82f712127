"""How a worker talks: one JSON object a line, on standard input and output.

The kernel that a worker runs may print, crash or never return. So the real standard output is put aside and
what the kernel prints goes to standard error; and a thread waits for the end of standard input, which comes when
the parent is gone, however it went, and leaves at once.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def serve(handler: Handler, hello: Mapping[str, Any]) -> None:
    """Say hello, then answer each line; ends with standard input. An exception is an answer too."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    _say(answers, hello)
    while True:
        try:
            answer = handler(json.loads(lines.get()))
        except Refused as refused:
            answer = {"error": str(refused), "kind": refused.kind}
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this configuration's
            answer = {"error": f"{type(error).__name__}: {error}", "kind": "error"}
        _say(answers, answer)


class Refused(Exception):
    """No time, and why. kind: "wrong", "infeasible" or "error"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _read(lines: queue.Queue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _say(stream: Any, answer: Mapping[str, Any]) -> None:
    stream.write(json.dumps(answer) + "\n")
    stream.flush()
