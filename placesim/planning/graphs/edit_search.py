"""Search for plans of few edits. An edit is a device for a name scope or a node, as `with tf.device` gives it in a script."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from placesim.core.grouped import grouped
from placesim.graph.node_patterns import enclosing_scopes, gradient_scope
from placesim.inspection.short_device_names import short_names
from placesim.planning.bounds import Bound
from placesim.planning.graphs.multilevel_search import meets_constraints, share_effort
from placesim.planning.graphs.plan_comparison import Aim, Edits, PlanEdit
from placesim.planning.graphs.problem_building import GraphProblem
from placesim.planning.graphs.requests_by_name import placement_rows
from placesim.planning.objectives import measure
from placesim.planning.portfolio import Effort, PlanResult, plan_problem
from placesim.planning.problem import Objective, PlanningProblem
from placesim.planning.schedules import assignments
from placesim.planning.search_budget import Search

MAX_LEVELS = 3
"""Maximum number of depths of scopes that are searched."""
LEVELS_SHARE = 0.5
"""Share of the effort for searches in which the groups of a scope move together; the rest is for the choice of edits."""
MAX_ADDED = 12
"""Number of edits up to which single edits are added to the best plan with fewer."""
MAX_POINTS = 12
"""Maximum number of plans on the curve."""
MAX_PATHS = 64
"""Number of paths that are tried first as a further edit: the paths of the groups with the most work."""
FIRST_ADDED, FIRST_PATHS = 4, 12
"""Limits for the first additions of edits: number of edits, and number of tried paths.

After these, edits of found plans are removed one by one.
"""
MAX_SEEDS = 3
"""Number of found plans whose edits are removed one by one."""
FEW_EDITS = 16
"""Maximum number of edits for which each removal is chosen by evaluating all edits again."""
MANY_EDITS = 48
"""Number of edits above which the third of the edits with the least work is removed at once."""
LEAST_GAIN = 1e-3
"""Share of the objective's value that a plan with more edits must gain to be on the curve."""

_Rank = tuple[int, float, float]
_UNKNOWN: _Rank = (1 << 30, math.inf, math.inf)


