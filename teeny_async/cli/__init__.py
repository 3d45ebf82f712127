"""The command line: click commands; every heavy import inside its command.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok, 1 some compile failed,
2 usage and refused requests, 3 a toolchain is missing, 130 Ctrl-C, 143 SIGTERM, 141 nobody reads our output.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; nothing is imported before Ctrl-C is provided for
if TYPE_CHECKING:
    from typing import NoReturn


GARBAGE = 10_000
"""Objects that are made, and not dropped, between two passes of the collector. Python's 700 are for small programs."""


def main() -> NoReturn:
    """Run `teeny-async` with the arguments of the process."""
    # Built in; `signal` would first import `enum` and what that needs.
    import _signal as signal  # type: ignore[import-not-found]

    # While we begin and while we end, Ctrl-C just ends the process; nothing is there yet to end in order.
    catches = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else a shell said to ignore it
    if catches:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import gc

    # Each pass of the collector over what is being loaded finds nothing.
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    from teeny_async.cli.app import cli
    from teeny_async.cli.streams import make_sound

    make_sound()
    try:
        if catches:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main(prog_name="teeny-async")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        gc.freeze()  # the interpreter's last collections would go through all that is about to be dropped anyway
        if catches:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise AssertionError("click always exits")
