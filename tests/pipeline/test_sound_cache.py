"""Bytes of the cache folder that change under sessions: never a wrong artifact, never an exception, and everything
is compiled again once at most."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from teeny_async import Compiler, CompileRequest, CompileResult, Kernel
from teeny_async.settings import Settings
from teeny_async.testing import FakeRunner, FakeToolchain

KEYS, ROUNDS, CHANGES = 40, 17, 20
"""On each of the three event loops: a thousand changes in all."""
TOOL = FakeToolchain()


def source(number: int) -> str:
    """Every tenth is large enough for a file of its own."""
    return f"int k{number};".ljust(300_000 if number % 10 == 3 else 300, "/")


REQUESTS = [CompileRequest(Kernel(name="k", source=source(n), language="c"), toolchain=TOOL) for n in range(KEYS)]


async def compile_all(settings: Settings) -> list[CompileResult]:
    async with Compiler(runner=FakeRunner(), settings=settings, jobs=1) as compiler:
        results = await compiler.compile_many(REQUESTS)
    for number, result in enumerate(results):
        assert result.artifact["object"] == source(number).encode(), "a wrong artifact"
    return results


async def compiled(settings: Settings) -> set[int]:
    """Which of the requests were not cached."""
    return {number for number, result in enumerate(await compile_all(settings)) if result.source != "cached"}


def damage(chance: random.Random, folder: Path) -> str:
    """One change to a file of the folder, a larger file the likelier."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    path = chance.choices(files, [path.stat().st_size + 5000 for path in files])[0]
    size = path.stat().st_size
    place = chance.randrange(size)
    if not chance.randrange(8):
        with path.open("r+b") as file:
            file.truncate(place)
        return f"{path.name} cut off at {place}"
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ chance.randrange(1, 256)]))
    return f"{path.name} flipped at {place}"


@pytest.mark.anyio
async def test_a_thousand_changes_to_the_cache_folder(
    settings: Settings, cache_dir: Path, tmp_path: Path, anyio_backend: tuple[str, dict[str, object]]
) -> None:
    await compile_all(settings)
    shutil.copytree(cache_dir, tmp_path / "sound")
    for number in range(ROUNDS):
        chance = random.Random(f"{anyio_backend} {number}")
        done = [damage(chance, cache_dir) for _ in range(CHANGES)]
        # What the first session still finds may go with a database that it gives up a moment later.
        first, second, third = [await compiled(settings) for _ in range(3)]
        twice = (first & second) | third
        assert not twice, f"compiled more than once after {done}"
        shutil.rmtree(cache_dir)
        shutil.copytree(tmp_path / "sound", cache_dir)
