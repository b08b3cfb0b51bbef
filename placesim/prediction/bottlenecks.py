"""Bottlenecks of a step, found by repeated simulations, each with the time of one part set to zero."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from placesim.core.process.progress import report_stage
from placesim.machine.timelines.compiled_workload import WorkloadPlan
from placesim.machine.timelines.event_simulation import plan_seconds
from placesim.machine.timelines.workload import NOWHERE
from placesim.prediction.simulated_steps import SimulatedStep
from placesim.prediction.time_breakdown import Speedup

KINDS = ("link", "resource", "op", "node")
OF_EACH_KIND = 4
"""Maximum number of candidates of each kind."""
SIMULATED_TASKS = 1_000_000
"""Maximum number of tasks that all trials together simulate; at least one candidate of each kind is always tried."""


class _Candidate(NamedTuple):
    """A part of the step whose time is set to 0, to see how much faster the step would be.

    `on_path` is the part's time on the critical path and `in_all` its total time, in seconds. `free` returns the step's plan
    with this time set to 0.
    """

    kind: str
    what: str
    on_path: float
    in_all: float
    free: Callable[[], WorkloadPlan]


def find_speedups(step: SimulatedStep) -> tuple[Speedup, ...]:
    """Simulate the step without the time of one part at a time, and return the step times, shortest first.

    For each kind, the parts that take the most time on the critical path are tried.  Ties are broken by total time.
    """
    limit = max(1, min(OF_EACH_KIND, SIMULATED_TASKS // (len(KINDS) * max(1, step.plan.count))))
    candidates = [*_links(step), *_resources(step), *_nodes(step)]
    candidates.sort(key=lambda it: (-it.on_path, -it.in_all))
    tried = [candidate for kind in KINDS for candidate in [it for it in candidates if it.kind == kind][:limit]]
    helps: list[Speedup] = []
    with report_stage("trying removals", lambda: (len(helps), len(tried))):
        for candidate in tried:
            helps.append(Speedup(candidate.kind, candidate.what, plan_seconds(candidate.free())))  # noqa: PERF401 - read meanwhile
    return tuple(sorted(helps, key=lambda it: it.seconds))


def _links(step: SimulatedStep) -> Iterator[_Candidate]:
    """Yield the links that transfers use."""
    plan = step.plan
    on_path: dict[int, float] = defaultdict(float)
    for part in step.critical_path:
        if part.task in plan.streams:
            for link in set(plan.transfer(part.task).route):
                on_path[link] += part.end - part.start
    for number in sorted({link for route in plan.routes() for link in route}):
        busy = step.timeline.traffic[number].busy_seconds
        yield _Candidate("link", plan.links[number].name, on_path[number], busy, partial(plan.with_free_link, number))


def _resources(step: SimulatedStep) -> Iterator[_Candidate]:
    """Yield the resources that run or launch nodes."""
    plan = step.plan
    on_path: dict[int, float] = defaultdict(float)
    for part in step.critical_path:
        on_path[plan.places[part.task + plan.count if part.is_launch else part.task]] += part.end - part.start
    used = {cost.resource for cost in step.placed} - {NOWHERE}
    for number in sorted(used | {plan.hosts[resource] for resource in used} - {NOWHERE}):
        parts = plan.with_callers(number)
        busy = sum(step.timeline.usage[part].busy_seconds for part in parts)
        waited = sum(on_path[part] for part in parts)
        yield _Candidate("resource", plan.resources[number].name, waited, busy, partial(plan.with_free_resource, number))


def _nodes(step: SimulatedStep) -> Iterator[_Candidate]:
    """Yield the nodes, and the ops of more than one node."""
    seconds: dict[int, float] = defaultdict(float)
    for part in step.critical_path:
        seconds[part.task] += part.end - part.start
    by_node: dict[str, list[int]] = defaultdict(list)
    by_op: dict[str, list[int]] = defaultdict(list)
    names: dict[str, str] = {}
    several = set()
    for number, (execution, cost) in enumerate(zip(step.step, step.placed, strict=True)):
        if execution.site is not None and cost.resource != NOWHERE:
            name, op = execution.site.name, execution.site.instruction.node.op
            by_node[name].append(number)
            by_op[op].append(number)
            if names.setdefault(op, name) != name:
                several.add(op)

    def candidate(kind: str, what: str, numbers: list[int]) -> _Candidate:
        in_all = sum(step.placed[number].predicted.seconds + step.placed[number].launch for number in numbers)
        on_path = sum(seconds[number] for number in numbers)
        return _Candidate(kind, what, on_path, in_all, partial(step.plan.with_free_tasks, numbers))

    for node, numbers in by_node.items():
        yield candidate("node", node, numbers)
    for op, numbers in by_op.items():
        if op in several:
            yield candidate("op", op, numbers)
