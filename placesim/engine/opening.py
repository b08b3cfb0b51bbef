"""A connection to a cluster -> what makes sessions there, once their devices are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from placesim.cluster.connection import Connection
from placesim.cluster.homes import Moved
from placesim.cluster.opening import open_cluster
from placesim.devices.inventory import Device
from placesim.graph.graph import Graph
from placesim.graph.steps import Config
from placesim.runtime.session import Session

Opener = Callable[..., Session]


@contextmanager
def sessions_on(connection: Connection, tell: Callable[[Moved], None] = lambda moved: None) -> Iterator[Opener]:
    """Within, what it gives makes sessions on that cluster, which is reached, or started, with the first of them.

    `tell` is told of each device or task that lives elsewhere than was asked for.  The opener raises what `open_cluster` does.
    """
    with ExitStack() as stack:

        def opened(graph: Graph, devices: Sequence[Device], config: Config, **options: Any) -> Session:
            names = [device.name for device in devices]
            cluster = stack.enter_context(open_cluster(connection, names, is_soft=config.allow_soft_placement))
            for moved in cluster.moved:
                tell(moved)
            from placesim.engine.session import ClusterSession  # needs Dask, which the cluster has found

            session = ClusterSession(graph, devices, config, cluster=cluster, **options)
            stack.callback(session.close)
            return session

        yield opened
