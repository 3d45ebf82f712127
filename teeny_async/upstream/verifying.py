"""`verify`: which artifacts in teenygrad's cache folder are not what would be made now.

Its hash knows neither the source nor the prelude nor the compiler, so a program takes what was made of an older
one. What is right is found out in the one sure way: compile the source again, through the cache, and compare.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio
import anyio.to_thread

from teeny_async.api import Compiler
from teeny_async.errors import CacheError, RequestError
from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, Kernel
from teeny_async.pipeline.asking import NAMELESS, TOOL
from teeny_async.prelude import effective_prelude
from teeny_async.result import CompileResult
from teeny_async.settings import Settings
from teeny_async.store.disk import DiskStore
from teeny_async.target import Target
from teeny_async.toolchains.base import ToolNotFound
from teeny_async.toolchains.registry import DRIVERS
from teeny_async.upstream.blame import Made, culprit
from teeny_async.upstream.folder import UpstreamFolder
from teeny_async.upstream.layout import (
    OBJECT,
    SOURCE,
    Header,
    Origin,
    file_hash,
    find_origin,
    kernel_id,
    read_header,
    split_source,
    split_stem,
    target_problem,
    targets_of,
)
from teeny_async.upstream.records import Preludes, records

State = Literal["good", "stale", "unknown"]
_AT_ONCE = 128
"""Files under scrutiny at a time; how many are compiled at a time is the session's business."""
_DEFAULTS = ("TEENYC_PTX_VERSION", "TEENYC_LOG_LEVEL")
"""Variables that would be put in where the folder's files say that there was nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said of one `.o`.

    target: what it was compiled for, as far as that can be told. cause: of a stale one, "source", "compiler",
    "target", or "source or compiler" where nothing tells which. why: a sentence; "" for a good one.
    """

    stem: str
    name: str
    target: Target | None
    state: State
    cause: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """verdicts: on every `.o`, by stem. toolchain: why there is no teenyc to ask; None when there is."""

    verdicts: Sequence[Verdict] = ()
    toolchain: str | None = None

    def of(self, state: State) -> list[Verdict]:
        """Those of a kind."""
        return [verdict for verdict in self.verdicts if verdict.state == state]

    @property
    def ok(self) -> bool:
        """Whether none is stale."""
        return not self.of("stale")


