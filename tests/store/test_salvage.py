"""What is taken over from a damaged database: every entry that can be reached, by its row or by the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teeny_async.store.folder import LAYOUT, create_database, make_private
from teeny_async.store.raw_cache import Limits, RawCache
from teeny_async.store.salvage import salvage

from .kit import Faults, digest, entry, worker

ENTRIES = {digest(number + 2**200): entry(bytes([number]) * 1000) for number in range(40)}
PAGE = 4096


@pytest.fixture
def damaged(fast_folder: Path) -> Path:
    """A layout folder with all entries; its database has not come to harm yet."""
    store = worker(fast_folder, Faults())
    store.open()
    store.write(list(ENTRIES.items()))
    store.close()
    return fast_folder / LAYOUT


def places(content: bytes, key: str, *, in_row: bool = True) -> list[int]:
    """Where a key is in a database: in its row, or in the index. (13 begins a page with rows.)"""
    found = [match.start() for match in re.finditer(re.escape(bytes.fromhex(key)), content)]
    return [place for place in found if (content[place // PAGE * PAGE] == 13) == in_row]


def write(database: Path, place: int, data: bytes) -> None:
    with database.open("r+b") as file:
        file.seek(place)
        file.write(data)


def saved(damaged: Path) -> set[str]:
    """The entries of the database that takes the damaged one's place, each of them good."""
    folder = damaged.parent / "new" / LAYOUT
    for one in (folder.parent, folder):
        make_private(one)
    create_database(folder)
    cache = RawCache(folder, limits=Limits(size=2**30, count=10_000), patience=1)
    salvage(damaged, cache, 60)
    cache.close()
    store = worker(folder.parent, Faults())
    store.open()
    found = store.read(list(ENTRIES))
    store.close()
    assert all(one is None or one.outcome == ENTRIES[key].outcome for key, one in zip(ENTRIES, found, strict=True))
    return {key for key, one in zip(ENTRIES, found, strict=True) if one is not None}


@pytest.mark.parametrize("in_row", [True, False])
def test_one_of_the_two_copies_of_a_key_is_enough(damaged: Path, *, in_row: bool) -> None:
    content = (damaged / "cache.db").read_bytes()
    for key in list(ENTRIES)[5:30:5]:
        place = min(places(content, key, in_row=in_row))  # the value behind it has it as well
        write(damaged / "cache.db", place + 31, bytes([content[place + 31] ^ 0x80]))
    assert saved(damaged) == set(ENTRIES)


def test_only_what_is_on_a_bad_page_is_lost(damaged: Path) -> None:
    content = (damaged / "cache.db").read_bytes()
    pages = {key: {place // PAGE for place in places(content, key)} for key in ENTRIES}
    bad = set().union(*(pages[key] for key in list(ENTRIES)[8:32:8]))
    for page in bad:
        write(damaged / "cache.db", page * PAGE, bytes(PAGE))
    lost = {key for key, where in pages.items() if where & bad}
    assert 4 <= len(lost) <= 20
    assert saved(damaged) == set(ENTRIES) - lost
