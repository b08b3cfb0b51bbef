"""A sweep's job -> processes on a Dask cluster that simulate its combinations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from placesim.cluster.connection import Connection
from placesim.processes import Process
from placesim.sweeping.processes import Hands
from placesim.sweeping.simulating import Job

_AHEAD = 2
"""Combinations that are under way for each of the workers' threads, so that none waits for the next."""


@contextmanager
def spread(connection: Connection, job: Job, most: int | None = None) -> Iterator[Hands]:
    """Processes on the cluster, at most so many at once; without one on this machine, one unless it is said.

    A graph in one file travels; whatever else is read, workers read themselves, where it lies here.
    """
    if connection.scheduler is None:
        yield Hands(most or 1)
        return
    from placesim.cluster.asking import Asking
    from placesim.cluster.opening import open_cluster

    with open_cluster(connection) as cluster:
        asking = Asking(cluster, "placesim.sweeping.worker", travelling(job), answers_once=True)

        def open_there(told: Job) -> Process:
            return asking.open()

        yield Hands(most or _AHEAD * sum(offer.threads for offer in cluster.offers), open_there)


def travelling(job: Job) -> Job:
    """The same job, for a process that may be elsewhere.  Raises GraphFileError where the graph's file can't be read."""
    from placesim.loading import read_bytes

    folder = os.getcwd()
    if isinstance(job.source, str | Path) and not os.path.isdir(job.source):
        return replace(job, source=read_bytes(job.source), folder=folder, directory=str(Path(job.source).parent))
    return replace(job, folder=folder)
