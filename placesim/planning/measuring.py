"""What an assignment comes to, whatever the objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from placesim.planning.loads import load_plan
from placesim.planning.peaks import peak_plan
from placesim.planning.problem import Objective, Plan, Problem
from placesim.planning.schedules import assignments


class Measured(Protocol):
    """Gives the plan that an assignment is."""

    def plan(self, devices: Sequence[int]) -> Plan:
        """Its value with its times, where it has any."""


class _Summed:
    def __init__(self, problem: Problem, sums: Callable[[Problem, Sequence[int]], Plan]) -> None:
        self._problem = problem
        self._sums = sums

    def plan(self, devices: Sequence[int]) -> Plan:
        return self._sums(self._problem, devices)


def measure(problem: Problem) -> Measured:
    """What evaluates assignments of a makespan, of loads or of peaks."""
    match problem.objective:
        case Objective.LOAD:
            return _Summed(problem, load_plan)
        case Objective.PEAK:
            return _Summed(problem, peak_plan)
    return assignments(problem)
