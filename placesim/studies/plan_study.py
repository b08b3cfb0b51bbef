"""Search for a better placement of a graph: its bound, and the device requests that produce it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from placesim.core.errors import PlacesimError, ResourceExhaustedError, UsageError
from placesim.formats.device_annotations import assign_devices, clear_devices
from placesim.graph.node_patterns import did_you_mean_node, find_matching_names
from placesim.placement.lowering import MULTI_DEVICE, SWITCH_MERGE, is_lowered
from placesim.planning.bounds import Bound, best_bound
from placesim.planning.graphs.all_placements import MAX_ASSIGNMENTS, assignments_below, count_assignments
from placesim.planning.graphs.assignments import assignment_of, planned_devices
from placesim.planning.graphs.avoided_devices import find_avoided, held_nodes, staying_nodes
from placesim.planning.graphs.baselines import named_baselines
from placesim.planning.graphs.edit_search import MAX_ADDED, EditTree, has_scopes, search_edits
from placesim.planning.graphs.memory_repair import (
    extend_assignment,
    hold_peak_memory,
    limit_peaks,
    lower_capacities,
    repair_peaks,
)
from placesim.planning.graphs.moved_groups import find_moves
from placesim.planning.graphs.multilevel_search import (
    SIMULATED,
    Candidate,
    has_room_for_all,
    meets_constraints,
    search_plans,
    share_effort,
    tighten_capacities,
)
from placesim.planning.graphs.plan_annotations import annotate, clear_requests
from placesim.planning.graphs.plan_comparison import (
    ANNOTATED,
    BY_NODE,
    BY_SCOPE,
    DEFAULT,
    PLANNED,
    Aim,
    Edits,
    PlanMeasure,
    PlanStudy,
    SimulatedPlacement,
    is_gpu,
)
from placesim.planning.graphs.problem_building import GraphProblem, ProblemRequest, build_problem, keep_apart, prefer_gpus
from placesim.planning.methods.layer_splits import easiest_splits
from placesim.planning.methods.memory_packing import pack_by_memory
from placesim.planning.portfolio import AUTO, EXHAUSTIVE, OPTIMAL, Effort, PlanResult
from placesim.planning.problem import Plan, PlanningProblem, are_apart
from placesim.report.text.amounts import readable_size
from placesim.studies.memory_study import study_memory
from placesim.studies.plan_choice import LEAST_MEMORY, EditedPlans, PlanChoice
from placesim.studies.time_study import dry_run_steps, study_dry_run, study_time

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.graph import Graph
    from placesim.graph.session_steps import GraphFile
    from placesim.machine.options import SimulationOptions
    from placesim.prediction.time_breakdown import DeviceTime
    from placesim.runtime.recording.recorder import ExecutionRecorder

LARGE_TASKS = 50_000
"""Number of tasks above which fewer placements are simulated for comparison."""
FIRST_SECONDS, FIRST_EVALUATIONS = 2.0, 200
"""Effort of the first search. Each further search has twice the effort, so a longer study begins like a shorter one."""
FIRST_SIMULATIONS = 4
"""Minimum time of the first search, in simulations of a placement, so that searches take most of the time."""
LEAST_ROUND = 1.0
"""Minimum number of remaining seconds for another search."""
REPAIRS, REPAIR_SHARE = 4, 0.25
"""Maximum number of further searches if no plan fits; counted work of each as a share of the total."""
BASELINE_SHARE = 0.1
"""Maximum share of the effort's seconds for simulating simple placements."""
CHECK_SHARE, SHORT_SHARE = 0.1, 0.85
"""Minimum share of the remaining seconds for simulating found plans.

If memory is short, a search gets SHORT_SHARE of the other seconds, since plans are then repaired and searches repeated.
"""
ENUMERATION_SHARE = 0.5
"""Maximum share of the effort's seconds for trying all placements of a small problem."""
CUT = "layers"
"""Method of a cut between layers that is made to fit."""
FASTER_SHARE = 0.2
"""Share of the effort for a search of faster plans with the same peak, for the objective memory."""
LEAST_MEMORY_ROUNDS, LEAST_MEMORY_SHARE = 3, 0.3
"""Maximum number of searches for a placement with the least peak on the GPUs, and their share of the effort."""
SLOWER = "all other placements are slower"
"""Reason of a bound that is proven by trying placements."""
ROOMS = (0.995, 0.97, 0.94)
"""Shares of the devices' memory that plans may use after a repair. Fragmentation may take the rest."""
LESS_ROOM = 0.985
"""Factor by which the share of memory for searched plans is lowered if the first repaired plan does not fit."""
MORE_GPUS = (2, 4, 8)
"""Multiples of the number of GPUs that are tried if no plan fits."""
WAYS_SHARE = 0.1
"""Effort for each number of MORE_GPUS, as a share of the total."""


