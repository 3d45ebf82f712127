"""Which artifacts in teenygrad's folder are stale, and because of what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from teeny_async import Compiler, CompileRequest, Kernel, Target
from teeny_async.errors import CacheError
from teeny_async.settings import Settings
from teeny_async.store.disk import DiskStore
from teeny_async.upstream import Verdict, VerifyReport, export, verify
from tests.standins import Teenyc
from tests.support import changed
from tests.upstream.kit import EDITED, PRELUDE, axpby, by_hand, files, source_id

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leftovers")]

ID = "axpby__f32__1024"


@pytest.fixture
def settings(settings: Settings, teenyc: Teenyc) -> Settings:
    return changed(settings, {"TEENYC_PATH": teenyc.path})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "teenyc_cache"


async def filled(
    settings: Settings, folder: Path, *kernels: Kernel, targets: Sequence[str | None] = ("sm_90",)
) -> None:
    """Compile and export."""
    requests = [
        CompileRequest(kernel, None if target is None else Target.parse(target), toolchain="teenyc")
        for kernel in kernels
        for target in targets
    ]
    async with Compiler(settings=settings) as compiler:
        assert all(result.ok for result in await compiler.compile_many(requests))
    assert (await export(DiskStore(settings.cache_dir), folder)).ok


async def verified(settings: Settings, folder: Path, **options: Any) -> VerifyReport:
    return await verify(folder, settings=settings, **options)


def only(report: VerifyReport) -> Verdict:
    [verdict] = report.verdicts
    return verdict


def brief(report: VerifyReport) -> tuple[str, str | None]:
    verdict = only(report)
    return verdict.state, verdict.cause


def elsewhere(settings: Settings, tmp_path: Path) -> Settings:
    """The same compiler, and a cache that has seen nothing."""
    return changed(settings, {"TEENY_ASYNC_CACHE_DIR": tmp_path / "empty"})


def upgrade(teenyc: Teenyc) -> None:
    """Another compiler, that writes something else."""
    text = teenyc.path.read_text().replace("(teenyc stand-in)", "(newer stand-in)")
    teenyc.path.write_text(text.replace('[ "$kind" = obj ] ||', 'echo "// newer" >>"$6"\n[ "$kind" = obj ] ||'))


async def test_what_is_as_it_should_be(settings: Settings, folder: Path, teenyc: Teenyc, tmp_path: Path) -> None:
    await filled(settings, folder, axpby(id=ID), axpby("plain"), targets=["sm_90", "sm_120+ptx87", None])
    before, calls = files(folder), len(teenyc.calls)
    report = await verified(settings, folder)
    assert report.ok
    assert len(report.of("good")) == len(report.verdicts) == 6
    assert {str(verdict.target) for verdict in report.verdicts if verdict.target is not None} == {
        "sm_90",
        "sm_120+ptx87",
        str(Target()),
    }
    # All of it was in the cache. One that is empty, with nothing known of ids and preludes, finds the same.
    assert len(teenyc.calls) == calls
    assert len((await verified(elsewhere(settings, tmp_path), folder)).of("good")) == 6
    assert len(teenyc.calls) > calls
    assert files(folder) == before


async def test_the_environments_defaults_are_not_put_in(settings: Settings, folder: Path) -> None:
    await filled(settings, folder, axpby(id=ID), targets=[None])
    other = changed(settings, {"TEENY_ASYNC_PRELUDE": PRELUDE, "TEENYC_PTX_VERSION": "82", "TEENYC_LOG_LEVEL": "info"})
    assert (await verified(other, folder)).of("good")
    # But for a kernel that says nothing of a prelude: it would be compiled with that.
    assert (await verified(other, folder, kernels=[axpby(prelude=None)], ids=[ID])).of("good")
    assert brief(await verified(other, folder, kernels=[axpby(prelude=None, edited=True)], ids=[ID])) == (
        "stale",
        "source",
    )


async def test_an_edited_kernel_under_the_same_id(settings: Settings, folder: Path, tmp_path: Path) -> None:
    await filled(settings, folder, axpby(id=ID))
    assert brief(await verified(settings, folder, kernels=[axpby(edited=True)])) == ("stale", "source")
    assert (await verified(settings, folder, kernels=[axpby()])).of("good")
    # With nothing known of it but what lies in the folder; with its id, and without.
    empty = elsewhere(settings, tmp_path)
    for ids in ([ID], []):
        assert brief(await verified(empty, folder, kernels=[axpby(edited=True)], ids=ids)) == ("stale", "source")


async def test_a_changed_prelude(settings: Settings, folder: Path) -> None:
    await filled(settings, folder, axpby())
    # The source stands for the id here: another prelude has the same name.
    prelude = PRELUDE.read_text().replace("i as isize", "(i + 1) as isize")
    assert prelude != PRELUDE.read_text()
    assert brief(await verified(settings, folder, kernels=[axpby(prelude=prelude)])) == ("stale", "source")


async def test_an_edited_kernel_without_an_id_is_another_kernel(settings: Settings, folder: Path) -> None:
    await filled(settings, folder, axpby())
    assert (await verified(settings, folder, kernels=[axpby(edited=True)])).of("good")


async def test_a_changed_source_beside_it(settings: Settings, folder: Path, tmp_path: Path) -> None:
    await filled(settings, folder, axpby(id=ID))
    [path] = folder.glob("*.rs")
    path.write_text(path.read_text().replace(*EDITED))
    assert brief(await verified(settings, folder)) == ("stale", "source")
    assert brief(await verified(elsewhere(settings, tmp_path), folder)) == ("stale", "source or compiler")
    path.write_text("fn")
    verdict = only(await verified(settings, folder))
    assert (verdict.state, verdict.cause) == ("stale", "source")
    assert "does not compile now" in verdict.why


async def test_a_comment_changes_nothing(settings: Settings, folder: Path) -> None:
    await filled(settings, folder, axpby(id=ID))
    kernel = axpby()
    commented = Kernel(name="axpby", source=f"// more\n{kernel.source}", language="rust", prelude=kernel.prelude)
    assert (await verified(settings, folder, kernels=[commented], ids=[ID])).of("good")


async def test_another_compiler(settings: Settings, folder: Path, teenyc: Teenyc, tmp_path: Path) -> None:
    await filled(settings, folder, axpby(id=ID))
    upgrade(teenyc)
    assert brief(await verified(settings, folder)) == ("stale", "compiler")
    empty = elsewhere(settings, tmp_path)
    assert brief(await verified(empty, folder)) == ("stale", "source or compiler")
    assert brief(await verified(empty, folder, kernels=[axpby()])) == ("stale", "compiler")


async def test_an_object_for_another_target(settings: Settings, folder: Path) -> None:
    await filled(settings, folder, axpby(id=ID), targets=["sm_80", "sm_90", "sm_90+ptx86"])
    old, new, versioned = (
        folder / f"{by_hand('axpby', ID, cpu, version)}.o"
        for cpu, version in (("sm_80", None), ("sm_90", None), ("sm_90", 86))
    )
    new.write_bytes(old.read_bytes())
    versioned.write_bytes(versioned.read_bytes().replace(b".version 8.6", b".version 8.7"))
    report = await verified(settings, folder)
    assert [verdict.stem for verdict in report.of("good")] == [old.stem]
    assert {verdict.stem: (verdict.cause, verdict.why) for verdict in report.of("stale")} == {
        new.stem: ("target", "it is for sm_80, its name says sm_90"),
        versioned.stem: ("target", "it is PTX 8.7, its name says 8.6"),
    }


async def test_an_object_for_no_target_at_all(settings: Settings, folder: Path) -> None:
    folder.mkdir()
    path = folder / f"{by_hand('k', 'k', 'sm_90', 60)}.o"
    path.write_text(".version 6.0\n.target sm_90\n")
    path.with_suffix(".rs").write_text("fn f() {}")
    assert brief(await verified(settings, folder, ids=["k"])) == ("unknown", None)
    path.write_text(".version 8.0\n.target sm_999\n")
    assert brief(await verified(settings, folder, ids=["k"])) == ("stale", "target")
    assert brief(await verified(settings, folder)) == ("stale", "source or compiler")


async def test_what_cannot_be_told(settings: Settings, folder: Path, teenyc: Teenyc) -> None:
    await filled(settings, folder, axpby(id=ID))
    [source], [found] = folder.glob("*.rs"), folder.glob("*.o")
    source.unlink()
    assert brief(await verified(settings, folder)) == ("unknown", None)
    assert (await verified(settings, folder, kernels=[axpby()])).of("good")
    teenyc.path.unlink()
    report = await verified(settings, folder, kernels=[axpby()])
    assert brief(report) == ("unknown", None)
    assert report.ok
    assert "TEENYC_PATH" in (report.toolchain or "")
    found.write_bytes(b"not PTX")
    assert brief(await verified(settings, folder)) == ("stale", "target")


async def test_a_compiler_that_fails_is_no_verdict(
    settings: Settings, folder: Path, teenyc: Teenyc, tmp_path: Path
) -> None:
    await filled(settings, folder, axpby(id=ID))
    teenyc.misbehave("empty")
    verdict = only(await verified(elsewhere(settings, tmp_path), folder))
    assert verdict.state == "unknown"
    assert "could not be compiled" in verdict.why


async def test_a_folder_that_is_not_there(settings: Settings, folder: Path) -> None:
    with pytest.raises(CacheError, match="cannot read"):
        await verified(settings, folder)


async def test_a_kernel_that_has_its_source_for_an_id(settings: Settings, folder: Path) -> None:
    await filled(settings, folder, axpby())
    verdict = only(await verified(settings, folder))
    assert verdict.stem == by_hand("axpby", source_id(axpby()), "sm_90")
    assert str(verdict.target) == "sm_90"


async def test_to_verify_is_not_to_ask(settings: Settings, folder: Path) -> None:
    """What was compiled to compare with is kept, and exported under no name before someone asks for it by one."""
    await filled(settings, folder, axpby(id=ID))
    before = files(folder)
    edited = axpby(edited=True)
    for kernel in (axpby(), edited):
        await verified(settings, folder, kernels=[kernel], ids=[ID])
    report = await export(DiskStore(settings.cache_dir), folder)
    assert (report.written, report.same, report.older) == ((), 1, 0)
    assert files(folder) == before
    async with Compiler(settings=settings) as compiler:
        result = await compiler.compile_result(CompileRequest(edited, Target("sm_90"), toolchain="teenyc"))
    assert result.source == "cached"
    report = await export(DiskStore(settings.cache_dir), folder)
    assert report.written == (by_hand("axpby", source_id(edited), "sm_90"),)


async def test_an_id_of_the_store_with_a_target_that_it_has_not(
    settings: Settings, folder: Path, tmp_path: Path
) -> None:
    await filled(settings, folder, axpby(id=ID), targets=["sm_80"])
    other = elsewhere(settings, tmp_path)
    await filled(other, tmp_path / "unused", axpby(id=ID))
    verdict = only(await verified(other, folder))
    assert (verdict.state, str(verdict.target)) == ("good", "sm_80")
