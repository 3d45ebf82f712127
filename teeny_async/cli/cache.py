"""`teeny-async cache`: where the cache is, what is in it, whether it is sound, and away with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from teeny_async.cli.options import NamedPath

_CACHE_DIR = click.option("--cache-dir", type=NamedPath(), metavar="DIR", help="Instead of the default folder.")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_ARCHIVE = click.argument("archive", type=NamedPath(), metavar="FILE")


@click.group(short_help="Where the cache is, what is in it; check, trim, move or clear it.")
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
@_JSON
def stats(cache_dir: Path | None, as_json: bool) -> int:
    """Show how many entries there are, how much room they take, and what they have saved, by toolchain and target.

    Hits are those of all sessions since the folder was made or cleared; the seconds saved are what these took to
    compile.
    """
    from teeny_async.cli.look import cache_state
    from teeny_async.report.text import size_text

    state = cache_state(cache_folder(cache_dir))
    if as_json:
        return _print_json(state)
    click.echo(state["location"])
    if not state["exists"]:
        click.echo("not there yet: the first compile makes it")
        return 0
    limit = f" of {size_text(state['size_limit'])}" if state["size_limit"] else ""
    click.echo(f"{_entries(state['entries'])}, {size_text(state['bytes'])}{limit}")
    if state["groups"]:
        from teeny_async.report.cache_table import group_lines

        for line in group_lines(state["groups"]):
            click.echo(line)
    if state["trouble"]:
        click.echo(f"trouble: {state['trouble']}", err=True)
    return 0


@cache.command()
@_CACHE_DIR
@click.option("--quick", is_flag=True, help="Do not read the entries: look only whether they are there.")
@_JSON
def verify(cache_dir: Path | None, quick: bool, as_json: bool) -> int:
    """Check the database and every entry; drop what is bad, and what belongs to nothing.

    The exit code is 1 when something was bad. What was dropped is compiled again when it is next asked for.
    """
    from teeny_async.cli.look import verify_cache
    from teeny_async.report.text import plural, seconds_text, size_text

    report = verify_cache(cache_folder(cache_dir), deep=not quick)
    code = 0 if report["ok"] else 1
    if as_json:
        return _print_json(report, code)
    for name, what in report["bad"]:
        click.echo(f"dropped {name}: {what}")
    if report["dropped"] > len(report["bad"]):
        click.echo(f"and {report['dropped'] - len(report['bad']):,} more")
    if report["database"]:
        click.echo(f"the database was damaged, and was set aside: {report['database']}")
    if report["strays"]:
        click.echo(f"removed {plural(report['strays'], 'file')} that belonged to no entry")
    what = f"{_entries(report['entries'])} and {plural(report['notes'], 'note')}, {size_text(report['bytes'])}"
    click.echo(f"{what}: good; {report['dropped']:,} dropped; in {seconds_text(report['seconds'])}")
    return code


@cache.command()
@_CACHE_DIR
@click.option("--max-size", metavar="SIZE", help="Until no more than this is left, as in 2GiB.")
@click.option(
    "--max-count", type=click.IntRange(min=0), metavar="N", help="Until no more entries and notes than this are left."
)
@click.option("--older-than", metavar="AGE", help="What was not used for so long, as in 12h or 30d.")
@_JSON
def prune(
    cache_dir: Path | None, max_size: str | None, max_count: int | None, older_than: str | None, as_json: bool
) -> int:
    """Remove entries, those first that were not used for the longest time.

    A use is noted once in some hours, so --older-than is no more exact than that.
    """
    from teeny_async.cli.look import prune_cache
    from teeny_async.cli.values import parse_age, parse_size
    from teeny_async.report.text import size_text

    if max_size is None and max_count is None and older_than is None:
        raise click.UsageError("say what to remove: --max-size, --max-count or --older-than.")
    limit = None if max_size is None else parse_size(max_size)
    age = None if older_than is None else parse_age(older_than)
    report = prune_cache(cache_folder(cache_dir), max_bytes=limit, max_count=max_count, older_than=age)
    if as_json:
        return _print_json(report)
    click.echo(f"removed {report['removed']:,} entries and notes, {size_text(report['bytes'])}")
    return 0


@cache.command("export")
@_ARCHIVE
@_CACHE_DIR
@_JSON
def export_command(archive: Path, cache_dir: Path | None, as_json: bool) -> int:
    """Write every entry into one archive FILE, for `cache import` on another machine.

    Equal contents give equal archives.
    """
    from teeny_async.cli.look import export_cache
    from teeny_async.report.text import size_text

    report = export_cache(cache_folder(cache_dir), archive)
    if as_json:
        return _print_json(report)
    click.echo(f"wrote {_entries(report['entries'])} to {archive}, {size_text(report['bytes'])}")
    return 0


@cache.command("import")
@_ARCHIVE
@_CACHE_DIR
@_JSON
def import_command(archive: Path, cache_dir: Path | None, as_json: bool) -> int:
    """Take in an archive FILE that `cache export` wrote. What is in the cache already stays.

    The whole archive is verified first. It holds machine code that will be handed out as compiled here: import
    only what you would run.
    """
    from teeny_async.cli.look import import_cache

    report = import_cache(cache_folder(cache_dir), archive)
    if as_json:
        return _print_json(report)
    present = f"; {report['present']:,} were there already" if report["present"] else ""
    click.echo(f"took in {_entries(report['entries'])} from {archive}{present}")
    return 0


@cache.command()
@_CACHE_DIR
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def clear(cache_dir: Path | None, yes: bool) -> int:
    """Remove every entry from the cache folder.

    A shared cache (TEENY_ASYNC_REMOTE) is not this command's to clear: others use it. It keeps what it has.
    """
    from teeny_async.cli.look import cache_state, clear_cache, remote_location

    folder = cache_folder(cache_dir)
    entries = cache_state(folder)["entries"]
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to be asked; add --yes to clear the cache.")
        click.confirm(f"Remove {entries:,} entries from {folder}?", abort=True, err=True)
    click.echo(f"removed {clear_cache(folder) if entries else 0:,} entries from {folder}", err=True)
    if remote := remote_location():
        click.echo(f"{remote} was not cleared, since others use it; --remote '' leaves it out of a sweep", err=True)
    return 0


def cache_folder(given: Path | None) -> Path:
    """The folder that was named, or the one that the environment says."""
    import os

    from teeny_async.settings import Settings

    return given.absolute() if given is not None else Settings.from_environ(os.environ).cache_dir


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _print_json(data: Mapping[str, Any], code: int = 0) -> int:
    import json

    click.echo(json.dumps({"schema": 1, **data}))
    return code
