"""Search for a better placement of a graph: its bound, and the device requests that produce it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from placesim.core.errors import PlacesimError, ResourceExhaustedError, UsageError
from placesim.formats.device_annotations import assign_devices, clear_devices
from placesim.placement.lowering import is_lowered
from placesim.planning.bounds import Bound, best_bound
from placesim.planning.graphs.all_placements import MAX_ASSIGNMENTS, assignments_below, count_assignments
from placesim.planning.graphs.assignments import assignment_of, planned_devices
from placesim.planning.graphs.baselines import named_baselines
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
    DEFAULT,
    PLANNED,
    Aim,
    PlanMeasure,
    PlanStudy,
    SimulatedPlacement,
    is_gpu,
)
from placesim.planning.graphs.problem_building import GraphProblem, ProblemRequest, build_problem, keep_apart
from placesim.planning.portfolio import AUTO, OPTIMAL, Effort, PlanResult
from placesim.planning.problem import Plan, PlanningProblem, are_apart
from placesim.report.text.amounts import readable_size
from placesim.studies.memory_study import study_memory
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
LEAST_ROUND = 1.0
"""Minimum number of remaining seconds for which the search tries another seed."""
REPAIRS, REPAIR_SHARE = 4, 0.25
"""Maximum number of repeated searches if a plan's simulated peak is above a limit; effort of each as a share of the total."""
LEAST_SHARE = 1 / 3
"""Minimum share of the effort's seconds that is spent on the search."""
SEARCH_SHARE = 0.9
"""Share of the remaining seconds for the search itself; the rest is for simulating what it found."""
ENUMERATION_SHARE = 0.5
"""Maximum share of the effort's seconds for trying all placements of a small problem."""
EXHAUSTIVE = "exhaustive"
"""Method of a plan that was found by trying all placements."""
SLOWER = "all other placements are slower"
"""Reason of a bound that is proven by trying placements."""
MORE_GPUS = (2, 4, 8)
"""Multiples of the number of GPUs that are tried if no plan fits."""
QUICK = Effort(evaluations=50, jobs=1)


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
    quick = replace(QUICK, open=effort.open)
    for factor in MORE_GPUS if gpus else ():
        # the option `gpu` gives each task the same number of GPUs
        more = replace(options, gpu=max(gpus.values()) * factor)
        try:
            found_plan = _Planner(loaded, more, study.name, quick, free, lambda planned: None, aim).study()
        except PlacesimError:
            return
        if found_plan.plan is not None:
            count = sum(is_gpu(device.device) for device in _devices(found_plan))
            yield f"a plan fits on {count} GPUs"
            return


def _is_over(device: DeviceTime) -> bool:
    return device.limit is not None and device.peak is not None and device.peak > device.limit


def _devices(study: PlanStudy) -> list[DeviceTime]:
    return next((list(placed.study.devices) for placed in study.placements if placed.study is not None), [])


