"""Protocols of the observers of a running step: memory accounting and recorders.

Without an observer, the executor builds its steps without these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from placesim.runtime.executors.node_steps import Step
from placesim.runtime.executors.schedule import Schedule

if TYPE_CHECKING:  # steps of a fixed order do without it
    from placesim.runtime.executors.dataflow import DataflowRun, DataflowSetup

Progress = Callable[[int], None]
"""A function that is called from time to time with the number of finished nodes."""


class ScheduleObservation(Protocol):
    """Observes the runs of an executor with a fixed order."""

    @property
    def has_failed(self) -> bool:
        """Whether the observer ended the run because memory ran out."""

    def begin(self) -> None:
        """Note that a run begins."""

    def end(self) -> None:
        """Note that the run has ended without an error."""

    def around(self, number: int, index: int, step: Step) -> Step:
        """Wrap the step of the node with this index in program `number`; the result also releases values."""


class StepObserver(Protocol):
    """Observes the steps of a session, and the functions that they call."""

    def observe_schedule(self, schedule: Schedule, stores: Sequence[list[Any]]) -> ScheduleObservation:
        """Return an observation of an executor with a fixed order; `stores` has one list of tensors per program."""

    def observe_dataflow(self, setup: DataflowSetup) -> Callable[[Mapping[int, Any], Progress | None], DataflowRun]:
        """Return a function that creates the observed runs of an executor in dataflow order."""
