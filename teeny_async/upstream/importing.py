"""`import_kernels`: the sources that a teenygrad program left in its cache folder, to compile them again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from teeny_async.errors import CacheError
from teeny_async.model import Kernel
from teeny_async.upstream.folder import UpstreamFolder
from teeny_async.upstream.layout import SOURCE, find_origin, kernel_id, split_source, split_stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A kernel, and the stems (`<name>_<hash>`) of the files that have it, one for each target.

    targets: those that the names say, where the id is known.
    """

    kernel: Kernel
    stems: Sequence[str]
    targets: Sequence[tuple[str | None, int | None]] = ()


@dataclass(slots=True)
class _Gathered:
    kernel: Kernel
    stems: list[str] = field(default_factory=list)
    targets: list[tuple[str | None, int | None]] = field(default_factory=list)


def import_kernels(
    folder: str | os.PathLike[str], *, preludes: Iterable[str] = (), ids: Iterable[str] = ()
) -> list[Kernel]:
    """The kernels whose `.rs` is in the folder, each once, ready for a `Sweep` by teenyc.

    preludes: texts that a file may begin with; the kernel then has the two apart. Of any other file the whole
        text is the source, and the kernel says that it has no prelude: TEENY_ASYNC_PRELUDE is not put in front.
    ids: kernel ids that names may have been made of (`vector_add__f32__1024`); the kernel then has it as its id,
        so that an `export` of what is made of it is found by the program.

    It reads files and so may block; from async code, call it in a thread. Raises CacheError for a folder that
    cannot be read.
    """
    return [found.kernel for found in find_kernels(folder, preludes=preludes, ids=ids)[0]]


def find_kernels(
    folder: str | os.PathLike[str], *, preludes: Iterable[str] = (), ids: Iterable[str] = ()
) -> tuple[list[Found], list[tuple[str, str]]]:
    """As `import_kernels`, with the files of each; and (stem, why) of those that could not be taken."""
    place, known, names = UpstreamFolder(folder), tuple(preludes), tuple(ids)
    gathered: dict[tuple[str, str, str | None], _Gathered] = {}
    refused: list[tuple[str, str]] = []
    try:
        stems = place.stems(SOURCE)
    except OSError as error:
        raise CacheError(f"cannot read {place.path}: {error.strerror}") from error
    for stem in stems:
        try:
            text = (place.read(stem, SOURCE) or b"").decode()
        except OSError as error:
            refused.append((stem, error.strerror or str(error)))
            continue
        except UnicodeDecodeError:
            refused.append((stem, "not UTF-8 text"))
            continue
        _gather(gathered, stem, split_source(text, known), names)
    found = [Found(kernel=it.kernel, stems=tuple(it.stems), targets=tuple(it.targets)) for it in gathered.values()]
    return found, refused


def _gather(
    gathered: dict[tuple[str, str, str | None], _Gathered], stem: str, parts: tuple[str, str], ids: Sequence[str]
) -> None:
    parted = split_stem(stem)
    assert parted is not None, "the folder lists no others"
    name, hash = parted
    prelude, source = parts
    default = kernel_id(None, source)
    origin = find_origin(hash, (default, *ids))
    ident = None if origin is None or origin.id == default else origin.id
    kernel = Kernel(name=name, source=source, language="rust", prelude=prelude, id=ident)
    one = gathered.setdefault((name, prelude + source, ident), _Gathered(kernel))
    one.stems.append(stem)
    if origin is not None:
        one.targets.append((origin.cpu, origin.ptx_version))
