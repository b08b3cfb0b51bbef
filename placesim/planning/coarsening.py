"""Coarser problems in which clusters of related tasks become one task, and the translation of their plans.

Chains of tasks are merged first.  If too many tasks remain, each task that has only one reader is merged with this reader.  If
that is not enough, neighbours in a topological order are merged.  No step creates a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from placesim.planning.methods.contiguous import group_order
from placesim.planning.problem import PlanningProblem, ProblemTask, ProblemTensor

FEW = 100
"""Problems with fewer tasks are not coarsened."""
CUTS = (40, 150, 600, 2000)
"""Approximate numbers of clusters into which an order of all tasks is divided."""


@dataclass(frozen=True)
class CoarseProblem:
    """A problem whose tasks are clusters, and the cluster of each task of the finer problem."""

    problem: PlanningProblem
    cluster_of: tuple[int, ...]

    def expand(self, devices: Sequence[int]) -> tuple[int, ...]:
        """Convert devices of clusters to devices of tasks."""
        return tuple(devices[cluster] for cluster in self.cluster_of)

    def contract(self, devices: Sequence[int]) -> tuple[int, ...]:
        """Convert devices of tasks to devices of clusters. Each group of clusters gets the device of its first task."""
        first: dict[int, int] = {}
        for task, cluster in enumerate(self.cluster_of):
            first.setdefault(self.problem.group_of[cluster], devices[task])
        return tuple(first[group] for group in self.problem.group_of)


def coarsen(problem: PlanningProblem, most: int) -> CoarseProblem:
    """Return a coarser problem of about `most` tasks; a smaller problem stays as it is."""
    if len(problem.tasks) <= most:
        return identity_problem(problem)
    for joined in (_join_chains(problem, most // 2), _join_single_readers(problem)):
        if len(set(joined)) <= most:
            return _contract(problem, joined)
    return _contract(problem, _cut_order(problem, _close_order(problem), most))


def coarsen_levels(problem: PlanningProblem, most: int, finest: int) -> list[CoarseProblem]:
    """Return coarse problems from coarsest to finest.

    In the first problem, each task is a chain. The next has about `most` tasks. The last is `problem` itself if that has at
    most `finest` tasks. One move in a coarse problem replaces many moves of single tasks.
    """
    found = []
    if len(problem.tasks) > FEW:
        chains = _contract(problem, _join_chains(problem, 1))
        if len(chains.problem.tasks) <= min(most, len(problem.tasks) // 2):
            found.append(chains)
    middle = coarsen(problem, most)
    if middle.problem is not problem and (not found or len(found[0].problem.tasks) <= len(middle.problem.tasks) // 2):
        found.append(middle)
    # a cluster may be too large for any device, or contain groups that must be apart
    found = [
        level for level in found if not level.problem.homeless and all(len(set(row)) == len(row) for row in level.problem.apart)
    ]
    if not found or len(problem.tasks) <= finest:
        found.append(identity_problem(problem))
    return found


def clusterings(problem: PlanningProblem) -> Iterator[list[int]]:
    """Yield clusterings, as the cluster of each task: single tasks, chains, tasks with their only reader, parts of an order."""
    yield list(range(len(problem.tasks)))
    yield _join_chains(problem, 1)
    yield _join_single_readers(problem)
    order = _close_order(problem) if 2 * min(CUTS) < len(problem.tasks) else []
    for most in CUTS:
        if 2 * most < len(problem.tasks):
            yield _cut_order(problem, order, most)


def identity_problem(problem: PlanningProblem) -> CoarseProblem:
    """Return the coarse problem that has one cluster per task."""
    return CoarseProblem(problem, tuple(range(len(problem.tasks))))


def _join_single_readers(problem: PlanningProblem) -> list[int]:
    """Return the cluster of each task after merging tasks with their only reader if the same kinds of devices can run both."""
    leader = list(range(len(problem.tasks)))
    for task, reader in _only_readers(problem):
        leader[task] = leader[reader]
    return leader


def _join_chains(problem: PlanningProblem, parts: int) -> list[int]:
    """Merge like `_join_single_readers`, but not if that delays other tasks.

    If a reader reads several tasks that have inputs, none of these is merged with it. No chain has more work than the total
    divided by `parts`.
    """
    waits = [sum(1 for source in sources if problem.inputs[source]) > 1 for sources in problem.inputs]
    work = [min(task.seconds) for task in problem.tasks]
    most = math.fsum(work) / max(1, parts)
    leader = list(range(len(problem.tasks)))
    for task, reader in _only_readers(problem):
        joined = leader[reader]
        if work[joined] + work[task] <= most and not (problem.inputs[task] and waits[reader]):
            leader[task] = joined
            work[joined] += work[task]
    return leader


def _only_readers(problem: PlanningProblem) -> Iterator[tuple[int, int]]:
    """Yield each task with a single reader, and the reader, if both run on the same kinds of devices.

    The last task comes first.
    """
    kinds = [tuple(map(math.isfinite, seconds)) for seconds in problem.group_seconds]
    for task in reversed(problem.order):
        readers = problem.readers[task]
        if len(readers) == 1 and kinds[problem.group_of[task]] == kinds[problem.group_of[readers[0]]]:
            yield task, readers[0]


def _close_order(problem: PlanningProblem) -> list[int]:
    """Return a topological order of all tasks that is close to the order of the groups."""
    place = {group: at for at, group in enumerate(group_order(problem))}
    rank = [0] * len(problem.tasks)
    for task in problem.order:
        own = place.get(problem.group_of[task], 0)
        rank[task] = max([own, *(rank[source] for source in problem.inputs[task])])
    step_of = {task: number for number, task in enumerate(problem.order)}
    return sorted(range(len(problem.tasks)), key=lambda task: (rank[task], step_of[task]))


def _cut_order(problem: PlanningProblem, order: Sequence[int], most: int) -> list[int]:
    """Return the cluster of each task after cutting an order of all tasks into segments with about the same work."""
    least = [min(task.seconds) for task in problem.tasks]
    share = (math.fsum(least) or 1.0) / max(1, most // 2)
    room = -(-len(order) // max(1, most // 2))
    found, begin, seconds = list(range(len(order))), 0, 0.0
    for at, task in enumerate(order):
        kinds = tuple(map(math.isfinite, problem.group_seconds[problem.group_of[task]]))
        first = tuple(map(math.isfinite, problem.group_seconds[problem.group_of[order[begin]]]))
        if at and (seconds + least[task] > share or at - begin >= room or kinds != first):
            begin, seconds = at, 0.0
        seconds += least[task]
        found[task] = order[begin]
    return found


def _contract(problem: PlanningProblem, leader: Sequence[int]) -> CoarseProblem:
    clusters: dict[int, int] = {}
    cluster_of = tuple(clusters.setdefault(own, len(clusters)) for own in leader)
    members: list[list[int]] = [[] for _ in clusters]
    for task, cluster in enumerate(cluster_of):
        members[cluster].append(task)
    inputs: list[set[int]] = [set() for _ in clusters]
    makes = [0.0] * len(clusters)
    for task, readers in enumerate(problem.readers):
        own, leaves = cluster_of[task], False
        for reader in readers:
            if cluster_of[reader] != own:
                inputs[cluster_of[reader]].add(own)
                leaves = True
        if leaves:
            makes[own] += problem.tasks[task].makes
    tasks = tuple(
        ProblemTask(
            problem.tasks[rows[-1]].name,
            _seconds([problem.tasks[task] for task in rows]),
            math.fsum(problem.tasks[task].holds for task in rows),
            makes[cluster],
            all(problem.tasks[task].is_backward for task in rows),
            *_host_work([problem.tasks[task] for task in rows]),
        )
        for cluster, rows in enumerate(members)
    )
    groups = _joined_groups(problem, cluster_of)
    return CoarseProblem(
        replace(
            problem,
            tasks=tasks,
            inputs=tuple(tuple(sorted(row)) for row in inputs),
            groups=groups,
            tensors=_tensors(problem, cluster_of),
            apart=_apart(problem, cluster_of, groups),
        ),
        cluster_of,
    )


def _apart(problem: PlanningProblem, cluster_of: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the rows of groups that must be apart. If groups of a row were merged, the row contains the merged group twice."""
    group_of = {cluster: number for number, members in enumerate(groups) for cluster in members}
    return tuple(tuple(group_of[cluster_of[problem.groups[group][0]]] for group in row) for row in problem.apart)


