"""What a step that runs in a worker is told from outside while it runs, in the order in which it comes."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from placesim.core.process.deadlines import ThreadInterruption

Position: TypeAlias = "tuple[int, ...]"
"""Where in a step's order something happened: of a fixed order one number, else generation, partition and node."""

BEFORE_ALL: Position = (-1,)
"""Where something happened that belongs to no node: it comes first."""


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
    """Something failed there, elsewhere: what comes after it need not run."""

    position: Position


class StopMessage(NamedTuple):
    """The step is given up."""


Mail: TypeAlias = "SimpleQueue[Arrival | FailureLimit | StopMessage | tuple[Any, Any]]"


class StepInterruption(ThreadInterruption):
    """Raised where a step is given up, or an earlier error makes the rest of it unwanted: no kernel takes it for an error."""
