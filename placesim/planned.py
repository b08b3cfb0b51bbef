"""A graph and a machine -> a better placement, with a bound, and what TensorFlow has to be told for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from placesim.errors import PlacesimError, UsageError
from placesim.formats.annotations import assign_devices, clear_devices
from placesim.graph_plans.baselines import named_baselines
from placesim.graph_plans.drawing import Drawn, draw_problem
from placesim.graph_plans.study import Move, Placed, PlanStudy
from placesim.graph_plans.writing import annotate, freed
from placesim.inspection.device_names import short_names
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.bounds import best_bound
from placesim.planning.coarsening import coarsen
from placesim.planning.portfolio import Effort, Planned, plan_problem
from placesim.planning.problem import Objective, over_capacity
from placesim.planning.schedules import Simulated
from placesim.timing import study_time, walk_steps

if TYPE_CHECKING:
    from placesim.graph.steps import GraphFile
    from placesim.loading import Loaded
    from placesim.options import Options

MOST_TASKS = 600
"""A larger problem is searched as clusters: an evaluation costs some microseconds a task."""
REFINED_TASKS = 6000
"""Up to so many tasks the plan of clusters is improved task by task."""
COARSE_SHARE = 0.6
"""Of the effort goes to clusters, where the problem is larger."""
MAX_MOVES = 200
"""Of so many groups it is found out what their move gains."""
DEFAULT, ANNOTATED, PLANNED = "TensorFlow's default", "as annotated", "the plan"


class _Candidate(NamedTuple):
    label: str
    devices: tuple[int, ...]
    method: str = ""


def study_plan(
    load: Callable[[], Loaded],
    options: Options,
    name: str,
    effort: Effort,
    free: Sequence[str] = (),
    tell: Callable[[Planned], None] = lambda planned: None,
) -> PlanStudy:
    """The best placement that is found, beside others; what asks for a device keeps it unless its name fits one of `free`.

    Raises what is wrong with the graph or the options, and what keeps its steps from being walked through.
    """
    return _Planner(load, options, name, effort, free, tell).study()


class _Planner:
    def __init__(
        self,
        load: Callable[[], Loaded],
        options: Options,
        name: str,
        effort: Effort,
        free: Sequence[str],
        tell: Callable[[Planned], None],
    ) -> None:
        self._load = load
        self._options = options
        self._name = name
        self._effort = effort
        self._free = free
        self._tell = tell
        self._file = _file(load())
        self._base = self._freed(self._file)

    def _freed(self, file: GraphFile) -> GraphFile:
        return freed(file, self._free)

    def _loaded(self, change: Callable[[GraphFile], GraphFile]) -> Callable[[], Loaded]:
        """The graph with other annotations, as often as it is asked for."""

        def changed() -> Loaded:
            loaded = self._load()
            return replace(loaded, file=change(_file(loaded)))

        return changed

    def study(self) -> PlanStudy:
        drawn = self._draw()
        candidates = list({candidate.devices: candidate for candidate in reversed(list(self._known(drawn)))}.values())[::-1]
        found, planned = self._search(drawn, [candidate.devices for candidate in candidates])
        candidates += found
        placements, best = [], None
        for candidate in candidates:
            placed = self._simulated(candidate.label, self._asked(drawn, candidate.devices))
            placements.append(placed)
            if placed.fits and (best is None or placed.seconds < best[0].seconds):
                best = placed, candidate
        for label, change in self._others(drawn, candidates):
            placements.append(self._study(label, self._loaded(change)))
        bound = planned.bound
        if best is None:
            return PlanStudy(self._name, tuple(placements), None, bound, "", {}, (), planned.is_interrupted)
        placed, candidate = best
        asked = self._asked(drawn, candidate.devices)
        method = candidate.method or candidate.label
        moves = tuple(self._moves(drawn, candidate.devices))
        return PlanStudy(self._name, tuple(placements), placed, bound, method, asked, moves, planned.is_interrupted)

    # --- the problem

    def _draw(self) -> Drawn:
        walked = walk_steps(self._loaded(self._freed), self._options)
        step, prepared = walked.steps[-1], walked.prepared[-1]
        drawn = draw_problem(self._base.graph, prepared, step, walked.machine, Objective.MAKESPAN)
        kept = math.fsum(task.holds for task in drawn.problem.tasks)
        made = math.fsum(task.makes for task in drawn.problem.tasks)
        peak = sum(peak or 0 for peak in walked.peaks.values())
        # what lives for a while counts by the share of it that was held at once
        share = min(1.0, max(0.0, (peak - kept) / made)) if made else 0.0
        return draw_problem(self._base.graph, prepared, step, walked.machine, Objective.MAKESPAN, share)

    def _known(self, drawn: Drawn) -> Iterator[_Candidate]:
        """What a plan is held against, as far as the annotations that hold allow it."""
        for label, file in ((DEFAULT, clear_devices(self._file)), (ANNOTATED, self._file)):
            if label == DEFAULT or self._is_annotated:
                devices = assignment_of(drawn, file)
                if devices is not None:
                    yield _Candidate(label, devices)
        for label, devices in named_baselines(drawn):
            yield _Candidate(label, devices)

    @property
    def _is_annotated(self) -> bool:
        return any(node.device for node in self._file.graph.nodes)

    def _others(self, drawn: Drawn, candidates: Sequence[_Candidate]) -> Iterator[tuple[str, Callable[[GraphFile], GraphFile]]]:
        """Placements that annotations forbid, and that are shown all the same."""
        if all(candidate.label != DEFAULT for candidate in candidates):
            yield DEFAULT, clear_devices

    # --- the search

    def _search(self, drawn: Drawn, known: Sequence[tuple[int, ...]]) -> tuple[list[_Candidate], Planned]:
        measured = Simulated(drawn.problem)
        plans = [measured.plan(devices) for devices in known if not over_capacity(drawn.problem, devices)]
        start = min(plans, key=lambda plan: plan.value, default=None)
        bound = best_bound(drawn.problem)
        coarse = coarsen(drawn.problem, MOST_TASKS)
        is_coarse = coarse.problem is not drawn.problem
        share = COARSE_SHARE if is_coarse else 1.0
        found: list[_Candidate] = []
        planned = plan_problem(
            coarse.problem,
            replace(self._effort, seconds=self._effort.seconds * share),
            self._tell,
            None if is_coarse else start,
        )
        if planned.plan is not None:
            plan = measured.plan(coarse.expand(planned.plan.devices)) if is_coarse else planned.plan
            found.append(_Candidate(PLANNED, plan.devices, planned.method))
            if is_coarse and len(drawn.problem.tasks) <= REFINED_TASKS and not planned.is_interrupted:
                start = plan if start is None or plan.value < start.value else start
                refined = plan_problem(
                    drawn.problem, replace(self._effort, seconds=self._effort.seconds * (1 - share)), self._tell, start
                )
                if refined.plan is not None and refined.plan.devices != plan.devices:
                    found.append(_Candidate(f"{PLANNED}, task by task", refined.plan.devices, refined.method))
        return found, planned._replace(bound=bound)

    # --- plans as graphs

    def _asked(self, drawn: Drawn, devices: Sequence[int]) -> dict[str, str]:
        return annotate(self._base, planned_places(drawn, devices), drawn.device_set, soft=drawn.is_soft)

    def _simulated(self, label: str, asked: Mapping[str, str]) -> Placed:
        return self._study(label, self._loaded(lambda file: assign_devices(self._freed(file), asked)))

    def _study(self, label: str, load: Callable[[], Loaded]) -> Placed:
        try:
            study = study_time(load, self._options, self._name)
        except PlacesimError as error:
            if isinstance(error, UsageError):
                raise
            return Placed(label, None, error)
        return Placed(label, study, study.error)

    def _moves(self, drawn: Drawn, devices: Sequence[int]) -> Iterator[Move]:
        """The groups that go elsewhere than now, those first whose move gains most."""
        measured, before = Simulated(drawn.problem), assignment_of(drawn, self._file) or drawn.start
        value = measured.seconds(devices)
        names = short_names([device.name for device in drawn.devices])
        found: list[Move] = []
        for group, tasks in zip(drawn.groups, drawn.problem.groups, strict=True):
            old, new = before[tasks[0]], devices[tasks[0]]
            if old == new or not group.nodes or len(found) >= MAX_MOVES:
                continue
            stays = list(devices)
            for task in tasks:
                stays[task] = old
            found.append(Move(group.nodes, names[old], names[new], measured.seconds(stays) - value))
        yield from sorted(found, key=lambda move: -move.loss)


def _file(loaded: Loaded) -> GraphFile:
    if loaded.error is not None:
        raise loaded.error
    assert loaded.file is not None
    return loaded.file


def planned_places(drawn: Drawn, devices: Sequence[int]) -> dict[str, str]:
    """The device of each node that can be moved, by name."""
    found: dict[str, str] = {}
    for tasks, group in zip(drawn.problem.groups, drawn.groups, strict=True):
        found.update((name, drawn.devices[devices[tasks[0]]].name) for name in group.nodes)
    return found


def assignment_of(drawn: Drawn, file: GraphFile) -> tuple[int, ...] | None:
    """How TensorFlow places a graph, as an assignment; None where it refuses to, or where a group may not be there."""
    placement = SessionPlacer(drawn.device_set, drawn.is_soft).place(file.graph)
    if placement.error is not None:
        return None
    numbers = {device.name: number for number, device in enumerate(drawn.devices)}
    graph, devices = placement.graph, list(drawn.start)
    for tasks, group in zip(drawn.problem.groups, drawn.groups, strict=True):
        placed = (placement.devices[graph.ids[name]] for name in group.nodes if name in graph.ids)
        found = {numbers[device.name] for device in placed if device is not None}
        if not found:
            continue
        if len(found) > 1 or not found <= set(group.choices):
            return None
        (device,) = found
        for task in tasks:
            devices[task] = device
    return tuple(devices)


def planned_file(loaded: Loaded, study: PlanStudy, free: Sequence[str] = ()) -> GraphFile:
    """The graph with what the plan asks for; placed by TensorFlow, every node goes where the plan says."""
    return assign_devices(freed(_file(loaded), free), study.asked)
