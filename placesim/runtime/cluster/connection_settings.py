"""Settings of a connection to a Dask cluster. This module imports nothing large, so that command lines start fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

CONNECT_SECONDS = 10.0
"""Default limit in seconds of the wait for a scheduler and enough workers."""
ENGINES = ("local", "dask")
"""Engines that run a graph: this process, or a cluster."""
PER = ("task", "device")
"""Kinds of units (groups of devices) to which workers are assigned, one worker for each unit."""


class Tls(NamedTuple):
    """Names of PEM files, as for `dask scheduler`: the certificate authority, the client's certificate, and its key."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None


NO_TLS = Tls()


@dataclass(frozen=True)
class Connection:
    """Settings of a connection to a cluster.

    - `scheduler`: the scheduler's address; None to start local workers.
    - `workers`: bindings `DEVICE=ADDRESS` of devices to workers.
    - `per`: the unit, one of PER, that gets a worker of its own.
    - `seconds`: limit of the wait for the scheduler and enough workers.
    - `tell`: called with a message for each worker that is left out.
    """

    scheduler: str | None = None
    workers: tuple[str, ...] = ()
    per: str = PER[0]
    seconds: float = CONNECT_SECONDS
    tls: Tls = NO_TLS
    tell: Callable[[str], object] = str
