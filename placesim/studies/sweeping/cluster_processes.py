"""Processes on a Dask cluster that simulate the combinations of a sweep."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from placesim.prediction.sweep_rows import SweepRow
from placesim.runtime.cluster.connection_settings import Connection
from placesim.studies.sweeping.processes import ProcessCount
from placesim.studies.sweeping.row_simulation import SweepJob
from placesim.studies.sweeping.sweep import SweepRun

_AHEAD = 2
"""Number of combinations in progress per thread of a worker, so that no thread waits for work."""


@contextmanager
def spread_processes(connection: Connection, job: SweepJob, most: int | None = None) -> Iterator[ProcessCount]:
    """Provide processes on the cluster, at most `most` at once.

    Without a cluster, the processes are on this machine, one by default. If the graph is one file, the file is sent to the
    workers. They read all other files at the same paths as this machine.
    """
    if connection.scheduler is None:
        yield ProcessCount(most or 1)
        return
    from placesim.runtime.cluster.cluster_setup import open_cluster
    from placesim.runtime.cluster.remote_process import RemoteProcessPool

    with open_cluster(connection) as cluster:
        asking = RemoteProcessPool(cluster, "placesim.studies.sweeping.worker", make_portable_job(job), answers_once=True)
        yield ProcessCount(most or _AHEAD * sum(offer.threads for offer in cluster.offers), lambda told: asking.open())


def spread_rows(run: SweepRun, connection: Connection, most: int | None = None) -> Generator[SweepRow]:
    """Yield the rows of a sweep in order, simulated in the processes of `spread_processes`."""
    with spread_processes(connection, run.job, most) as processes:
        yield from run.in_order(processes)


def make_portable_job(job: SweepJob) -> SweepJob:
    """Return the job in a form that works on another machine. Raises GraphFileError if the graph's file can't be read."""
    from placesim.formats.sources.loading import read_bytes

    folder = os.getcwd()
    if isinstance(job.source, str | Path) and not os.path.isdir(job.source):
        return replace(job, source=read_bytes(job.source), folder=folder, directory=str(Path(job.source).parent))
    return replace(job, folder=folder)
