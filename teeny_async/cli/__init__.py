"""The command line: click commands; every heavy import inside its command.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok, 1 some compile failed,
2 usage and refused requests, 3 a toolchain is missing, 130 Ctrl-C, 143 SIGTERM, 141 nobody reads our output.
"""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run `teeny-async` with the arguments of the process."""
    from teeny_async.cli.app import cli

    cli.main(prog_name="teeny-async")
    raise AssertionError("click always exits")
