"""`export`: from a store to teenygrad's cache folder, while programs may be writing to it."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace as replace_fields
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread

from teeny_async.errors import CacheError
from teeny_async.store.disk import DiskStore
from teeny_async.upstream.folder import Outcome, UpstreamFolder
from teeny_async.upstream.layout import MLIR, OBJECT, SOURCE
from teeny_async.upstream.records import Preludes, Record, records

PATIENCE = 60.0
"""Seconds that a program's lock is waited for, in all, where nothing else is said."""
_PAUSE = 0.05
"""Seconds between two looks at a lock that someone holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What became of an export. A stem is `<name>_<hash>`, which a kernel's files have in common.

    written: stems whose files were written. same: how many were there as they are.
    different: stems with another `.o`, which was left. busy: stems that a program held the lock of all the time.
    older: artifacts that a newer one of the same name, id and target took the place of.
    without_source: stems whose prelude the store has forgotten: they have no `.rs`.
    unnamed: (kernel name, why it cannot be part of a file name).
    trouble: what the store complained about: some of what it had may be missing.
    """

    written: Sequence[str] = ()
    same: int = 0
    different: Sequence[str] = ()
    busy: Sequence[str] = ()
    older: int = 0
    without_source: Sequence[str] = ()
    unnamed: Sequence[tuple[str, str]] = ()
    trouble: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether a program finds all that it could."""
        return not (self.different or self.busy or self.unnamed or self.trouble)


class _Newest(NamedTuple):
    created: float
    digest: str


async def export(
    store: DiskStore, folder: str | os.PathLike[str], *, replace: bool = False, patience: float = PATIENCE
) -> ExportReport:
    """Write every artifact of teenyc into teenygrad's cache folder, under every name and id it was asked for.

    Of several for one file name (its hash knows neither source nor compiler), the newest is written.
    replace: write over an `.o` that is there and different; by the folder's protocol, one that is there stays.
    patience: seconds to wait, in all, for kernels that a program is writing.

    Raises CacheError for a store that cannot be opened and a folder that cannot be written to.
    """
    exporting = _Export(store, UpstreamFolder(folder), replace)
    trouble: list[str] = []
    await store.open(lambda operation, message: trouble.append(message))
    try:
        await exporting.run(patience)
    except OSError as error:
        raise CacheError(f"cannot write into {exporting.folder.path}: {error.strerror or error}") from error
    finally:
        await store.aclose()
    return replace_fields(exporting.report(), trouble=tuple(trouble))


class _Export:
    def __init__(self, store: DiskStore, folder: UpstreamFolder, replace: bool) -> None:
        self.folder = folder
        self._store = store
        self._replace = replace
        self._preludes = Preludes(store)
        self._newest: dict[str, _Newest] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._waiting: dict[str, Mapping[str, bytes]] = {}
        self._older = 0
        self._without_source: list[str] = []
        self._unnamed: dict[str, str] = {}

    async def run(self, patience: float) -> None:
        """Choose, write, and wait for those who write the same. Raises OSError."""
        await anyio.to_thread.run_sync(self.folder.prepare)
        async for record in records(self._store):
            self._choose(record)
        await self._write()
        deadline = time.monotonic() + patience
        while self._waiting and time.monotonic() < deadline:
            await anyio.sleep(_PAUSE)
            for stem, files in list(self._waiting.items()):
                await self._publish(stem, files)

    def report(self) -> ExportReport:
        """What has become of it so far."""

        def stems(outcome: Outcome) -> tuple[str, ...]:
            return tuple(sorted(stem for stem, found in self._outcomes.items() if found == outcome))

        return ExportReport(
            written=stems("written"),
            same=len(stems("same")),
            different=stems("different"),
            busy=stems("busy"),
            older=self._older,
            without_source=tuple(sorted(self._without_source)),
            unnamed=tuple(sorted(self._unnamed.items())),
        )

    def _choose(self, record: Record) -> None:
        for pair in record.pairs:
            try:
                stem = record.stem(pair)
            except ValueError as error:
                self._unnamed[pair[0]] = str(error)
                continue
            mine, there = _Newest(record.created, record.digest), self._newest.get(stem)
            if there is not None and there.digest != mine.digest:
                self._older += 1
            if there is None or mine > there:
                self._newest[stem] = mine

    async def _write(self) -> None:
        chosen: defaultdict[str, list[str]] = defaultdict(list)
        for stem, newest in self._newest.items():
            chosen[newest.digest].append(stem)
        async for record in records(self._store, all_pairs=False):
            if stems := chosen.get(record.digest):
                files = await self._files(record)
                for stem in stems:
                    await self._publish(stem, files)
                    if SOURCE not in files:
                        self._without_source.append(stem)

    async def _files(self, record: Record) -> Mapping[str, bytes]:
        """An artifact's files, by suffix."""
        outputs = record.artifact.outputs
        files = {OBJECT: outputs["ptx"]}
        if "mlir" in outputs:
            files[MLIR] = outputs["mlir"]
        prelude = await self._preludes.get(record.prelude)
        if prelude is not None:
            files[SOURCE] = (prelude + record.source).encode()
        return files

    async def _publish(self, stem: str, files: Mapping[str, bytes]) -> None:
        outcome = await anyio.to_thread.run_sync(partial(self.folder.publish, stem, files, replace=self._replace))
        self._outcomes[stem] = outcome
        if outcome == "busy":
            self._waiting[stem] = files
        else:
            self._waiting.pop(stem, None)
