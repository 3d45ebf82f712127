"""A cache that machines share, from the command line."""

from __future__ import annotations

from tests.cli.kit import Place


def test_what_one_has_compiled_the_next_one_finds(place: Place) -> None:
    url = f"file://{place.folder}/shared"
    sweep = ("sweep", place.good, "-t", "sm_80", "--remote", url, "--cache-dir")
    reader = place.run(*sweep, str(place.folder / "reader"), "--remote-read-only")
    assert "1 compiled" in reader.stdout
    first = place.run(*sweep, str(place.folder / "one"))
    assert "1 compiled" in first.stdout
    second = place.run(*sweep, str(place.folder / "two"))
    assert "1 cached" in second.stdout


def test_a_remote_that_is_none_is_refused(place: Place) -> None:
    done = place.run("sweep", place.good, "-t", "sm_80", "--remote", "/no/url", code=2)
    assert "begins with one of s3://" in done.stderr
    assert "Traceback" not in done.stderr
