"""Settings for a connection to a Dask cluster. Imports nothing large, so that command lines start fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

CONNECT_SECONDS = 10.0
"""Seconds to wait for a scheduler and the needed workers."""
ENGINES = ("local", "dask")
"""Engines that run a graph: this process, or a cluster."""
PER = ("task", "device")
"""Units that can each have their own worker."""


class Tls(NamedTuple):
    """PEM files as for `dask scheduler`: the certificate authority, the client's certificate, and its key."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None


NO_TLS = Tls()


@dataclass(frozen=True)
class Connection:
    """A connection to a cluster: the scheduler's address (None for local workers), and the assignment of workers.

    `workers` are bindings `DEVICE=ADDRESS`, and `per` is the unit that gets its own worker. `seconds` limits the wait for the
    scheduler and enough workers. `tell` is called with a message for each worker that is left out.
    """

    scheduler: str | None = None
    workers: tuple[str, ...] = ()
    per: str = PER[0]
    seconds: float = CONNECT_SECONDS
    tls: Tls = NO_TLS
    tell: Callable[[str], object] = str
