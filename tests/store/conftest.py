"""Fixtures for the tests of the stores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .kit import Faults


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a cache folder may be made; it is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """As `folder`, in memory where that can be had: for tests that open and close a store hundreds of times."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path / "cache"
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="teeny-async-test-") as parent:
        yield Path(parent) / "cache"
