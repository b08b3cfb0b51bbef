"""The session's two workers, as a cluster of ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from placesim.cluster.connection import Connection
from placesim.cluster.opening import Cluster, open_cluster
from tests.cli.conftest import shell
from tests.engine.law import fixed_seeds
from tests.engine.workers import TASKS

__all__ = ["shell"]


@pytest.fixture(scope="package")
def workers(cluster: Any) -> Iterator[Cluster]:
    """Their seeds from the system are fixed, and devices may be moved among them."""
    with open_cluster(Connection(cluster.scheduler_address), TASKS) as joined:
        joined.client.run(fixed_seeds)
        yield replace(joined, is_own=True)