class EditTree:
    """The scopes and nodes that an edit can name, for the groups that can move.

    A group follows its leader, which is its node of the outermost scope. The path of an edit ends in `/`. It applies to the
    node of this name and to all nodes in the scope of this name, since one line of a script may make both. An edit of a scope
    such as `dense/` also applies to the gradients of its nodes in `gradients/dense/`, unless that scope has its own edit. The
    empty path is that of the whole graph. `is_by_scope` is False if edits name only nodes.
    """

    def __init__(self, drawn: GraphProblem, *, is_by_scope: bool) -> None:
        self.drawn = drawn
        self.is_by_scope = is_by_scope
        self.leaders = _leaders(drawn)
        self._layered = {group: _LayeredName.of(leader, is_by_scope) for group, leader in self.leaders.items()}
        self._around = {group: self._paths_around(name) for group, name in self._layered.items()}
        found = grouped((path, group) for group, paths in self._around.items() for path in paths)
        # of nested scopes with the same groups, the outermost stands for all
        outermost = {tuple(groups): path for path, groups in sorted(found.items(), key=lambda row: -len(row[0]))}
        seconds, held = [min(row) for row in drawn.problem.group_seconds], drawn.problem.held
        self.work = {
            path: (sum(seconds[group] for group in groups), sum(held[group] for group in groups))
            for path, groups in found.items()
        }
        """The least seconds and the bytes of the groups in each scope."""
        self.paths = sorted(sorted(outermost.values()), key=self.work.__getitem__, reverse=True)

    def _paths_around(self, name: _LayeredName) -> list[str]:
        """Return the paths of the edits that can move a node, the innermost first."""
        if not self.is_by_scope:
            return [f"{name.text}/"]
        found: list[str] = []
        for scope in [*reversed(list(enclosing_scopes(f"{name.text}/"))), ""]:
            path = name.path_of(scope)
            found += [outer for outer in name.outer if outer.startswith(path) and outer not in found]
            found.append(path)
        return found

    def _followed(self, edits: Mapping[str, int]) -> Iterator[tuple[int, str]]:
        """Yield each group that has a kernel for the device of the innermost edit around its leader, with this edit's path."""
        for group, paths in self._around.items() if edits else ():
            path = next((path for path in paths if path in edits), None)
            if path is not None and edits[path] in self.drawn.groups[group].choices:
                yield group, path

    def assign(self, edits: Mapping[str, int]) -> list[int]:
        """Return the expected device of each task: from an edit, or else from the start."""
        devices = list(self.drawn.start)
        for group, path in self._followed(edits):
            for task in self.drawn.problem.groups[group]:
                devices[task] = edits[path]
        return devices

    def requests(self, edits: Mapping[str, int]) -> dict[str, str]:
        """Return the device requests of edits: one for the first node of each group that follows an edit."""
        return {self.leaders[group]: self.drawn.devices[edits[path]].name for group, path in self._followed(edits)}

    def describe(self, edits: Edits) -> tuple[PlanEdit, ...]:
        """Return edits with the names of devices, and the number of nodes that follow each edit."""
        follows = Counter[str]()
        gradients: dict[str, dict[str, None]] = {}
        for group, path in self._followed(dict(edits)):
            follows[path] += len(self.drawn.groups[group].nodes)
            if path and not self.leaders[group].startswith(path) and self.leaders[group] != path[:-1]:
                gradients.setdefault(path, {})[f"{gradient_scope(self.leaders[group])}{path}"] = None
        names = short_names([device.name for device in self.drawn.devices])
        spelled = {path: path if self.is_by_scope else path.removesuffix("/") for path, _ in edits}
        return tuple(
            PlanEdit(spelled[path] or "*", names[device], follows[path], tuple(gradients.get(path, ())))
            for path, device in edits
        )

    def edits_of(self, devices: Sequence[int]) -> dict[str, int]:
        """Return the fewest edits that are expected to give every group the device of its tasks."""
        start, first = self.drawn.start, {group: self.drawn.problem.groups[group][0] for group in self.leaders}
        where = {f"{name.text}/": str(devices[first[group]]) for group, name in self._layered.items()}
        moved = {f"{name.text}/" for group, name in self._layered.items() if devices[first[group]] != start[first[group]]}
        rows = placement_rows(moved, where) if self.is_by_scope else {path: where[path] for path in moved}
        path_of = {scope: name.path_of(scope) for name in self._layered.values() for scope in enclosing_scopes(f"{name.text}/")}
        return {path_of[scope]: int(device) for scope, device in rows.items()}

    def levels(self) -> Iterator[PlanningProblem]:
        """Yield problems in which the groups of a scope move together, for scopes of several depths, outer scopes first."""
        problem = self.drawn.problem
        apart = {group for row in problem.apart for group in row}
        deepest = max((leader.count("/") + 1 for leader in self.leaders.values()), default=0)
        counts: list[int] = []
        for depth in range(1, 1 + deepest if self.is_by_scope else 1):
            units: dict[object, list[int]] = {}
            for group, own in enumerate(self.drawn.groups):
                is_single = group in apart or group not in self.leaders
                unit = group if is_single else (tuple(self._layered[group].text.split("/")[:depth]), own.choices)
                units.setdefault(unit, []).append(group)
            merged = tuple(tuple(task for group in unit for task in problem.groups[group]) for unit in units.values())
            number_of = {group: number for number, unit in enumerate(units.values()) for group in unit}
            rows = tuple(tuple(number_of[group] for group in row) for row in problem.apart)
            level = replace(problem, groups=merged, apart=rows)
            if len(merged) not in counts and not level.homeless and len(counts) < MAX_LEVELS:
                counts.append(len(merged))
                yield level
        if not self.is_by_scope:
            yield problem


