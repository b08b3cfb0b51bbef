"""The workers of a cluster, and the versions that must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.errors import UnavailableError

if TYPE_CHECKING:
    from distributed import Client

AGREEING = ("placesim", "Python", "numpy")
"""Packages whose versions must be equal everywhere, for bit-equal results and pickled messages."""
_ASKED = (
    "{name: getattr(__import__(name), '__version__', None)"
    " if __import__('importlib.util').util.find_spec(name) else None"
    " for name in ('placesim', 'numpy')}"
    " | {'Python': '.'.join(__import__('platform').python_version_tuple()[:2])}"
)
"""Expression that returns the versions. It is sent as text: a process without placesim can't unpickle its functions."""


class Offer(NamedTuple):
    """A worker of a cluster; `memory` is in bytes, None for no limit."""

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
        """The attributes shown by `devices --scheduler`, by name."""
        own = {name: getattr(self, name) for name in ("address", "name", "host", "threads", "memory")}
        return own | {name.lower(): self.versions.get(name) for name in AGREEING}


def read_offers(client: Client, seconds: float) -> tuple[Offer, ...]:
    """Return the cluster's workers, sorted by name and then by address.

    Raises UnavailableError if a worker does not answer within `seconds`.
    """
    info = client.scheduler_info(n_workers=-1)["workers"]
    versions = _ask_workers(client, seconds) if info else {}
    offers = [
        Offer(
            address,
            str(worker["name"]),
            worker["host"],
            worker["nthreads"],
            worker["memory_limit"] or None,
            versions.get(address, {}),
        )
        for address, worker in info.items()
    ]
    return tuple(sorted(offers, key=_order))


def split_offers(offers: Sequence[Offer]) -> tuple[tuple[Offer, ...], tuple[Offer, ...]]:
    """Return the workers with placesim and those without it.

    If all lack it, all are returned as having it, so that the check of versions reports them.
    """
    having = tuple(offer for offer in offers if offer.has_placesim)
    return (having, tuple(offer for offer in offers if not offer.has_placesim)) if having else (tuple(offers), ())


def _order(offer: Offer) -> tuple[tuple[int, str], str]:
    # Dask numbers workers that were given no name
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
    """Raise UnavailableError if the scheduler's versions, or a worker's, differ from those of this process."""
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
