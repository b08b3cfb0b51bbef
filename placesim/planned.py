"""A graph and a machine -> a better placement, with a bound, and what TensorFlow has to be told for it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from placesim.errors import PlacesimError, ResourceExhaustedError, UsageError
from placesim.formats.annotations import assign_devices, clear_devices
from placesim.graph_plans.baselines import named_baselines
from placesim.graph_plans.drawing import Drawn, Wanted, draw_problem, keep_apart, with_room
from placesim.graph_plans.study import ANNOTATED, DEFAULT, PLANNED, Move, Placed, PlanStudy, Sought, is_gpu
from placesim.graph_plans.writing import annotate, freed
from placesim.inspection.device_names import short_names
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.bounds import Bound, best_bound
from placesim.planning.coarsening import itself, levels
from placesim.planning.loads import is_contiguous
from placesim.planning.measuring import measure
from placesim.planning.portfolio import FEW_TASKS, MANY_TASKS, OPTIMAL, Effort, Planned, plan_problem
from placesim.planning.problem import Problem, are_apart, can_run_all, over_capacity
from placesim.report.text.amounts import readable_size
from placesim.sizing import study_memory
from placesim.timing import study_time, study_walk, walk_steps

if TYPE_CHECKING:
    from placesim.graph.steps import GraphFile
    from placesim.loading import Loaded
    from placesim.options import Options
    from placesim.prediction.study import DeviceTime
    from placesim.runtime.recording import Recorder

MOST_TASKS = 600
"""Clusters are at most about so many: an evaluation costs some microseconds a task."""
REFINED_TASKS = 20_000
"""Up to so many tasks the plan of clusters is improved task by task."""
LARGE_TASKS = 50_000
"""Of a larger problem fewer placements are simulated as graphs."""
SIMULATED = 2
"""So many of the plans that a search finds are simulated as graphs, those first that the problem's own measure prefers."""
PEAK_TASKS, MORE_PEAKS = 600, 10
"""Of so small a problem of peaks more are simulated: in which order devices run their nodes, transfers change."""
LEAST_ROUND = 1.0
"""Seconds: in less no other seed is tried."""
REPAIRS, REPAIR_SHARE = 4, 0.25
"""How often a plan whose simulated peak is over a limit is sought again, each time with that share of the effort."""
LEAST_SHARE = 1 / 3
"""Of the effort's seconds at least that is searched."""
MEASURED_TASKS, EXPLAINED_TASKS = 100_000, 10_000
"""Of a plan of so many tasks one group's move is measured, and simulated, with the group put back; of a smaller one more."""
MORE_GPUS = (2, 4, 8)
"""So many times the GPUs are tried where no plan fits."""
QUICK = Effort(evaluations=50, jobs=1)
_LESS = 0.97


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
    aim: Aim | None = None,
) -> PlanStudy:
    """The best placement that is found, beside others; what asks for a device keeps it unless its name fits one of `free`.

    Raises what is wrong with the graph or the options, and what keeps its steps from being walked through.
    """
    aim = aim or Aim()
    if aim.needs_contiguous and aim.sought is not Sought.THROUGHPUT:
        raise UsageError(f"wrong objective: got {aim.sought.value}, and only plans for throughput are contiguous")
    study = _Planner(load, options, name, effort, free, tell, aim).study()
    return study if study.plan is not None else replace(study, ways_out=tuple(_ways_out(load, options, study, free, aim)))


class Aim(NamedTuple):
    """What is sought; `needs_contiguous` where no path may leave a device and come back, `explains` where gains are told.

    With `is_traced` the simulations of placements keep what their traces are made from.
    Of groups with nodes whose names fit one pattern of `apart` no two share a device.
    """

    sought: Sought = Sought.LATENCY
    needs_contiguous: bool = False
    explains: bool = False
    is_traced: bool = False
    apart: tuple[str, ...] = ()


