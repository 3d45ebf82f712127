"""What `teeny-async upstream` does, and how it tells."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio
import click

from teeny_async.cli.cache import cache_folder
from teeny_async.errors import CacheError
from teeny_async.model import Kernel
from teeny_async.prelude import read_prelude
from teeny_async.report.text import plural
from teeny_async.settings import Settings
from teeny_async.store.disk import DiskStore
from teeny_async.upstream import ExportReport, Found, Verdict, VerifyReport, export, find_kernels, verify

MISSING = 3


def run_export(cache_dir: Path, store: Path | None, *, replace: bool, patience: float, as_json: bool) -> int:
    """Export, and say what was done."""
    folder = cache_folder(store)
    if not folder.is_dir():
        raise CacheError(f"there is no cache at {folder}")

    async def call() -> ExportReport:
        return await export(DiskStore(folder), cache_dir, replace=replace, patience=patience)

    report = anyio.run(call)
    if as_json:
        click.echo(json.dumps({"schema": 1, "folder": str(cache_dir), **asdict(report)}))
        return 0 if report.ok else 1
    for stem in report.written:
        click.echo(cache_dir / f"{stem}.o")
    for line in _export_lines(report, cache_dir):
        click.echo(line, err=True)
    return 0 if report.ok else 1


def _export_lines(report: ExportReport, folder: Path) -> Iterable[str]:
    yield f"{plural(len(report.written), 'kernel')} written to {folder}, {report.same:,} there already"
    if report.older:
        yield f"{plural(report.older, 'older artifact')} of the same names left out"
    for stem in report.without_source:
        yield f"{stem}: no .rs, for its prelude is no longer in the cache"
    for stem in report.different:
        yield f"{stem}.o: another one is there; --replace writes over it"
    for stem in report.busy:
        yield f"{stem}: a program held its lock all the time"
    for name, why in report.unnamed:
        yield f"kernel {name!r}: {why}"
    for message in report.trouble:
        yield f"our cache: {message}"


def run_import(*, cache_dir: Path, out: Path | None, prelude: Sequence[Path], ids: Sequence[str], as_json: bool) -> int:
    """List the kernels, and write them where that was asked for."""
    preludes = [read_prelude(path) for path in prelude]
    found, refused = find_kernels(cache_dir, preludes=preludes, ids=ids)
    paths = [None] * len(found) if out is None else _write_kernels(out, found)
    if as_json:
        kernels = [_kernel_to_dict(one, path) for one, path in zip(found, paths, strict=True)]
        click.echo(json.dumps({"schema": 1, "folder": str(cache_dir), "kernels": kernels, "refused": refused}))
        return 0
    for one, path in zip(found, paths, strict=True):
        click.echo(one.kernel.name if path is None else path)
    files = sum(len(one.stems) for one in found)
    click.echo(f"{plural(len(found), 'kernel')} in {plural(files, 'source')} of {cache_dir}", err=True)
    for stem, why in refused:
        click.echo(f"{stem}.rs: {why}", err=True)
    whole = sum(not one.kernel.prelude for one in found)
    if preludes and whole:
        click.echo(f"{plural(whole, 'kernel')} with no such prelude: sweep them with --prelude ''", err=True)
    return 0


def _write_kernels(out: Path, found: Sequence[Found]) -> list[Path]:
    """Write each source as NAME.rs; where several have a name, with some of its hash."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for one in found:
        sources[one.kernel.name].add(one.kernel.source)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for one in found:
        name = one.kernel.name
        if len(sources[name]) > 1:
            name = f"{name}_{one.stems[0][-64:-56]}"
        path = out / f"{name}.rs"
        path.write_text(one.kernel.source, encoding="utf-8")
        paths.append(path)
    return paths


def _kernel_to_dict(one: Found, path: Path | None) -> dict[str, Any]:
    targets = [{"cpu": cpu, "ptx_version": version} for cpu, version in one.targets]
    return {
        "name": one.kernel.name,
        "id": one.kernel.id,
        "prelude": bool(one.kernel.prelude),
        "stems": list(one.stems),
        "targets": targets,
        "path": None if path is None else str(path),
    }


def run_verify(
    *,
    cache_dir: Path,
    store: Path | None,
    kernels: Sequence[Path],
    prelude: Sequence[Path],
    ids: Sequence[str],
    as_json: bool,
) -> int:
    """Verify, and say of each what is wrong."""
    preludes = [read_prelude(path) for path in prelude]
    # A kernel given has the first of them, as in a sweep.
    given = [Kernel.from_file(path, prelude=next(iter(preludes), "")) for path in kernels]
    settings = replace(Settings.from_environ(os.environ), cache_dir=cache_folder(store))

    async def call() -> VerifyReport:
        return await verify(cache_dir, settings=settings, kernels=given, preludes=preludes, ids=ids)

    report = anyio.run(call)
    if as_json:
        verdicts = [_verdict_to_dict(verdict) for verdict in report.verdicts]
        data = {"schema": 1, "folder": str(cache_dir), "toolchain": report.toolchain, "verdicts": verdicts}
        click.echo(json.dumps(data))
    else:
        _tell_verdicts(report)
    if not report.ok:
        return 1
    return MISSING if report.toolchain is not None and report.verdicts else 0


def _verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "target": None if verdict.target is None else str(verdict.target)}


def _tell_verdicts(report: VerifyReport) -> None:
    for verdict in report.verdicts:
        if verdict.state != "good":
            target = "" if verdict.target is None else f" ({verdict.target})"
            click.echo(f"{verdict.state:7} {verdict.stem}.o{target}: {verdict.why}")
    counts = ", ".join(f"{len(report.of(state)):,} {state}" for state in ("good", "stale", "unknown"))
    click.echo(f"{plural(len(report.verdicts), 'kernel')}: {counts}", err=True)
    if report.toolchain is not None:
        click.echo(report.toolchain, err=True)
