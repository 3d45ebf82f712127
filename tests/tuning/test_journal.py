"""The journal: whole lines, torn lines, other versions, other runs, and one writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teeny_async import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.tuning import journal
from teeny_async.tuning.journal import NAME, open_journal, read
from teeny_async.tuning.space import Config
from teeny_async.tuning.verdict import Verdict

pytestmark = pytest.mark.anyio
RUN = {"identity": {"kernels": {"k": "1"}}, "seed": 0}


def verdict(number: int, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {"kernel": "k", "target": "sm_90", "objective": "time", "status": "ok", "value": 1.5}
    config: Config = FrozenMap([("X", number), ("F", "-g")])
    return Verdict(config=config, at=float(number), **{**fields, **changes})


async def write(folder: Path, *numbers: int, resume: bool = False, run: dict[str, Any] = RUN) -> journal.Record:
    async with open_journal(folder, run, resume=resume) as log:
        for number in numbers:
            await log.append(verdict(number).to_dict())
        return log.record


async def test_a_verdict_comes_back_as_it_was(tmp_path: Path) -> None:
    await write(tmp_path, 1, 2)
    record = journal.load(tmp_path)
    assert list(record.verdicts.values()) == [verdict(1), verdict(2)]
    assert (record.elapsed, record.parts, record.torn, record.damaged) == (2.0, 1, False, 0)
    lines = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()]
    assert [line["type"] for line in lines] == ["run", "verdict", "verdict"]
    assert {line["schema"] for line in lines} == {1}
    assert lines[1]["estimate"] is False


async def test_every_cut_of_the_last_line_is_survived(tmp_path: Path) -> None:
    await write(tmp_path, 1, 2)
    whole = (tmp_path / NAME).read_bytes()
    start = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for end in range(start, len(whole), 7):
        (tmp_path / NAME).write_bytes(whole[:end])
        before = await write(tmp_path, 3, resume=True)
        assert list(before.verdicts.values()) == [verdict(1)]
        assert list(journal.load(tmp_path).verdicts.values()) == [verdict(1), verdict(3)]


async def test_a_torn_first_line_starts_the_run_anew(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"schema": 1, "ty')
    record = await write(tmp_path, 1, resume=True)
    assert record.run is None
    assert journal.load(tmp_path).run is not None


async def test_damage_in_the_middle_costs_its_lines_only(tmp_path: Path) -> None:
    await write(tmp_path, 1, 2)
    lines = (tmp_path / NAME).read_bytes().splitlines(keepends=True)
    bad = [b"\x00\xff\n", b"[]\n", b'{"schema": 1, "type": "verdict", "status": "odd"}\n', b"{}\n"]
    record = read(b"".join([*lines[:2], *bad, *lines[2:]]))
    assert list(record.verdicts.values()) == [verdict(1), verdict(2)]
    assert record.damaged == 4


async def test_what_is_not_this_run_is_refused(tmp_path: Path) -> None:
    await write(tmp_path, 1)
    with pytest.raises(RequestError, match="is there already"):
        await write(tmp_path, 2)
    with pytest.raises(RequestError, match="kernels changed"):
        await write(tmp_path, 2, resume=True, run={"identity": {"kernels": {"k": "2"}}})
    (tmp_path / NAME).write_text('{"schema": 99, "type": "run"}\n')
    with pytest.raises(RequestError, match="version 99"):
        await write(tmp_path, 2, resume=True)
    (tmp_path / NAME).write_text("shopping\n")
    with pytest.raises(RequestError, match="not the journal"):
        await write(tmp_path, 2, resume=True)
    with pytest.raises(RequestError, match=r"is .* the folder of a tuning run"):
        journal.load(tmp_path / "nowhere")


async def test_one_process_writes(tmp_path: Path) -> None:
    async with open_journal(tmp_path, RUN, resume=False):
        with pytest.raises(RequestError, match="another process"):
            await write(tmp_path, 1, resume=True)
    await write(tmp_path, 1, resume=True)
