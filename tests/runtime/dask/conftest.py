"""The session's two workers, as a cluster of ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from placesim.runtime.cluster.cluster_setup import Cluster, open_cluster
from placesim.runtime.cluster.connection_settings import Connection
from tests.cli.conftest import shell
from tests.runtime.cluster.conftest import no_long_wait
from tests.runtime.dask.law import fixed_seeds
from tests.runtime.dask.workers import TASKS, get_ready

__all__ = ["no_long_wait", "shell"]


@pytest.fixture(scope="package")
def workers(cluster: Any) -> Iterator[Cluster]:
    """Their seeds from the system are fixed, and devices may be moved among them."""
    with open_cluster(Connection(cluster.scheduler_address), TASKS) as joined:
        joined.client.run(fixed_seeds)
        joined.client.run(get_ready)
        yield replace(joined, is_own=True)
