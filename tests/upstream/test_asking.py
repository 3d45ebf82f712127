"""What is noted of names and ids that share an entry, and how little is written for it."""

from __future__ import annotations

import json

import pytest

from teeny_async.pipeline.asking import ASKED_NOTE, PRELUDE_NOTE, Asked, Kept, read_asked, read_facts, text_digest
from teeny_async.result import Artifact
from teeny_async.store.base import Entry
from teeny_async.store.memory import MemoryStore


def info(name: str, ident: str | None = None) -> dict[str, object]:
    return {"kernel": name, "teenyc": {"id": ident, "source": "", "prelude": None}}


@pytest.mark.parametrize("text", [None, "", "{", "3", '["ab"]', "[[1]]", '[["a", "b", "c"]]', "null"])
def test_a_note_that_cannot_be_read_has_no_pairs(text: str | None) -> None:
    assert read_asked(text) == set()


def test_a_note_comes_back() -> None:
    assert read_asked('[["k", null], ["k", "k__f32"]]') == {("k", None), ("k", "k__f32")}


@pytest.mark.parametrize("found", [{}, {"teenyc": None}, {"teenyc": "text", "kernel": "k"}])
def test_an_entry_of_another_compiler_has_no_facts(found: dict[str, object]) -> None:
    assert read_facts(found) is None


@pytest.mark.anyio
async def test_only_what_is_new_is_written() -> None:
    store = MemoryStore()
    await store.open(lambda operation, message: None)
    digest = text_digest("an entry")
    other = Kept(digest, info("new"))
    asked = Asked()
    asked.replaced(None, other)
    asked.replaced(Entry(Artifact(outputs={}), info("new")), other)
    await asked.note(store)
    assert await store.get_note(ASKED_NOTE + digest) is None
    asked.replaced(Entry(Artifact(outputs={}), info("old", "id")), other)
    await asked.note(store)
    note = await store.get_note(ASKED_NOTE + digest)
    assert json.loads(note or "") == [["old", "id"]]
    await store.put_note(ASKED_NOTE + digest, '[["elsewhere", null], ["old", "id"]]')
    asked.replaced(Entry(Artifact(outputs={}), info("older")), other)
    await asked.note(store)
    assert read_asked(await store.get_note(ASKED_NOTE + digest)) == {
        ("elsewhere", None),
        ("old", "id"),
        ("older", None),
    }
    assert await store.get_note(PRELUDE_NOTE + digest) is None
    await store.aclose()
