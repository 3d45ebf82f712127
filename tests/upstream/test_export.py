"""From compiles by the stand-in for teenyc to teenygrad's folder: under every name and id, with no teenyc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import Compiler, CompileRequest, Kernel, Target
from teeny_async.errors import CacheError
from teeny_async.pipeline.asking import PORTABLE_NOTES
from teeny_async.settings import Settings
from teeny_async.store.disk import DiskStore
from teeny_async.store.layered import Layer, LayeredStore
from teeny_async.store.memory import MemoryStore
from teeny_async.upstream import ExportReport, export
from tests.standins import Teenyc
from tests.store.kit import database
from tests.support import KERNELS, changed
from tests.upstream.kit import AXPBY, PRELUDE, axpby, build_program, by_hand, files, holder, source_id, whole

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leftovers")]

ID = "axpby__f32__1024"


class NotedStore(DiskStore):
    """Counts the notes that are written, by what their names begin with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.noted: list[str] = []

    async def put_note(self, name: str, text: str) -> None:
        self.noted.append(name.partition(":")[0])
        await super().put_note(name, text)


@pytest.fixture
def settings(settings: Settings, teenyc: Teenyc) -> Settings:
    return changed(settings, {"TEENYC_PATH": teenyc.path})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "teenyc_cache"


def request(kernel: Kernel, target: str | None = "sm_90", **options: Any) -> CompileRequest:
    return CompileRequest(kernel, None if target is None else Target.parse(target), toolchain="teenyc", **options)


async def compiled(settings: Settings, *requests: CompileRequest, **options: Any) -> list[dict[str, bytes]]:
    """The outputs of each."""
    async with Compiler(**{"settings": settings, **options}) as compiler:
        results = await compiler.compile_many(requests)
    return [dict(result.outputs) for result in results]


async def exported(settings: Settings, folder: Path, **options: Any) -> ExportReport:
    return await export(DiskStore(settings.cache_dir), folder, **options)


async def test_every_artifact_is_found_by_the_formula(settings: Settings, folder: Path, teenyc: Teenyc) -> None:
    saxpy = Kernel.from_file(KERNELS / "saxpy.rs")
    requests = [
        request(axpby(id=ID)),
        request(axpby(id=ID), "sm_120+ptx87"),
        request(axpby(id=ID), None),
        request(axpby()),
        request(saxpy, "sm_80"),
        request(saxpy, "default+ptx82@nvptx64-nvidia-cuda"),
    ]
    stems = [
        by_hand("axpby", ID, "sm_90"),
        by_hand("axpby", ID, "sm_120", 87),
        by_hand("axpby", ID),
        by_hand("axpby", source_id(axpby()), "sm_90"),
        by_hand("saxpy", source_id(saxpy), "sm_80"),
        by_hand("saxpy", source_id(saxpy), None, 82),
    ]
    made = await compiled(settings, *requests)
    assert len(teenyc.calls) == 5
    report = await exported(settings, folder)
    assert report.ok
    assert sorted(report.written) == sorted(stems)
    texts = [PRELUDE.read_text() + AXPBY.read_text()] * 4 + [saxpy.source] * 2
    expected: dict[str, bytes] = {}
    for stem, outputs, text in zip(stems, made, texts, strict=True):
        expected |= {f"{stem}.o": outputs["ptx"], f"{stem}.mlir": outputs["mlir"], f"{stem}.rs": text.encode()}
    assert files(folder) == expected
    assert {path.name for path in folder.glob("*.lock")} == {f"{stem}.lock" for stem in stems}
    again = await exported(settings, folder)
    assert (again.written, again.same, again.ok) == ((), 6, True)


async def test_names_and_ids_that_came_later_are_noted_once(settings: Settings, folder: Path) -> None:
    def store() -> NotedStore:
        return NotedStore(settings.cache_dir)

    # In one call: the second and third are answered by the first one's compile.
    first = store()
    await compiled(settings, *(request(axpby(name, id=ID)) for name in ("axpby", "other", "axpby")), store=first)
    assert sorted(set(first.noted) & {"asked-1", "prelude"}) == ["asked-1", "prelude"]
    for kernel, notes in ((axpby(id=ID), 0), (axpby("other", id=ID), 0), (axpby(id="new"), 1), (axpby(id="new"), 0)):
        later = store()
        await compiled(settings, request(kernel), request(kernel), store=later)
        assert [name for name in later.noted if name in ("asked-1", "prelude")] == ["asked-1"] * notes
    report = await exported(settings, folder)
    assert sorted(report.written) == sorted(
        [by_hand("axpby", ID, "sm_90"), by_hand("other", ID, "sm_90"), by_hand("axpby", "new", "sm_90")]
    )


