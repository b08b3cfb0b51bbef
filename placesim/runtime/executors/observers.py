"""Protocols of the observers of a running step, which account for memory or record the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from placesim.runtime.executors.node_steps import Step
from placesim.runtime.executors.schedule import Schedule

if TYPE_CHECKING:  # executors with a fixed order do not need this module
    from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup

Progress = Callable[[int], None]
"""Function that is called from time to time with the number of finished nodes."""


class ScheduleObservation(Protocol):
    """Observes the runs of an executor with a fixed order."""

    @property
    def has_failed(self) -> bool:
        """Whether the observer ended the run because a device's memory ran out."""

    def begin(self) -> None:
        """Called when a run begins."""

    def end(self) -> None:
        """Called when a run has ended without an error."""

    def around(self, number: int, index: int, step: Step) -> Step:
        """Return a step that runs and observes the `step` of node `index` in program `number`, and releases its inputs."""


class StepObserver(Protocol):
    """Observes the steps of a session, and the functions that they call."""

    def observe_schedule(self, schedule: Schedule, stores: Sequence[list[Any]]) -> ScheduleObservation:
        """Return the observation of an executor with a fixed order; `stores` has one list of tensors per program."""

    def observe_dataflow(self, setup: DataflowSetup) -> Callable[[Mapping[int, Any], Progress | None], DataflowRun]:
        """Return a function that makes the observed runs of an executor in dataflow order, from feeds and progress."""
