"""One cluster of two workers for each module that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placesim.cluster.opening import Cluster
from tests.cli.conftest import shell
from tests.engine.law import fixed_seeds
from tests.engine.workers import two_workers

__all__ = ["shell"]


@pytest.fixture(scope="module")
def workers() -> Iterator[Cluster]:
    """Processes of their own, whose seeds from the system are fixed."""
    pytest.importorskip("distributed", reason="of the extra `dask`")
    with two_workers() as cluster:
        cluster.client.run(fixed_seeds)
        yield cluster
