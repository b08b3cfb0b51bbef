"""Messages to the running step of a worker."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from placesim.core.process.deadlines import ThreadInterruption

Position: TypeAlias = "tuple[int, ...]"
"""Position of a node in a step: one number in a fixed order; in dataflow order, generation, program and node."""

BEFORE_ALL: Position = (-1,)
"""Position before all nodes, for an event that belongs to no node."""


class Arrival(NamedTuple):
    """A tensor that another worker sent: the key that send and receive share, and the generation of the send.

    Times are in nanoseconds: `sent` by the sender's clock, and `there`, the arrival, by the receiver's clock.
    """

    key: Any
    value: Any
    generation: int
    sent: int
    there: int


class FailureLimit(NamedTuple):
    """The step has failed at this position on another worker; later nodes need not run."""

    position: Position


class StopMessage(NamedTuple):
    """The step is cancelled."""


Mail: TypeAlias = "SimpleQueue[Arrival | FailureLimit | StopMessage | tuple[Any, Any]]"


class StepInterruption(ThreadInterruption):
    """Raised to cancel a step, or the rest of a step that failed elsewhere; kernels do not catch it."""
