"""Simulated annealing of the highest peak: groups move to other devices, and some swap places."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placesim.planning.methods.annealing import anneal_loads, neighbours
from placesim.planning.methods.first_fit import first_fit
from placesim.planning.methods.memory_packing import pack_by_memory
from placesim.planning.peaks import Peaks, peak_plan
from placesim.planning.problem import Objective, Plan, PlanningProblem
from placesim.planning.search_budget import Search

FIRST_ROUND = 4000
WARM, COLD = 0.05, 1e-4
"""Temperatures as shares of the peak at the beginning of a round."""
NORM = 16
_TOWARDS_NEIGHBOUR, _SWAP = 0.5, 0.2


def anneal(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield plans from annealing of peaks or loads, depending on the problem's objective."""
    return anneal_peaks(problem, search) if problem.objective is Objective.PEAK else anneal_loads(problem, search)


def anneal_peaks(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield better plans. Each round of annealing starts from the best plan, and is longer than the round before."""
    best = search.start or _first(problem)
    if best is None:
        return
    if search.start is None:
        yield best
    if not problem.movable:
        return
    near = [neighbours(problem, group) for group in range(len(problem.groups))]
    length, draw = FIRST_ROUND, search.random
    while not search.is_over and not search.is_met(best.value):
        state = Peaks(problem, best.devices)
        value = _norm(state)
        temperature, cooling = max(value, math.ulp(1.0)) * WARM, (COLD / WARM) ** (1 / length)
        for _ in range(min(length, search.evaluations_left)):
            if search.is_over:
                break
            temperature *= cooling
            group = problem.movable[draw.randrange(len(problem.movable))]
            old, others = state.of_group[group], near[group]
            towards = others and draw.random() < _TOWARDS_NEIGHBOUR
            new = state.of_group[others[draw.randrange(len(others))]] if towards else draw.randrange(len(problem.devices))
            if new == old or not state.has_room(group, new):
                search.skip()
                continue
            changes = [state.move({group: new})]
            if draw.random() < _SWAP:
                other = problem.movable[draw.randrange(len(problem.movable))]
                if other != group and state.of_group[other] == new and state.has_room(other, old):
                    changes.append(state.move({other: old}))
            search.spend(1)
            found = _norm(state)
            if found <= value or draw.random() < math.exp((value - found) / temperature):
                value = found
                if float(state.peaks.max()) < best.value * (1 - 1e-12):
                    best = peak_plan(problem, state.devices)
                    yield best
            else:
                for change in reversed(changes):
                    state.undo(change)
        length *= 2


def _norm(state: Peaks) -> float:
    """Return a p-norm of the peaks, since the maximum alone does not rank most moves."""
    peaks = state.peaks
    most = float(peaks.max())
    return most * float(((peaks / most) ** NORM).sum()) ** (1 / NORM) if most > 0 else 0.0


def _first(problem: PlanningProblem) -> Plan | None:
    devices = first_fit(problem)
    fitting = [] if devices is None else [peak_plan(problem, devices)]
    return min([*pack_by_memory(problem), *fitting], key=lambda plan: plan.value, default=None)
