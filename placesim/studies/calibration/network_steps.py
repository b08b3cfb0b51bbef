"""Steps of whole networks in a calibration: the figures that only steps tell, and how far predicted steps deviate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, exp, inf, log
from statistics import median
from typing import NamedTuple

from placesim.machine.host_models import HostModel, HostProfile
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.prediction.machine_resources import SimulatedMachine, Threads
from placesim.prediction.simulated_steps import SimulatedStep
from placesim.prediction.step_tasks import StepCosts
from placesim.runtime.recording.recorder import Execution
from placesim.studies.calibration.fitting import Sample

HANDED = "handed"
ONE_THREAD, POOL = 1, 2
"""Numbers of threads between ops, with which the networks' steps are measured."""
DEVIATIONS = {ONE_THREAD: "deviation", POOL: "pool_deviation"}
"""Names of the deviations of steps, by number of threads between ops."""
_CANDIDATES: tuple[float, ...] = (0.0, *(2.0 ** (half / 2) * 4e-6 for half in range(16)))
"""Tried seconds of a node in a pool: up to 0.7 ms."""
_COVERED = 0.8
_FEWEST = 4
"""Minimum number of networks for deviations of steps."""
_LEAST_SHARE, _MOST_SHARE = 1.0, 2.5
"""Limits of a deviation: networks of one calibration have less in common with a later step than with each other."""


class NetworkStep(NamedTuple):
    """A network's recorded step, the samples of its kernels, and the seconds of the step by number of threads between ops."""

    step: Sequence[Execution]
    samples: Sequence[Sample]
    seconds: Mapping[int, float]


class StepPrediction(NamedTuple):
    """The predicted seconds of a step, and the ends of its interval without a deviation of its own."""

    seconds: float
    low: float
    high: float


def predict_step(network: NetworkStep, profile: HostProfile, cores: int, threads: int) -> StepPrediction:
    """Return the prediction of a network's step with `threads` threads between ops."""
    plain = {name: seconds for name, seconds in profile.seconds.items() if name not in DEVIATIONS.values()}
    host = HostModel(cores=cores, inter_op_threads=1, profile=replace(profile, seconds=plain))
    devices = [device._replace(host=host) for device in build_devices((TaskInventory(),))]
    machine = SimulatedMachine(devices, Threads(threads))
    simulated = SimulatedStep(network.step, StepCosts(machine).placed(network.step), machine)
    return StepPrediction(simulated.seconds, *simulated.interval)


class StepFit:
    """Fit of the figures of whole steps to networks.

    `fit` returns a profile from the samples of some networks. So the deviation of a network's step is that from the profile of
    all other networks.
    """

    def __init__(self, networks: Sequence[NetworkStep], fit: Callable[[Sequence[Sample]], HostProfile], cores: int) -> None:
        self._networks = networks
        self._fit = fit
        self._cores = cores

    def profile(self) -> HostProfile:
        """Return the profile that is fitted to all networks."""
        profile = self._fit(_samples(self._networks))
        errors = [self._pool_errors(network, profile) for network in self._networks]
        if len(self._networks) < _FEWEST:
            return _with(_with_pool(profile, errors), dict.fromkeys(DEVIATIONS.values(), 1.0))
        shares: dict[int, list[float]] = {threads: [] for threads in DEVIATIONS}
        for number, network in enumerate(self._networks):
            others = [*self._networks[:number], *self._networks[number + 1 :]]
            held_out = _with_pool(self._fit(_samples(others)), errors[:number] + errors[number + 1 :])
            for threads, found in shares.items():
                found.append(_share(network.seconds[threads], predict_step(network, held_out, self._cores, threads)))
        deviations = {DEVIATIONS[threads]: _covering(found) for threads, found in shares.items()}
        return _with(_with_pool(profile, errors), deviations)

    def _pool_errors(self, network: NetworkStep, profile: HostProfile) -> list[float]:
        """Return the error of the step in a pool, in logarithms, for each candidate."""

        def error(seconds: float) -> float:
            predicted = predict_step(network, _with(profile, {HANDED: seconds}), self._cores, POOL)
            return abs(log(predicted.seconds / network.seconds[POOL]))

        least, *between, most = _CANDIDATES
        ends = error(least), error(most)
        # the step of a network without parallel work does not use the pool
        return [ends[0], *(ends[0] if ends[0] == ends[1] else error(seconds) for seconds in between), ends[1]]


def _samples(networks: Iterable[NetworkStep]) -> list[Sample]:
    return [sample for network in networks for sample in network.samples]


def _with(profile: HostProfile, figures: Mapping[str, float]) -> HostProfile:
    return replace(profile, seconds={**profile.seconds, **figures})


def _with_pool(profile: HostProfile, errors: Sequence[Sequence[float]]) -> HostProfile:
    """Return the profile with the best candidate, and a spread from the best ones of the networks that use the pool."""
    best, least = _best(errors), _CANDIDATES[1]
    own = [_best([row]) for row in errors if len(set(row)) > 1]
    factors = [abs(log(max(one, least) / max(best, least))) for one in own]
    return replace(_with(profile, {HANDED: best}), spreads={**profile.spreads, HANDED: exp(median(factors or [0.0])) - 1})


def _best(errors: Sequence[Sequence[float]]) -> float:
    """Return the candidate with the least sum of errors."""
    sums = [sum(column) for column in zip(*errors, strict=True)] or [0.0]
    return _CANDIDATES[sums.index(min(sums))]


def _share(measured: float, predicted: StepPrediction) -> float:
    """Return the deviation of a measured step, relative to that of the end of the interval on its side, in logarithms."""
    end = predicted.high if measured > predicted.seconds else predicted.low
    width = abs(log(end / predicted.seconds))
    return abs(log(measured / predicted.seconds)) / width if width else inf


def _covering(shares: Iterable[float]) -> float:
    """Return the share that a further step does not exceed with a probability of four fifths, within the limits."""
    ordered = sorted(shares)
    place = min(len(ordered), ceil(_COVERED * (len(ordered) + 1)))
    return min(_MOST_SHARE, max(_LEAST_SHARE, ordered[place - 1]))
