"""Time of a kernel on a host, from its load and the host's profile."""

from __future__ import annotations

from math import ceil, sqrt

from placesim.machine.host_models import HostProfile, MeasuredFigure
from placesim.prediction.cost_formulas import Prediction
from placesim.prediction.host_loads.load import Amounts, Load

_TRAFFIC = ("far", "distant")
_SHARPNESS = 4
_DIFFERENT_CALLS = 50
"""Largest number of calls that a kernel makes before it repeats the same calls."""
_PRODUCTS = frozenset(("product", "convolution", "convolution filter gradient", "convolution input gradient"))
_UNKNOWN = MeasuredFigure(1.0)


def cache_miss_share(among: float, cache: float) -> float:
    """Return the share of accesses to data of `among` bytes that miss a cache of `cache` bytes."""
    size = (among / cache) ** _SHARPNESS
    return size / (1 + size)


def expand_amounts(amounts: Amounts, caches: tuple[float, float]) -> dict[str, float]:
    """Return the amount of each kind of work, by the names of a profile's seconds.

    Moved bytes become bytes that miss each of the two `caches`, whose sizes are in bytes; awaited bytes, those that miss the
    second.
    """
    found = dict(amounts.counts)
    for num_bytes, among in amounts.traffic:
        for name, cache in zip(_TRAFFIC, caches, strict=True):
            found[name] = found.get(name, 0.0) + num_bytes * cache_miss_share(among, cache)
    for num_bytes, among in amounts.awaited:
        found["awaited"] = found.get("awaited", 0.0) + num_bytes * cache_miss_share(among, caches[1])
    return found


def amount_seconds(amounts: Amounts, profile: HostProfile) -> float:
    """Return the seconds that one thread needs for these amounts."""
    seconds = profile.seconds
    return sum(count * seconds[name] for name, count in expand_amounts(amounts, profile.caches).items())


def load_seconds(load: Load, profile: HostProfile, threads: int) -> float:
    """Return the seconds of a kernel whose op may use `threads` threads, without the family's factor."""
    seconds, counts = shared_costs(load, profile, threads)
    return seconds + sum(count * profile.seconds[name] for name, count in counts.items())


def cold_calls(load: Load, caches: tuple[float, float]) -> float:
    """Return the number of numpy calls of a kernel whose code the data of the step has displaced from the cache.

    Code is as near as the data of a cache between the first and the last one.  A loop displaces no code.
    """
    calls = sum(amounts.counts.get("call", 0.0) for amounts in (load.alone, load.shared))
    return min(calls, _DIFFERENT_CALLS) * cache_miss_share(load.step_bytes, sqrt(caches[0] * caches[1]))


def shared_costs(load: Load, profile: HostProfile, threads: int) -> tuple[float, dict[str, float]]:
    """Return the seconds of a kernel without the overhead of sharing work among threads, and the amounts of that overhead."""
    alone, shared = amount_seconds(load.alone, profile), amount_seconds(load.shared, profile)
    alone += cold_calls(load, profile.caches) * profile.seconds["cold_call"]
    helping = min(threads, load.parts)
    if helping < 2:
        return alone + shared, {}
    longest = shared * ceil(load.parts / helping) / load.parts
    slowed = "slowed_products" if load.family in _PRODUCTS else "slowed_passes"
    calls = load.shared.counts.get("call", 0.0)
    return alone + longest, {slowed: longest * (helping - 1), "shared": 1.0, "contended_call": calls}


def kernel_prediction(load: Load, profile: HostProfile, threads: int) -> Prediction:
    """Return the predicted time of a kernel, including its family's factor and interval."""
    factor, low, high = profile.families.get(load.family, _UNKNOWN)
    seconds = load_seconds(load, profile, threads) * factor
    return Prediction(seconds, seconds * low, seconds * high)
