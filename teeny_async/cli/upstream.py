"""`teeny-async upstream`: teenygrad's own cache folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from teeny_async.cli.options import NamedPath

_FILE = NamedPath()
_FOLDER = click.option(
    "--cache-dir",
    type=_FILE,
    required=True,
    envvar="TEENYC_CACHE_DIR",
    metavar="DIR",
    help="teenygrad's cache folder. Default: TEENYC_CACHE_DIR.",
)
_STORE = click.option(
    "--store", type=_FILE, metavar="DIR", help="Our cache folder. Default: see `teeny-async cache path`."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_PRELUDE = click.option(
    "--prelude",
    type=_FILE,
    multiple=True,
    envvar="TEENY_ASYNC_PRELUDE",
    metavar="FILE",
    help="A prelude that sources may begin with; repeat it. Default: TEENY_ASYNC_PRELUDE.",
)
_ID = click.option(
    "--id", "ids", multiple=True, metavar="ID", help="A kernel id, as in vector_add__f32__1024; repeat it."
)


@click.group(short_help="teenygrad's own cache folder: export, import, verify.")
def upstream() -> None:
    """The folder in which teenygrad's programs look for compiled kernels before they run teenyc.

    Programs may use it at the same time. Its file names know neither the source nor the compiler, so what is in it
    can be stale: see `verify`.
    """


@upstream.command("export")
@_FOLDER
@_STORE
@click.option("--replace", is_flag=True, help="Write over a .o that is there and different.")
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait, in all, for kernels that a program is compiling.",
)
@_JSON
def export_command(cache_dir: Path, store: Path | None, replace: bool, patience: float, as_json: bool) -> int:
    """Write every artifact of teenyc that is in our cache, under every name and id it was asked for.

    A teenygrad program then finds them with no teenyc installed. A .o that is there and different stays, and the
    exit code is 1.
    """
    from teeny_async.cli.upstream_run import run_export

    return run_export(cache_dir, store, replace=replace, patience=patience, as_json=as_json)


@upstream.command("import")
@_FOLDER
@click.option("--out", "-o", type=_FILE, metavar="DIR", help="Write each kernel there, as NAME.rs, for `sweep`.")
@_PRELUDE
@_ID
@_JSON
def import_command(**values: Any) -> int:
    """List the kernels whose sources a program left there; with --out, write them for a sweep.

    A source that begins with a --prelude is written without it.
    """
    from teeny_async.cli.upstream_run import run_import

    return run_import(**values)


@upstream.command("verify")
@_FOLDER
@_STORE
@click.argument("kernels", nargs=-1, type=_FILE, metavar="[KERNEL]...")
@_PRELUDE
@_ID
@_JSON
def verify_command(**values: Any) -> int:
    """Say which .o files are not what their source, compiler or target give now.

    The source is that of the KERNEL of the same name, else the .rs beside the .o. It is compiled again (through our
    cache) and compared. Exit code 1 when any is stale, 3 when there is no teenyc to ask.
    """
    from teeny_async.cli.upstream_run import run_verify

    return run_verify(**values)
