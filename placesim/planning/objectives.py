"""Values of assignments for every objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from placesim.planning.loads import load_plan
from placesim.planning.peaks import peak_plan
from placesim.planning.problem import Objective, Plan, PlanningProblem
from placesim.planning.schedules import assignments


class PlanEvaluator(Protocol):
    """Interface for evaluating an assignment as a plan."""

    def plan(self, devices: Sequence[int]) -> Plan:
        """Return the plan for an assignment, with its value and, for schedules, its start times."""


class _SumEvaluator(NamedTuple):
    """Evaluator whose plans have no start times, for the objectives LOAD and PEAK."""

    problem: PlanningProblem
    sums: Callable[[PlanningProblem, Sequence[int]], Plan]

    def plan(self, devices: Sequence[int]) -> Plan:
        return self.sums(self.problem, devices)


def measure(problem: PlanningProblem) -> PlanEvaluator:
    """Return the evaluator for a problem's objective: a makespan, loads or peaks."""
    match problem.objective:
        case Objective.LOAD:
            return _SumEvaluator(problem, load_plan)
        case Objective.PEAK:
            return _SumEvaluator(problem, peak_plan)
    return assignments(problem)
