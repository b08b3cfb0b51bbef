"""Budget of a search method, and the conditions that end it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from placesim.planning.problem import Plan, PlanningProblem

MAX_IDLE = 20_000
"""Number of consecutive impossible moves after which a search ends."""


@dataclass
class Search:
    """Budget of a search: deadline, evaluations, random numbers, and the best known bound.

    With `evaluations`, work is counted instead of timed, so that one seed gives one plan.  `target` is a lower bound; a search
    that reaches it may stop.
    """

    seed: int = 0
    deadline: float = math.inf
    evaluations: int | None = None
    target: float = 0.0
    start: Plan | None = None
    random: random.Random = field(init=False)
    proven: float = 0.0
    _spent: int = 0
    _idle: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def prove(self, bound: float) -> None:
        """Record a proven lower bound."""
        self.proven = max(self.proven, bound)
        self.target = max(self.target, bound)

    def spend(self, count: int) -> None:
        """Count evaluations."""
        self._spent += count
        self._idle = 0

    def skip(self) -> None:
        """Count an impossible move; too many in a row end the search."""
        self._idle += 1

    @property
    def is_over(self) -> bool:
        """Whether the evaluations or the time are used up, or no move is possible."""
        if self._idle >= MAX_IDLE:
            return True
        return self.is_late if self.evaluations is None else self._spent >= self.evaluations

    @property
    def is_late(self) -> bool:
        """Whether the time is over; counted work does not depend on it."""
        return self.evaluations is None and time.monotonic() >= self.deadline

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    @property
    def evaluations_left(self) -> int:
        """Number of remaining evaluations; a large number without a limit."""
        return (1 << 62) if self.evaluations is None else max(0, self.evaluations - self._spent)

    def share(self, part: float) -> Search:
        """Return a search with a share of the remaining budget."""
        left = None if self.evaluations is None else int(self.evaluations_left * part)
        deadline = self.deadline if math.isinf(self.deadline) else time.monotonic() + self.seconds_left * part
        return Search(self.random.randrange(1 << 30), deadline, left, self.target, self.start)

    def is_met(self, value: float) -> bool:
        """Return whether a value equals the bound, except for rounding errors, which depend on the order of summation."""
        return value <= self.target * (1 + 1e-9)


Method = Callable[[PlanningProblem, Search], Iterator[Plan]]
"""A planning method. It yields plans, each better than the previous one, until it finds no better plan or the search ends."""
