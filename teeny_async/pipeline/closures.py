"""Closures in the pipeline: which result a request would have now, and what a compile taught us.

Everything that touches a file happens in a thread, for a whole batch at a time, on one snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from teeny_async.action import Action
from teeny_async.closure import (
    MAX_FILES,
    Variant,
    dump_manifest,
    load_manifest,
    module_twins,
    must_be_absent,
    read_depfile,
    result_digest,
    rustc_environment,
    with_variant,
)
from teeny_async.execution.digests import FileDigests, Snapshot, changed_since, file_clock_ns
from teeny_async.nearest import Differences
from teeny_async.store.base import Store

CLOSURE_NOTE = "closure:"
"""What the names of manifests begin with. They name files with their contents, so they hold on every machine."""
_UNKEYED = frozenset({"HOME", "TMPDIR", "PATH"})
"""Variables that differ from run to run or from machine to machine, and are in no key."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a compile that read files taught: the key its result may be kept under, or why it may not."""

    digest: str | None
    why_not: str | None = None


class Closures:
    """The closures of a session's requests."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._digests = FileDigests()

    async def result_digests(self, request_digests: Sequence[str]) -> list[str | None]:
        """For each request key, the key of the result that it has with the files as they are; None: unknown."""
        notes = await self._store.get_notes([_note(digest) for digest in request_digests])
        manifests = [load_manifest(note) for note in notes]
        found = await self._matching(manifests)
        stale = [index for index, variant in enumerate(found) if variant is None and manifests[index]]
        for index, variant in (await self._matching_further([request_digests[index] for index in stale])).items():
            place = stale[index]
            found[place] = variant
            text = dump_manifest(with_variant(manifests[place], variant))
            await self._store.put_note(_note(request_digests[place]), text)
        both = zip(request_digests, found, strict=True)
        return [None if variant is None else result_digest(digest, variant) for digest, variant in both]

    async def _matching_further(self, request_digests: Sequence[str]) -> dict[int, Variant]:
        """By place: what holds now of the closures that are known to others, where those known here are old."""
        found = await self._matching(await self._further(request_digests))
        return {index: variant for index, variant in enumerate(found) if variant is not None}

    async def _further(self, request_digests: Sequence[str]) -> list[list[Variant]]:
        """What others know of each; nothing at all where the store has no others."""
        ask = getattr(self._store, "further_notes", None)
        if ask is None or not request_digests:
            return []
        texts = await ask([_note(digest) for digest in request_digests])
        return [[one for text in some for one in load_manifest(text)] for some in texts]

    async def _matching(self, manifests: list[list[Variant]]) -> list[Variant | None]:
        """Of each, the closure that holds with the files as they are."""
        if not any(manifests):
            return [None] * len(manifests)
        return await anyio.to_thread.run_sync(self._match_all, manifests)

    def _match_all(self, manifests: list[list[Variant]]) -> list[Variant | None]:
        snapshot = Snapshot(self._digests, file_clock_ns())
        return [next((one for one in variants if one.matches(snapshot)), None) for variants in manifests]

    async def earlier(self, request_digest: str) -> list[tuple[Variant, Differences]]:
        """The earlier compiles of a request that are known, newest first, and in what the files that each read
        have changed since; a result holds where they have not."""
        variants = load_manifest(await self._store.get_note(_note(request_digest)))
        if not variants:
            return []
        further = await self._further([request_digest])
        variants += [one for one in (further[0] if further else []) if one not in variants]
        return await anyio.to_thread.run_sync(self._compare, variants)

    def _compare(self, variants: list[Variant]) -> list[tuple[Variant, Differences]]:
        snapshot = Snapshot(self._digests, file_clock_ns())
        return [(variant, variant.changes(snapshot)) for variant in variants]

    async def learn(self, request_digest: str, action: Action, depfile: bytes | None, began_ns: int) -> Lesson:
        """Take up what a compile that began at `began_ns` (of `file_clock_ns`) read."""
        if depfile is None:
            return Lesson(None, "the compiler did not say what it read")
        text = depfile.decode("utf-8", "surrogateescape")
        unkeyed = _UNKEYED.intersection(rustc_environment(text))
        if unkeyed:
            return Lesson(None, f"the source reads the environment variable {min(unkeyed)}, which is in no key")
        variant = await anyio.to_thread.run_sync(self._observe, action, text, began_ns)
        if isinstance(variant, str):
            return Lesson(None, variant)
        note = _note(request_digest)
        known = load_manifest(await self._store.get_note(note))
        await self._store.put_note(note, dump_manifest(with_variant(known, variant)))
        return Lesson(result_digest(request_digest, variant))

    def _observe(self, action: Action, text: str, began_ns: int) -> Variant | str:
        """The closure of a compile, or why it has none that can be trusted."""
        files = closure_files(action, read_depfile(text))
        if len(files) > MAX_FILES:
            return f"it read {len(files)} files, more than are worth watching"
        snapshot = Snapshot(self._digests, file_clock_ns())
        contents = {}
        for path in files:
            digest = snapshot.digest(path)
            if digest is None or changed_since(path, began_ns):
                return f"{path} changed while it was compiled"
            contents[path] = digest
        absent = must_be_absent(files, action.search, snapshot.is_there)
        return Variant(contents, (*absent, *(module_twins(files) if action.mirror else ())))


def closure_files(action: Action, listed: Sequence[str]) -> list[str]:
    """Absolute paths of the files read that were not ours: each once, links in folder names resolved."""
    own = {item.name for item in action.inputs}
    found: dict[str, None] = {}
    for path in listed:
        name = os.path.normpath(path)
        if name in own:
            continue
        if not os.path.isabs(name):
            if action.mirror is None:
                continue
            name = os.path.join(action.mirror, name)
        found[os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))] = None
    return list(found)


def _note(request_digest: str) -> str:
    return CLOSURE_NOTE + request_digest
