"""A connection -> what starts processes to search in: on a Dask cluster, where it names one, else here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placesim.cluster.connection import Connection
from placesim.planning.portfolio import open_here
from placesim.processes import Process


@contextmanager
def lanes_on(connection: Connection) -> Iterator[Callable[[], Process]]:
    """For `Effort.open`, within.  Raises what `open_cluster` raises."""
    if connection.scheduler is None:
        yield open_here
        return
    from placesim.cluster.asking import Asking
    from placesim.cluster.opening import open_cluster

    with open_cluster(connection) as cluster:
        yield Asking(cluster, "placesim.planning.worker", answers_once=False).open