def study_plan(
    loaded: LoadedGraph,
    options: SimulationOptions,
    name: str,
    effort: Effort,
    free: Sequence[str] = (),
    tell: Callable[[PlanResult], None] = lambda planned: None,
    aim: Aim | None = None,
) -> PlanStudy:
    """Find the best placement and compare it with others. Requested devices stay unless a node's name matches `free`.

    Raises an error if the graph or an option is wrong, or if the dry run can't finish.
    """
    aim = aim or Aim()
    if aim.needs_contiguous and aim.sought is not PlanMeasure.THROUGHPUT:
        raise UsageError(f"wrong objective: got {aim.sought.value}, expected throughput, as --contiguous requires")
    graph = _file(loaded).graph
    for pattern in free:
        if pattern != "*" and not find_matching_names(pattern, graph):
            near = did_you_mean_node(pattern, [*graph.ids, *graph.handles])
            raise UsageError(f"no node matches '{pattern}' in --free: expected a node's name, a pattern or a scope/{near}")
    study = _Planner(loaded, options, name, effort, free, tell, aim).study()
    if study.plan is not None or study.is_interrupted:
        return study
    return replace(study, ways_out=tuple(_ways_out(loaded, options, study, effort, free, aim)))


def _ways_out(
    loaded: LoadedGraph, options: SimulationOptions, study: PlanStudy, effort: Effort, free: Sequence[str], aim: Aim
) -> Iterator[str]:
    """Yield changes to the machine with which a placement would fit: another GPU model, or more GPUs."""
    if not any(placed.study is not None and isinstance(placed.error, ResourceExhaustedError) for placed in study.placements):
        return
    models = []
    for placed in study.placements:
        if placed.study is None or any(_is_over(device) and not is_gpu(device.device) for device in placed.study.devices):
            continue  # if the host lacks memory, no GPU helps
        changed = replace(loaded, file=assign_devices(clear_requests(_file(loaded), free), placed.asked))
        try:
            found = study_memory(changed, options, study.name).smallest_gpu
        except PlacesimError:
            continue
        if found is not None:
            models.append((found.limit, found.model.name, placed.label))
    if models:
        limit, name, label = min(models)
        yield f"on GPUs such as {name} ({readable_size(limit)} each), {label} fits"
    gpus = Counter(device.device.partition("/device:")[0] for device in _devices(study) if is_gpu(device.device))
    for factor in MORE_GPUS if gpus else ():
        # the option `gpu` gives each task the same number of GPUs
        more = replace(options, gpu=max(gpus.values()) * factor)
        try:
            planner = _Planner(loaded, more, study.name, share_effort(effort, WAYS_SHARE), free, lambda planned: None, aim)
            count = planner.count_fitting_gpus()
        except PlacesimError:
            return
        if count:
            yield f"a plan fits on {count} GPUs"
            return


def _is_over(device: DeviceTime) -> bool:
    return device.limit is not None and device.peak is not None and device.peak > device.limit


def _devices(study: PlanStudy) -> list[DeviceTime]:
    return next((list(placed.study.devices) for placed in study.placements if placed.study is not None), [])


@dataclass(slots=True)
class _Found:
    """The last search: its problem, which may have less memory than the graph's, its result, effort and plans.

    `less_room` is the part of a plan's label about less memory. `fits` says whether a plan of any search fits. `room` is the
    share of the devices' memory for peaks in the next search.
    """

    searched: GraphProblem
    planned: PlanResult
    effort: Effort
    plans: Sequence[Candidate] = ()
    less_room: str = ""
    fits: bool = False
    room: float = 1.0


