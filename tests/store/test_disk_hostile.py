"""A folder that somebody else has written to: nothing runs, nothing outside is read or removed."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from teeny_async.store.framing import pack

from .kit import Faults, database, digest, entry, opened

pytestmark = pytest.mark.anyio

MODE_RAW, MODE_BINARY, MODE_TEXT, MODE_PICKLE = 1, 2, 3, 4
KEY = bytes.fromhex(digest(1))
NAME = "0123456789abcdef" * 2 + ".val"


class Payload:
    """Pickles as a call that makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def plant(connection: sqlite3.Connection, *, key: object = KEY, raw: int = 1, **columns: Any) -> None:
    """A row as an attacker would write it."""
    columns = {"mode": MODE_RAW, "filename": None, "value": None, **columns}
    connection.execute("DELETE FROM Cache WHERE key = ? AND raw = ?", (key, raw))
    connection.execute(
        "INSERT INTO Cache (key, raw, store_time, access_time, size, mode, filename, value)"
        " VALUES (?, ?, 1, 1, 0, ?, ?, ?)",
        (key, raw, columns["mode"], columns["filename"], columns["value"]),
    )


Planter = Callable[[sqlite3.Connection, Path, Path, bytes], None]
"""(database, layout folder, a folder outside it, pickled payload)"""


def pickled_value(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_PICKLE, value=payload)


def pickled_file(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    (layout / NAME).write_bytes(payload)
    plant(connection, mode=MODE_PICKLE, filename=NAME)


def pickled_raw(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_RAW, value=payload)


def unknown_mode(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=17, value=pack(digest(1), entry()))


def text_value(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, value="text")


def number_value(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, value=7)


def no_value(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, value=None)


def foreign_value(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, value=pack(digest(2), entry()))


def absolute_name(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_BINARY, filename=str(outside / NAME))


def relative_name(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_BINARY, filename=f"../../{outside.name}/{NAME}")


def nested_name(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    (layout / "aa").symlink_to(outside)
    plant(connection, mode=MODE_BINARY, filename=f"aa/{NAME}")


def newline_name(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_BINARY, filename=NAME + "\n")


def blob_name(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_BINARY, filename=NAME.encode())


def text_file(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    plant(connection, mode=MODE_TEXT, filename=str(outside / NAME))


def linked_file(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    (layout / NAME).symlink_to(outside / NAME)
    plant(connection, mode=MODE_BINARY, filename=NAME)


def named_pipe(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    os.mkfifo(layout / NAME)
    plant(connection, mode=MODE_BINARY, filename=NAME)


def changed_file(connection: sqlite3.Connection, layout: Path, outside: Path, payload: bytes) -> None:
    (layout / NAME).write_bytes(pack(digest(1), entry())[:-1])
    plant(connection, mode=MODE_BINARY, filename=NAME)


PLANTERS: list[Planter] = [
    pickled_value,
    pickled_file,
    pickled_raw,
    unknown_mode,
    text_value,
    number_value,
    no_value,
    foreign_value,
    absolute_name,
    relative_name,
    nested_name,
    newline_name,
    blob_name,
    text_file,
    linked_file,
    named_pipe,
    changed_file,
]


@pytest.mark.parametrize("then", ["get", "put", "delete", "clear"])
@pytest.mark.parametrize("planter", PLANTERS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_crafted_row_is_dropped_and_does_nothing(
    folder: Path, tmp_path: Path, faults: Faults, planter: Planter, then: str
) -> None:
    outside, mark = tmp_path / "outside", tmp_path / "mark"
    outside.mkdir()
    (outside / NAME).write_bytes(pack(digest(1), entry()))  # an entry that would pass, but in another place
    async with opened(folder, faults) as store:
        await store.put(digest(2), entry(b"innocent"))
        with database(folder) as connection:
            planter(connection, folder / "v1", outside, pickle.dumps(Payload(mark)))
        match then:
            case "get":
                assert await store.get_many([digest(1), digest(2)]) == [None, entry(b"innocent")]
                assert faults.operations == ["quarantine"]
                assert (await store.stats()).quarantined == 1
                assert (await store.stats()).entries == 1
            case "put":
                await store.put(digest(1), entry())
                assert await store.get_many([digest(1)]) == [entry()]
            case "delete":
                await store.delete(digest(1))
                assert await store.get_many([digest(1)]) == [None]
            case "clear":
                assert await store.clear() == 2
        await store.put(digest(1), entry(b"good again"))
        assert await store.get_many([digest(1)]) == [entry(b"good again")]
    assert not mark.exists()
    assert (outside / NAME).exists()
    assert len(faults) == (then == "get")


async def test_a_pickled_key_is_never_looked_at(folder: Path, tmp_path: Path, faults: Faults) -> None:
    mark = tmp_path / "mark"
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
        with database(folder) as connection:
            plant(connection, key=pickle.dumps(Payload(mark)), raw=0, value=b"value")
            plant(connection, raw=0, mode=MODE_PICKLE, value=pickle.dumps(Payload(mark)))
        assert await store.get_many([digest(1)]) == [entry()]
        assert (await store.stats()).entries == 1
        assert await store.clear() == 1
        with database(folder) as connection:
            assert connection.execute("SELECT COUNT(*) FROM Cache").fetchone() == (0,)
    assert not mark.exists()
    assert faults == []


async def test_diskcache_itself_cannot_be_made_to_unpickle(folder: Path, tmp_path: Path, faults: Faults) -> None:
    from teeny_async.store.raw_cache import Limits, RawCache
    from teeny_async.store.raw_disk import RefusedRow

    async with opened(folder, faults) as store:
        await store.put_note("a", "b")
        with database(folder) as connection:
            plant(connection, key=pickle.dumps(Payload(tmp_path / "mark")), raw=0, value=b"value")
    cache = RawCache(folder / "v1", limits=Limits(size=1 << 30, count=1000), patience=1)
    try:
        for listing in (list, lambda keys: list(reversed(keys)), lambda keys: list(keys.iterkeys())):
            with pytest.raises(RefusedRow):
                listing(cache)
        for value in (1, 1.5, None, ["list"], bytearray(b"x")):
            with pytest.raises(TypeError):
                cache.set(b"key", value)
            with pytest.raises(TypeError):
                cache.set(value, b"value")
    finally:
        cache.close()
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "setting",
    [
        ("_directory", "{outside}"),
        ("disk__directory", "{outside}"),
        ("sqlite_journal_mode", "off"),
        ("sqlite_temp_store_directory", "{outside}"),
        ("eviction_policy", "least-recently-used"),
        ("count", "many"),
        (b"blob", 1),
        ("NOT UTF-8", 1),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_crafted_settings_table_is_set_aside(
    folder: Path, tmp_path: Path, faults: Faults, setting: tuple[str | bytes, str | int]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with opened(folder, faults) as store:
        await store.put(digest(1), entry())
    name, value = setting
    if isinstance(value, str):
        value = value.format(outside=outside)
    with database(folder) as connection:
        connection.execute("INSERT OR REPLACE INTO Settings VALUES (?, ?)", (name, value))
        connection.execute("UPDATE Settings SET key = CAST(x'ff' AS TEXT) WHERE key = 'NOT UTF-8'")
    async with opened(folder, faults) as store:
        assert faults.operations == ["quarantine"]
        assert await store.get_many([digest(1)]) == [entry()]  # it proves itself
        await store.put(digest(2), entry(bytes(300_000)))
        assert await store.get_many([digest(2)]) == [entry(bytes(300_000))]
    assert list(outside.iterdir()) == []
    assert len(faults) == 1