@dataclass(slots=True)
class _Case:
    """One `.o` under scrutiny. text: what its `.rs` holds. kernel: what it should be made of. targets: what it may
    have been made for, the likeliest first."""

    stem: str
    name: str
    data: bytes
    text: str | None
    targets: Sequence[Target] = ()
    kernel: Kernel | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known from elsewhere.

    kernels: as they are now, by name. ids: that names may be made of. stored_ids: those of the store, by name, of
    which there may be many. origins: what the store says that stems were made of. makers: of PTX, by its digest.
    """

    kernels: Mapping[str, Sequence[Kernel]]
    ids: set[str]
    preludes: set[str]
    stored_ids: Mapping[str, set[str]]
    origins: Mapping[str, Origin]
    makers: Mapping[str, Sequence[Made]]


async def verify(
    folder: str | os.PathLike[str],
    *,
    settings: Settings,
    store: DiskStore | None = None,
    kernels: Iterable[Kernel] = (),
    preludes: Iterable[str] = (),
    ids: Iterable[str] = (),
) -> VerifyReport:
    """Say of every `.o` in teenygrad's cache folder whether it is what would be compiled now.

    The source is that of the kernel of the same name among `kernels`, else the `.rs` beside the `.o`. The target
    is what the PTX says; it is also compared with the name, where the id that was hashed is known: from `kernels`,
    from the store, from `ids`, or because the source stands for it (`preludes`: texts that may be in front of it).
    store: where compiles are looked up and kept, which also knows what made an artifact; None is that of `settings`.

    Nothing in the folder is written or locked. Raises CacheError for a folder that cannot be read, or a store that
    must not be used.
    """
    place = UpstreamFolder(folder)
    bare = replace(settings, environ={k: v for k, v in settings.environ.items() if k not in _DEFAULTS})
    store = store or DiskStore(settings.cache_dir)
    try:
        stems = await anyio.to_thread.run_sync(place.stems, OBJECT)
    except OSError as error:
        raise CacheError(f"cannot read {place.path}: {error.strerror}") from error
    async with Compiler(store=store, settings=bare) as compiler:
        try:
            toolchain = await compiler.toolchain(DRIVERS[TOOL])
            fingerprint, defaults, missing = toolchain.fingerprint, toolchain.settings, None
        except (ToolNotFound, RequestError) as error:
            fingerprint, defaults, missing = "", FrozenMap[str](), str(error)
        given = [replace(kernel, prelude=effective_prelude(kernel.prelude, defaults)) for kernel in kernels]
        known = await _gather(store, given, preludes, ids, {name for name, _ in map(_parted, stems)})
        verifying = _Verifying(compiler, known, fingerprint, missing)
        verdicts: dict[str, Verdict] = {}
        for start in range(0, len(stems), _AT_ONCE):
            async with anyio.create_task_group() as group:
                for stem in stems[start : start + _AT_ONCE]:
                    group.start_soon(verifying.judge_into, verdicts, stem, place)
    return VerifyReport(verdicts=tuple(verdicts[stem] for stem in stems), toolchain=missing)


async def _gather(
    store: DiskStore, kernels: Iterable[Kernel], preludes: Iterable[str], ids: Iterable[str], names: set[str]
) -> _Known:
    by_name: defaultdict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    stored_ids: defaultdict[str, set[str]] = defaultdict(set)
    origins: dict[str, Origin] = {}
    texts = {*preludes, *(kernel.prelude or "" for kernels in by_name.values() for kernel in kernels)}
    makers: defaultdict[str, list[Made]] = defaultdict(list)
    stored = Preludes(store)
    async for record in records(store):
        own = [pair for pair in record.pairs if pair[0] in names]
        if own:
            for pair in own:
                origin = record.origin(pair)
                stored_ids[pair[0]].add(origin.id)
                origins[f"{pair[0]}_{file_hash(origin)}"] = origin
            prelude = await stored.get(record.prelude)
            texts.add(prelude or "")
            text = None if prelude is None else prelude + record.source
            makers[hashlib.sha256(record.artifact["ptx"]).hexdigest()].append(Made(text, record.fingerprint))
    return _Known(by_name, set(ids), texts, stored_ids, origins, makers)


class _Verifying:
    def __init__(self, compiler: Compiler, known: _Known, fingerprint: str, missing: str | None) -> None:
        self._compiler = compiler
        self._known = known
        self._fingerprint = fingerprint
        self._missing = missing

    async def judge_into(self, verdicts: dict[str, Verdict], stem: str, place: UpstreamFolder) -> None:
        """The verdict on one `.o`, put where it is wanted."""
        verdicts[stem] = await self.judge(stem, place)

    async def judge(self, stem: str, place: UpstreamFolder) -> Verdict:
        """The verdict on one `.o`."""
        try:
            case = await anyio.to_thread.run_sync(_read, stem, place)
        except OSError as error:
            return Verdict(stem=stem, name=_parted(stem)[0], target=None, state="unknown", why=str(error.strerror))
        problem = self._settle(case)
        if problem is not None:
            return _verdict(case, "stale", problem, cause="target")
        if case.kernel is None:
            return _verdict(case, "unknown", "there is no readable .rs beside it, and no kernel of its name was given")
        if self._missing is not None:
            return _verdict(case, "unknown", "there is no teenyc to compile it again")
        return await self._compare(case, case.kernel)

    def _settle(self, case: _Case) -> str | None:
        """Find out the kernel and what its target may be; in what the `.o` is not what its name says."""
        header = read_header(case.data)
        if header is None:
            return "it is no PTX"
        given = self._known.kernels.get(case.name, ())
        of_source: set[str] = set()
        if case.text is not None:
            prelude, source = split_source(case.text, self._known.preludes)
            of_source = {kernel_id(None, source), kernel_id(None, case.text)}
            case.kernel = Kernel(name=case.name, source=source, language="rust", prelude=prelude)
        ids = self._known.ids | of_source | {kernel_id(kernel.id, kernel.source) for kernel in given}
        origin = self._origin(case.stem, ids, header)
        case.targets = header.targets if origin is None else targets_of(origin)
        for kernel in given:
            # Where the source stands for the id, an edited one has another hash: that is another kernel.
            named = kernel.id is None and origin is not None and origin.id not in of_source
            if origin is None or named or kernel_id(kernel.id, kernel.source) == origin.id:
                case.kernel = kernel
                break
        return None if origin is None else target_problem(header, origin)

    def _origin(self, stem: str, ids: set[str], header: Header) -> Origin | None:
        """What a stem was made of, as far as that can be found out."""
        name, hash = _parted(stem)
        stored = self._known.stored_ids.get(name, ())
        return self._known.origins.get(stem) or find_origin(hash, ids) or find_origin(hash, stored, header)

    async def _compare(self, case: _Case, kernel: Kernel) -> Verdict:
        """Compile it for each target that it may be for; one that gives the same is enough."""
        refused = "no target has such a name"
        kernel = replace(kernel, id=NAMELESS)
        compiled: list[CompileResult] = []
        for target in case.targets:
            try:
                result = await self._compiler.compile_result(CompileRequest(kernel, target, toolchain=TOOL))
            except RequestError as error:
                refused = str(error)
                continue
            if result.ok and result.outputs["ptx"] == case.data:
                case.targets = [target]
                return _verdict(case, "good", "")
            compiled.append(result)
        if not compiled:
            return _verdict(case, "unknown", refused)
        failure = compiled[0].failure
        if failure is not None and failure.kind is not FailureKind.DIAGNOSTIC:
            return _verdict(case, "unknown", f"it could not be compiled: {failure.message}")
        return self._blame(case, compiled[0])

    def _blame(self, case: _Case, result: CompileResult) -> Verdict:
        kernel = case.kernel
        assert kernel is not None, "it was compiled"
        makers = self._known.makers.get(hashlib.sha256(case.data).hexdigest(), ())
        given = kernel in self._known.kernels.get(case.name, ())
        cause = culprit((kernel.prelude or "") + kernel.source, case.text if given else None, makers, self._fingerprint)
        gone = {
            "source": "the source or its prelude has changed since it was compiled",
            "compiler": "the compiler has changed since it was compiled",
        }.get(cause, "its source, prelude or compiler has changed since it was compiled")
        now = f", and does not compile now: {result.failure.message}" if result.failure else ""
        return _verdict(case, "stale", gone + now, cause=cause)


def _parted(stem: str) -> tuple[str, str]:
    parts = split_stem(stem)
    assert parts is not None, "the folder lists no others"
    return parts


def _read(stem: str, place: UpstreamFolder) -> _Case:
    """Raises OSError for an `.o` that cannot be read."""
    data = place.read(stem, OBJECT)
    if data is None:
        raise OSError(0, "it was removed a moment ago")
    try:
        source = place.read(stem, SOURCE)
        text = None if source is None else source.decode()
    except (OSError, UnicodeDecodeError):
        text = None
    return _Case(stem, _parted(stem)[0], data, text)


def _verdict(case: _Case, state: State, why: str, *, cause: str | None = None) -> Verdict:
    target = next(iter(case.targets), None)
    return Verdict(stem=case.stem, name=case.name, target=target, state=state, cause=cause, why=why)