class _LayeredName(NamedTuple):
    """A node name, changed for gradients so that a gradient is in the scope of its layer.

    For `gradients/dense/MatMul_grad/MatMul`, `text` is `dense/gradients|/MatMul_grad/MatMul`, `outer` has `gradients/`, and
    `layer` is `dense/`. For any other node, `text` is the name, and the others are empty.
    """

    text: str
    layer: str = ""
    mark: str = ""
    outer: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, is_by_scope: bool) -> _LayeredName:
        """Return the layered name of a node. Names of nodes stay if edits name only nodes."""
        root = gradient_scope(name) if is_by_scope else ""
        scopes = [scope for scope in enclosing_scopes(name[len(root) :]) if _GRADIENT not in scope]
        if not root or not scopes:
            return cls(name)
        layer, mark = scopes[-1], f"{root.rstrip('/').replace('/', '|')}|/"
        outer = [scope for scope in reversed(list(enclosing_scopes(root))) if not layer.startswith(scope)]
        return cls(f"{layer}{mark}{name[len(root) + len(layer) :]}", layer, mark, tuple(outer))

    def path_of(self, scope: str) -> str:
        """Return the path of an edit for a scope of `text`."""
        begin = self.layer + self.mark
        root = self.mark.replace("|", "/").removesuffix("/")
        return f"{root}{self.layer}{scope.removeprefix(begin)}" if self.mark and scope.startswith(begin) else scope


_GRADIENT = "_grad/"
"""End of the scopes that `tf.gradients` makes for single ops."""


def has_scopes(drawn: GraphProblem) -> bool:
    """Return whether any node that can move is in a name scope."""
    return any("/" in leader for leader in _leaders(drawn).values())


def _leaders(drawn: GraphProblem) -> dict[int, str]:
    """Map the number of each group that can or must move to the group's node in the outermost scope."""
    return {
        number: min(group.nodes, key=lambda name: name.count("/"))
        for number, group in enumerate(drawn.groups)
        if group.nodes and group.choices != (drawn.start[drawn.problem.groups[number][0]],)
    }


def search_edits(
    tree: EditTree,
    known: Iterable[Sequence[int]],
    effort: Effort,
    bound: Bound,
    aim: Aim,
    tell: Callable[[PlanResult], None],
) -> tuple[list[Edits], PlanResult]:
    """Return plans of different numbers of edits, the best first, and the result of the search.

    Each plan is better than all plans with fewer edits. The choice of edits also starts from the assignments `known`. The
    result's bound is `bound`, because searches that move whole scopes give no bound for other plans.
    """
    search = Search(effort.seed, time.monotonic() + effort.seconds, effort.evaluations)
    found = _EditChoice(tree, aim, search)
    for devices in known:
        if effort.evaluations is not None or search.seconds_left > LEVELS_SHARE * effort.seconds:
            found.offer(tree.edits_of(devices))
    planned, start, levels, method = PlanResult(None, bound, "", 0.0), None, list(tree.levels()), "edits"
    for level in levels:
        own = share_effort(replace(effort, seconds=search.seconds_left), LEVELS_SHARE / len(levels))
        planned = plan_problem(level, own, lambda told: tell(told._replace(bound=bound)), start, bound)
        if planned.plan is not None:
            start, method = planned.plan, method if planned.plan is start else planned.method
            found.offer(tree.edits_of(start.devices))
        if planned.is_interrupted or search.is_late:
            break
    try:
        if not planned.is_interrupted:
            found.improve()
    except KeyboardInterrupt:
        planned = planned._replace(is_interrupted=True)
    return found.curve(), planned._replace(bound=bound, method=method)


