"""What an assignment comes to, whatever the objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from placesim.planning.loads import load_plan
from placesim.planning.problem import Objective, Plan, Problem
from placesim.planning.schedules import assignments


class Measured(Protocol):
    """Gives the plan that an assignment is."""

    def plan(self, devices: Sequence[int]) -> Plan:
        """Its value with its times, where it has any."""


class _Summed:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def plan(self, devices: Sequence[int]) -> Plan:
        return load_plan(self._problem, devices)


def measure(problem: Problem) -> Measured:
    """What evaluates assignments of a makespan, or of loads."""
    return _Summed(problem) if problem.objective is Objective.LOAD else assignments(problem)
