"""Messages to a running step of a worker, in order of arrival."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from placesim.core.process.deadlines import ThreadInterruption

Position: TypeAlias = "tuple[int, ...]"
"""Position in a step's order: one number in a fixed order, else generation, partition and node."""

BEFORE_ALL: Position = (-1,)
"""Position before all nodes, for an event that belongs to no node."""


class Arrival(NamedTuple):
    """A tensor that another worker sent: its key, which send and receive share, and the generation of the send.

    Times are nanoseconds: `sent` by the sender's clock, `there` by the receiver's.
    """

    key: Any
    value: Any
    generation: int
    sent: int
    there: int


class FailureLimit(NamedTuple):
    """Another worker has failed at this position: later nodes need not run."""

    position: Position


class StopMessage(NamedTuple):
    """The step is cancelled."""


Mail: TypeAlias = "SimpleQueue[Arrival | FailureLimit | StopMessage | tuple[Any, Any]]"


class StepInterruption(ThreadInterruption):
    """Raised to cancel a step, or the rest of it after an earlier error. Kernels do not catch it."""