class _EditChoice:
    """Chooses edits, and keeps the best plan for each number of edits."""

    def __init__(self, tree: EditTree, aim: Aim, search: Search) -> None:
        self._tree = tree
        self._aim = aim
        self._search = search
        self._problem = tree.drawn.problem
        is_makespan = self._problem.objective is Objective.MAKESPAN
        measured = measure(self._problem)
        self._value = assignments(self._problem).seconds if is_makespan else lambda devices: measured.plan(devices).value
        self._known: dict[frozenset[tuple[str, int]], _Rank] = {}
        self._best: dict[int, tuple[_Rank, dict[str, int]]] = {}
        self.offer({})

    def offer(self, edits: dict[str, int]) -> _Rank:
        """Return the rank of a plan, lower for better ones, and keep it if it is the best with its number of edits.

        A rank has the number of violated constraints, the bytes above devices' capacities, and the objective's value. A new
        plan is not ranked if the time is over.
        """
        key = frozenset(edits.items())
        rank = self._known.get(key)
        if rank is None and self._known and self._search.is_late:
            return _UNKNOWN
        if rank is None:
            devices = self._tree.assign(edits)
            wrong, over = self._faults(devices)
            rank = self._known[key] = wrong, over, math.inf if wrong else self._value(devices)
        if len(edits) not in self._best or rank < self._best[len(edits)][0]:
            self._best[len(edits)] = rank, edits
        return rank

    def _faults(self, devices: Sequence[int]) -> tuple[int, float]:
        drawn = self._tree.drawn
        of_group = (devices[tasks[0]] for tasks in self._problem.groups)
        wrong = sum(device not in group.choices for device, group in zip(of_group, drawn.groups, strict=True))
        held = [0.0] * len(self._problem.devices)
        for task, device in enumerate(devices):
            held[device] += self._problem.tasks[task].holds
        over = (max(0.0, own - device.capacity) for own, device in zip(held, self._problem.devices, strict=True))
        return wrong + (not meets_constraints(drawn, devices, self._aim)), math.fsum(over)

    def improve(self) -> None:
        """Add, change and remove single edits until nothing is better or the search is over."""
        most = MAX_ADDED if self._aim.changes is None else self._aim.changes
        seeds = sorted(self._best.values(), key=lambda row: row[0])[:MAX_SEEDS]
        self._add_to(range(min(most, FIRST_ADDED)), self._tree.paths[:FIRST_PATHS])
        for _, edits in seeds:
            self._leave_out(edits)
        before = None
        while before != (before := {count: rank for count, (rank, _) in self._best.items()}):
            self._add_to(range(most), self._tree.paths[:MAX_PATHS])
            self._add_to(range(most), self._tree.paths[MAX_PATHS:])
            for count in sorted(self._best, reverse=True):
                if count <= FEW_EDITS:
                    self._leave_out(self._best[count][1])

    def _add_to(self, counts: Iterable[int], paths: Sequence[str]) -> None:
        """Add each path to the best plan of each number of edits, or change its device, if the search is not over."""
        for count in counts:
            for path in [*self._best[count][1], *paths] if count in self._best else ():
                if self._search.is_over:
                    return
                self._search.spend(1)
                for device in range(len(self._problem.devices)):
                    self.offer({**self._best[count][1], path: device})

    def _leave_out(self, edits: dict[str, int]) -> None:
        """Remove one edit after another, the edit with the least loss first."""
        while len(edits) > MANY_EDITS and not self._search.is_over:
            self._search.spend(1)
            kept = sorted(edits, key=self._tree.work.__getitem__, reverse=True)[: len(edits) * 2 // 3]
            edits = {path: edits[path] for path in kept}
            self.offer(edits)
        order: list[str] = []
        while edits and not self._search.is_over:
            self._search.spend(1)
            if len(edits) <= FEW_EDITS or not order:
                losses = {without: self.offer(_without(edits, without)) for without in edits}
                order = sorted(losses, key=losses.__getitem__)
            edits = _without(edits, order.pop(0))
            self.offer(edits)

    def curve(self) -> list[Edits]:
        """Return the plans that are better than all plans with fewer edits, the best first."""
        found: list[Edits] = []
        least = _UNKNOWN
        most = math.inf if self._aim.changes is None else self._aim.changes
        for count, (rank, edits) in sorted(self._best.items()):
            if count <= most and (rank[:2] < least[:2] or (rank[:2] == least[:2] and rank[2] < least[2] * (1 - LEAST_GAIN))):
                least = rank
                found.append(tuple(sorted(edits.items())))
        # between many plans, those of few edits are of interest, and the best
        return list(reversed([*found[: MAX_POINTS - 1], *found[MAX_POINTS - 1 :][-1:]]))


def _without(edits: dict[str, int], without: str) -> dict[str, int]:
    return {path: device for path, device in edits.items() if path != without}
