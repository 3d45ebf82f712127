"""The program of an interpreter that gets ready once, then forks itself for each job (see `forks`).

    python OPTIONS forker.py                # descriptor 0: its socket

The first message is the program that gets it ready. Each further one is a job, with three descriptors: the job's
standard output and error, and a pipe on which it waits until the supervisor knows of it. The job is a grandchild whose
parent ends at once, so that it becomes the supervisor's own child: it is waited for, counted and killed as any
compiler is. Each has memory of its own; a crash of one is nothing to the others.
"""

import gc
import json
import os
import socket
import sys
import types

MESSAGE = 1 << 18


def main() -> None:
    """Serve until the socket ends. Whatever goes wrong here ends the process, and jobs are then started without it."""
    sock = socket.socket(fileno=0)
    os.chdir(os.environ["TMPDIR"])  # and out of the folder of the job that it was started for
    program = sock.recv(MESSAGE)
    exec(compile(program, "warm.py", "exec"), {"__name__": "__warm__"})  # noqa: S102 - it is what we are for
    gc.collect()
    gc.freeze()
    while True:
        data, descriptors, _, _ = socket.recv_fds(sock, MESSAGE, 3)
        if not data:
            os._exit(0)
        if not os.fork():
            if os.fork():
                os._exit(0)
            work(sock, json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if os.wait()[1]:
            os._exit(1)


def work(sock: socket.socket, job: dict, out: int, err: int, go: int) -> None:  # type: ignore[type-arg]
    """Become the job: a session, descriptors, folder and environment of its own; then run its script, and end."""
    code = 1
    try:
        os.setsid()
        sock.send(b"%s %d" % (job["name"].encode(), os.getpid()))
        if os.read(go, 1) != b"g":
            os._exit(1)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, number in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, number)
        for descriptor in (null, out, err, go):
            os.close(descriptor)
        os.chdir(job["folder"])
        os.environ.clear()
        os.environ.update(job["env"])
        code = run_script(job["argv"])
    finally:
        os._exit(code)


def run_script(argv: list) -> int:  # type: ignore[type-arg]
    """What `python SCRIPT ARGUMENTS` does."""
    if "tempfile" in sys.modules:
        import tempfile

        tempfile.tempdir = None  # it may have been asked for before, in another folder
    name_process(argv)
    sys.argv = argv
    main_module = types.ModuleType("__main__")
    sys.modules["__main__"] = main_module
    code = 0
    try:
        with open(argv[0], "rb") as script:
            exec(compile(script.read(), argv[0], "exec"), main_module.__dict__)  # noqa: S102
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def name_process(argv: list) -> None:  # type: ignore[type-arg]
    """Give the process, whose command line is this program's, the name of what it works on."""
    try:
        with open("/proc/self/comm", "w") as comm:
            comm.write(argv[1] if len(argv) > 1 else argv[0])
    except OSError:
        pass


if __name__ == "__main__":
    main()
