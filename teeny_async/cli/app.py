"""`teeny-async`: the group of commands, and what becomes of the errors that reach it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from teeny_async import __version__
from teeny_async.cli.streams import give_up_stdout
from teeny_async.errors import CacheError, RequestError

REFUSED = 2
BROKEN_PIPE = 141
INTERRUPTED = 130
COMMANDS = {
    "best": "tune",
    "cache": "cache",
    "compile": "compiling:compile_command",
    "doctor": "doctor",
    "explain": "explain",
    "report": "tune",
    "sweep": "compiling",
    "tune": "tune",
    "upstream": "upstream",
}
"""The module of each command, and its name there where it is another. A command is loaded when it is run, or when
all are listed: those that are not run would be 3 ms of a warm start."""


class CommandLine(click.Group):
    """A group whose commands are loaded by name, return exit codes and raise the package's own errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            for known in COMMANDS:  # click proposes one of those it holds
                self.get_command(ctx, known)
            return None
        if cmd_name not in self.commands:
            module, _, name = COMMANDS[cmd_name].partition(":")
            loaded = importlib.import_module(f"teeny_async.cli.{module}")
            self.add_command(getattr(loaded, name or cmd_name), cmd_name)
        return self.commands[cmd_name]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        sys.exit(self._exit_code(args, prog_name or "teeny-async", complete_var, **extra))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            give_up_stdout()  # whoever read it has gone
            return BROKEN_PIPE
        return code

    def _exit_code(self, args: Sequence[str] | None, name: str, complete_var: str | None, **extra: Any) -> int:
        try:
            code = super().main(args, name, complete_var, False, **extra)
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (RequestError, CacheError) as error:
            _complain(str(error))
            return REFUSED
        except (click.Abort, KeyboardInterrupt):
            click.echo(err=True)
            return INTERRUPTED
        except OSError as error:
            _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            _flush_or_give_up()
            return 1
        return code if isinstance(code, int) else 0


def _flush_or_give_up() -> None:
    """Where the error was that standard output is full, it is full at the end, too."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up_stdout()


def _complain(message: str) -> None:
    click.echo(f"Error: {message}", err=True)


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 ok, 1 some compile failed, 2 usage and refused requests, 3 a toolchain is missing, "
    "130 Ctrl-C, 143 SIGTERM.",
)
@click.version_option(__version__, prog_name="teeny-async")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Compile GPU and CPU kernels in bulk: many compilers at a time, each artifact made once."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
