"""Standard streams that are closed or full, and Ctrl-C while the command line begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.kit import Place, wait_until


def shell(place: Place, redirections: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams redirected as a shell does it."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "teeny_async", *args]
    return subprocess.run(command, env=place.environ, capture_output=True, text=True, check=False, cwd=place.folder)


@pytest.mark.parametrize("redirections", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_outcome(place: Place, redirections: str) -> None:
    done = shell(place, redirections, "compile", place.good, "-t", "znver4", "-o", "out")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    [output] = place.out.iterdir()
    assert output.read_bytes().startswith(b"\x7fELF")
    assert shell(place, redirections, "sweep", place.bad, "-t", "znver4").returncode == 1
    assert shell(place, redirections, "sweep", place.good, "-t", "sm_8").returncode == 2


@pytest.mark.parametrize("flag", [(), ("--json",), ("--jsonl",)])
def test_every_output_may_be_closed(place: Place, flag: tuple[str, ...]) -> None:
    done = shell(place, ">&-", "sweep", place.good, "-t", "znver4", *flag)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("sweep", "good.c", "--no-such-option"), 2),
        (("sweep", "good.c", "-t", "sm_8"), 2),
        (("sweep", "bad.c", "-t", "znver4"), 1),
        (("sweep", "good.c", "-t", "znver4"), 0),
    ],
)
def test_a_full_standard_error_changes_no_exit_code(place: Place, args: tuple[str, ...], code: int) -> None:
    assert shell(place, "2>/dev/full", *args).returncode == code


def test_a_full_standard_output_is_a_failure_that_says_so(place: Place) -> None:
    done = shell(place, ">/dev/full", "sweep", place.good, "-t", "znver4")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_ctrl_c_while_it_begins_ends_it_quietly(place: Place) -> None:
    """The import of the commands stands for all that happens before anything can be ended in order."""
    package = place.folder / "slow" / "click"
    package.mkdir(parents=True)
    begun = place.folder / "begun"
    package.joinpath("__init__.py").write_text(f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(60)\n")
    place.environ["PYTHONPATH"] = os.pathsep.join([str(package.parent), place.environ["PYTHONPATH"]])
    process = place.spawn("--version")
    wait_until(begun.exists, "the import")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=10)
    assert (process.returncode, output, errors) == (-signal.SIGINT, "", "")


def test_ctrl_c_that_a_shell_said_to_ignore_is_ignored(place: Place) -> None:
    script = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from teeny_async.cli import app, main\n"
        "def command(**rest): os.kill(os.getpid(), signal.SIGINT); print('went on'); raise SystemExit(0)\n"
        "app.cli.main = command\n"
        "main()"
    )
    assert place.spawn(program=("-c", script)).communicate(timeout=10) == ("went on\n", "")


def test_ctrl_c_at_a_command_that_ends_nothing_in_order(place: Place) -> None:
    script = (
        "import os, signal\n"
        "from teeny_async.cli import app, main\n"
        "def command(**rest): os.kill(os.getpid(), signal.SIGINT)\n"
        "app.cli.main = command\n"
        "main()"
    )
    process = place.spawn(program=("-c", script))
    assert process.communicate(timeout=10) == ("", "")
    assert process.returncode == 130
