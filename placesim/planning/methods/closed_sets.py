"""Optimal contiguous split of a pipeline, by dynamic programming over all sets of groups that are closed under inputs.

The difference of two closed sets is contiguous.  Every contiguous split with an order of stages is a chain of closed sets, and
the best chain is found.  Source: Tarnawski and others, "Efficient Algorithms for Device Placement of DNN Graph Operators",
2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from placesim.planning.loads import load_plan
from placesim.planning.methods.contiguous import DeviceClass, group_devices, increment_count, used_counts
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.search_budget import Search

MAX_SETS = 4000
MAX_WORK = 12_000_000_000
"""Maximum of sets * sets * edges; this much work takes about twenty seconds."""
_Array = np.ndarray


def split_closed_sets(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield the optimal contiguous plan; nothing if there are too many closed sets, or transfer times depend on the devices."""
    if problem.ways is not None or not problem.tasks:
        return
    blocks, edges = _blocks(problem)
    sets = closed_sets(blocks, edges, search)
    if not sets or len(sets) ** 2 * max(1, sum(map(len, problem.inputs))) > MAX_WORK:
        return
    devices = _best_chain(problem, blocks, sets, search)
    if devices is not None:
        plan = load_plan(problem, devices)
        # chains exclude parts that read from each other; if all blocks are in one order, there are no such parts
        if problem.needs_contiguous and len(sets) == len(blocks) + 1:
            search.prove(plan.value)
        yield plan


def _blocks(problem: PlanningProblem) -> tuple[list[list[int]], list[set[int]]]:
    """Return blocks, each with the groups of one cycle, and for each block the blocks that its forward tasks read from."""
    from scipy.sparse import csr_array  # this import takes longer than starting a search process
    from scipy.sparse.csgraph import connected_components

    pairs = {
        (problem.group_of[source], problem.group_of[task])
        for task, sources in enumerate(problem.inputs)
        for source in sources
        if not problem.tasks[task].is_backward and not problem.tasks[source].is_backward
    }
    count = len(problem.groups)
    rows, columns = ([pair[n] for pair in pairs] for n in (0, 1))
    graph = csr_array((np.ones(len(pairs), bool), (rows, columns)), (count, count))
    number, labels = connected_components(graph, directed=True, connection="strong")
    blocks: list[list[int]] = [[] for _ in range(number)]
    for group, label in enumerate(labels):
        blocks[label].append(group)
    edges: list[set[int]] = [set() for _ in range(number)]
    for source, target in pairs:
        if labels[source] != labels[target]:
            edges[labels[target]].add(int(labels[source]))
    return blocks, edges


def closed_sets(blocks: list[list[int]], inputs: list[set[int]], search: Search) -> list[int]:
    """Return all sets of blocks closed under inputs, as bit masks, small sets first; none if there are more than `MAX_SETS`."""
    needs = [sum(1 << source for source in sources) for sources in inputs]
    found, layer = [0], {0}
    for _ in blocks:
        grown = set()
        for known in layer:
            for block, need in enumerate(needs):
                bit = 1 << block
                if not known & bit and known & need == need:
                    grown.add(known | bit)
            if len(found) + len(grown) > MAX_SETS:
                return []
        if search.is_over:
            return []
        found += sorted(grown)
        layer = grown
    return found


def _best_chain(problem: PlanningProblem, blocks: list[list[int]], sets: list[int], search: Search) -> list[int] | None:
    kinds = group_devices(problem)
    used = used_counts(kinds)
    states = {counts: n for n, counts in enumerate(used)}
    tasks = problem.tasks
    block_of = np.zeros(len(tasks), np.intp)
    for block, groups in enumerate(blocks):
        for group in groups:
            block_of[list(problem.groups[group])] = block
    within = np.array([[known >> block & 1 for block in range(len(blocks))] for known in sets], bool)[:, block_of]
    parts = _Parts(problem)
    best = np.full((len(sets), len(used)), math.inf)
    came = np.zeros((len(sets), len(used), 3), np.intp)
    best[0, 0] = 0.0
    for first in range(len(sets)):
        # a chain of all tasks, cut down to the tasks of this set, would reach it
        if search.is_over or best[first].min() == math.inf:
            return None
        later = first + 1 + np.flatnonzero((within[first + 1 :] | ~within[first]).all(axis=1))
        seconds, moved, held = parts.measure(within[later] & ~within[first])
        for k, kind in enumerate(kinds):
            load = seconds[:, kind.kind] + (moved if kind.pays else 0.0)
            load = np.where(held <= kind.capacity, load, math.inf)
            for counts, before in states.items():
                if counts[k] == len(kind.devices) or best[first, before] == math.inf:
                    continue
                after = states[increment_count(counts, k)]
                value = np.maximum(load, best[first, before])
                is_better = value < best[later, after]
                changed = later[is_better]
                best[changed, after] = value[is_better]
                came[changed, after] = first, before, k
    state = int(best[-1].argmin())
    return None if best[-1, state] == math.inf else _read_back(within, kinds, came, state)


class _Parts:
    """Measures parts of the problem, given as rows that mark tasks."""

    def __init__(self, problem: PlanningProblem) -> None:
        from scipy.sparse import csr_array

        tasks = problem.tasks
        # an infinite time in a part that lacks the task must stay out of the sum
        times = np.array([task.seconds for task in tasks], float).reshape(len(tasks), -1)
        self._never = csr_array(np.isinf(times).astype(float))
        self._times = np.where(np.isinf(times), 0.0, times)
        self._makes = np.array([task.makes for task in tasks])
        self._holds = np.array([task.holds for task in tasks])
        pairs = [(reader, source) for reader, sources in enumerate(problem.inputs) for source in sources]
        rows, columns = ([pair[n] for pair in pairs] for n in (0, 1))
        self._reads = csr_array((np.ones(len(pairs), np.float32), (rows, columns)), (len(tasks), len(tasks)))
        self._readers = np.array([len(readers) for readers in problem.readers], np.float32)

    def measure(self, parts: _Array) -> tuple[_Array, _Array, _Array]:
        """Return the seconds by device kind, the transfer seconds and the memory of each row of `parts` (`[parts, tasks]`)."""
        dense = parts.astype(float)
        seconds = dense @ self._times
        seconds[np.asarray(dense @ self._never) > 0] = math.inf
        inside = np.asarray(parts.astype(np.float32) @ self._reads)
        crosses = np.where(parts, inside < self._readers, inside > 0)
        return seconds, crosses @ self._makes, dense @ self._holds


def _read_back(within: _Array, kinds: list[DeviceClass], came: _Array, state: int) -> list[int]:
    devices = np.zeros(within.shape[1], np.intp)
    taken, at = [0] * len(kinds), len(within) - 1
    while at:
        first, state, k = (int(n) for n in came[at, state])
        devices[within[at] & ~within[first]] = kinds[k].devices[taken[k]]
        taken[k] += 1
        at = first
    return [int(device) for device in devices]
