"""`Company`: who else writes into a folder, seen at every look, and listed only when something has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teeny_async.store.writers import Company, Writer


def make_old(folder: Path) -> None:
    """As if its last change were long ago."""
    os.utime(folder / "writers", (1, 1))


@pytest.fixture
def mine(tmp_path: Path) -> Writer:
    writer = Writer(tmp_path)
    writer.announce()
    return writer


def test_alone_is_alone(tmp_path: Path, mine: Writer) -> None:
    company = Company(tmp_path)
    assert not any(company.look(mine.name) for _ in range(3))


@pytest.mark.parametrize("old", [False, True], ids=["just changed", "changed long ago"])
def test_who_comes_stays_and_goes_is_seen(tmp_path: Path, mine: Writer, old: bool) -> None:
    company = Company(tmp_path)
    if old:
        make_old(tmp_path)
    assert not company.look(mine.name)
    other = Writer(tmp_path)
    other.announce()
    assert company.look(mine.name)
    if old:
        make_old(tmp_path)
    assert company.look(mine.name)
    assert company.look(mine.name)
    other.leave()
    company.look(mine.name)  # it has just gone: what it has kept may be news
    assert not company.look(mine.name)


def test_who_comes_and_goes_between_two_looks_is_seen_once(tmp_path: Path, mine: Writer) -> None:
    company = Company(tmp_path)
    make_old(tmp_path)
    assert not company.look(mine.name)
    other = Writer(tmp_path)
    other.announce()
    other.leave()
    assert [company.look(mine.name) for _ in range(3)] == [True, False, False]


def test_our_own_coming_is_no_company(tmp_path: Path) -> None:
    company, writer = Company(tmp_path), Writer(tmp_path)
    assert not company.look(writer.name)
    writer.announce()
    assert not any(company.look(writer.name) for _ in range(3))


def test_a_folder_that_has_not_changed_for_long_is_listed_once(
    tmp_path: Path, mine: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    real = os.listdir

    def listing(path: str) -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listing)
    company = Company(tmp_path)
    make_old(tmp_path)
    for _ in range(5):
        assert not company.look(mine.name)
    assert len(listed) == 1
    make_old(tmp_path)
    os.utime(tmp_path / "writers")  # as its next change would
    company.look(mine.name)
    company.look(mine.name)
    assert len(listed) == 3  # at the second look it might still change without a new time
