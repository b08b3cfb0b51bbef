"""Factory of sessions on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from placesim.graph.graph import Graph
from placesim.graph.session_steps import Config
from placesim.machine.inventory import Device
from placesim.runtime.cluster.cluster_setup import open_cluster
from placesim.runtime.cluster.connection_settings import Connection
from placesim.runtime.cluster.device_assignment import DeviceMove
from placesim.runtime.sessions.session import GraphSession

Opener = Callable[..., GraphSession]


@contextmanager
def open_cluster_sessions(
    connection: Connection,
    tell: Callable[[DeviceMove], None] = lambda moved: None,
    take_report: Callable[[str], object] | None = None,
) -> Iterator[Opener]:
    """Yield a factory of sessions on a cluster. Each session connects to the cluster, or starts a local one.

    Sessions and local clusters end with the context. `tell` is called for each device or task that is on another worker than
    requested. When the context ends, `take_report` is called with Dask's performance report of each measured session, as an
    HTML page. The factory raises the errors of `open_cluster`, and UsageError if the cluster can't draw a report.
    """
    with ExitStack() as stack:

        def opened(graph: Graph, devices: Sequence[Device], config: Config, **options: Any) -> GraphSession:
            names = [device.name for device in devices]
            cluster = stack.enter_context(open_cluster(connection, names, is_soft=config.allow_soft_placement))
            for moved in cluster.moved:
                tell(moved)
            from placesim.runtime.cluster.performance_report import PerformanceReport
            from placesim.runtime.dask.session import DaskSession  # imports Dask; `open_cluster` has checked for it

            performance = None if take_report is None else PerformanceReport(cluster)
            session = DaskSession(graph, devices, config, cluster=cluster, tell=tell, **options)
            if performance is not None and take_report is not None and session.gathering is not None:
                gathering, page = session.gathering, performance.page
                stack.callback(lambda: take_report(page(gathering.spans())))
            stack.callback(session.close)
            return session

        yield opened