def _ways_out(load: Callable[[], Loaded], options: Options, study: PlanStudy, free: Sequence[str], aim: Aim) -> Iterator[str]:
    """What would let a placement fit: another model of GPU, or more GPUs."""
    if not any(placed.study is not None and isinstance(placed.error, ResourceExhaustedError) for placed in study.placements):
        return
    models = []
    for placed in study.placements:
        if placed.study is None or any(_is_over(device) and not is_gpu(device.device) for device in placed.study.devices):
            continue  # where the host lacks memory, no GPU is enough
        asked = placed.asked

        def changed(asked: Mapping[str, str] = asked) -> Loaded:
            loaded = load()
            return replace(loaded, file=assign_devices(freed(_file(loaded), free), asked))

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
        # an option gives each task as many
        more = replace(options, gpu=max(gpus.values()) * factor)
        try:
            found_plan = _Planner(load, more, study.name, QUICK, free, lambda planned: None, aim).study()
        except PlacesimError:
            return
        if found_plan.plan is not None:
            count = sum(is_gpu(device.device) for device in _devices(found_plan))
            yield f"on {count} GPUs a plan fits"
            return


def _is_over(device: DeviceTime) -> bool:
    return device.limit is not None and device.peak is not None and device.peak > device.limit


def _devices(study: PlanStudy) -> list[DeviceTime]:
    return next((list(placed.study.devices) for placed in study.placements if placed.study is not None), [])