async def test_an_entry_made_anew_keeps_the_names_of_the_one_before(settings: Settings, folder: Path) -> None:
    await compiled(settings, request(axpby("first")))
    await compiled(settings, request(axpby("second")), mode="refresh")
    await compiled(settings, request(axpby("third"), log_level="debug"))
    report = await exported(settings, folder)
    stems = [by_hand(name, source_id(axpby()), "sm_90") for name in ("first", "second", "third")]
    assert list(report.written) == sorted(stems)


async def test_what_only_looks_notes_nothing(settings: Settings, folder: Path) -> None:
    await compiled(settings, request(axpby()))
    store = NotedStore(settings.cache_dir)
    await compiled(settings, request(axpby("other")), store=store, mode="cached_only")
    assert store.noted == []
    assert len((await exported(settings, folder)).written) == 1


async def test_a_layer_in_memory_hides_nobody(settings: Settings, folder: Path) -> None:
    store = LayeredStore(
        [Layer("memory", MemoryStore(packed=False), notes="none"), Layer("disk", DiskStore(settings.cache_dir))]
    )
    async with Compiler(settings=settings, store=store) as compiler:
        for name in ("first", "second"):
            await compiler.compile(request(axpby(name)))
    assert len((await exported(settings, folder)).written) == 2


async def test_of_two_for_one_name_the_newest_is_written(settings: Settings, folder: Path) -> None:
    await compiled(settings, request(axpby(id=ID)))
    old = await exported(settings, folder)
    [new] = await compiled(settings, request(axpby(id=ID, edited=True)))
    [stem] = old.written
    left = await exported(settings, folder)
    assert (left.written, left.different, left.older, left.ok) == ((), (stem,), 1, False)
    before = files(folder)
    assert before[f"{stem}.o"] != new["ptx"]
    replaced = await exported(settings, folder, replace=True)
    assert (replaced.written, replaced.ok) == ((stem,), True)
    after = files(folder)
    assert after[f"{stem}.o"] == new["ptx"]
    assert after[f"{stem}.rs"].decode() == whole(axpby(edited=True))


async def test_params_are_in_the_source(settings: Settings, folder: Path) -> None:
    text = AXPBY.read_text().replace("alpha * *at(x, i)", "`SCALE=1.5f32` * *at(x, i)")
    kernel = Kernel(name="k", source=text, language="rust", prelude=PRELUDE.read_text())
    await compiled(settings, request(kernel, params={"SCALE": "2.5f32"}))
    [stem] = (await exported(settings, folder)).written
    source = files(folder)[f"{stem}.rs"].decode().removeprefix(PRELUDE.read_text())
    assert "2.5f32 * *at(x, i)" in source
    assert stem == by_hand("k", source_id(Kernel(name="k", source=source, language="rust")), "sm_90")


async def test_the_prelude_and_version_that_the_environment_gives(settings: Settings, folder: Path) -> None:
    settings = changed(settings, {"TEENY_ASYNC_PRELUDE": PRELUDE, "TEENYC_PTX_VERSION": "86"})
    kernel = Kernel.from_file(AXPBY)
    await compiled(settings, request(kernel))
    [stem] = (await exported(settings, folder)).written
    assert stem == by_hand("axpby", source_id(kernel), "sm_90", 86)
    assert files(folder)[f"{stem}.rs"].decode() == PRELUDE.read_text() + kernel.source


async def test_a_prelude_that_was_forgotten_costs_the_source_only(settings: Settings, folder: Path) -> None:
    async with Compiler(settings=settings) as compiler:
        await compiler.compile(request(axpby()))
        # Nothing is noted before the session ends.
        report = await exported(settings, folder)
    stem = by_hand("axpby", source_id(axpby()), "sm_90")
    assert (report.written, report.without_source, report.ok) == ((stem,), (stem,), True)
    assert set(files(folder)) == {f"{stem}.o", f"{stem}.mlir"}
    completed = await exported(settings, folder)
    assert (completed.written, completed.without_source) == ((stem,), ())
    assert f"{stem}.rs" in files(folder)


