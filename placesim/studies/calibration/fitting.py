"""Fit of a host's profile to measured cases.

Each group's figures are fitted by least squares of relative errors; none is negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import median, quantiles
from typing import Any, NamedTuple

import numpy as np

from placesim.core.grouped import grouped
from placesim.machine.host_models import SHARES, HostProfile, MeasuredFigure
from placesim.prediction.host_costs import cold_calls, expand_amounts, load_seconds, shared_costs
from placesim.prediction.host_loads.load import Load
from placesim.studies.calibration.case_timing import Timing

Numbers = np.ndarray[Any, np.dtype[np.float64]]
_FIRST_CACHES = [2.0 ** (half / 2) for half in range(30, 43)]
_LAST_CACHES = [2.0 ** (half / 2) for half in range(43, 54)]
"""Candidate sizes of the last cache in bytes, up to the size of the largest case; larger sizes can't be measured."""
_DECILES = 10
_SAMPLES_OF_ALL = 10
"""Weight of all families' scale in a network, in samples of a family."""
_SHARING = ("shared", "contended_call")
IN_NETWORKS = ("cold_call", "shared")
"""Figures that are fitted to kernels in networks."""


class Sample(NamedTuple):
    """The load of a case, and the measured time of a node with this load."""

    load: Load
    timing: Timing


def fit_caches(samples: Sequence[Sample], figures: Sequence[str], known: Mapping[str, float]) -> tuple[float, float]:
    """Return the two cache sizes in bytes (powers of the square root of 2) with which the figures fit the samples best."""
    return min(itertools.product(_FIRST_CACHES, _LAST_CACHES), key=lambda caches: _fitted(samples, figures, known, caches)[0])


def fit_figures(
    samples: Sequence[Sample], figures: Sequence[str], known: Mapping[str, float], caches: tuple[float, float]
) -> dict[str, float]:
    """Return the fitted value of each of `figures`, in seconds per unit of work; the figures in `known` are not fitted."""
    return _fitted(samples, figures, known, caches)[1]


def _fitted(
    samples: Sequence[Sample], figures: Sequence[str], known: Mapping[str, float], caches: tuple[float, float]
) -> tuple[float, dict[str, float]]:
    """Return the sum of squared residuals, and the fitted figures."""
    counts = [_counts(sample.load, caches) for sample in samples]
    seconds = np.array([sample.timing.seconds for sample in samples])
    given = np.array([sum(count * known[name] for name, count in row.items() if name in known) for row in counts])
    matrix = np.array([[row.get(name, 0.0) for name in figures] for row in counts]) / seconds[:, None]
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1
    left, found = _not_negative(matrix / scale, 1 - given / seconds)
    return left, dict(zip(figures, (found / scale).tolist(), strict=True))


def fit_threads(alone: Sequence[Sample], shared: Sequence[Sample], profile: HostProfile, cores: int) -> dict[str, float]:
    """Fit the cost of sharing an op's work, from kernels run by one thread and then by all cores.

    `profile` has the times of one thread.
    """
    if not shared:
        return dict.fromkeys((*_SHARING, *SHARES), 0.0)
    rows, wanted = [], []
    for (load, once), (_, (seconds, _)) in zip(alone, shared, strict=True):
        bare, counts = shared_costs(load, profile, cores)
        factor = once.seconds / load_seconds(load, profile, 1)
        rows.append([factor * counts.get(name, 0.0) / seconds for name in (*_SHARING, *SHARES)])
        wanted.append(1 - factor * bare / seconds)
    found = _not_negative(np.array(rows), np.array(wanted))[1]
    return dict(zip((*_SHARING, *SHARES), found.tolist(), strict=True))


def fit_in_networks(found: Sequence[Sample], profile: HostProfile, threads: int) -> dict[str, float]:
    """Return the figures that differ between a network and a loop of one kernel, in seconds.

    These are the extra time of a numpy call, and the time to share an op's work with threads that have slept meanwhile.
    """
    bare = replace(profile, seconds={**profile.seconds, **dict.fromkeys(IN_NETWORKS, 0.0)})
    rows, wanted = [], []
    for load, (seconds, _) in found:
        factor = profile.families[load.family].value
        counts = cold_calls(load, profile.caches), min(threads, load.parts) > 1
        rows.append([factor * count / seconds for count in counts])
        wanted.append(1 - factor * load_seconds(load, bare, threads) / seconds)
    fitted = _not_negative(np.array(rows).reshape(-1, len(IN_NETWORKS)), np.array(wanted))[1]
    return dict(zip(IN_NETWORKS, fitted.tolist(), strict=True))


