"""Set-up of a Dask cluster, remote or local, whose workers have this version of placesim; each device gets a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from placesim.core.errors import UnavailableError, UsageError
from placesim.runtime.cluster.connection_settings import CONNECT_SECONDS, Connection
from placesim.runtime.cluster.device_assignment import (
    DeviceAssignment,
    DeviceMove,
    check_bindings,
    find_homes,
    group_by_unit,
    parse_binding,
)
from placesim.runtime.cluster.local_cluster import own_workers
from placesim.runtime.cluster.scheduler_client import check_extra, connected_client, quiet
from placesim.runtime.cluster.versions import Offer, check_versions, read_offers, split_offers

if TYPE_CHECKING:
    from distributed import Client


_MORE_SECONDS = 2.0
"""Maximum seconds to wait for a worker for each unit, if soft placement can also run with fewer workers."""


@dataclass(frozen=True)
class Cluster:
    """An open cluster.

    - `is_own`: whether placesim started the cluster.
    - `homes`: the address of each device's worker, by the device's full name.
    - `names`: each worker's name in errors (the tasks or devices that it has), by address.
    - `moved`: devices that soft placement gave to another worker than requested.
    - `left_out`: workers without placesim.
    - `seconds`: limit of each wait for an answer.
    """

    client: Client
    scheduler: str
    offers: tuple[Offer, ...]
    is_own: bool
    homes: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    moved: tuple[DeviceMove, ...] = ()
    left_out: tuple[Offer, ...] = ()
    seconds: float = CONNECT_SECONDS


@contextmanager
def open_cluster(
    connection: Connection, devices: Sequence[str] = (), *, is_soft: bool = False, is_checked: bool = True
) -> Iterator[Cluster]:
    """Open a cluster that has a worker for each of the devices (full names); at its end, the context closes the connection.

    A local cluster ends with the context. With `is_checked=False`, which suits a command that only lists workers, versions are
    not checked. Raises UsageError for invalid settings. Raises UnavailableError if the scheduler doesn't answer, if versions
    differ, or if there are too few workers and no soft placement.
    """
    bindings = [parse_binding(text) for text in connection.workers]
    check_bindings(bindings, devices)
    if connection.scheduler is None and bindings:
        raise UsageError("--worker without a cluster: expected --scheduler as well")
    check_extra()
    units = group_by_unit(devices, connection.per)
    with ExitStack() as stack:
        stack.enter_context(quiet())
        if connection.scheduler is None:
            scheduler, _ = stack.enter_context(own_workers(tuple(units)))
        else:
            scheduler = connection.scheduler
        client = stack.enter_context(connected_client(scheduler, connection.seconds, connection.tls))
        if connection.scheduler is not None:
            if is_checked:
                _wait_for_workers(client, 1 if is_soft else max(1, len(units)), connection.seconds)
            if is_soft:
                _wait_for_workers(client, len(units), min(connection.seconds, _MORE_SECONDS))
        offers, left_out = read_offers(client, connection.seconds), tuple[Offer, ...]()
        if is_checked:
            if not offers:
                raise UnavailableError(f"no workers on the cluster at {scheduler}: expected a `dask worker` connected to it")
            offers, left_out = split_offers(offers)
            check_versions(client, offers, connection.seconds)
            for offer in left_out:
                connection.tell(f"worker {offer.address} is left out: it has no placesim")
        found = find_homes(devices, connection.per, bindings, offers, is_soft=is_soft) if devices else DeviceAssignment({})
        address: str = client.scheduler.address
        names = _names(units, found.workers)
        is_own = connection.scheduler is None
        yield Cluster(client, address, offers, is_own, found.workers, names, found.moved, left_out, connection.seconds)


def _wait_for_workers(client: Client, number: int, seconds: float) -> None:
    """Wait until there are `number` workers, or `seconds` are over."""
    if number:
        with suppress(TimeoutError):
            client.wait_for_workers(number, seconds)


def _names(units: Mapping[str, Sequence[str]], homes: Mapping[str, str]) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for unit, devices in units.items():
        for address in dict.fromkeys(homes[device] for device in devices):
            names.setdefault(address, []).append(unit)
    return {address: ", ".join(listed) for address, listed in names.items()}
