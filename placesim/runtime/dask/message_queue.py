"""Messages to a running step in a worker, in order of arrival."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from placesim.core.process.deadlines import ThreadInterruption

Position: TypeAlias = "tuple[int, ...]"
"""Position in a step's order: of a fixed order one number, else generation, partition and node."""

BEFORE_ALL: Position = (-1,)
"""Position before all nodes, for an event of no node."""


class Arrival(NamedTuple):
    """A tensor that another worker sent: the name that its send and its receive share, and the generation of the send.

    `sent` is a moment of the sender's clock, `there` one of the receiver's, in nanoseconds.
    """

    key: Any
    value: Any
    generation: int
    sent: int
    there: int


class FailureLimit(NamedTuple):
    """A failure on another worker: later nodes need not run."""

    position: Position


class StopMessage(NamedTuple):
    """The step is cancelled."""


Mail: TypeAlias = "SimpleQueue[Arrival | FailureLimit | StopMessage | tuple[Any, Any]]"


class StepInterruption(ThreadInterruption):
    """Raised to cancel a step, or the rest of it after an earlier error; kernels do not treat it as an error."""
