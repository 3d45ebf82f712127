"""Ctrl-C and SIGTERM in the middle of a run, and readers that go away. Real processes, both backends."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.cli.kit import Place, wait_until
from tests.support import KERNELS

BACKENDS = ("asyncio", "trio")
GRACE = 2.0
"""Seconds that a compiler which ignores SIGTERM is given."""


def start(place: Place, backend: str, *more: str, at_start: str = "") -> subprocess.Popen[str]:
    """A sweep of which one result comes at once and the others never; returns when the first was printed."""
    kernel = place.compiler(at_start)
    args = ("sweep", kernel, "-t", "sm_75,sm_80,sm_90", "--toolchain", "teenyc", "--backend", backend, "-j", "1")
    process = place.spawn(*args, "--jsonl", *more)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["target"] == "sm_75"
    wait_until(place.at_work, "the second compile")
    return process


def cached(place: Place, *args: str) -> list[str]:
    """The targets whose results are in the cache."""
    results: list[dict[str, Any]] = place.json(*args, "--cached-only", code=1)["results"]
    return [result["target"] for result in results if result["ok"]]


@pytest.mark.parametrize(
    ("number", "backend"),
    [
        (signal.SIGINT, "asyncio"),
        (signal.SIGINT, "trio"),
        (signal.SIGTERM, "asyncio"),
        (signal.SIGTERM, "trio"),
        (signal.SIGHUP, "asyncio"),
    ],
)
def test_the_first_signal_ends_the_run_in_order(place: Place, backend: str, number: signal.Signals) -> None:
    log = place.folder / "events.jsonl"
    process = start(place, backend, "--events", str(log))
    process.send_signal(number)
    output, errors = process.communicate(timeout=10)
    assert (process.returncode, output) == (128 + number, "")
    assert f"stopped by {number.name}\n1 of 3 results in" in errors
    assert "Traceback" not in errors
    assert place.nothing_left()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events].count("Finished") == 1
    assert (events[-1]["event"], events[-1]["stopped"]) == ("Ended", number.name)
    assert cached(place, "sweep", str(place.folder / "slow.rs"), "-t", "sm_75,sm_80") == ["sm_75"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_json_is_whole_after_an_interruption(place: Place, backend: str) -> None:
    kernel = place.compiler()
    process = place.spawn(
        "compile", kernel, "-t", "sm_75,sm_80", "-j", "1", "--json", "-o", "out", "--backend", backend
    )
    wait_until(lambda: any(place.out.glob("*.ptx")), "the first output")
    process.send_signal(signal.SIGINT)
    data = json.loads(process.communicate(timeout=10)[0])
    assert ([result["target"] for result in data["results"]], data["stopped"]) == (["sm_75"], "SIGINT")
    assert process.returncode == 130
    assert place.nothing_left()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_second_signal_leaves_at_once(place: Place, backend: str) -> None:
    process = start(place, backend, at_start="trap '' TERM")
    process.send_signal(signal.SIGINT)
    time.sleep(0.4)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - began < GRACE / 2
    assert place.nothing_left()


def test_a_signal_that_comes_twice_at_once_is_one(place: Place) -> None:
    """`timeout` sends it to the process, and then to the process's group."""
    process = start(place, "asyncio")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert "stopped by SIGTERM" in process.communicate(timeout=10)[1]
    assert process.returncode == 143


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_left_of_a_compiler_with_children(place: Place, backend: str) -> None:
    values = ",".join(str(number) for number in range(200))
    args = ("sweep", str(KERNELS / "vector_add.cu"), "-t", "sm_90", "-p", f"N={values}", "--toolchain", "nvcc")
    process = place.spawn(*args, "--jsonl", "--backend", backend)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    finished = [first, *map(json.loads, process.communicate(timeout=10)[0].splitlines())]
    assert process.returncode == 130
    assert place.nothing_left()
    assert len(finished) < 100
    again = place.json(*args, "--cached-only", code=1)["results"]
    kept = [result["params"]["N"] for result in again if result["ok"]]
    assert {result["params"]["N"] for result in finished} <= set(kept)


def test_ctrl_c_on_a_terminal(place: Place) -> None:
    kernel = place.compiler()
    with place.terminal("sweep", kernel, "-t", "sm_75,sm_80,sm_90", "-j", "1") as terminal:
        terminal.wait_for("slow sm_")
        terminal.wait_for("1/3")
        terminal.type(b"\x03")
        assert terminal.wait() == 130
        assert "stopped by SIGINT" in terminal.text
        assert "slow    sm_75   \x1b[32mcompiled\x1b[0m" in terminal.text
        assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h")
    assert place.nothing_left()


def test_ctrl_c_twice_on_a_terminal_gives_the_cursor_back(place: Place) -> None:
    kernel = place.compiler("trap '' TERM")
    with place.terminal("sweep", kernel, "-t", "sm_80", "-j", "1") as terminal:
        terminal.wait_for("slow sm_80")
        terminal.type(b"\x03")
        terminal.wait_for("once more to leave at once")
        time.sleep(0.3)
        terminal.type(b"\x03")
        assert terminal.wait() == 130
        assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")
    assert place.nothing_left()


def test_no_color_is_honoured(place: Place) -> None:
    place.environ["NO_COLOR"] = "1"
    with place.terminal("sweep", place.bad, "-t", "sm_80") as terminal:
        assert terminal.wait() == 1
        assert "undeclared" in terminal.text
        for color in ("\x1b[3", "\x1b[1;3", "\x1b[9"):
            assert color not in terminal.text


def test_a_reader_that_goes_away_ends_the_run(place: Place) -> None:
    with place.spawn("sweep", place.good, "-t", "sm_75", "-p", "SCALE=1,2,3", "--jsonl") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=10) == 141
        assert process.stderr.read() == ""
    assert place.nothing_left()
