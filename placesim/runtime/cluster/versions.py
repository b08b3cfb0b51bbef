"""Workers of a cluster, and the check that all processes have the same versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.errors import UnavailableError

if TYPE_CHECKING:
    from distributed import Client

AGREEING = ("placesim", "Python", "numpy")
"""Packages whose versions must be the same everywhere, so that results are equal to the bit and messages can be unpickled."""
_ASKED = (
    "{name: getattr(__import__(name), '__version__', None)"
    " if __import__('importlib.util').util.find_spec(name) else None"
    " for name in ('placesim', 'numpy')}"
    " | {'Python': '.'.join(__import__('platform').python_version_tuple()[:2])}"
)
"""Expression for a process's versions, sent as text because a process without placesim can't unpickle placesim's functions."""


class Offer(NamedTuple):
    """A worker of a cluster; `memory` is its memory limit in bytes, None if it has no limit."""

    address: str
    name: str
    host: str
    threads: int
    memory: int | None
    versions: Mapping[str, str | None] = {}

    @property
    def has_placesim(self) -> bool:
        """Whether any version of placesim is installed on the worker."""
        return self.versions.get("placesim") is not None

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that `devices --scheduler` shows, by name."""
        own = {name: getattr(self, name) for name in ("address", "name", "host", "threads", "memory")}
        return own | {name.lower(): self.versions.get(name) for name in AGREEING}


def read_offers(client: Client, seconds: float) -> tuple[Offer, ...]:
    """Return the cluster's workers, sorted by name and then by address.

    Raises UnavailableError if a worker does not answer within `seconds`.
    """
    info = client.scheduler_info(n_workers=-1)["workers"]
    versions = _ask_workers(client, seconds) if info else {}
    offers = []
    for address, worker in info.items():
        name, memory = str(worker["name"]), worker["memory_limit"] or None
        offers.append(Offer(address, name, worker["host"], worker["nthreads"], memory, versions.get(address, {})))
    return tuple(sorted(offers, key=_order))


def split_offers(offers: Sequence[Offer]) -> tuple[tuple[Offer, ...], tuple[Offer, ...]]:
    """Return the workers with placesim, and those without it.

    If all workers lack it, all are in the first tuple, so that the check of versions reports them.
    """
    having = tuple(offer for offer in offers if offer.has_placesim)
    return (having, tuple(offer for offer in offers if not offer.has_placesim)) if having else (tuple(offers), ())


def _order(offer: Offer) -> tuple[tuple[int, str], str]:
    # a worker without a name has a number from Dask
    return (int(offer.name) if offer.name.isdecimal() else -1, offer.name), offer.address


def _ask_workers(client: Client, seconds: float) -> dict[str, Mapping[str, str | None]]:
    found = _within(client, client._run(eval, _ASKED, on_error="return"), seconds, "workers")
    return {address: told for address, told in found.items() if isinstance(told, Mapping)}


def _within(client: Client, asked: Any, seconds: float, who: str) -> Any:
    try:
        return client.sync(lambda: asked, callback_timeout=seconds)
    except TimeoutError:
        raise UnavailableError(f"the cluster's {who} did not answer within {seconds:g} s") from None


def check_versions(client: Client, offers: Sequence[Offer], seconds: float) -> None:
    """Raise UnavailableError if the versions of the scheduler or a worker differ from those of this process."""
    ours = eval(_ASKED)
    scheduler = _within(client, client._run_on_scheduler(eval, _ASKED), seconds, "scheduler")
    asked = [("the scheduler", scheduler), *((f"worker {offer.address}", offer.versions) for offer in offers)]
    for name in AGREEING:
        wrong = [(who, told.get(name)) for who, told in asked if told.get(name) != ours[name]]
        if wrong:
            raise UnavailableError(_mismatch(name, ours[name], wrong))


def _mismatch(name: str, ours: str, wrong: Sequence[tuple[str, str | None]]) -> str:
    others = ", ".join(f"{version or 'none'} at {who}" for who, version in wrong[:_MOST_NAMED])
    more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    return f"versions of {name} differ: got {others}{more}, expected {ours}, the version here"


_MOST_NAMED = 3
