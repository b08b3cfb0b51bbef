"""Whole networks: graphs walked through once for each network, batch and type, and simulated on each row's GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from math import hypot, sqrt
from typing import NamedTuple

from placesim.formats.sources.loading import load
from placesim.machine.gpu_models import GpuModel
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.options import make_options
from placesim.prediction.machine_resources import SimulatedMachine, Threads
from placesim.prediction.processors import gpu_processor
from placesim.prediction.simulated_steps import BOARD_DEVIATIONS, SimulatedStep, board_deviation
from placesim.prediction.step_tasks import ExecutionCost, StepCosts
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder
from placesim.studies.simulation.simulation import SimulationStage
from placesim.studies.simulation.simulation import simulate as walk
from tests.benchmarks.network_rows import NetworkRow, NetworkRun, ScaledRow
from tests.benchmarks.networks import build
from tests.benchmarks.scaling import Sharing, TrainingStep, scale_of, step_seconds, training_step

_THREADS = Threads(inter_op=1)
"""The frameworks of the rows launch their kernels from one thread; for TensorFlow's own steps it makes no difference: they are
long beside their launches."""


class NetworkTime(NamedTuple):
    """A row, and what was predicted of it in seconds.

    `below` and `above`: deviations of the step if its kernels deviate independently, which `deviation_scale` multiplies;
    `lowest` and `highest`: with all kernels at an end of their intervals, beyond which the scale never leads; `board`: the
    deviation beside it.
    """

    row: NetworkRow
    seconds: float
    low: float
    high: float
    below: float
    above: float
    lowest: float
    highest: float
    board: float = 0.0

    @property
    def measured(self) -> float:
        return self.row.seconds

    @property
    def is_within(self) -> bool:
        return self.low <= self.row.seconds <= self.high

    @property
    def is_recent(self) -> bool:
        """Whether `RECENT_DEVIATION_SCALE` is for the row's GPU."""
        return gpu_processor(self.row.model).has_narrow_tf32_cores

    @property
    def deviation(self) -> float:
        """The scale from which on the interval holds the measurement, if it may go beyond the extremes."""
        away = self.measured - self.seconds
        beside_board = sqrt(max(0.0, away**2 - self.board**2))
        return beside_board / (self.above if away > 0 else self.below)

    @property
    def unmeasured(self) -> NetworkTime:
        """The same as if the row's GPU had no measurements."""
        deviation = board_deviation([gpu_processor(self.row.model)])
        return self._replace(board=self.board * max(1.0, BOARD_DEVIATIONS["similar"] / deviation))

    def is_within_scale(self, scale: float) -> bool:
        """Whether the interval would hold the measurement with this scale."""
        low = self.seconds - hypot(min(scale * self.below, self.seconds - self.lowest), self.board)
        high = self.seconds + hypot(min(scale * self.above, self.highest - self.seconds), self.board)
        return low <= self.measured <= high


def predict_networks(rows: Sequence[NetworkRow]) -> list[NetworkTime]:
    """Each row's step, simulated; a graph is walked through once for all GPUs that ran it."""
    found = []
    last = None
    for number, row in enumerate(sorted(rows, key=lambda row: repr(row.run))):
        if row.run != last:
            step, last = recorded_step(row.run), row.run
        found.append(NetworkTime._make([row, *network_seconds(step, row.model)]))
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(rows)} networks", end="", file=sys.stderr)
    return found


def recorded_step(run: NetworkRun) -> Sequence[Execution]:
    """What a step of the network executes, on one GPU."""
    built = build(
        run.network,
        run.batch,
        is_training=run.is_training,
        has_update=run.has_update,
        layout=run.layout,
        numerics=run.numerics,
        pixels=run.pixels,
    )
    assert built is not None
    options = make_options({"no_memory_limit": True})
    loaded = load({**built.graph, "devices": {"cpu": 1, "gpu": 1}}, run.network, options)
    if loaded.error is not None:
        raise loaded.error
    recorder = ExecutionRecorder()
    report = walk(loaded, options, SimulationStage.WALKED, tells_memory=True, recorder=recorder)
    if report.error is not None:
        raise report.error
    return recorder.steps[-1]


def placed_on(step: Sequence[Execution], model: GpuModel) -> tuple[SimulatedMachine, list[ExecutionCost]]:
    """The step's executions with their costs, on a machine of one GPU."""
    machine = SimulatedMachine(build_devices([TaskInventory(cpu=1, gpu=1, gpu_model=model)]), _THREADS)
    return machine, StepCosts(machine).placed(step)


def network_seconds(step: Sequence[Execution], model: GpuModel) -> tuple[float, ...]:
    """The figures of `NetworkTime`."""
    machine, placed = placed_on(step, model)
    simulated = SimulatedStep(step, placed, machine)
    (low, high), (below, above) = simulated.extremes, simulated.independent_shares()
    seconds = simulated.seconds
    deviations = below * (seconds - low), above * (high - seconds)
    return seconds, *simulated.interval, *deviations, low, high, simulated.board_deviation


# --- TensorFlow's page: several GPUs from one ---------------------------------------------------------------------------


class ScaledTime(NamedTuple):
    """A row on several GPUs: what was predicted from the same on one, and what would be if nothing were lost, in seconds."""

    row: ScaledRow
    seconds: float
    ideal: float

    @property
    def measured(self) -> float:
        return self.row.seconds

    @property
    def ideal_error(self) -> float:
        return abs(self.ideal - self.row.seconds) / self.row.seconds


def predict_scaled(rows: Sequence[NetworkRow | ScaledRow]) -> list[ScaledTime]:
    """Each row on several GPUs that has one of the same machine, network and batch on a single GPU.

    A row's time is for the images of one GPU: with n GPUs, n times as many are done in it.
    """
    single = {(row.run, row.variant): row for row in rows if isinstance(row, NetworkRow)}
    found = []
    for row in rows:
        if not isinstance(row, ScaledRow) or (base := single.get((row.run, row.variant))) is None:
            continue
        machine = next(name for name in ("DGX-1", "GCE", "EC2") if row.variant.startswith(name))
        sharing = sharing_of(row.variant)
        step, scale = _scaled_step(row.run, base.model, machine, sharing, base.seconds)
        seconds = step_seconds(step, machine, base.model.name, row.gpus, sharing, scale)
        found.append(ScaledTime(row, seconds, base.seconds))
    return found


def sharing_of(variant: str) -> Sharing:
    """How the page's row shares its variables."""
    for text, sharing in _SHARING_WORDS:
        if text in variant:
            return sharing
    return "ps on cpu"


_SHARING_WORDS: Sequence[tuple[str, Sharing]] = (
    ("distributed", "distributed"),
    ("no nccl", "replicated"),
    ("nccl", "nccl"),
    ("ps on gpu", "ps on gpu"),
)


@cache
def _scaled_step(
    run: NetworkRun, model: GpuModel, machine: str, sharing: Sharing, measured: float
) -> tuple[TrainingStep, float]:
    step = _training_step(run, model)
    return step, scale_of(step, machine, model.name, sharing, measured)


@cache
def _training_step(run: NetworkRun, model: GpuModel) -> TrainingStep:
    step = recorded_step(run)
    return training_step(step, placed_on(step, model)[1])
