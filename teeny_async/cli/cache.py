"""`teeny-async cache`: where the cache is, what is in it, and away with it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_CACHE_DIR = click.option(
    "--cache-dir", type=click.Path(path_type=Path), metavar="DIR", help="Instead of the default folder."
)


@click.group(short_help="Where the cache is, what is in it; clear it.")
def cache() -> None:
    """The folder that keeps every artifact ever made: TEENY_ASYNC_CACHE_DIR, or the user's own cache folder."""


@cache.command()
@_CACHE_DIR
def path(cache_dir: Path | None) -> int:
    """Print the cache folder."""
    click.echo(cache_folder(cache_dir))
    return 0


@cache.command()
@_CACHE_DIR
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def stats(cache_dir: Path | None, as_json: bool) -> int:
    """Show how many entries there are, and how much room they take."""
    from teeny_async.cli.look import cache_state

    state = cache_state(cache_folder(cache_dir))
    if as_json:
        import json

        click.echo(json.dumps({"schema": 1, **state}))
        return 0
    from teeny_async.report.text import plural, size_text

    click.echo(state["location"])
    if not state["exists"]:
        click.echo("not there yet: the first compile makes it")
        return 0
    click.echo(
        f"{plural(state['entries'], 'entry').replace('entrys', 'entries')}, {size_text(state['bytes'])}", nl=False
    )
    click.echo(f" of {size_text(state['size_limit'])}" if state["size_limit"] else "")
    if state["trouble"]:
        click.echo(f"trouble: {state['trouble']}", err=True)
    return 0


@cache.command()
@_CACHE_DIR
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def clear(cache_dir: Path | None, yes: bool) -> int:
    """Remove every entry."""
    from teeny_async.cli.look import cache_state, clear_cache

    folder = cache_folder(cache_dir)
    entries = cache_state(folder)["entries"]
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to be asked; add --yes to clear the cache.")
        click.confirm(f"Remove {entries:,} entries from {folder}?", abort=True, err=True)
    click.echo(f"removed {clear_cache(folder) if entries else 0:,} entries from {folder}", err=True)
    return 0


def cache_folder(given: Path | None) -> Path:
    """The folder that was named, or the one that the environment says."""
    import os

    from teeny_async.settings import Settings

    return given.absolute() if given is not None else Settings.from_environ(os.environ).cache_dir
