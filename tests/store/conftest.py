"""Fixtures for the tests of the stores."""

from __future__ import annotations

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
