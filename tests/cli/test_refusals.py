"""What is refused: exit code 2 or 3, a message that teaches, nothing on standard output, nothing started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kit import Place


def refusal(place: Place, *args: str, code: int = 2) -> str:
    done = place.run(*args, code=code)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--target-cpu", "sm_8"), ["'sm_8'", "did you mean sm_"]),
        (("--target-cpu", "znver9,sm_8"), ["'znver9'", "znver5", "'sm_8'", "did you mean sm_"]),
        (("--target-cpu", "sm_85"), ["'sm_85' for zig", "sm_86"]),
        (("--target-cpu", "sm_120", "--ptx-version", "86"), ["sm_120 needs PTX version 87"]),
        (("--target-cpu", "sm_90", "--ptx-version", "79"), ["PTX version 79 does not exist", "78, 80"]),
        (("--toolchain", "zigg"), ["unknown toolchain 'zigg'", "zig"]),
        (("--toolchain", "rustc"), ["rustc takes rust, not c"]),
        (("--emit", "cubim", "-t", "sm_80"), ["cannot emit 'cubim'", "ptx, cubin"]),
        (("--param", "X"), ["NAME=V1,V2"]),
        (("--target", "sm_80"), ["No such option", "--target-cpu"]),
        (("--json", "--jsonl"), ["do not go together"]),
        (("--cached-only", "--refresh"), ["do not go together", "cached_only, refresh"]),
        (("--jobs", "0"), ["x>=1"]),
        (("--timeout", "0"), ["x>0"]),
        (("--out", "good.c"), ["--out", "File exists"]),
        (("--events", "missing/events.jsonl"), ["--events", "No such file"]),
        (("--prelude", "missing.txt"), ["prelude missing.txt", "No such file"]),
        (("--cache-dir", "good.c"), ["good.c", "is not a folder"]),
        (("--cache-dir", ""), ["--cache-dir", "it is empty"]),
        (("--events", "-"), ["--events", "'./-' is a file"]),
        (("--out", "-"), ["--out", "'./-' is a file"]),
        (("--target-cpu", ","), ["--target-cpu", "names no target"]),
        (("--target-cpu", ""), ["--target-cpu", "names no target"]),
        (("--target-cpu", "sm_80", "--ptx-version", ","), ["--ptx-version", "names no version"]),
    ],
)
def test_refused_options(
    place: Place, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: list[str]
) -> None:
    monkeypatch.chdir(place.folder)
    message = refusal(place, "sweep", "good.c", *args)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("god.c", ["god.c: no such file", "good.c"]),
        (".", ["is a folder", "./*.c"]),
        ("notes.txt", ["notes.txt", "cannot tell the language", ".cu"]),
        ("latin.c", ["latin.c", "UTF-8"]),
        ("/dev/null", ["/dev/null is no regular file"]),
        ("fifo.c", ["fifo.c is no regular file"]),
        ("-", ["'-' does not stand for a standard stream"]),
        ("", ["it is empty"]),
    ],
)
def test_refused_kernels(place: Place, monkeypatch: pytest.MonkeyPatch, kernel: str, words: list[str]) -> None:
    monkeypatch.chdir(place.folder)
    place.write("notes.txt", "")
    os.mkfifo("fifo.c")
    Path("latin.c").write_bytes(b"// \xe9\n")
    message = refusal(place, "compile", kernel)
    for word in words:
        assert word in message


def test_one_refused_pair_stops_everything_before_it_starts(place: Place) -> None:
    message = refusal(place, "sweep", place.good, "-t", "sm_80,sm_85,sm_90", "-o", str(place.out))
    assert "--skip-refused leaves these out, and compiles for the other 2" in message
    assert not list(place.out.iterdir())
    assert place.run("cache", "stats").stdout.splitlines()[1].startswith("0 entries")


def test_what_is_refused_can_be_left_out(place: Place) -> None:
    other = place.write("other.c", "int other(int x) { return x; }\n")
    args = ("sweep", place.good, other, "-t", "sm_80,sm_85,sm_90", "-p", "SCALE=1,2", "--skip-refused")
    done = place.run(*args)
    assert "skipped 2 times: unknown target CPU 'sm_85' for zig" in done.stderr
    assert "8 results in" in done.stdout
    results = place.json(*args)["results"]
    assert {result["target"] for result in results} == {"sm_80", "sm_90"}
    assert len(results) == 8
    explained = place.json("explain", *args[1:])["explanations"]
    assert [one["state"] for one in explained] == ["hit"] * 8
    assert "sm_85" in refusal(place, "sweep", place.good, "-t", "sm_85", "--skip-refused")
    # A name that nobody knows is a slip of the pen, and not left out.
    assert "sm_8'" in refusal(place, "sweep", place.good, "-t", "sm_80,sm_8", "--skip-refused")


def test_a_missing_toolchain_is_exit_code_3_and_says_how_to_install_it(place: Place) -> None:
    place.environ["TEENYC_PATH"] = "/nowhere/teenyc"
    kernel = place.write("kernel.rs", "")
    mixed = ("sweep", kernel, place.good, "-t", "sm_80", "-p", "SCALE=1,2", "--toolchain", "teenyc")
    assert "teenyc takes rust, not c" in refusal(place, *mixed)
    args = ("compile", kernel, "-t", "sm_80,sm_90", "--toolchain", "teenyc")
    message = place.run(*args, code=3).stderr
    assert "cargo teeny install-toolchain" in message
    assert message.count("teenyc:") == 1
    data = place.json(*args, code=3)
    assert [result["failure"]["kind"] for result in data["results"]] == ["tool_missing", "tool_missing"]
    assert data["stopped"] == "tool_missing"


def test_an_untrusted_cache_folder_is_refused(place: Place) -> None:
    place.cache.mkdir(mode=0o777)
    place.cache.chmod(0o777)
    assert "chmod 700" in refusal(place, "sweep", place.good, "-t", "sm_80")


def test_trio_that_is_not_there(place: Place) -> None:
    script = "import sys; sys.modules['trio'] = None; from teeny_async.cli import main; main()"
    process = place.spawn("sweep", place.good, "--backend", "trio", program=("-c", script))
    assert "pip install 'teeny_async[trio]'" in process.communicate()[1]
    assert process.returncode == 2


def test_more_jobs_than_cpus_is_one_warning(place: Place) -> None:
    done = place.run("sweep", place.good, "-t", "sm_80", "-j", "4096")
    assert "warning: jobs=4096 is more than" in done.stderr
    assert ".py" not in done.stderr


def test_a_command_that_does_not_exist(place: Place) -> None:
    assert "Did you mean 'sweep'" in refusal(place, "swep")


def test_help_is_fast_and_light(place: Place) -> None:
    heavy = ["anyio", "rich", "diskcache", "tenacity", "aiofiles", "platformdirs", "sqlite3", "asyncio", "trio"]
    script = (
        "import sys; from teeny_async.cli.app import cli\n"
        f"try: cli.main(sys.argv[1:])\nfinally: assert not [name for name in {heavy} if name in sys.modules]"
    )
    for args in (["--help"], ["sweep", "--help"], ["--version"], ["cache", "clear", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *args], env=place.environ, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        assert "teeny-async" in done.stdout


def test_the_end_of_the_interpreter_goes_through_no_heap(place: Place) -> None:
    script = (
        "import gc; from teeny_async.cli import main\n"
        "try: main()\nfinally: print('alive', len(gc.get_objects()), 'frozen', gc.get_freeze_count())"
    )
    done = place.spawn("--version", program=("-c", script)).communicate()[0].split()
    assert int(done[-3]) < int(done[-1]) / 10


def test_help_has_every_option_under_a_heading(place: Place) -> None:
    text = place.run("sweep", "--help").stdout
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings[1:] == ["What to compile:", "How to run:", "Cache:", "Output:"]
    for option in (
        "--target-cpu",
        "--ptx-version",
        "--param",
        "--jobs",
        "--cached-only",
        "--events",
        "--all-rows",
        "--help",
    ):
        assert option in text


def test_it_runs_as_a_module(place: Place) -> None:
    done = place.spawn("--version")
    assert done.communicate()[0].startswith("teeny-async, version ")
    assert done.returncode == 0
