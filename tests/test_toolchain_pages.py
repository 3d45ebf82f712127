"""The pages on the toolchains: there is one for each in the README's table, and what they say to run works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import teeny_async
from teeny_async.toolchains.registry import DRIVERS
from tests.standins import Teenyc

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "examples" / "toolchains"
COMMANDS = [
    (page.stem, command)
    for page in sorted(PAGES.glob("*.md"))
    for command in re.findall(r"^teeny-async (.+)", page.read_text(), re.MULTILINE)
]


def test_each_toolchain_has_its_page() -> None:
    table = re.findall(
        r"^\| \[`([\w-]+)`\]\((examples/toolchains/[\w-]+\.md)\)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert {name for name, _ in table} == {*DRIVERS} - {"ptxas", "lld", "zig-lang"}
    assert all((ROOT / path).is_file() for _, path in table)
    linked = re.findall(r"\]\(([\w-]+\.md)\)", "".join(page.read_text() for page in PAGES.glob("*.md")))
    assert all((PAGES / name).is_file() for name in linked)


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(COMMANDS)])
def test_the_commands_work(page: str, command: str, tmp_path: Path, teenyc: Teenyc) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environ = {**os.environ, "TEENY_ASYNC_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    if page == "teenyc":
        environ["TEENYC_PATH"] = str(teenyc.path)
    line = f'exec "{sys.executable}" -m teeny_async {command}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environ, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "compiled" in done.stdout + done.stderr


def test_the_code_works() -> None:
    [code] = re.findall(r"```python\n(.*?)```", (PAGES / "own.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["gcc"], teeny_async.CommandToolchain)
