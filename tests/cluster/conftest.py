"""One cluster for each module that asks for it; workers are processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import shell

__all__ = ["shell"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Dask's LocalCluster of two worker processes with a thread each."""
    distributed = pytest.importorskip("distributed", reason="of the extra `dask`")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as found:
        yield found
