"""Predicted durations and bottlenecks of a run's steps on a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.prediction.bottlenecks import find_speedups
from placesim.prediction.machine_resources import LINK_ASSUMPTION, SimulatedMachine
from placesim.prediction.processors import Evidence
from placesim.prediction.simulated_steps import SimulatedStep
from placesim.prediction.step_tasks import StepCosts
from placesim.prediction.time_breakdown import Memory, StepTime, TimeStudy
from placesim.runtime.recording.recorder import Execution


class DryRunStep(NamedTuple):
    """A step of `run:`: executions of its first repetition and of a later one (`steady`), and the number of repetitions."""

    first: Sequence[Execution]
    steady: Sequence[Execution]
    repeat: int


def study_steps(
    name: str,
    steps: Sequence[DryRunStep],
    machine: SimulatedMachine,
    memory: dict[str, Memory],
    error: PlacesimError | None = None,
    *,
    tells_helps: bool = False,
    is_traced: bool = False,
) -> TimeStudy:
    """Predict the times of the steps on the machine. Raises the errors of `StepCosts.placed`.

    With `tells_helps`, further simulations of the last step find possible speedups.  With `is_traced`, the result has the data
    for a trace of the last step.
    """
    costs = StepCosts(machine)
    simulated: dict[int, SimulatedStep] = {}

    def run(step: Sequence[Execution]) -> SimulatedStep:
        found = simulated.get(id(step))
        if found is None:
            found = simulated[id(step)] = SimulatedStep(step, costs.placed(step), machine)
        return found

    rows = []
    for number, step in enumerate(steps):
        steady = run(step.steady)
        rows.append(StepTime(number, step.repeat, steady.seconds, *steady.interval, run(step.first).seconds))
    last = run(steps[-1].steady)
    curves = tuple(last.memory(memory))
    return TimeStudy(
        name=name,
        steps=tuple(rows),
        bounds=tuple(last.bounds()),
        devices=tuple(last.devices(memory)),
        links=tuple(last.links()),
        nodes=tuple(last.nodes()),
        transfers=tuple(last.transfers()),
        critical_path=tuple(last.path()),
        assumptions=_assumptions(last.step, machine),
        error=error,
        helps=find_speedups(last) if tells_helps else (),
        memory=curves,
        trace=last.trace(len(steps) - 1, curves) if is_traced else None,
    )


_EVIDENCE_TEXTS: Mapping[Evidence, str] = {
    "similar": "few or no kernels were measured on {}: the interval is wider",
    "none": "no model of the catalogue has the chip of {}: the interval is much wider",
}


def _assumptions(step: Sequence[Execution], machine: SimulatedMachine) -> tuple[str, ...]:
    gpus = [place.gpu.processor for place in machine.places.values() if place.gpu is not None]
    said = list(dict.fromkeys(line for host in machine.hosts.values() for line in host.assumptions(has_gpus=bool(gpus))))
    if machine.assumes_links:
        said.append(LINK_ASSUMPTION)
    said.append("the interval is the 10th-90th percentile of measured times")
    for evidence, text in _EVIDENCE_TEXTS.items():
        if names := dict.fromkeys(gpu.name for gpu in gpus if gpu.evidence == evidence):
            said.append(text.format(", ".join(names)))
    if any(dtype.size == 0 and dtype.name == "string" for e in step for _, dtype in (*e.inputs, *e.outputs)):
        said.append("strings count as 0 bytes")
    return tuple(said)
