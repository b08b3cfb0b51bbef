"""Options of commands that may use a Dask cluster, and their conversion to a connection."""

from __future__ import annotations

from typing import Any

import click

from placesim.cli.option_types import Word, cluster_option
from placesim.cli.options import take_record, together
from placesim.core.errors import UsageError
from placesim.runtime.cluster.connection_settings import CONNECT_SECONDS, PER, Connection, Tls

scheduler_options = together(
    cluster_option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of the Dask scheduler whose workers are used or listed: tcp://HOST:PORT.",
    ),
    cluster_option(
        "--scheduler-timeout",
        type=click.FloatRange(0, 86400, min_open=True),
        metavar="SECONDS",
        default=CONNECT_SECONDS,
        show_default=True,
        help="Time to wait for the scheduler and its workers.",
    ),
    cluster_option("--tls-ca-file", "ca_file", metavar="FILE", help="CA certificate file for tls:// (PEM)."),
    cluster_option("--tls-cert", "cert", metavar="FILE", help="Client certificate file for tls:// (PEM)."),
    cluster_option("--tls-key", "key", metavar="FILE", help="Private key file for tls:// (PEM)."),
)
"""Options that choose a cluster."""
worker_options = together(
    cluster_option(
        "--worker",
        "workers",
        multiple=True,
        metavar="DEVICE=ADDRESS",
        help="Assign DEVICE (or a job: /job:ps) to the worker with this address, name or host (repeatable).",
    ),
    cluster_option(
        "--worker-per",
        "per",
        type=Word(PER),
        default=PER[0],
        show_default=True,
        help="Start one worker per task or per device.",
    ),
)
"""Options that assign devices to workers."""


def take_connection(values: dict[str, Any]) -> Connection:
    """Remove the cluster options from `values`, and return the connection that they describe.

    Raises UsageError for TLS files without a cluster.
    """
    tls = take_record(values, Tls)
    connection = take_record(values, Connection, seconds=values.pop("scheduler_timeout"), tls=tls, tell=_complain_line)
    if connection.scheduler is None and any(tls):
        raise UsageError("TLS files without a cluster: expected --scheduler tls://HOST:PORT as well")
    return connection


def _complain_line(sentence: str) -> None:
    from placesim.cli.output import complain

    complain(f"{sentence}\n")