class _Planner:
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
        self._began = time.monotonic()

    @property
    def _seconds(self) -> float:
        """Seconds since the planner was made."""
        return time.monotonic() - self._began

    @property
    def _seconds_left(self) -> float:
        return self._effort.seconds - self._seconds

    def _changed(self, file: GraphFile) -> LoadedGraph:
        """Return the loaded graph with the nodes and requests of `file`."""
        return replace(self._loaded, file=file)

    def study(self) -> PlanStudy:
        drawn, walked = self._draw()
        known = list({candidate.devices: candidate for candidate in reversed(list(self._known(drawn)))}.values())[::-1]
        # the placement of the dry run is one of the placements, and is not simulated again
        shown = {
            candidate.devices: walked._replace(label=candidate.label)
            if candidate.devices == drawn.start
            else self._simulated(candidate, drawn)
            for candidate in self._worth_simulating(drawn, known)
        }
        own_bound = self._bound(drawn)
        planned = PlanResult(None, own_bound, "", 0.0)
        candidates = [candidate for candidate in known if candidate.devices in shown]
        searched, found = drawn, list[Candidate]()
        others: list[SimulatedPlacement] = []
        less_room = ""
        try:
            if self._can_try_all(drawn):
                own_bound = max(own_bound, self._try_all(drawn, candidates, shown), key=lambda bound: bound.value)
            # the time for building and simulating counts as search time, as long as some time for a search remains
            left = max(self._effort.seconds * LEAST_SHARE, self._seconds_left)
            effort = replace(self._effort, seconds=left * SEARCH_SHARE)
            is_proven = own_bound.gap(self._best_value(drawn, shown)) <= OPTIMAL
            for _ in range(1 + REPAIRS if drawn.problem.movable and not is_proven else 0):
                found, planned = search_plans(
                    searched, [candidate.devices for candidate in known], effort, own_bound, self._aim, self._tell
                )
                self._simulate_found(found, less_room, candidates, shown, drawn)
                over = [shown[candidate.devices] for candidate in found if candidate.devices in shown]
                if not over or any(placed.fits for placed in over) or planned.is_interrupted:
                    break
                # memory use in the search is an estimate: search again, with a limit lowered by the missing bytes
                searched = tighten_capacities(searched, found[0].devices, over[0])
                effort, less_room = share_effort(self._effort, REPAIR_SHARE), ", less memory"
            self._add_peaks(drawn, searched, effort, shown, planned, candidates)
            if all(candidate.label != DEFAULT for candidate in candidates):  # the annotations forbid this placement
                others.append(self._study(f"{DEFAULT}, all nodes free", clear_devices(self._file), {}))
        except KeyboardInterrupt:
            planned = planned._replace(is_interrupted=True)
            self._simulate_found(found, less_room, candidates, shown, drawn)
        bound = own_bound
        # if memory is short, a proof depends on the estimated memory of tasks
        if self._aim.sought is not PlanMeasure.MEMORY and has_room_for_all(searched.problem):
            bound = max(bound, planned.bound, key=lambda known: known.value)
        return self._chosen(drawn, candidates, shown, others, bound, planned.is_interrupted)

    def _value(self, drawn: GraphProblem, devices: tuple[int, ...], placed: SimulatedPlacement) -> float:
        """Return the objective's value of a placement; infinite if it cannot be the plan."""
        can_be = placed.fits and meets_constraints(drawn, devices, self._aim)
        return placed.value(self._aim.sought) if can_be else math.inf

    def _best_value(self, drawn: GraphProblem, shown: Mapping[tuple[int, ...], SimulatedPlacement]) -> float:
        return min((self._value(drawn, devices, placed) for devices, placed in shown.items()), default=math.inf)

    def _can_try_all(self, drawn: GraphProblem) -> bool:
        is_free = self._aim.sought is PlanMeasure.LATENCY and self._effort.method == AUTO and bool(drawn.problem.movable)
        return is_free and count_assignments(_without_capacities(drawn.problem)) <= MAX_ASSIGNMENTS

    def _try_all(
        self,
        drawn: GraphProblem,
        candidates: list[Candidate],
        shown: dict[tuple[int, ...], SimulatedPlacement],
    ) -> Bound:
        """Simulate placements in the order of their lower bounds, until the next bound is not below the best value.

        Add each placement that is better than all earlier ones to the candidates. Return the lower bound that has been proven,
        also if the effort ends early.
        """
        effort, tried = self._effort, 0
        best = proven = self._best_value(drawn, shown)
        for bound, devices in assignments_below(_without_capacities(drawn.problem), best):
            is_spent = tried == effort.evaluations or self._seconds_left < (1 - ENUMERATION_SHARE) * effort.seconds
            if bound >= best * (1 - OPTIMAL) or is_spent:
                proven = min(bound, best)
                break
            if devices in shown:
                continue
            tried += 1
            candidate = Candidate(PLANNED, devices, EXHAUSTIVE)
            placed = self._simulated(candidate, drawn)
            value = self._value(drawn, devices, placed)
            if value < best:
                proven = best = value
                shown[devices] = placed
                candidates.append(candidate)
                self._tell(PlanResult(Plan(value, devices), Bound(bound, SLOWER), EXHAUSTIVE, self._seconds))
        return Bound(proven if math.isfinite(proven) else 0.0, SLOWER)

    def _chosen(
        self,
        drawn: GraphProblem,
        candidates: Sequence[Candidate],
        shown: Mapping[tuple[int, ...], SimulatedPlacement],
        others: Sequence[SimulatedPlacement],
        bound: Bound,
        is_interrupted: bool,
    ) -> PlanStudy:
        """Return the study: all placements, and the best one that fits, with the groups that it moves."""
        sought = self._aim.sought
        candidates = _without_the_worse(candidates, shown, sought)
        told = ((shown[candidate.devices], are_apart(drawn.problem, candidate.devices)) for candidate in candidates)
        placements = [placed._replace(is_allowed=is_apart) for placed, is_apart in told]
        fitting = [
            (placed, candidate)
            for placed, candidate in zip(placements, candidates, strict=True)
            if placed.fits and meets_constraints(drawn, candidate.devices, self._aim)
        ]
        placements += [placed._replace(is_allowed=False) for placed in others]
        is_held = any(node.device for node in self._base.graph.nodes)
        tail = is_interrupted, sought, len(drawn.problem.movable), (), is_held
        if not fitting:
            return PlanStudy(self._name, tuple(placements), None, bound, "", {}, (), *tail)
        placed, candidate = min(fitting, key=lambda pair: pair[0].value(sought))
        method = candidate.method or candidate.label
        before = assignment_of(drawn, self._file) or drawn.start
        tells_losses = self._aim.explains or self._aim.is_traced
        put_back = (lambda devices: self._simulated(Candidate("", devices), drawn)) if tells_losses else None
        study = PlanStudy(self._name, tuple(placements), placed, bound, method, placed.asked, (), *tail)
        try:
            return replace(
                study, moves=tuple(find_moves(drawn, before, candidate.devices, placed.value(sought), sought, put_back))
            )
        except KeyboardInterrupt:
            return replace(study, is_interrupted=True)

    def _simulate_found(
        self,
        found: Sequence[Candidate],
        less_room: str,
        candidates: list[Candidate],
        shown: dict[tuple[int, ...], SimulatedPlacement],
        drawn: GraphProblem,
    ) -> None:
        """Simulate found plans and add them to the candidates: the first SIMULATED, and others while the effort lasts."""
        is_counted = self._effort.evaluations is not None and self._aim.sought is not PlanMeasure.MEMORY
        for number, candidate in enumerate(found):
            if number >= SIMULATED and (is_counted or self._seconds_left < 0):
                break
            if candidate.devices not in shown:
                is_first = candidates[-1].label != PLANNED + less_room
                label = PLANNED + (less_room if is_first else f"{less_room}, alternative")
                named = candidate._replace(label=label)
                shown[named.devices] = self._simulated(named, drawn)
                candidates.append(named)

    def _add_peaks(
        self,
        drawn: GraphProblem,
        searched: GraphProblem,
        effort: Effort,
        shown: dict[tuple[int, ...], SimulatedPlacement],
        planned: PlanResult,
        candidates: list[Candidate],
    ) -> None:
        """Add plans from other seeds for the memory objective while time remains.

        Plans with equal peaks in the problem can have different peaks in the simulation.
        """
        while self._aim.sought is PlanMeasure.MEMORY and effort.evaluations is None and drawn.problem.movable:
            least = min((placed.value(PlanMeasure.MEMORY) for placed in shown.values() if placed.fits), default=math.inf)
            left = self._seconds_left
            if planned.is_interrupted or left < LEAST_ROUND or least <= drawn.least_peak.value * (1 + OPTIMAL):
                break
            effort = replace(effort, seconds=left / 2, seed=effort.seed + 1)
            more, planned = search_plans(searched, [], effort, self._bound(drawn), self._aim, self._tell)
            for candidate in more:
                if candidate.devices not in shown and self._seconds_left > 0:
                    named = candidate._replace(label=f"{PLANNED}, alternative")
                    shown[named.devices] = self._simulated(named, drawn)
                    candidates.append(named)

    def _worth_simulating(self, drawn: GraphProblem, known: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the placements to simulate: all; for a large problem, only TensorFlow's default and the annotated one."""
        if len(drawn.problem.tasks) <= LARGE_TASKS:
            return known
        return [candidate for candidate in known if candidate.label in {DEFAULT, ANNOTATED}]

    def _bound(self, drawn: GraphProblem) -> Bound:
        """Return a bound that holds for every plan, including plans that do not fit.

        The bound ignores memory limits, since the memory of tasks is an estimate.
        """
        if self._aim.sought is PlanMeasure.MEMORY:
            return drawn.least_peak
        return best_bound(_without_capacities(drawn.problem))

    # --- the problem

    def _draw(self) -> tuple[GraphProblem, SimulatedPlacement]:
        """Return the problem, and the placement of the dry run from which the problem was built."""
        _check_not_lowered(self._base.graph)
        study, walked = study_dry_run(self._changed(self._base), self._options, self._name, is_traced=self._aim.is_traced)
        wanted = ProblemRequest(self._aim.sought, sum(peak or 0 for peak in walked.peaks.values()), self._aim.needs_contiguous)
        if self._aim.sought is PlanMeasure.MEMORY:
            wanted = wanted._replace(recorder=walked.recorder, on_host=self._on_host())
        drawn = build_problem(self._base.graph, walked.prepared[-1], walked.steps[-1], walked.machine, wanted)
        drawn = keep_apart(drawn, self._aim.apart, self._base.graph.handles)
        drawn.problem.check()
        return drawn, SimulatedPlacement("", study, study.error)

    def _on_host(self) -> ExecutionRecorder | None:
        """Return the record of the steps without GPUs; None if they can't run on the CPU.

        On a CPU, kernels use memory that they don't use on a GPU.
        """
        try:
            return dry_run_steps(self._changed(clear_devices(self._file)), replace(self._options, gpu=0)).recorder
        except PlacesimError:
            return None

    def _known(self, drawn: GraphProblem) -> Iterator[Candidate]:
        """Yield the placements for comparison that the remaining annotations allow."""
        for label, file in ((DEFAULT, clear_devices(self._file)), (ANNOTATED, self._file)):
            if label == DEFAULT or any(node.device for node in file.graph.nodes):
                devices = assignment_of(drawn, file)
                if devices is not None:
                    yield Candidate(label, devices)
        for label, devices in named_baselines(drawn):
            yield Candidate(label, devices)

    # --- plans as graphs

    def _simulated(self, candidate: Candidate, drawn: GraphProblem) -> SimulatedPlacement:
        asked = annotate(self._base, planned_devices(drawn, candidate.devices), drawn.device_set, soft=drawn.is_soft)
        return self._study(candidate.label, assign_devices(self._base, asked), asked)

    def _study(self, label: str, file: GraphFile, asked: Mapping[str, str]) -> SimulatedPlacement:
        try:
            study = study_time(self._changed(file), self._options, self._name, is_traced=self._aim.is_traced)
        except PlacesimError as error:
            if isinstance(error, UsageError):
                raise
            return SimulatedPlacement(label, None, error, asked)
        return SimulatedPlacement(label, study, study.error, asked)


def _without_capacities(problem: PlanningProblem) -> PlanningProblem:
    """Return the problem without memory limits: its memory is an estimate, and the simulation shows whether a plan fits."""
    return replace(problem, devices=tuple(device._replace(capacity=math.inf) for device in problem.devices))


def _without_the_worse(
    candidates: Sequence[Candidate], shown: Mapping[tuple[int, ...], SimulatedPlacement], sought: PlanMeasure
) -> list[Candidate]:
    """Return the candidates, but only the best two of the found plans. Plans that fit are better than others."""

    def rank(candidate: Candidate) -> tuple[bool, float]:
        placed = shown[candidate.devices]
        return not placed.fits, placed.value(sought)

    searched = [candidate for candidate in candidates if candidate.label.startswith(PLANNED)]
    kept = sorted(searched, key=rank)[:SIMULATED]
    return [candidate for candidate in candidates if candidate not in searched or candidate in kept]


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
        got = f"got {found.op} '{found.name}', whose body is placed with the graph"
        raise UsageError(
            f"cannot plan a graph with lowered functions: {got}, expected Switch and Merge, or a call that is not lowered"
        )
