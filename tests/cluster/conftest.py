"""A Dask cluster on loopback: a scheduler here, two workers of two threads each in processes of their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import leftovers


@dataclass(frozen=True)
class Cluster:
    """client: connected. scratch: where the workers' compilers have their folders."""

    client: Any
    scratch: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from distributed import Client, LocalCluster

    scratch, own = tmp_path_factory.mktemp("workers"), tmp_path_factory.mktemp("dask")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=2,
                dashboard_address=None,
                local_directory=str(own),
                env={"TMPDIR": str(scratch)},
            ) as local,
            Client(local) as client,
        ):
            yield Cluster(client, scratch)
    assert leftovers(scratch) == []  # also of the worker that a test has killed