def _tensors(problem: PlanningProblem, cluster_of: Sequence[int]) -> tuple[ProblemTensor, ...]:
    return tuple(
        tensor._replace(
            task=cluster_of[tensor.task], reads=tuple(dict.fromkeys((cluster_of[task], at) for task, at in tensor.reads))
        )
        for tensor in problem.tensors
    )


def _seconds(tasks: Sequence[ProblemTask]) -> tuple[float, ...]:
    """Return the seconds that tasks take one after another on each kind of device.

    This is the sum of their times, or the sum of all launches but the first if that is longer.
    """
    found = [math.fsum(parts) for parts in zip(*(task.seconds for task in tasks), strict=True)]
    launching = [math.fsum(parts) for parts in zip(*(task.launches for task in tasks[1:]), strict=True)] or [0.0] * len(found)
    return tuple(max(pair) for pair in zip(found, launching, strict=True))


def _host_work(tasks: Sequence[ProblemTask]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the launch times of the first task and the most cores of any task, by device kind.

    The other launches overlap with the device's work.
    """
    if not tasks[0].launches:
        return (), ()
    return tasks[0].launches, tuple(max(row) for row in zip(*(task.cores for task in tasks), strict=True))


def _joined_groups(problem: PlanningProblem, cluster_of: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of clusters. Groups that share a cluster become one."""
    unit_of = join_groups(problem, cluster_of)
    found: dict[int, dict[int, None]] = {}
    for task, cluster in enumerate(cluster_of):
        found.setdefault(unit_of[task], {})[cluster] = None
    return tuple(map(tuple, found.values()))


def join_groups(problem: PlanningProblem, cluster_of: Sequence[int]) -> list[int]:
    """Return a number for each task, which is the same for tasks of one group or of one cluster."""
    parent = list(range(1 + max(cluster_of, default=-1)))

    def root(cluster: int) -> int:
        while parent[cluster] != cluster:
            parent[cluster] = parent[parent[cluster]]
            cluster = parent[cluster]
        return cluster

    for members in problem.groups:
        if len(members) > 1:
            first = root(cluster_of[members[0]])
            for task in members[1:]:
                parent[root(cluster_of[task])] = first
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(cluster), len(numbers)) for cluster in cluster_of]
