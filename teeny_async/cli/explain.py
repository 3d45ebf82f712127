"""`teeny-async explain`: why kernels are in the cache, or are not."""

from __future__ import annotations

from typing import Any

import click

from teeny_async.cli.options import Options, SectionCommand, compile_options

_LEFT_OUT: dict[str, Any] = {
    "out": None,
    "jsonl": False,
    "events": None,
    "quiet": False,
    "jobs": None,
    "memory": None,
    "wait_for_others": None,
    "timeout": None,
    "cpu_timeout": None,
    "retries": None,
    "fail_fast": False,
    "cached_only": False,
    "refresh": False,
    "no_cache": False,
    "mode": None,
    "unkeyable": "run",
    "remote": None,
    "remote_read_only": False,
}
"""Options of a compile that mean nothing here, and what stands for them."""


@click.command(
    "explain",
    cls=SectionCommand,
    epilog="Example:  teeny-async explain saxpy.c -t sm_80,sm_90 -p BLOCK=64",
    short_help="Say why kernels are in the cache, or are not.",
)
@compile_options
def explain(**values: Any) -> int:
    """Print the key of every kernel for every target and combination of params, and what it is made of.

    For what is not in the cache it names the stored entry that is nearest, and the components in which the two
    differ. The cache folder and the shared ones are looked into (a remote is not asked). Nothing is compiled, and
    nothing is written; compilers are asked for their versions.
    """
    options = Options.read({**values, **_LEFT_OUT})
    from teeny_async.cli.explaining import run

    return run(options)


explain.params = [param for param in explain.params if param.name not in _LEFT_OUT]
