"""A disk that is really full: a small tmpfs, mounted in a namespace of the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

INSIDE = """
import json, sys, anyio
from pathlib import Path
from teeny_async import Compiler
from teeny_async.settings import Settings
from tests.faults.kit import FAST, Faulty

async def main():
    place = Path(sys.argv[1])
    tool = Faulty(place / "state")
    settings = Settings(environ={}, cache_dir=place / "cache", scratch_dir=str(place / "small"))
    async with Compiler(settings=settings, jobs=1, retry=FAST) as compiler:
        full = await compiler.compile_result(tool.request("fill"))
        good = await compiler.compile_result(tool.request("good"))
    left = [str(path) for path in (place / "small").glob("teeny-async-*/*")]
    print(json.dumps({
        "kinds": [attempt.kind and attempt.kind.value for attempt in full.attempts],
        "hint": full.failure.hint,
        "good": good.ok,
        "left": left,
    }))
anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_full_disk_is_told_apart_and_waited_for(tmp_path: Path, backend: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = f'mount -t tmpfs -o size=256k tmpfs {small} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", INSIDE, str(tmp_path), backend],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kinds"] == ["disk_full"] * 4
    assert "free some space" in told["hint"]
    assert told["good"], "the space came back with the scratch folder, so the next one works"
    assert told["left"] == []
