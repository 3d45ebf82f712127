"""The sources that a program left in its folder, as kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeny_async import Compiler, Sweep
from teeny_async.errors import CacheError
from teeny_async.settings import Settings
from teeny_async.store.disk import DiskStore
from teeny_async.upstream import export, find_kernels, import_kernels
from tests.standins import Teenyc
from tests.support import changed
from tests.upstream.kit import PRELUDE, axpby, by_hand, source_id, whole

ID = "axpby__f32__1024"
TEXT = PRELUDE.read_text()


def leave(folder: Path, stem: str, text: str | bytes) -> str:
    """What a program leaves after a compile, as far as it matters here."""
    folder.mkdir(exist_ok=True)
    (folder / f"{stem}.rs").write_bytes(text if isinstance(text, bytes) else text.encode())
    return stem


def test_each_kernel_once_with_the_targets_it_was_compiled_for(tmp_path: Path) -> None:
    kernel = axpby()
    text = whole(kernel)
    stems = [
        leave(tmp_path, by_hand("axpby", ID, "sm_90"), text),
        leave(tmp_path, by_hand("axpby", ID, "sm_120", 87), text),
        leave(tmp_path, by_hand("axpby", source_id(kernel), "sm_80"), text),
        leave(tmp_path, by_hand("axpby", "unheard_of"), text),
        leave(tmp_path, by_hand("other", "other"), "fn other() {}"),
    ]
    found, refused = find_kernels(tmp_path, preludes=[TEXT], ids=[ID])
    assert refused == []
    by_stems = {frozenset(one.stems): one for one in found}
    assert by_stems.keys() == {frozenset(stems[:2]), frozenset(stems[2:4]), frozenset(stems[4:])}
    known, plain, other = (by_stems[frozenset(some)] for some in (stems[:2], stems[2:4], stems[4:]))
    assert known.kernel == axpby(id=ID)
    assert set(known.targets) == {("sm_90", None), ("sm_120", 87)}
    assert plain.kernel == axpby()
    assert plain.targets == (("sm_80", None),)
    assert (other.kernel.prelude, other.kernel.source) == ("", "fn other() {}")


def test_without_the_prelude_the_whole_text_is_the_source(tmp_path: Path) -> None:
    kernel = axpby()
    leave(tmp_path, by_hand("axpby", ID, "sm_90"), whole(kernel))
    [found] = import_kernels(tmp_path)
    assert (found.prelude, found.source, found.id) == ("", whole(kernel), None)


def test_what_cannot_be_taken_is_named(tmp_path: Path) -> None:
    good = leave(tmp_path, by_hand("good", "good"), "fn good() {}")
    bad = leave(tmp_path, by_hand("bad", "bad"), b"\xff")
    link = by_hand("link", "link")
    (tmp_path / f"{link}.rs").symlink_to(tmp_path / f"{good}.rs")
    leave(tmp_path, "no_hash", "fn f() {}")
    found, refused = find_kernels(tmp_path)
    assert [one.stems for one in found] == [(good,)]
    assert sorted(stem for stem, _ in refused) == sorted([bad, link])
    with pytest.raises(CacheError, match="cannot read"):
        import_kernels(tmp_path / "missing")


@pytest.mark.anyio
@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize("preludes", [[TEXT], []], ids=["parted", "whole"])
async def test_what_a_program_left_is_swept_over_other_targets(
    settings: Settings, teenyc: Teenyc, tmp_path: Path, preludes: list[str]
) -> None:
    settings = changed(settings, {"TEENYC_PATH": teenyc.path})
    folder, kernel = tmp_path / "teenyc_cache", axpby(id=ID)
    leave(folder, by_hand("axpby", ID, "sm_90"), whole(kernel))
    kernels = import_kernels(folder, preludes=preludes, ids=[ID])
    async with Compiler(settings=settings) as compiler:
        results = await compiler.compile_many(Sweep(kernels, ["sm_80", "sm_120+ptx87"], toolchain="teenyc"))
    assert [result.ok for result in results] == [True, True]
    # The program finds what was made of its own kernel for the other targets.
    report = await export(DiskStore(settings.cache_dir), folder)
    assert sorted(report.written) == sorted([by_hand("axpby", ID, "sm_80"), by_hand("axpby", ID, "sm_120", 87)])
