"""`--wait-for-others`: how long a compile that is under way elsewhere is waited for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from teeny_async.caching import meeting_place
from teeny_async.settings import Settings
from teeny_async.store.claims import ClaimedKey, Claims
from teeny_async.store.disk import DiskStore
from tests.cli.kit import Place


@contextlib.contextmanager
def compiled_elsewhere(place: Place, *args: str) -> Iterator[None]:
    """Another session says that it compiles this into the same folder, and does not get on with it."""
    place.json("compile", place.bad, "-t", "sm_80", code=1)  # makes the folder
    [explained] = place.json("explain", *args)["explanations"]
    scope = DiskStore(place.cache).folder_identity
    claim = Claims(meeting_place(Settings.from_environ(place.environ)), scope=scope or "").try_claim(explained["key"])
    assert isinstance(claim, ClaimedKey)
    try:
        yield
    finally:
        claim.release()


@pytest.mark.parametrize(("seconds", "waits"), [("0", False), ("0.05", True)])
def test_the_option_says_how_long_others_are_waited_for(place: Place, *, seconds: str, waits: bool) -> None:
    wanted = (place.good, "-t", "sm_80")
    events = place.folder / "events.jsonl"
    with compiled_elsewhere(place, *wanted):
        done = place.json("compile", *wanted, "--wait-for-others", seconds, "--events", str(events))
    assert [result["source"] for result in done["results"]] == ["compiled"]
    assert ("Waiting" in [json.loads(line)["event"] for line in events.read_text().splitlines()]) == waits


def test_what_makes_no_sense_is_refused(place: Place) -> None:
    done = place.run("sweep", place.good, "--wait-for-others", "-1", code=2)
    assert "--wait-for-others" in done.stderr
    assert "--wait-for-others" in place.run("tune", "--help").stdout
    assert "--wait-for-others" not in place.run("explain", "--help").stdout
