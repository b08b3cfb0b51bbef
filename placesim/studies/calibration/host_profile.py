"""Measurement of this machine's host profile."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from statistics import median

from placesim.core.operating_system import available_processors, processor_name
from placesim.machine.host_models import BASIC, DEVIATIONS, FAMILIES, SECONDS, SHARES, HostModel, HostProfile, MeasuredFigure
from placesim.ops.process.intra_op_threads import blas_text
from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.studies.calibration.case_timing import (
    NOT_QUIET,
    NoiseCheck,
    StepTimer,
    Timing,
    find_load,
    kernel_loads,
    random_feeds,
    record_step,
    time_kernels,
    time_quickest,
)
from placesim.studies.calibration.cases import CHECKED, GROUPS, Case, build_case_graph
from placesim.studies.calibration.fitting import (
    Sample,
    fit_caches,
    fit_families,
    fit_figures,
    fit_in_networks,
    fit_threads,
    rescale_families,
)
from placesim.studies.calibration.network_steps import HANDED, ONE_THREAD, POOL, NetworkStep, StepFit
from placesim.studies.calibration.networks import LARGE, QUICK, SMALL, build_graphs

CASE_SECONDS = 0.16
"""Time for each case, not including the creation of its tensors."""
_NODES = 200
_FEW, _MANY = 1, 41
"""Numbers of variables, feeds and fetches of the steps that measure the overhead of one."""
_CHAINS = (2, 2 + _NODES)
"""Lengths of the chains that measure the overhead of a node."""
_SMALL_KERNELS = {"negations": "beside_direct", "softmaxes": "beside"}
"""Nodes whose kernels the executor calls as a function of tensors or of a list, and the names of their overhead."""
_FETCHED = f"negations {_MANY}"
_REPEATED = (
    _FETCHED,
    *(f"{nodes} {count}" for nodes in ("identities", *_SMALL_KERNELS) for count in _CHAINS),
    *(f"{nodes} {count}" for nodes in ("variables", "placeholders") for count in (_FEW, _MANY)),
)
_THREADS = ("slowed_products", "slowed_passes", "shared", "contended_call")
_COLD = "cold_call"
_OF_STEPS = (_COLD, HANDED, *DEVIATIONS)
_DISPATCHES = ("dispatch", "dataflow", *_SMALL_KERNELS.values(), "variable", "step", "fed", "fetched")
_ITEM = 4
_QUIET_KEY = "quiet"
Progress = Callable[[int, int], None]


def calibrate(progress: Progress = lambda done, total: None, *, is_quick: bool = False) -> HostModel:
    """Measure numpy on this machine, in the way that placesim's steps use it.

    `progress` gets the number of finished measurements and the total. `is_quick` omits slow measurements; the result is too
    inexact for predictions. Each figure is from the fastest of several runs, since other work on the machine can only slow a
    run down.
    """
    return _Calibration(progress, is_quick).host()


def find_noise(host: HostModel) -> str:
    """Return a text about disturbed measurements of a host; empty if none was disturbed, or if noise was not checked."""
    said = "" if host.profile is None else host.profile.about[_QUIET_KEY]
    return said.removeprefix(NOT_QUIET) if said.startswith(NOT_QUIET) else ""


class _Calibration:
    def __init__(self, progress: Progress, is_quick: bool) -> None:
        self._progress = progress
        self._case_seconds = 0.0 if is_quick else CASE_SECONDS
        self._groups = [group.of_small_cases() if is_quick else group for group in GROUPS]
        self._checked = [case for case in CHECKED if case.is_small or not is_quick]
        self._cores = available_processors()
        self._pools = ThreadPools()
        self._all_cores = ThreadPools()
        self._networks = QUICK if is_quick else (*LARGE, *SMALL)
        self._graphs = build_graphs((*self._networks, *_REPEATED))
        self._cases: dict[int, Sample] = {}
        # a quick measurement has too few runs for a check
        self._noise = None if is_quick else NoiseCheck()
        everything = [case for group in self._groups for case in group.cases] + self._checked
        self._total = len(everything) + len(_DISPATCHES)
        self._done = 0

    def host(self) -> HostModel:
        seconds, spreads = self._dispatches()
        caches = (1.0, 1.0)
        for group in self._groups:
            samples = [self._sample(case) for case in group.cases]
            if group is self._groups[0]:
                caches = fit_caches(samples, group.figures, seconds)
            seconds |= fit_figures(samples, group.figures, seconds, caches)
            for name in group.figures:
                if name in BASIC and not seconds[name]:  # the fit gave its time to other figures: fit it alone
                    seconds |= fit_figures(samples, (name,), {}, caches)
            spreads |= dict.fromkeys(group.figures, _spread(sample.timing for sample in samples))
        for case in self._checked:
            self._sample(case)
        profile = HostProfile(seconds | dict.fromkeys((*_THREADS, *_OF_STEPS), 0.0), caches, {})
        cases = list(self._cases.values())
        families = dict.fromkeys(FAMILIES, MeasuredFigure(1.0)) | fit_families(cases, profile)
        profile = replace(profile, families=families)
        shared = self._shared_samples()
        alone = [sample for sample in cases if sample.load.parts > 1][: len(shared)]
        seconds |= fit_threads(alone, shared, profile, self._cores)
        spreads |= dict.fromkeys(_THREADS, _spread(sample.timing for sample in shared))
        networks = self._measure_networks()
        spreads |= dict.fromkeys(_OF_STEPS, _spread(sample.timing for network in networks for sample in network.samples))
        profile = replace(profile, seconds=seconds | dict.fromkeys(_OF_STEPS, 0.0))
        profile = StepFit(networks, partial(self._fit_to_networks, cases, profile), self._cores).profile()
        spreads |= profile.spreads
        ordered = {name: profile.seconds[name] for name in (*SECONDS, *SHARES, *DEVIATIONS)}
        about, spreads = self._about(), {name: spreads[name] for name in ordered}
        profile = HostProfile(ordered, caches, profile.families, spreads, about)
        flops = 2 * self._cores / seconds["multiplied"] / (1 + seconds["slowed_products"] * (self._cores - 1))
        passes = seconds["plain"] + 3 * _ITEM * (seconds["far"] + seconds["distant"])
        bandwidth = 3 * _ITEM * self._cores / passes / (1 + seconds["slowed_passes"] * (self._cores - 1))
        return HostModel(processor_name(), self._cores, flops, bandwidth, inter_op_threads=1, profile=profile)

    def _about(self) -> dict[str, str]:
        return _about(self._cores, "not checked" if self._noise is None else self._noise.text())

    def _tick(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)

    def _quietest(self, measure: Callable[[], Timing]) -> Timing:
        return measure() if self._noise is None else self._noise.quietest(measure)

    def _sample(self, case: Case) -> Sample:
        timing = self._kernels(case, self._pools, 1)
        found = self._cases[id(case)] = Sample(find_load(case), timing)
        self._tick()
        return found

    def _kernels(self, case: Case, pools: ThreadPools, cores: int) -> Timing:
        graph = build_case_graph(case)
        return self._quietest(lambda: time_kernels(graph, pools, self._case_seconds, cores))

    def _shared_samples(self) -> list[Sample]:
        """Measure again, with all cores, the cases whose work several threads can share."""
        if self._cores == 1:
            return []
        cases = [case for group in self._groups for case in group.cases] + self._checked
        shared = [case for case in cases if self._cases[id(case)].load.parts > 1]
        self._total += len(shared)
        found = []
        for case in shared:
            timing = self._kernels(case, self._all_cores, self._cores)
            found.append(Sample(self._cases[id(case)].load, timing))
            self._tick()
        return found

    def _fit_to_networks(self, cases: Sequence[Sample], profile: HostProfile, found: Sequence[Sample]) -> HostProfile:
        """Return the profile with the figures and the factors of families in networks."""
        profile = replace(profile, seconds={**profile.seconds, **fit_in_networks(found, profile, self._cores)})
        return replace(profile, families=rescale_families(profile.families, cases, found, profile, self._cores))

    def _measure_networks(self) -> list[NetworkStep]:
        """Measure networks and their kernels on all cores, with cold caches and idle helper threads."""
        self._total += len(self._networks)
        found = []
        for graph in map(self._graphs.__getitem__, self._networks):
            feeds, step, seconds = random_feeds(graph), record_step(graph), {}
            for threads in (POOL, ONE_THREAD):
                timer = StepTimer(graph, self._all_cores, feeds, inter_op=threads)
                timing = self._quietest(partial(time_quickest, timer.run, self._case_seconds))
                seconds[threads] = timing.seconds * timing.spread
            timings = timer.time_nodes(self._case_seconds)
            samples = [Sample(load, timings[name]) for name, load in kernel_loads(step).items() if name in timings]
            found.append(NetworkStep(step, samples, seconds))
            self._tick()
        return found

    def _dispatches(self) -> tuple[dict[str, float], dict[str, float]]:
        """Measure what steps and nodes cost beside their kernels, in seconds, and the spread of these times."""
        variables = self._timers("variables", (_FEW, _MANY))
        fed = self._timers("placeholders", (_FEW, _MANY))
        chain = self._graphs[_FETCHED]
        fetches = [[f"n{number}:0" for number in range(count)] for count in (_FEW, _MANY)]
        fetched = [StepTimer(chain, self._all_cores, random_feeds(chain), names) for names in fetches]
        found = {
            "dispatch": self._slope(_NODES, *self._timers("identities", _CHAINS)),
            "dataflow": self._slope(_NODES, *self._timers("identities", _CHAINS, inter_op=POOL)),
            **{name: self._beside(nodes) for nodes, name in _SMALL_KERNELS.items()},
            "variable": self._slope(_MANY - _FEW, *variables),
            "step": time_quickest(variables[0].run, self._case_seconds),
            "fed": self._slope(_MANY - _FEW, *fed),
            "fetched": self._slope(_MANY - _FEW, *fetched),
        }
        for _ in found:
            self._tick()
        seconds = {name: timing.seconds for name, timing in found.items()}
        seconds["dataflow"] = max(seconds["dispatch"], seconds["dataflow"])
        return seconds, {name: timing.spread - 1 for name, timing in found.items()}

    def _timers(self, nodes: str, counts: tuple[int, int], inter_op: int = 0) -> list[StepTimer]:
        """Return timers of the graphs with so many of these nodes."""
        graphs = [self._graphs[f"{nodes} {count}"] for count in counts]
        return [StepTimer(graph, self._all_cores, random_feeds(graph), inter_op=inter_op) for graph in graphs]

    def _beside(self, nodes: str) -> Timing:
        """Measure the overhead of a node beside its kernel."""
        chains = self._timers(nodes, _CHAINS)
        node = self._slope(_NODES, *chains)
        kernels = [timing.seconds for name, timing in chains[1].time_nodes(self._case_seconds).items() if name[0] == "n"]
        return Timing(max(0.0, node.seconds - median(kernels)), node.spread)

    def _slope(self, count: int, few: StepTimer, many: StepTimer) -> Timing:
        """Return the seconds that each of the `count` further nodes, feeds or fetches adds to a step."""
        low, high = time_quickest(few.run, self._case_seconds / 2), time_quickest(many.run, self._case_seconds)
        found = (high.seconds - low.seconds) / count
        # other work on the machine may make the difference of two runs negative
        return Timing(found if found > 0 else high.seconds / count, high.spread)


def _spread(timings: Iterable[Timing]) -> float:
    return median([timing.spread - 1 for timing in timings] or [0.0])


def _about(cores: int, quiet: str) -> dict[str, str]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "placesim": version("placesim"),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "blas": blas_text(),
        "threads": f"{cores} in an op, 1 between ops",
        "policy": "the quickest of several runs",
        _QUIET_KEY: quiet,
    }
