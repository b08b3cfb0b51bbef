"""Fit of a machine's figures to a measured step.

The figures are rates and bandwidths of hosts and GPUs as on data sheets, the time to start a node on a host, and factors of ops
on a host, so that the fitted machine also predicts other graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log, log2
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import UsageError
from placesim.machine.gpu_models import GpuModel
from placesim.machine.host_models import RATES, HostModel
from placesim.machine.inventory import Device
from placesim.ops.categories import CONSTANTS
from placesim.prediction.hosts import Host
from placesim.prediction.machine_resources import SimulatedMachine
from placesim.prediction.measured_comparison import ComparedNode
from placesim.prediction.measurement_matching import compare_step
from placesim.prediction.step_tasks import StepCosts
from placesim.studies.time_study import DryRunSteps, study_dry_run

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.machine.timelines.measured_steps import Measurement

MIN_NODES = 8
"""Minimum number of compared nodes. Half of them are not used in the fit."""
_STEPS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Steps of the search in powers of 2, the largest first."""
_GAIN = 1e-4
"""Minimum relative improvement for which the search continues."""
_LEAST = 1e-9
"""Minimum seconds of a kernel; a shorter kernel counts as the start of a node alone."""
_LEAST_FACTOR = 0.01
"""Least factor of an op, for nodes that take less time than the start of a node."""
_PULL = 0.01
"""Cost per node of doubling or halving a figure, in logarithms, so that figures without influence keep their values."""


class FittedMachine(NamedTuple):
    """The fitted host, the fitted GPU model if GPUs ran measured nodes, the number of GPUs, and the errors of the prediction.

    `fitted` and `tested` are numbers of nodes. `before` and `after` are the median error of the `tested` nodes, which the fit
    did not use. An error is the factor between predicted and measured seconds.
    """

    host: HostModel
    gpu: GpuModel | None
    gpus: int
    fitted: int
    tested: int
    before: float
    after: float


HOSTS = ""
"""Key of the factors of hosts. The key of a GPU's factors is the name of its model."""
RATE, BANDWIDTH = "rate", "bandwidth"


class _Figures(NamedTuple):
    """Factors of the rates and bandwidths of processors, and for hosts the seconds to start a node and the factors of ops."""

    factors: Mapping[tuple[str, str], float]
    dispatch: float
    ops: Mapping[str, float]


def fit_measurement(loaded: LoadedGraph, options: SimulationOptions, name: str, measurement: Measurement) -> FittedMachine:
    """Fit the machine of the graph and the options to a measured step.

    The figures are fitted to every other compared node of each op, and tested on the rest. Raises UsageError if the measurement
    has too few nodes of the graph, or the machine has different GPUs.
    """
    study, steps = study_dry_run(loaded, options, name)
    fit = _Fit(steps)
    compared = [
        row
        for row in compare_step(study, steps.steps[-1], measurement).nodes
        if row.measured and row.op not in CONSTANTS and all(node in fit.at_start for node in (row.node, *row.replaced))
    ]
    if len(compared) < MIN_NODES:
        raise UsageError(
            f"too few nodes to fit to: got {len(compared)} in both the measurement and the graph, expected at least {MIN_NODES}"
        )
    ordered = sorted(compared, key=lambda row: (row.op, row.node))
    fitted, tested = ordered[::2], ordered[1::2]
    figures = fit.fitted(fitted)
    devices = [place.device for place in fit.machine(figures).places.values()]
    gpus = {device.gpu.platform_id: device.gpu.model for device in devices if device.gpu}
    has_gpu_nodes = any(fit.at_start[row.node].is_on_gpu for row in fitted)
    return FittedMachine(
        next(device.host for device in devices if device.host),
        next(iter(gpus.values())) if has_gpu_nodes else None,
        len(gpus),
        len(fitted),
        len(tested),
        _error(fit.at_start, tested),
        _error(fit.nodes(figures), tested),
    )


class _Node(NamedTuple):
    """A predicted node: its op, whether a GPU runs it, and the seconds of all its executions and of the starts among them."""

    op: str
    is_on_gpu: bool
    seconds: float
    starts: float


