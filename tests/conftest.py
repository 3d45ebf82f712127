"""What every test may use. Each async test runs on asyncio, on asyncio with uvloop, and on trio."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from teeny_async.settings import Settings

from .standins import Teenyc, install_teenyc
from .support import leftovers, private_environ

BACKENDS = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    pytest.param(("trio", {}), id="trio"),
]


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    """Where the store of `settings` goes; it is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def scratch_dir(tmp_path: Path) -> Path:
    """The folder for temporary files of `settings`; empty."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(cache_dir: Path, scratch_dir: Path) -> Settings:
    """This machine's tools, with a cache and a scratch folder of the test's own."""
    return Settings.from_environ(private_environ(cache_dir, scratch_dir))


@pytest.fixture
def no_leftovers(scratch_dir: Path) -> Iterator[None]:
    """Asserts, when the test is over, that no process of `settings` lives and that nothing is left in scratch."""
    yield
    assert leftovers(scratch_dir) == []


@pytest.fixture
def teenyc(tmp_path: Path) -> Teenyc:
    """A stand-in for teenyc, on no path and in no environment yet."""
    return install_teenyc(tmp_path / "teenyc")
