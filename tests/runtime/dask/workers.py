"""Clusters for tests of execution: processes of their own, and devices in turn on them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from placesim.graph.session_steps import Config
from placesim.machine.inventory import Device
from placesim.runtime.cluster.cluster_setup import Cluster, open_cluster
from placesim.runtime.cluster.connection_settings import Connection
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.cluster.commands import DaskCommands

TASKS = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]


@contextmanager
def two_workers() -> Iterator[Cluster]:
    """A cluster of two workers that no device lives in yet, and that may die."""
    with TemporaryDirectory() as folder, DaskCommands(Path(folder)) as commands:
        for _ in TASKS:
            commands.worker("--memory-limit", "0")
        with open_cluster(Connection(commands.address, seconds=60), TASKS) as joined:
            yield replace(joined, is_own=True)


def get_ready() -> None:
    """In a worker: import what sessions need, which is nobody's garbage."""
    import placesim.runtime.dask.worker_session  # noqa: F401

    gc.collect()
    gc.freeze()


def settled(cluster: Cluster, devices: Sequence[Device]) -> Cluster:
    """The cluster with devices in turn on its workers."""
    addresses = [offer.address for offer in cluster.offers]
    homes = {device.name: addresses[i % len(addresses)] for i, device in enumerate(devices)}
    names = {address: ", ".join(name for name, home in homes.items() if home == address) for address in addresses}
    return replace(cluster, homes=homes, names=names)


def open_session(cluster: Cluster, graph: Any, devices: Sequence[Device], config: Config, **options: Any) -> GraphSession:
    """A session with every other device on another worker."""
    from placesim.runtime.dask.session import DaskSession

    return DaskSession(graph, devices, config, cluster=settled(cluster, devices), **options)
