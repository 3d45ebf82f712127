"""The supervisor's entry: make the process fit for its work, then serve."""

from __future__ import annotations

import os
import signal

from .loop import Supervisor
from .system import become_subreaper, close_inherited, sweep
from .wire import pack

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from supervisor.main import main; main(*sys.argv[2:])"
"""Run by the bare interpreter; its first argument is the folder that this package lies in."""


def main(base: str, root: str, lock: str) -> None:
    """Serve on descriptor 0. `lock`: the descriptor whose flock marks the scratch folder as in use."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    close_inherited({0, 1, 2, int(lock)})
    os.set_inheritable(int(lock), False)
    sock = os.dup(0)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.umask(0o077)
    supervisor = Supervisor(sock, os.fsencode(root), adopts=become_subreaper())
    try:
        sweep(os.fsencode(base))
        supervisor.serve()
    except BaseException:
        import traceback

        report = traceback.format_exc()
        os.write(sock, pack([b"", report.encode()]))
        supervisor.close()
        raise