async def test_a_name_that_no_file_can_have(settings: Settings, folder: Path) -> None:
    await compiled(settings, request(axpby("a/b")), request(axpby("good")))
    report = await exported(settings, folder)
    assert report.written == (by_hand("good", source_id(axpby()), "sm_90"),)
    assert [name for name, _ in report.unnamed] == ["a/b"]
    assert not report.ok


async def test_only_teenycs_artifacts(settings: Settings, folder: Path) -> None:
    rust = CompileRequest(axpby(), Target.parse("sm_90"), toolchain="rustc", emit="ptx")
    broken = Kernel(name="broken", source="fn", language="rust")
    async with Compiler(settings=settings) as compiler:
        results = await compiler.compile_many([rust, request(broken)])
    assert [result.ok for result in results] == [True, False]
    assert await exported(settings, folder) == ExportReport()


async def test_a_program_that_compiles_is_waited_for(settings: Settings, folder: Path, tmp_path: Path) -> None:
    program = build_program(tmp_path)
    await compiled(settings, request(axpby(id=ID)), request(axpby(id="free")))
    busy, free = by_hand("axpby", ID, "sm_90"), by_hand("axpby", "free", "sm_90")
    folder.mkdir()
    with holder(program, folder, busy) as held:
        report = await exported(settings, folder, patience=0.0)
        assert (report.written, report.busy, report.ok) == ((free,), (busy,), False)
        reports: list[ExportReport] = []

        async def wait_for_it() -> None:
            reports.append(await exported(settings, folder))

        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_it)
            assert held.stdin is not None
            held.stdin.write("\n")
            held.stdin.flush()
    assert held.returncode == 0
    assert (reports[0].busy, reports[0].different) == ((), (busy,))
    assert files(folder)[f"{busy}.o"] == b"p" * 20_000


async def test_a_folder_that_cannot_be_written(settings: Settings, folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(CacheError, match="cannot write into"):
        await exported(settings, folder)


async def test_from_a_folder_that_is_only_read(settings: Settings, folder: Path) -> None:
    await compiled(settings, request(axpby()), request(axpby("other")))
    report = await export(DiskStore(settings.cache_dir, read_only=True), folder)
    assert (len(report.written), report.without_source) == (2, ())


async def test_an_archive_carries_names_and_preludes(settings: Settings, folder: Path, tmp_path: Path) -> None:
    await compiled(settings, request(axpby()), request(axpby("other")))
    first, second = DiskStore(settings.cache_dir), DiskStore(tmp_path / "second")
    await first.open(lambda operation, message: None)
    await second.open(lambda operation, message: None)
    await first.export(tmp_path / "archive", notes=PORTABLE_NOTES)
    await second.import_(tmp_path / "archive")
    await first.aclose()
    await second.aclose()
    report = await export(second, folder)
    assert (len(report.written), report.without_source) == (2, ())


async def test_the_id_is_never_our_key(settings: Settings, folder: Path, teenyc: Teenyc) -> None:
    """An edited body, a new prelude, a new compiler: teenygrad's name is the same, and what is made is not."""
    prelude = PRELUDE.read_text() + "// newer\n"
    kernels = [axpby(id=ID), axpby(id=ID, edited=True), axpby(id=ID, prelude=prelude)]
    for kernel in kernels:
        await compiled(settings, request(kernel))
    assert len(teenyc.calls) == len(kernels)
    with teenyc.path.open("a") as script:
        script.write("# upgraded\n")
    [newest] = await compiled(settings, request(kernels[0]))
    assert len(teenyc.calls) == len(kernels) + 1
    report = await exported(settings, folder)
    assert (len(report.written), report.older) == (1, 3)
    assert files(folder)[f"{report.written[0]}.o"] == newest["ptx"]


async def test_a_damaged_entry_is_told_of(settings: Settings, folder: Path) -> None:
    await compiled(settings, request(axpby()), request(axpby(), "sm_80"))
    with database(settings.cache_dir) as connection:
        rows = connection.execute("SELECT rowid, key, value FROM Cache").fetchall()
        row, value = next((row, value) for row, key, value in rows if isinstance(key, bytes))
        connection.execute("UPDATE Cache SET value = ? WHERE rowid = ?", (value[:-1] + b"?", row))
    report = await exported(settings, folder)
    assert (len(report.written), report.ok) == (1, False)
    assert "damaged" in report.trouble[0]