def _counts(load: Load, caches: tuple[float, float]) -> dict[str, float]:
    """Return the amount of each kind of work in a node if one thread does all work."""
    found = expand_amounts(load.alone, caches)
    for name, count in expand_amounts(load.shared, caches).items():
        found[name] = found.get(name, 0.0) + count
    return found


def _not_negative(matrix: Numbers, wanted: Numbers) -> tuple[float, Numbers]:
    """Solve non-negative least squares by trying all subsets of the few columns."""
    width = matrix.shape[1]
    best: tuple[float, Numbers] = (float(wanted @ wanted), np.zeros(width))
    square, side = matrix.T @ matrix, matrix.T @ wanted
    subsets = (itertools.combinations(range(width), count) for count in range(1, width + 1))
    for columns in map(list, itertools.chain.from_iterable(subsets)):
        try:
            found = np.linalg.solve(square[np.ix_(columns, columns)], side[columns])
        except np.linalg.LinAlgError:  # two columns are linearly dependent
            continue
        if (found < 0).any():
            continue
        left = float(wanted @ wanted - side[columns] @ found)
        if left < best[0]:
            full = np.zeros(width)
            full[columns] = found
            best = left, full
    return best


def fit_families(samples: Sequence[Sample], profile: HostProfile) -> dict[str, MeasuredFigure]:
    """Return for each family the ratio of measured to predicted single-threaded times, with the spread of the ratio."""
    return {family: _measured(pairs) for family, pairs in _by_family(samples, profile, 1).items()}


def rescale_families(
    families: Mapping[str, MeasuredFigure], cases: Sequence[Sample], found: Sequence[Sample], profile: HostProfile, threads: int
) -> dict[str, MeasuredFigure]:
    """Return the single-threaded factors `families`, multiplied by the total slow-down of the samples `found` in networks.

    The scale of a family is between that of its own samples and that of all samples: the more samples it has, the nearer to its
    own. The spread includes the spread of the cases and the spread among threads in networks.
    """
    told = _by_family(cases, profile, 1)
    among = _by_family(found, profile, threads)
    slowed = {
        family: _middle_ratio((seconds, families[family].value * one) for seconds, one in pairs)
        for family, pairs in among.items()
    }
    longer = median(slowed.values()) if slowed else 1.0
    for family, pairs in among.items():
        told.setdefault(family, []).extend(pairs)
    scaled = {}
    for family, factor in families.items():
        number = len(among.get(family, ()))
        scale = (slowed.get(family, longer) ** number * longer**_SAMPLES_OF_ALL) ** (1 / (number + _SAMPLES_OF_ALL))
        scaled[family] = _spread_around(scale * factor.value, told.get(family, ()))
    return scaled


def _middle_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the median of the pairs' ratios, weighted by the root of the first number; 1 without pairs.

    So neither the few longest kernels nor the many shortest determine it.
    """
    rows = sorted((one / other, sqrt(one)) for one, other in pairs)
    half = sum(weight for _, weight in rows) / 2
    reached = itertools.accumulate(weight for _, weight in rows)
    return next((ratio for (ratio, _), weight in zip(rows, reached, strict=True) if weight >= half), 1.0)


def _by_family(samples: Sequence[Sample], profile: HostProfile, threads: int) -> dict[str, list[tuple[float, float]]]:
    """Return the measured and predicted seconds by family."""
    return grouped((load.family, (timing.seconds, load_seconds(load, profile, threads))) for load, timing in samples)


def _measured(pairs: Sequence[tuple[float, float]]) -> MeasuredFigure:
    """Return the middle ratio of measured to predicted seconds, with its spread."""
    return _spread_around(_middle_ratio(pairs), pairs)


def _spread_around(middle: float, pairs: Sequence[tuple[float, float]]) -> MeasuredFigure:
    """Return the ratio `middle` with the 10th and 90th percentile of the pairs' ratios.

    If there are few pairs, the smallest and the largest ratio are used instead.
    """
    ratios = [one / other for one, other in pairs] or [middle]
    low, high = min(ratios), max(ratios)
    if len(ratios) >= _DECILES:
        low, *_, high = quantiles(ratios, n=_DECILES)
    return MeasuredFigure(middle, min(1.0, low / middle), max(1.0, high / middle))
