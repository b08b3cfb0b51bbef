"""Protocols of observers of a running step: memory accounting and recorders.

Where nobody observes, none of these is called: an executor builds its steps without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from placesim.runtime.executors.node_steps import Step
from placesim.runtime.executors.schedule import Schedule

if TYPE_CHECKING:  # steps of a fixed order do without it
    from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup

Progress = Callable[[int], None]
"""Called periodically with the number of finished nodes."""


class ScheduleObservation(Protocol):
    """Observes the runs of a fixed order."""

    @property
    def has_failed(self) -> bool:
        """Whether the observer ended the run because memory ran out."""

    def begin(self) -> None:
        """A run begins."""

    def end(self) -> None:
        """It has ended without an error."""

    def around(self, number: int, index: int, step: Step) -> Step:
        """Wrap the step of a node, given by program and index; `drops` are the values to release."""


class StepObserver(Protocol):
    """Observes the steps of a session, and the functions that they call."""

    def observe_schedule(self, schedule: Schedule, stores: Sequence[list[Any]]) -> ScheduleObservation:
        """Observe an executor with a fixed order, whose tensors are in one store per program."""

    def observe_dataflow(self, setup: DataflowSetup) -> Callable[[Mapping[int, Any], Progress | None], DataflowRun]:
        """Make the runs of an executor in dataflow order."""
