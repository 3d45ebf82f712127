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


def test_clear_says_that_the_shared_cache_stays(place: Place) -> None:
    url = f"file://{place.folder}/shared"
    sweep = ("sweep", place.good, "-t", "sm_80")
    assert "1 compiled" in place.run(*sweep, "--remote", url).stdout
    assert "shared" not in place.run("cache", "clear", "--yes").stderr
    place.environ["TEENY_ASYNC_REMOTE"] = url
    assert f"{url} was not cleared" in place.run("cache", "clear", "--yes").stderr
    assert "1 compiled" in place.run(*sweep, "--remote", "").stdout
    place.run("cache", "clear", "--yes")
    assert "1 cached" in place.run(*sweep).stdout