class _Fit:
    """Predictions of the last step of a dry run, with changed figures of the machine."""

    def __init__(self, steps: DryRunSteps) -> None:
        self._step = steps.steps[-1]
        self._threads = steps.machine.threads
        places = steps.machine.places.values()
        self._devices = [place.device._replace(host=_plain(place.host)) for place in places]
        self._start = _Figures({}, next(place.host.dispatch for place in places), {})
        self.at_start = self.nodes(self._start)
        self._gpus = sorted({device.gpu.model.name for device in self._devices if device.gpu})
        if len(self._gpus) > 1:
            raise UsageError(f"can't fit different GPUs to a measurement: got {', '.join(self._gpus)}, expected one model")

    def machine(self, figures: _Figures) -> SimulatedMachine:
        """Return the machine with these figures."""
        return SimulatedMachine([_with_figures(device, figures) for device in self._devices], self._threads)

    def nodes(self, figures: _Figures) -> dict[str, _Node]:
        """Return the predicted nodes by name."""
        machine = self.machine(figures)
        found: dict[str, _Node] = {}
        for execution, cost in zip(self._step, StepCosts(machine).placed(self._step), strict=True):
            site = execution.site
            if site is None or cost.route is not None:
                continue
            place = machine.places[site.program.state.device.name]
            is_on_gpu = cost.resource != place.cores
            known = found.get(site.name, _Node(site.instruction.node.op, is_on_gpu, 0.0, 0.0))
            starts = known.starts + (0.0 if is_on_gpu else place.host.dispatch)
            found[site.name] = known._replace(seconds=known.seconds + cost.predicted.seconds, starts=starts)
        return found

    def fitted(self, rows: Sequence[ComparedNode]) -> _Figures:
        """Return the figures for these nodes: the start of a node, then rates and bandwidths, and last the factors of ops."""
        only_start = [row for row in rows if not row.replaced and _kernel(self.at_start, row) < _LEAST]
        kernels = [row for row in rows if _kernel(self.at_start, row) >= _LEAST]
        starts = [row.measured / (self.at_start[row.node].starts / self._start.dispatch) for row in only_start]
        figures = self._start._replace(dispatch=median(starts)) if starts else self._start
        figures = self._searched(figures, kernels)
        nodes = self.nodes(figures)
        factors: dict[str, list[float]] = {}
        for row in kernels:
            longest = max((nodes[name] for name in (row.node, *row.replaced)), key=lambda node: node.seconds)
            kernel = _kernel(nodes, row)
            start = _predicted(nodes, row) - kernel
            if not longest.is_on_gpu and kernel >= start:
                factors.setdefault(longest.op, []).append(max(row.measured - start, 0.0) / kernel)
        ops = {op: max(_LEAST_FACTOR, median(found)) for op, found in sorted(factors.items())}
        return figures._replace(ops=ops)

    def _searched(self, figures: _Figures, rows: Sequence[ComparedNode]) -> _Figures:
        """Return the rates and bandwidths with the least loss. The search changes one at a time, with decreasing steps."""
        keys = [(processor, name) for processor in (HOSTS, *self._gpus) for name in (RATE, BANDWIDTH)]
        pull = _PULL * len(rows)
        best, least = figures, _loss(self.nodes(figures), rows)
        for step in _STEPS:
            is_better = True
            while is_better:
                is_better = False
                for key in keys:
                    for power in (step, -step):
                        factors = {**best.factors, key: best.factors.get(key, 1.0) * 2**power}
                        tried = best._replace(factors=factors)
                        loss = _loss(self.nodes(tried), rows) + pull * sum(abs(log2(own)) for own in factors.values())
                        if loss < least * (1 - _GAIN):
                            best, least, is_better = tried, loss, True
        return best


def _plain(host: Host) -> HostModel:
    """Return a host with the figures of its data sheet, without measurements."""
    whole = host.processor(host.cores)
    return replace(
        host.model,
        cores=host.cores,
        flops=whole.rates["float32"],
        bandwidth=whole.bandwidth,
        dispatch=host.dispatch,
        ops={},
        profile=None,
    )


def _with_figures(device: Device, figures: _Figures) -> Device:
    def factor(processor: str, name: str) -> float:
        return figures.factors.get((processor, name), 1.0)

    host, gpu = device.host, device.gpu
    assert host is not None
    rate = factor(HOSTS, RATE)
    host = replace(
        host,
        flops=host.flops * rate,
        rates={kind: value * rate for kind, value in host.rates.items()},
        bandwidth=host.bandwidth * factor(HOSTS, BANDWIDTH),
        dispatch=figures.dispatch,
        ops=figures.ops,
    )
    if gpu is not None:
        model, rate = gpu.model, factor(gpu.model.name, RATE)
        scaled = {kind: getattr(model.figures, kind) * rate for kind in RATES}
        bandwidth = model.bandwidth * factor(model.name, BANDWIDTH)
        model = model._replace(flops=model.flops * rate, bandwidth=bandwidth, figures=model.figures._replace(**scaled))
        gpu = gpu._replace(model=model)
    return device._replace(host=host, gpu=gpu)


def _predicted(nodes: Mapping[str, _Node], row: ComparedNode) -> float:
    return sum(nodes[name].seconds for name in (row.node, *row.replaced))


def _kernel(nodes: Mapping[str, _Node], row: ComparedNode) -> float:
    """Return the predicted seconds without the starts of nodes."""
    return sum(nodes[name].seconds - nodes[name].starts for name in (row.node, *row.replaced))


def _off(nodes: Mapping[str, _Node], row: ComparedNode) -> float:
    """Return the error: the factor between predicted and measured seconds, at least 1."""
    return exp(abs(log(max(_predicted(nodes, row), _LEAST) / row.measured)))


def _loss(nodes: Mapping[str, _Node], rows: Sequence[ComparedNode]) -> float:
    """Return the sum of the logarithms of the nodes' errors."""
    return sum(log(_off(nodes, row)) for row in rows)


def _error(nodes: Mapping[str, _Node], rows: Sequence[ComparedNode]) -> float:
    return median(_off(nodes, row) for row in rows)
