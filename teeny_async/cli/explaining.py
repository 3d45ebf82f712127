"""From the options of `explain` to its exit code."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator

import anyio
import click

from teeny_async.api import Compiler
from teeny_async.caching import store_to_look_into
from teeny_async.cli.cache import cache_folder
from teeny_async.cli.notes import notes_from_logging
from teeny_async.cli.options import Options
from teeny_async.cli.requests import Work, check, work_of
from teeny_async.errors import ToolchainNotFoundError
from teeny_async.failures import POLICIES, FailureKind
from teeny_async.model import CompileRequest
from teeny_async.plain import explanation_to_dict
from teeny_async.report.explanations import explanation_lines
from teeny_async.settings import Settings

_AT_ONCE = 256
"""Requests for which the cache is gone through together."""


def run(options: Options) -> int:
    """Explain it all; the exit code. Raises RequestError, CacheError and click's exceptions for what is refused."""
    work = work_of(options)
    with notes_from_logging(lambda text: click.echo(text, err=True)):
        try:
            return anyio.run(_explain, options, work, backend=options.backend)
        except ToolchainNotFoundError as error:
            click.echo(f"Error: {error.failure.message}", err=True)
            return POLICIES[FailureKind.TOOL_MISSING].exit_code


async def _explain(options: Options, work: Work) -> int:
    settings = Settings.from_environ(os.environ)
    store = store_to_look_into(cache_folder(options.cache_dir), options.shared_cache or None, settings)
    compiler = Compiler(store=store)
    async with compiler:
        checked = await check(compiler, work, skip_refused=options.skip_refused)
        for note in checked.notes:
            click.echo(note, err=True)
        separator = "\n"
        if options.format == "json":
            click.echo('{"schema": 1, "explanations": [', nl=False)
        for requests in _batches(checked.missing or checked.accepted(work)):
            for explanation in await compiler.explain_many(requests):
                if options.format == "json":
                    click.echo(separator + json.dumps(explanation_to_dict(explanation)), nl=False)
                    separator = ",\n"
                else:
                    for line in explanation_lines(explanation):
                        click.echo(line)
        if options.format == "json":
            click.echo("\n]}")
    return 0


def _batches(requests: Iterable[CompileRequest]) -> Iterator[list[CompileRequest]]:
    pending = iter(requests)
    while batch := list(itertools.islice(pending, _AT_ONCE)):
        yield batch