class _Planner:
    def __init__(
        self,
        load: Callable[[], Loaded],
        options: Options,
        name: str,
        effort: Effort,
        free: Sequence[str],
        tell: Callable[[Planned], None],
        aim: Aim,
    ) -> None:
        self._aim = aim
        self._load = load
        self._options = options
        self._name = name
        self._effort = effort
        self._free = free
        self._tell = tell
        self._read = load()
        self._file = _file(self._read)
        self._base = self._freed(self._file)

    def _freed(self, file: GraphFile) -> GraphFile:
        return freed(file, self._free)

    def _loaded(self, change: Callable[[GraphFile], GraphFile]) -> Callable[[], Loaded]:
        """The graph with other annotations, as often as it is asked for; a change makes nodes of its own, and reads no file."""

        def changed() -> Loaded:
            return replace(self._read, file=change(self._file))

        return changed

    def study(self) -> PlanStudy:
        began = time.monotonic()
        drawn, walked = self._draw()
        known = list({candidate.devices: candidate for candidate in reversed(list(self._known(drawn)))}.values())[::-1]
        # what was walked through to draw the problem is one of the placements, and not simulated again
        shown = {
            candidate.devices: walked._replace(label=candidate.label)
            if candidate.devices == drawn.start
            else self._simulated(candidate, drawn)
            for candidate in self._worth_simulating(drawn, known)
        }
        own_bound = self._bound(drawn)
        planned = Planned(None, own_bound, "", 0.0)
        candidates = [candidate for candidate in known if candidate.devices in shown]
        # what drawing and simulating took is not searched in addition, as long as there is time for a search
        left = max(self._effort.seconds * LEAST_SHARE, self._effort.seconds - (time.monotonic() - began))
        searched, effort = drawn, replace(self._effort, seconds=left)
        for repair in range(1 + REPAIRS if drawn.problem.movable else 0):
            less_room = ", with less room" if repair else ""
            found, planned = self._search(searched, [candidate.devices for candidate in known], effort, own_bound)
            for candidate in found:
                if candidate.devices not in shown:
                    is_first = candidates[-1].label != PLANNED + less_room
                    label = PLANNED + (less_room if is_first else f"{less_room}, another")
                    candidates.append(candidate._replace(label=label))
                    shown[candidate.devices] = self._simulated(candidates[-1], drawn)
            over = [shown[candidate.devices] for candidate in found]
            if not over or any(placed.fits for placed in over) or planned.is_interrupted:
                break
            # what it holds was estimated: it is sought again with as much less room as was missing
            searched, effort = _with_less_room(searched, found[0].devices, over[0]), _part(self._effort, REPAIR_SHARE)
        sought = self._aim.sought
        candidates += self._more_peaks(drawn, searched, effort, began, shown, planned)
        candidates = _without_the_worse(candidates, shown, sought)
        told = ((shown[candidate.devices], are_apart(drawn.problem, candidate.devices)) for candidate in candidates)
        placements = [placed._replace(is_allowed=is_apart) for placed, is_apart in told]
        fitting = [
            (placed, candidate)
            for placed, candidate in zip(placements, candidates, strict=True)
            if placed.fits and self._is_as_asked(drawn, candidate.devices)
        ]
        for label, change in self._others(candidates):
            placements.append(self._study(label, self._loaded(change), {})._replace(is_allowed=False))
        bound = own_bound
        # what is proven where memory is short counts on estimates of what tasks hold
        if sought is not Sought.MEMORY and _has_room_for_all(searched.problem):
            bound = max(bound, planned.bound, key=lambda known: known.value)
        is_held = any(node.device for node in self._base.graph.nodes)
        tail = planned.is_interrupted, sought, len(drawn.problem.movable), (), is_held
        if not fitting:
            return PlanStudy(self._name, tuple(placements), None, bound, "", {}, (), *tail)
        placed, candidate = min(fitting, key=lambda pair: pair[0].value(sought))
        method = candidate.method or candidate.label
        moves = tuple(self._moves(drawn, candidate.devices, placed.value(sought)))
        return PlanStudy(self._name, tuple(placements), placed, bound, method, placed.asked, moves, *tail)

    def _is_as_asked(self, drawn: Drawn, devices: Sequence[int]) -> bool:
        """Whether it is contiguous, and groups apart, where that was asked for."""
        is_whole = not self._aim.needs_contiguous or is_contiguous(drawn.problem, devices)
        return is_whole and are_apart(drawn.problem, devices)

    def _more_peaks(
        self,
        drawn: Drawn,
        searched: Drawn,
        effort: Effort,
        began: float,
        shown: dict[tuple[int, ...], Placed],
        planned: Planned,
    ) -> list[_Candidate]:
        """Of peaks, what other seeds find, as long as there is time: plans that look alike differ as graphs."""
        found: list[_Candidate] = []
        while self._aim.sought is Sought.MEMORY and effort.evaluations is None and drawn.problem.movable:
            least = min((placed.value(Sought.MEMORY) for placed in shown.values() if placed.fits), default=math.inf)
            left = self._effort.seconds - (time.monotonic() - began)
            if planned.is_interrupted or left < LEAST_ROUND or least <= drawn.least_peak.value * (1 + OPTIMAL):
                break
            effort = replace(effort, seconds=left / 2, seed=effort.seed + 1)
            more, planned = self._search(searched, [], effort, self._bound(drawn))
            for candidate in more:
                if candidate.devices not in shown and self._effort.seconds > time.monotonic() - began:
                    found.append(candidate._replace(label=f"{PLANNED}, another"))
                    shown[candidate.devices] = self._simulated(found[-1], drawn)
        return found

    def _worth_simulating(self, drawn: Drawn, known: Sequence[_Candidate]) -> Sequence[_Candidate]:
        """All; of a large problem only what TensorFlow would do."""
        if len(drawn.problem.tasks) <= LARGE_TASKS:
            return known
        return [candidate for candidate in known if candidate.label in {DEFAULT, ANNOTATED}]

    def _bound(self, drawn: Drawn) -> Bound:
        """What certainly holds: whatever fits, since what tasks hold is an estimate."""
        if self._aim.sought is Sought.MEMORY:
            return drawn.least_peak
        roomy = tuple(device._replace(capacity=math.inf) for device in drawn.problem.devices)
        return best_bound(replace(drawn.problem, devices=roomy))

    # --- the problem

    def _draw(self) -> tuple[Drawn, Placed]:
        """The problem, and the placement that the walk had which it is drawn from."""
        study, walked = study_walk(self._loaded(self._freed), self._options, self._name, is_traced=self._aim.is_traced)
        wanted = Wanted(self._aim.sought, sum(peak or 0 for peak in walked.peaks.values()), self._aim.needs_contiguous)
        if self._aim.sought is Sought.MEMORY:
            wanted = wanted._replace(recorder=walked.recorder, on_host=self._on_host())
        drawn = draw_problem(self._base.graph, walked.prepared[-1], walked.steps[-1], walked.machine, wanted)
        drawn = keep_apart(drawn, self._aim.apart)
        drawn.problem.check()
        return drawn, Placed("", study, study.error)

    def _on_host(self) -> Recorder | None:
        """What the steps do without GPUs: on a CPU kernels take memory that they don't on a GPU.  None where that can't be."""
        try:
            return walk_steps(self._loaded(clear_devices), replace(self._options, gpu=0)).recorder
        except PlacesimError:
            return None

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

    def _others(self, candidates: Sequence[_Candidate]) -> Iterator[tuple[str, Callable[[GraphFile], GraphFile]]]:
        """Placements that annotations forbid, and that are shown all the same."""
        if all(candidate.label != DEFAULT for candidate in candidates):
            yield f"{DEFAULT}, all freed", clear_devices

    # --- the search

    def _search(
        self, drawn: Drawn, known: Sequence[tuple[int, ...]], effort: Effort, bound: Bound
    ) -> tuple[list[_Candidate], Planned]:
        """Plans that no simulation has seen yet, and what the search says."""
        measured = measure(drawn.problem)
        if len(drawn.problem.tasks) > MANY_TASKS:
            known = ()
        allowed = (devices for devices in known if not over_capacity(drawn.problem, devices))
        allowed = (devices for devices in allowed if self._is_as_asked(drawn, devices))
        start = min((measured.plan(devices) for devices in allowed), key=lambda plan: plan.value, default=None)
        found: list[_Candidate] = []
        planned = Planned(None, bound, "", 0.0)
        # passes over all tasks make clusters of their own
        is_dispatched = drawn.problem.layout is not None and len(drawn.problem.tasks) > FEW_TASKS
        stages = [itself(drawn.problem)] if is_dispatched else levels(drawn.problem, MOST_TASKS, REFINED_TASKS)
        best: tuple[int, ...] | None = None
        for level in stages:
            is_fine = level.problem is drawn.problem
            begin = None
            if best is not None:
                devices = best if is_fine else level.contract(best)
                is_apart = are_apart(level.problem, devices)
                if not over_capacity(level.problem, devices) and can_run_all(level.problem, devices) and is_apart:
                    begin = measure(level.problem).plan(devices)
            if is_fine and start is not None and (begin is None or start.value < begin.value):
                begin = start
            better: list[tuple[int, ...]] = []
            tell = self._telling(better, None if is_fine else bound)
            planned = plan_problem(level.problem, _part(effort, 1 / len(stages)), tell, begin)
            found += [_Candidate(PLANNED, level.expand(devices), planned.method) for devices in better[: -1 - MORE_PEAKS : -1]]
            if planned.plan is not None:
                best = level.expand(planned.plan.devices)
                found.append(_Candidate(PLANNED, best, planned.method))
            if is_fine:
                bound = planned.bound
            if planned.is_interrupted:
                break
        # the last is the finest, and often the best; of the others the simulation of the drawn problem chooses
        if len(found) > 1:
            values = {candidate.devices: measured.plan(candidate.devices).value for candidate in found}
            is_peak = self._aim.sought is Sought.MEMORY and len(drawn.problem.tasks) <= PEAK_TASKS
            distinct = {candidate.devices: candidate for candidate in found}.values()
            found = sorted(distinct, key=lambda candidate: values[candidate.devices])[: MORE_PEAKS if is_peak else SIMULATED]
        return found, planned._replace(bound=bound)

    def _telling(self, better: list[tuple[int, ...]], bound: Bound | None) -> Callable[[Planned], None]:
        """Tells of each better plan; where peaks are sought, each is kept, since some that look alike differ as graphs.

        What no plan of clusters can be below says nothing of those that divide clusters: `bound` is told in its place.
        """

        def tell(planned: Planned) -> None:
            if self._aim.sought is Sought.MEMORY and planned.plan is not None:
                better.append(planned.plan.devices)
            self._tell(planned if bound is None else planned._replace(bound=bound))

        return tell

    # --- plans as graphs

    def _simulated(self, candidate: _Candidate, drawn: Drawn) -> Placed:
        asked = annotate(self._base, planned_places(drawn, candidate.devices), drawn.device_set, soft=drawn.is_soft)
        return self._study(candidate.label, self._loaded(lambda file: assign_devices(self._freed(file), asked)), asked)

    def _study(self, label: str, load: Callable[[], Loaded], asked: Mapping[str, str]) -> Placed:
        try:
            study = study_time(load, self._options, self._name, is_traced=self._aim.is_traced)
        except PlacesimError as error:
            if isinstance(error, UsageError):
                raise
            return Placed(label, None, error, asked)
        return Placed(label, study, study.error, asked)

    def _moves(self, drawn: Drawn, devices: Sequence[int], value: float) -> list[Move]:
        """The groups that go elsewhere than now, those first whose move gains most, and then the largest.

        `value` is what the plan comes to.
        """
        before = assignment_of(drawn, self._file) or drawn.start
        names = short_names([device.name for device in drawn.devices])
        moved = [
            number
            for number, (group, tasks) in enumerate(zip(drawn.groups, drawn.problem.groups, strict=True))
            if group.nodes and before[tasks[0]] != devices[tasks[0]]
        ]
        losses = dict(self._losses(drawn, devices, before, moved, value)) if self._aim.explains or self._aim.is_traced else {}
        found = []
        for number in moved:
            task = drawn.problem.groups[number][0]
            places = names[before[task]], names[devices[task]]
            found.append(Move(drawn.groups[number].nodes, *places, losses.get(number)))
        return sorted(found, key=lambda move: (-(-math.inf if move.loss is None else move.loss), -len(move.nodes)))

    def _losses(
        self, drawn: Drawn, devices: Sequence[int], before: Sequence[int], moved: Sequence[int], value: float
    ) -> Iterator[tuple[int, float]]:
        """How much more the plan comes to with a group put back: simulated as a graph, for those where that is likely most."""
        problem, measured = drawn.problem, measure(drawn.problem)

        def put_back(group: int) -> tuple[int, ...]:
            stays = list(devices)
            for task in problem.groups[group]:
                stays[task] = before[task]
            return tuple(stays)

        def work(group: int) -> float:
            times = (seconds for task in problem.groups[group] for seconds in problem.tasks[task].seconds)
            return sum(seconds for seconds in times if math.isfinite(seconds))

        # what may no longer be where it was can't be put back
        able = [group for group in moved if before[problem.groups[group][0]] in drawn.groups[group].choices]
        size = max(1, len(problem.tasks))
        able = sorted(able, key=work, reverse=True)[: MEASURED_TASKS // size]
        likely = {group: measured.plan(put_back(group)).value for group in able}
        for group in sorted(able, key=lambda group: likely[group], reverse=True)[: EXPLAINED_TASKS // size]:
            placed = self._simulated(_Candidate("", put_back(group)), drawn)
            if placed.fits:
                yield group, placed.value(self._aim.sought) - value


def _part(effort: Effort, share: float) -> Effort:
    counted = None if effort.evaluations is None else max(1, round(effort.evaluations * share))
    return replace(effort, seconds=effort.seconds * share, evaluations=counted)


def _without_the_worse(
    candidates: Sequence[_Candidate], shown: Mapping[tuple[int, ...], Placed], sought: Sought
) -> list[_Candidate]:
    """Of what was searched the best two, in their order; those that fit come first."""

    def rank(candidate: _Candidate) -> tuple[bool, float]:
        placed = shown[candidate.devices]
        return not placed.fits, placed.value(sought)

    searched = [candidate for candidate in candidates if candidate.label.startswith(PLANNED)]
    kept = sorted(searched, key=rank)[:SIMULATED]
    return [candidate for candidate in candidates if candidate not in searched or candidate in kept]


def _has_room_for_all(problem: Problem) -> bool:
    """Whether all would find room on any device, so that no capacity keeps groups apart."""
    total = math.fsum(problem.held)
    return all(total <= device.capacity for device in problem.devices)


def _with_less_room(drawn: Drawn, devices: Sequence[int], placed: Placed) -> Drawn:
    """Each device whose peak was over its limit has as much less room as its peak was too high."""
    held = [0.0] * len(drawn.devices)
    for task, device in enumerate(devices):
        held[device] += drawn.problem.tasks[task].holds
    peaks = {} if placed.study is None else {device.device: device for device in placed.study.devices}
    found = []
    for number, room in enumerate(drawn.problem.devices):
        known = peaks.get(room.name)
        if known is not None and known.limit is not None and known.peak is not None and known.peak > known.limit:
            capacity = min(room.capacity, held[number] * known.limit / known.peak) * _LESS
            found.append(room._replace(capacity=capacity))
        else:
            found.append(room)
    return replace(drawn, problem=with_room(replace(drawn.problem, devices=tuple(found)), drawn.groups))


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