class _Planner:
    """One search for a plan of a graph. Raises UsageError for a graph with lowered functions."""

    def __init__(
        self,
        loaded: LoadedGraph,
        options: SimulationOptions,
        name: str,
        effort: Effort,
        free: Sequence[str],
        tell: Callable[[PlanResult], None],
        aim: Aim,
    ) -> None:
        self._aim = aim
        self._options = options
        self._name = name
        self._effort = effort
        self._free = free
        self._tell = tell
        self._loaded = loaded
        self._file = _file(loaded)
        self._base = clear_requests(self._file, free)
        self._is_held = any(node.device for node in self._base.graph.nodes)
        self._plans = EditedPlans()
        self._simple: list[Candidate] = []
        """Placements with which a plan is compared."""
        self._candidates: list[Candidate] = []
        """Placements that may become the plan, in the order in which they were found."""
        self._shown: dict[tuple[int, ...], SimulatedPlacement] = {}
        """Simulated placements, by devices."""
        self._is_short = False
        """Whether a search had less time or fewer evaluations than a whole first search."""
        self._memory: GraphProblem | None = None
        """The problem of the peaks of all steps, if memory is short."""
        _check_not_lowered(self._base.graph)
        self._began = time.monotonic()
        study, self._walked = study_dry_run(self._changed(self._base), options, name, is_traced=aim.is_traced)
        self._simulation_seconds = self._seconds
        """Seconds that the last simulation of a placement took."""
        self._walked_placement = SimulatedPlacement("", study, study.error)
        self._problem = self._draw()

    @property
    def _seconds(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._began

    @property
    def _seconds_left(self) -> float:
        return self._effort.seconds - self._seconds

    @property
    def _first_seconds(self) -> float:
        """Seconds of a whole first search."""
        return max(FIRST_SECONDS, FIRST_SIMULATIONS * self._simulation_seconds)

    @property
    def _is_late(self) -> bool:
        """Whether the time is over; counted work does not depend on it."""
        return self._effort.evaluations is None and self._seconds_left <= 0

    @property
    def _can_simulate(self) -> bool:
        """Whether the time is sufficient for simulating another placement; counted work does not depend on it."""
        return self._effort.evaluations is not None or self._seconds_left >= self._simulation_seconds

    def _changed(self, file: GraphFile) -> LoadedGraph:
        """Return the loaded graph with the nodes and requests of `file`."""
        return replace(self._loaded, file=file)

    def study(self) -> PlanStudy:
        others = self._prepare()
        bound = self._bound()
        # the effort's seconds begin here: all of the above takes the same time for every search of the graph
        self._began = time.monotonic()
        found = _Found(self._problem, PlanResult(None, bound, "", 0.0), self._effort)
        try:
            self._simulate_simple()
            if not self._is_searched_within_limits:
                self._find_fitting()
            if self._can_try_all():
                bound = max(bound, self._try_all(), key=lambda known: known.value)
            self._search_repeatedly(found, bound)
            if self._aim.sought is PlanMeasure.MEMORY and not found.planned.is_interrupted:
                self._find_faster()
        except KeyboardInterrupt:
            found.planned = found.planned._replace(is_interrupted=True)
            self._simulate_found(found)
        # if memory is short, a proof depends on the estimated memory of tasks
        if self._aim.sought is not PlanMeasure.MEMORY and has_room_for_all(found.searched.problem):
            bound = max(bound, found.planned.bound, key=lambda known: known.value)
        return self._chosen(others, bound, found.planned.is_interrupted)

    @property
    def _is_searched_within_limits(self) -> bool:
        """Whether a search knows the limits of peaks, and needs no placement that fits as a start."""
        return self._plans.tree is None and self._aim.sought is PlanMeasure.LATENCY

    def _prepare(self) -> list[SimulatedPlacement]:
        """Complete the problem, and simulate the placements with which a plan is compared.

        Return TensorFlow's placement if requests or devices to avoid exclude it as the plan.
        """
        if isinstance(self._walked_placement.error, ResourceExhaustedError):
            memory = self._memory_problem()
            self._problem = self._problem if self._aim.sought is PlanMeasure.MEMORY else hold_peak_memory(self._problem, memory)
        start = self._problem.start
        is_by_scope = self._aim.by == BY_SCOPE or (
            self._aim.by is None and self._effort.method != EXHAUSTIVE and has_scopes(self._problem)
        )
        if is_by_scope or self._aim.changes is not None:
            self._plans = EditedPlans(EditTree(self._problem, is_by_scope=is_by_scope), {start: ()})
        self._simple = list({candidate.devices: candidate for candidate in reversed(list(self._known()))}.values())[::-1]
        for candidate in self._simple:
            # the placement of the dry run is one of the placements, and is not simulated again
            if candidate.devices == start:
                self._add(candidate, self._walked_placement._replace(label=candidate.label))
            elif candidate.label in {DEFAULT, ANNOTATED}:
                self._add(candidate, self._simulated(candidate))
        if any(candidate.label == DEFAULT for candidate in self._simple):
            return []
        label = f"{DEFAULT}, all nodes free" if self._is_held else DEFAULT
        return [self._study(label, clear_devices(self._file), {})]

    def _simulate_simple(self) -> None:
        """Simulate the other simple placements, unless that takes too long.

        The best of all may become a plan with few edits.
        """
        for candidate in self._simple if len(self._problem.problem.tasks) <= LARGE_TASKS else ():
            is_late = self._seconds + self._simulation_seconds > BASELINE_SHARE * self._effort.seconds
            if candidate.devices not in self._shown and (self._effort.evaluations is not None or not is_late):
                self._add(candidate, self._simulated(candidate))
        if self._plans.tree is not None:
            best = min(self._shown, key=lambda devices: self._value(devices, self._shown[devices]))
            self._keep_edits(self._plans.tree, best)

    def _add(self, candidate: Candidate, placed: SimulatedPlacement) -> None:
        self._shown[candidate.devices] = placed
        self._candidates.append(candidate)

    def _keep_edits(self, tree: EditTree, devices: tuple[int, ...]) -> None:
        """Keep the edits that lead to an assignment, if they are few."""
        most = MAX_ADDED if self._aim.changes is None else self._aim.changes
        targets = {devices[self._problem.problem.groups[group][0]] for group in tree.leaders}
        is_one = tree.is_by_scope and len(targets) == 1
        edits = tuple(sorted(({"": targets.pop()} if is_one else tree.edits_of(devices)).items()))
        if len(edits) <= most and self._made_by(tree, edits) == devices:
            self._plans.add(devices, edits)

    def _made_by(self, tree: EditTree, edits: Edits) -> tuple[int, ...] | None:
        """Return TensorFlow's assignment with the edits. More nodes may move than the edits name."""
        return assignment_of(self._problem, assign_devices(self._base, tree.requests(dict(edits))))

    def _search_repeatedly(self, found: _Found, bound: Bound) -> None:
        """Search plans and simulate them. If no plan fits, the next search may use less memory.

        Each search starts from the best placements of the earlier ones.
        """
        is_searched = self._problem.problem.movable or (self._plans.tree is not None and self._plans.tree.leaders)
        is_ended = not is_searched or self._effort.method == EXHAUSTIVE
        for number, effort in enumerate(self._rounds(found) if not is_ended else ()):
            if bound.gap(self._best_value(self._reached())) <= OPTIMAL:
                return
            if not number:
                count = effort.evaluations
                self._is_short = effort.seconds < self._first_seconds if count is None else count < FIRST_EVALUATIONS
            found.effort = replace(effort, seed=effort.seed + number)
            found.plans, found.planned = self._search(found, max(bound, found.planned.bound, key=lambda known: known.value))
            if self._memory is None or self._plans.tree is not None or self._is_searched_within_limits:
                self._simulate_found(found)
            if found.planned.is_interrupted:
                return
            tried = [plan.devices for plan in found.plans if plan.devices in self._shown]
            is_fitting = self._is_searched_within_limits and any(self._shown[devices].fits for devices in tried)
            if self._memory is not None and found.plans and not is_fitting:
                repaired = self._simulate_repaired(self._memory, found.plans)
                tried += repaired
                if repaired and not self._shown[repaired[0]].fits:
                    found.room *= LESS_ROOM
                best = min(self._shown, key=lambda devices: self._value(devices, self._shown[devices]))
                fitting = best if self._shown[best].fits else ()
                found.searched = lower_capacities(found.searched, self._memory, found.plans[0].devices, fitting)
                found.less_room = ", less memory"
            # memory use in the search is an estimate: search again, with a limit lowered by the missing bytes
            if tried and not any(self._shown[devices].fits for devices in tried):
                found.searched = tighten_capacities(found.searched, tried[0], self._shown[tried[0]])
                found.less_room = ", less memory"
            elif tried:
                found.fits = True
            # low peaks are the same after each search
            if self._is_searched_within_limits and not number:
                self._find_fitting()

    def _rounds(self, found: _Found) -> Iterator[Effort]:
        """Yield the efforts of searches: each has twice the work or time of the previous one, and the last has the rest.

        If no plan fits, or memory is short, a few more searches follow.
        """
        effort, size, left = self._effort, FIRST_EVALUATIONS, self._effort.evaluations
        if left is None:
            yield from self._timed_rounds(found)
            return
        while left:
            yield replace(effort, evaluations=min(size, left))
            left, size = max(0, left - size), 2 * size
        for _ in range(REPAIRS):
            if not found.fits:
                yield share_effort(effort, REPAIR_SHARE)

    def _timed_rounds(self, found: _Found) -> Iterator[Effort]:
        """Yield the efforts of searches until the time is over; see `_rounds`."""
        size, rests = self._first_seconds, 0
        while rests <= REPAIRS:
            rest = self._rest_for_search(found)
            rests += rest < 2 * size
            yield replace(self._effort, seconds=size if rest >= 2 * size else rest)
            size *= 2
            if self._seconds_left < LEAST_ROUND or not self._can_simulate:
                return
            if rests and self._memory is None and found.fits:
                return

    def _rest_for_search(self, found: _Found) -> float:
        """Return the remaining seconds without those for simulations, unless one simulation takes most of the time."""
        left = max(0.0, self._seconds_left)
        checks = SIMULATED * self._simulation_seconds if self._simulation_seconds < left / 2 else 0.0
        left -= min(left / 2, max(checks, CHECK_SHARE * left))
        left *= 1 - FASTER_SHARE if self._aim.sought is PlanMeasure.MEMORY else 1
        return left if self._memory is None or found.fits else SHORT_SHARE * left

    def count_fitting_gpus(self) -> int:
        """Return the number of GPUs, or 0 if neither a simple placement nor a placement with low memory use fits on them."""
        self._memory_problem()
        allowed = (row for row in self._known() if meets_constraints(self._problem, row.devices, self._aim))
        if not any(self._simulated(row).fits for row in allowed):
            self._add_least_memory()
            if math.isinf(self._best_value(self._shown)):
                return 0
        return sum(device.gpu is not None for device in self._problem.devices)

    def _search(self, searched: _Found, bound: Bound) -> tuple[list[Candidate], PlanResult]:
        """Return new plans, and the result of the search; see `search_plans` and `search_edits`."""
        drawn, effort = searched.searched, searched.effort
        # after the first search, placements that do not fit are no start, unless none fits
        known = [candidate.devices for candidate in dict.fromkeys([*self._candidates, *self._simple])]
        fitting = [devices for devices in known if devices in self._shown and self._shown[devices].fits]
        known = fitting if searched.plans and fitting else known
        if self._plans.tree is None:
            if self._memory is not None and self._is_searched_within_limits:
                best = min(fitting, key=lambda devices: self._value(devices, self._shown[devices]), default=())
                drawn = limit_peaks(drawn, self._memory, searched.room, self._walked.recorder.moments[-1], best)
                known = [best] if best else []
            return search_plans(drawn, known, effort, bound, self._aim, self._tell)
        tree = EditTree(drawn, is_by_scope=self._plans.tree.is_by_scope)
        chosen, planned = search_edits(tree, known, effort, bound, self._aim, self._tell)
        found = []
        for edits in chosen:
            devices = self._made_by(tree, edits)
            if devices is not None and self._plans.add(devices, edits):
                found.append(Candidate(PLANNED, devices, planned.method))
            if found and self._is_late:
                break
        return found, planned

    def _find_fitting(self) -> None:
        """If no placement on GPUs fits, add cuts between layers that are made to fit.

        Add placements with low peaks if none of these cuts is better than what fits without GPUs.
        """
        if self._aim.sought is PlanMeasure.MEMORY or self._fits_on_gpus():
            return
        without_gpus = self._best_value(self._shown)
        is_large = len(self._problem.problem.tasks) > LARGE_TASKS
        if self._memory is not None and self._is_searched_within_limits and not is_large:
            limited = limit_peaks(self._problem, self._memory, 1.0, self._walked.recorder.moments[-1])
            cuts = [Candidate(PLANNED, devices, CUT) for devices, _ in easiest_splits(limited.problem)]
            self._simulate_repaired(self._memory, cuts)
        if self._best_value(self._shown) >= without_gpus:
            self._add_least_memory()

    def _find_faster(self) -> None:
        """Search fast plans whose peaks on all devices are at most the lowest peak that was found, and simulate them."""
        reached = self._reached()
        best = min(reached, key=lambda devices: self._value(devices, reached[devices]), default=())
        peak = self._best_value(reached)
        if math.isinf(peak) or not self._can_simulate:
            return
        total = sum(peak or 0 for peak in self._walked.peaks.values())
        timed = self._build(ProblemRequest(PlanMeasure.LATENCY, total, avoided=self._problem.avoided))
        aim = self._aim._replace(sought=PlanMeasure.LATENCY)
        effort = share_effort(self._effort, FASTER_SHARE)
        if effort.evaluations is None:
            seconds = max(0.0, min(effort.seconds, self._seconds_left - self._simulation_seconds))
            effort = replace(effort, seconds=seconds)
        effort = replace(effort, method=AUTO)
        rooms = tuple(device._replace(capacity=peak) for device in self._problem.problem.devices)
        memory = replace(self._problem, problem=replace(self._problem.problem, devices=rooms))
        start = assignment_of(timed, assign_devices(self._base, reached[best].asked))
        known = [] if start is None else [start]
        limit = best_bound(_without_capacities(timed.problem))
        if self._plans.tree is None:
            # peaks are sought, which an allocator may need more memory for
            plain = tuple(device._replace(gpu=None) for device in timed.devices)
            timed = limit_peaks(replace(timed, devices=plain), memory, 1.0, self._walked.recorder.moments[-1], start or ())
            rows, planned = search_plans(timed, known, effort, limit, aim, lambda planned: None)
            # which others are told depends on the processes' turns
            found = [row.devices for row in rows[:1]]
        else:
            rooms = tuple(device._replace(capacity=peak) for device in timed.problem.devices)
            timed = hold_peak_memory(replace(timed, problem=replace(timed.problem, devices=rooms)), memory)
            tree = EditTree(timed, is_by_scope=self._plans.tree.is_by_scope)
            edited, planned = search_edits(tree, known, effort, limit, aim, lambda planned: None)
            made = ((self._made_by(self._plans.tree, edits), edits) for edits in edited)
            found = [devices for devices, edits in made if devices is not None and self._plans.add(devices, edits)]
        for devices in found[:SIMULATED]:
            if self._plans.tree is None:
                self._add_assigned(Candidate(PLANNED, devices, planned.method), timed)
            elif devices not in self._shown and self._can_simulate:
                candidate = Candidate(PLANNED, devices, planned.method)
                self._add(candidate, self._simulated(candidate))
        if planned.is_interrupted:
            raise KeyboardInterrupt

    def _add_least_memory(self) -> None:
        """Pack the GPUs by memory, then search placements with the least peak, and simulate them until one fits.

        Peaks in the problem are computed for the dry run's order, so a placement may fit even if a better-ranked one does not.
        """
        memory = prefer_gpus(self._memory_problem())
        effort, aim = share_effort(self._effort, LEAST_MEMORY_SHARE / LEAST_MEMORY_ROUNDS), Aim(PlanMeasure.MEMORY)
        effort = replace(effort, method=AUTO)  # a chosen method need not be one for peaks
        bound = best_bound(memory.problem)
        found = packed = [plan.devices for plan in pack_by_memory(memory.problem)]
        for number in range(1 + LEAST_MEMORY_ROUNDS):
            if number:
                seeded = replace(effort, seed=effort.seed + number - 1)
                rows, planned = search_plans(memory, packed, seeded, bound, aim, lambda planned: None)
                if planned.is_interrupted:
                    raise KeyboardInterrupt
                found = [candidate.devices for candidate in rows]
            for devices in found[:SIMULATED]:
                assigned = self._add_assigned(Candidate(LEAST_MEMORY, devices), memory)
                if (assigned is not None and self._shown[assigned].fits) or not self._can_simulate:
                    return

    def _add_assigned(self, assigned: Candidate, memory: GraphProblem) -> tuple[int, ...] | None:
        """Simulate an assignment of the memory problem, unless it is known.

        Return it as an assignment of the planning problem, or None.
        """
        drawn = self._problem
        asked = annotate(self._base, planned_devices(memory, assigned.devices), drawn.device_set, soft=drawn.is_soft)
        file = assign_devices(self._base, asked)
        devices = assignment_of(drawn, file)
        if devices is not None and devices not in self._shown:
            self._add(assigned._replace(devices=devices), self._study(assigned.label, file, asked))
        return devices

    def _simulate_repaired(self, memory: GraphProblem, found: Sequence[Candidate]) -> list[tuple[int, ...]]:
        """Move groups of each found plan away from devices whose memory peak is too high, and simulate the results.

        Return the assignments that were simulated.
        """
        tried: list[tuple[int, ...]] = []
        for candidate in found[:SIMULATED]:
            extended = extend_assignment(memory, planned_devices(self._problem, candidate.devices))
            for room in ROOMS:
                repaired = repair_peaks(self._problem, memory, extended, room, lambda: not self._can_simulate)
                if repaired is None or not self._can_simulate:
                    return tried
                devices = self._add_assigned(candidate._replace(label=PLANNED, devices=repaired), memory)
                tried += [devices] if devices is not None else []
                if devices is not None and self._shown[devices].fits:
                    break
        return tried

    def _fits_on_gpus(self) -> bool:
        """Return whether a placement that uses GPUs fits, or no placement runs out of memory."""
        if all(not isinstance(placed.error, ResourceExhaustedError) for placed in self._shown.values()):
            return True
        pays = [device.pays for device in self._problem.problem.devices]
        return any(placed.fits and any(pays[device] for device in devices) for devices, placed in self._shown.items())

    def _value(self, devices: tuple[int, ...], placed: SimulatedPlacement) -> float:
        """Return the objective's value of a placement; infinite if it cannot be the plan."""
        can_be = placed.fits and meets_constraints(self._problem, devices, self._aim)
        return placed.value(self._aim.sought) if can_be else math.inf

    def _reached(self) -> dict[tuple[int, ...], SimulatedPlacement]:
        """Return the placements that edits reach; all if plans need not be edits."""
        return {devices: placed for devices, placed in self._shown.items() if self._plans.reaches(devices)}

    def _best_value(self, shown: Mapping[tuple[int, ...], SimulatedPlacement]) -> float:
        return min((self._value(devices, placed) for devices, placed in shown.items()), default=math.inf)

    def _can_try_all(self) -> bool:
        """Return whether all placements can be tried. Raises UsageError if they can't, and the method requires it."""
        is_asked, is_latency = self._effort.method == EXHAUSTIVE, self._aim.sought is PlanMeasure.LATENCY
        if not ((is_latency and self._effort.method == AUTO) or is_asked) or not self._problem.problem.movable:
            return False
        count = count_assignments(_without_capacities(self._problem.problem))
        if is_asked and not is_latency:
            raise UsageError(f"wrong method: got '{EXHAUSTIVE}', expected another method for {self._aim.sought.value}")
        if is_asked and count > MAX_ASSIGNMENTS:
            raise UsageError(
                f"too many placements for method '{EXHAUSTIVE}': got {count:.3g}, expected at most {MAX_ASSIGNMENTS:,}"
            )
        return count <= MAX_ASSIGNMENTS

    def _try_all(self) -> Bound:
        """Simulate placements in the order of their lower bounds, until the next bound is not below the best value.

        Add each placement that is better than all earlier ones to the candidates. Return the lower bound that has been proven,
        also if the effort ends early.
        """
        effort, tried = self._effort, 0
        best = proven = self._best_value(self._shown)
        for bound, devices in assignments_below(_without_capacities(self._problem.problem), best):
            kept = 0.0 if effort.method == EXHAUSTIVE else 1 - ENUMERATION_SHARE
            is_spent = tried == effort.evaluations or self._seconds_left < kept * effort.seconds
            if bound >= best * (1 - OPTIMAL) or is_spent:
                proven = min(bound, best)
                self._is_short = is_spent
                break
            if devices in self._shown:
                continue
            tried += 1
            candidate = Candidate(PLANNED, devices, EXHAUSTIVE)
            placed = self._simulated(candidate)
            value = self._value(devices, placed)
            if value < best:
                proven = best = value
                self._add(candidate, placed)
                self._tell(PlanResult(Plan(value, devices), Bound(bound, SLOWER), EXHAUSTIVE, self._seconds))
        return Bound(proven if math.isfinite(proven) else 0.0, SLOWER)

    def _chosen(self, others: Sequence[SimulatedPlacement], bound: Bound, is_interrupted: bool) -> PlanStudy:
        """Return the study: all placements, and the best one that fits, with the groups that it moves."""
        sought, drawn, shown, candidates = self._aim.sought, self._problem, self._shown, self._candidates
        fitting = [row for row in candidates if math.isfinite(self._value(row.devices, shown[row.devices]))]
        possible = [candidate for candidate in fitting if self._plans.reaches(candidate.devices)]
        plans = self._plans if possible else EditedPlans()  # a plan that needs many requests is better than none
        choice = PlanChoice(self._aim, shown, plans)
        best, better = choice.best(possible or fitting), choice.unreached(possible, fitting)
        placements = {
            row.devices: shown[row.devices]._replace(
                label=row.label, is_allowed=are_apart(drawn.problem, row.devices) and plans.reaches(row.devices)
            )
            for row in choice.listed(candidates, best, better)
        }
        study = PlanStudy(
            self._name,
            (*placements.values(), *(placed._replace(is_allowed=False) for placed in others)),
            plan=None,
            bound=bound,
            method="",
            asked={},
            moves=(),
            is_interrupted=is_interrupted,
            sought=sought,
            movable=len(drawn.problem.movable),
            ways_out=(),
            is_held=self._is_held,
            staying=(
                *staying_nodes(drawn, self._base.graph),
                *held_nodes(drawn, self._base.graph, self._file.graph),
            ),
        )
        if not is_interrupted:
            study = replace(study, ended_early=self._ended_early(best, bound))
        if best is None:
            return study
        placed = placements[best.devices]
        study = replace(study, plan=placed, method=best.method or best.label, asked=placed.asked)
        if plans.tree is not None:
            study = replace(
                study,
                by=BY_SCOPE if plans.tree.is_by_scope else BY_NODE,
                edits=plans.tree.describe(plans.edits[best.devices]),
                curve=tuple(choice.curve(plans.tree, possible)),
                by_node=None if better is None else placements[better.devices],
            )
        return self._with_moves(study, best.devices)

    def _ended_early(self, best: Candidate | None, bound: Bound) -> str:
        """Return a sentence that the search ended before a whole first search, and without result; else an empty text."""
        is_exhaustive = self._effort.method == EXHAUSTIVE
        if not self._is_short:
            return ""
        if best is not None:
            is_found = best.label.startswith(PLANNED) and not is_exhaustive
            if is_found or bound.gap(self._shown[best.devices].value(self._aim.sought)) <= OPTIMAL:
                return ""
        count, option = self._effort.seconds, "second"
        if self._effort.evaluations is not None:
            count, option = self._effort.evaluations, "evaluation"
        goal = "found a better placement" if best is not None else "found a placement that fits"
        goal = "tried all placements" if is_exhaustive else goal
        spent = f"{count:,} {option}{'' if count == 1 else 's'}"
        return f"the search ended after {spent}, before it {goal}: a larger `--{option}s` lets it go on"

    def _with_moves(self, study: PlanStudy, devices: tuple[int, ...]) -> PlanStudy:
        """Return the study with the groups that the plan moves."""
        before = assignment_of(self._problem, self._file) or self._problem.start
        tells_losses = self._aim.explains or self._aim.is_traced
        put_back = (lambda devices: self._simulated(Candidate("", devices))) if tells_losses else None
        try:
            moves = find_moves(self._problem, before, devices, study.value, self._aim.sought, put_back)
            return replace(study, moves=tuple(moves))
        except KeyboardInterrupt:
            return replace(study, is_interrupted=True)

    def _simulate_found(self, found: _Found) -> None:
        """Simulate found plans and add them to the candidates: the first always, and others while the effort lasts."""
        is_counted = self._effort.evaluations is not None and self._aim.sought is not PlanMeasure.MEMORY
        # the plans of a curve are few, and each counts
        most = len(found.plans) if is_counted and self._plans.tree is not None else SIMULATED
        for number, candidate in enumerate(found.plans):
            if (is_counted and number >= most) or (number and not self._can_simulate):
                break
            if candidate.devices not in self._shown:
                named = candidate._replace(label=PLANNED + found.less_room)
                self._add(named, self._simulated(named))

    def _bound(self) -> Bound:
        """Return a bound that holds for every plan, including plans that do not fit.

        The bound ignores memory limits, since the memory of tasks is an estimate.
        """
        if self._aim.sought is PlanMeasure.MEMORY:
            return self._problem.least_peak
        return best_bound(_without_capacities(self._problem.problem))

    # --- the problem

    def _draw(self) -> GraphProblem:
        """Return the planning problem."""
        walked = self._walked
        avoided = find_avoided(walked.prepared[-1].placement.device_set.devices, self._aim.without)
        peak = sum(peak or 0 for peak in walked.peaks.values())
        wanted = ProblemRequest(self._aim.sought, peak, self._aim.needs_contiguous, avoided=avoided)
        if self._aim.sought is PlanMeasure.MEMORY:
            wanted = wanted._replace(recorder=walked.recorder, on_host=self._on_host())
        drawn = self._build(wanted)
        drawn.problem.check()
        return drawn

    def _build(self, wanted: ProblemRequest) -> GraphProblem:
        walked = self._walked
        drawn = build_problem(self._base.graph, walked.prepared[-1], walked.steps[-1], walked.machine, wanted)
        return keep_apart(drawn, self._aim.apart, self._base.graph.handles)

    def _memory_problem(self) -> GraphProblem:
        """Return the problem of the peaks of all steps, which is built only once."""
        if self._memory is None:
            wanted = ProblemRequest(PlanMeasure.MEMORY, recorder=self._walked.recorder, avoided=self._problem.avoided)
            self._memory = self._build(wanted)
        return self._memory

    def _on_host(self) -> ExecutionRecorder | None:
        """Return the record of the steps without GPUs; None if they can't run on the CPU.

        On a CPU, kernels use memory that they don't use on a GPU.
        """
        try:
            return dry_run_steps(self._changed(clear_devices(self._file)), replace(self._options, gpu=0)).recorder
        except PlacesimError:
            return None

    def _known(self) -> Iterator[Candidate]:
        """Yield the placements for comparison that the remaining annotations allow."""
        for label, file in ((DEFAULT, clear_devices(self._file)), (ANNOTATED, self._file)):
            if label == DEFAULT or any(node.device for node in file.graph.nodes):
                devices = assignment_of(self._problem, file)
                if devices is not None:
                    yield Candidate(label, devices)
        for label, devices in named_baselines(self._problem):
            yield Candidate(label, devices)

    # --- plans as graphs

    def _simulated(self, candidate: Candidate) -> SimulatedPlacement:
        drawn = self._problem
        planned = planned_devices(drawn, candidate.devices)
        if self._memory is not None:
            planned = planned_devices(self._memory, extend_assignment(self._memory, planned))
        asked = annotate(self._base, planned, drawn.device_set, soft=drawn.is_soft)
        return self._study(candidate.label, assign_devices(self._base, asked), asked)

    def _study(self, label: str, file: GraphFile, asked: Mapping[str, str]) -> SimulatedPlacement:
        began = time.monotonic()
        try:
            study = study_time(self._changed(file), self._options, self._name, is_traced=self._aim.is_traced)
        except PlacesimError as error:
            if isinstance(error, UsageError):
                raise
            return SimulatedPlacement(label, None, error, asked)
        self._simulation_seconds = time.monotonic() - began
        return SimulatedPlacement(label, study, study.error, asked)


def _without_capacities(problem: PlanningProblem) -> PlanningProblem:
    """Return the problem without memory limits: its memory is an estimate, and the simulation shows whether a plan fits."""
    return replace(problem, devices=tuple(device._replace(capacity=math.inf) for device in problem.devices))


def _file(loaded: LoadedGraph) -> GraphFile:
    if loaded.error is not None:
        raise loaded.error
    assert loaded.file is not None
    return loaded.file


def _check_not_lowered(graph: Graph) -> None:
    """Raise UsageError for a call whose body is inlined at placement.

    The devices of the body's nodes depend on the call and on requests in the body, not on requests in the graph. So a bound or
    a written plan would be wrong.
    """
    found = next((node for node in graph.nodes if is_lowered(node)), None)
    if found is not None:
        got = f"got {found.op} '{found.name}', whose nodes TensorFlow places with the graph"
        attrs = " and ".join(f"`{name}`" for name in (SWITCH_MERGE, MULTI_DEVICE) if found.attrs.get(name))
        raise UsageError(
            f"cannot plan a graph with lowered functions: {got}; in a script, `tf.disable_control_flow_v2()` makes loops and "
            f"branches of nodes that can be planned; in a graph, set {attrs} of this node to false, which keeps its nodes on "
            "one device (`placesim convert` writes entries such as `while` as nodes with attrs)"
        )
