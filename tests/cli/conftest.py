"""A place of its own for each test: kernels, a cache, a scratch folder, and the environment that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
