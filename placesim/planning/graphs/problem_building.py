"""Conversion of a dry-run step, and the allowed devices of its nodes, to a planning problem.

A task is an executed node with all its runs, or a cycle of nodes (a loop). Groups are the placer's colocation groups. Nodes
that annotations cannot reach (in function bodies, or lowered) keep their device.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from placesim.core.errors import UsageError
from placesim.core.grouped import grouped
from placesim.graph.graph import Graph
from placesim.graph.node_patterns import is_gradient_name, matcher
from placesim.machine.inventory import Device as RealDevice
from placesim.machine.inventory import DeviceSet
from placesim.ops.categories import ARGUMENTS, CONSTANTS, VARIABLES
from placesim.ops.kernels.device_resources import VARIABLE_OPS
from placesim.placement.colocation import ColocationGraph
from placesim.placement.grouping import build_groups
from placesim.placement.placer import Placement
from placesim.planning.bounds import ALIVE_AT_ONCE, Bound
from placesim.planning.graphs.memory_lifetimes import (
    MemoryLifetimes,
    StepOrder,
    StepTasks,
    add_scratch,
    bound_peak,
    find_lifetimes,
    group_by_step,
    scratch_sizes,
)
from placesim.planning.graphs.plan_comparison import PlanMeasure
from placesim.planning.graphs.step_nodes import StepNode, find_nodes, merge_steps
from placesim.planning.problem import UNSURE, DeviceLink, MachineLayout, Objective, PlanningProblem, ProblemDevice, ProblemTask
from placesim.prediction.collectives import is_member
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.prediction.node_shapes import node_shapes, num_bytes
from placesim.prediction.step_tasks import PlacedKernel, StepCosts
from placesim.runtime.executors.variable_handles import variable_handle
from placesim.runtime.partitioning.memory_types import MemoryTypes, memory_types
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder

HELD = frozenset((*CONSTANTS, *VARIABLES))
"""Ops whose outputs live as long as the session."""


class NodeGroup(NamedTuple):
    """Names of nodes that are placed together, and the numbers of the devices that may run them."""

    nodes: tuple[str, ...]
    choices: tuple[int, ...]


@dataclass(frozen=True)
class GraphProblem:
    """A planning problem, and the nodes of its groups: `groups[n]` has the nodes of group n, and none if the group cannot be
    moved.

    `start` is the assignment in the dry run. `devices` are the problem's devices, in the order of `device_set`. `least_peak` is
    a lower bound of the highest peak of any device. `avoided` are the numbers of devices that the plan avoids.
    """

    problem: PlanningProblem
    groups: tuple[NodeGroup, ...]
    devices: tuple[RealDevice, ...]
    start: tuple[int, ...]
    device_set: DeviceSet
    is_soft: bool
    least_peak: Bound
    avoided: frozenset[int] = frozenset()


def possible_devices(placement: Placement) -> list[NodeGroup]:
    """Return the colocation groups of a placed graph with their allowed devices, by number in the device set."""
    graph, device_set = placement.graph, placement.device_set
    groups = ColocationGraph(graph, placement.order, device_set, placement.groups.soft)
    build_groups(groups)
    numbers = {device.name: number for number, device in enumerate(device_set.devices)}
    found, seen = [], set()
    for node_id in placement.order:
        root = groups.root(node_id)
        if root in seen:
            continue
        seen.add(root)
        members = groups.groups.get(root, (node_id,))
        choices = tuple(numbers[device.name] for device in groups.candidates(node_id).candidates)
        found.append(NodeGroup(tuple(graph.nodes[member].name for member in members), choices))
    return found


class _Part(NamedTuple):
    """Cost of a task on a kind of device, as in `ProblemTask`; `alone` is the sum of its kernels' times."""

    alone: float
    seconds: float
    launch: float
    cores: int
    path: float
    work: float


class _Draft(NamedTuple):
    """A task with the bytes that it keeps and makes, before the counted share of `made` is known."""

    name: str
    parts: tuple[_Part, ...]
    kept: float
    made: float
    is_divided: bool


class ProblemRequest(NamedTuple):
    """Request for a planning problem. `peak` is the maximum of the bytes in use on all devices together in the dry run.

    Groups that can run elsewhere do not use the devices with the numbers `avoided`. For the objective memory, `recorder` has
    the memory of all steps, and `on_host` the memory of the same steps on a CPU.
    """

    sought: PlanMeasure
    peak: float = 0.0
    needs_contiguous: bool = False
    recorder: ExecutionRecorder | None = None
    on_host: ExecutionRecorder | None = None
    avoided: frozenset[int] = frozenset()


def build_problem(
    graph: Graph, prepared: PreparedStep, step: Sequence[Execution], machine: SimulatedMachine, wanted: ProblemRequest
) -> GraphProblem:
    """Return the planning problem of a step. Only nodes of `graph` can get device requests.

    Memory that lives as long as the session counts in full. Outputs of the step count with the maximum fraction that was alive
    at one time. For the objective memory, tasks take no time, and all steps of the `recorder` count with their tensors.
    """
    return _ProblemBuilder(graph, prepared, step, machine, wanted).draw()


OBJECTIVES = {
    PlanMeasure.LATENCY: Objective.MAKESPAN,
    PlanMeasure.THROUGHPUT: Objective.LOAD,
    PlanMeasure.MEMORY: Objective.PEAK,
}


class _ProblemBuilder:
    def __init__(
        self, graph: Graph, prepared: PreparedStep, step: Sequence[Execution], machine: SimulatedMachine, wanted: ProblemRequest
    ) -> None:
        self._wanted = wanted
        self._graph = graph
        self._prepared = prepared
        self._machine = machine
        self._costs = StepCosts(machine)
        self._known: dict[tuple[object, ...], tuple[_Part, ...]] = {}
        self._found_types: dict[tuple[str, str], MemoryTypes] = {}
        self._devices = prepared.placement.device_set.devices
        self._numbers = {device.name: number for number, device in enumerate(self._devices)}
        self._places = [machine.places[device.name] for device in self._devices]
        names = list(dict.fromkeys(place.name for place in self._places))
        self._kinds = [names.index(place.name) for place in self._places]
        self._examples = [self._places[self._kinds.index(kind)] for kind in range(len(names))]
        self._steps = [find_nodes(prepared, step)]
        recorder = wanted.recorder
        if recorder is not None:
            self._recorded = group_by_step(recorder)
            walked = zip(recorder.prepared, self._recorded.values(), strict=True)
            self._steps = [find_nodes(*pair) for pair in walked]
        found, self._numbers_of = merge_steps(self._steps)
        self._nodes, self._inputs, self._controls, _ = found
        self._task_of = self._in_graph_order(found.joined())

    def _in_graph_order(self, labels: Sequence[int]) -> list[int]:
        """Return the task number of each node. Nodes with the same label are one task.

        Tasks are numbered in the order of the graph's nodes, which is the order in which executors begin. A node of a
        function's body comes after the node of the graph that was executed last.
        """
        ids, last = self._prepared.client.graph.ids, -1
        first: dict[int, int] = {}
        for node, label in zip(self._nodes, labels, strict=True):
            last = ids.get(node.name, last) if node.is_own else last
            first[label] = min(last, first.get(label, last))
        numbers = {label: number for number, label in enumerate(sorted(first, key=first.__getitem__))}
        return [numbers[label] for label in labels]

    def draw(self) -> GraphProblem:
        """Return the problem."""
        members: list[list[int]] = [[] for _ in range(1 + max(self._task_of, default=-1))]
        for node, task in enumerate(self._task_of):
            members[task].append(node)
        devices_of = [self._numbers[self._nodes[rows[0]].device] for rows in members]
        inputs = self._sources(members, self._inputs)
        controls = [row - read for row, read in zip(self._sources(members, self._controls), inputs, strict=True)]
        groups, movable = self._groups(members, devices_of)
        tasks = self._tasks(members)
        self._mark_backward(tasks, members, inputs, groups, movable)
        tasks, inputs, groups = _with_signals(tasks, inputs, controls, groups)
        is_latency = self._wanted.sought is PlanMeasure.LATENCY
        choices = _choice_kinds(self._kinds, movable)
        held = self._held()
        if held is not None:
            tasks = [task._replace(holds=held.kept.get(number, 0.0)) for number, task in enumerate(tasks)]
        problem = PlanningProblem(
            OBJECTIVES[self._wanted.sought],
            tuple(self._restricted(tasks, groups, movable, choices)),
            tuple(tuple(sorted(row)) for row in inputs),
            tuple(map(tuple, groups)),
            tuple(self._problem_devices(choices)),
            ways=self._ways() if self._wanted.sought is PlanMeasure.THROUGHPUT else None,
            needs_contiguous=self._wanted.needs_contiguous,
            layout=self._layout() if is_latency else None,
            tensors=() if held is None else tuple(held.tensors),
        )
        problem = relax_capacities(problem, movable)
        placement = self._prepared.placement
        least = 0.0 if held is None else self._least_peak(held, problem, movable)
        return GraphProblem(
            problem,
            tuple(movable),
            self._devices,
            _device_of_groups(groups, devices_of),
            placement.device_set,
            placement.groups.soft,
            Bound(least, ALIVE_AT_ONCE),
            self._wanted.avoided,
        )

    # --- memory

    def _held(self) -> MemoryLifetimes | None:
        """Return the memory lifetimes of all steps; None if the objective is not memory."""
        if self._wanted.recorder is None:
            return None
        graph, constants, variables = self._prepared.placement.graph, {}, {}
        for node, task in zip(self._nodes, self._task_of, strict=True):
            if node.is_own and node.op in CONSTANTS:
                constants[node.name] = task
            elif node.is_own and node.op in VARIABLE_OPS and node.name in graph.ids:
                variables[variable_handle(graph.node(node.name), "").name] = task
        recorder, steps = self._wanted.recorder, self._walked_steps()
        held = find_lifetimes(recorder, steps, constants, variables)
        if self._wanted.on_host is not None:
            cpus = frozenset(number for number, place in enumerate(self._places) if place.gpu is None)
            add_scratch(held, steps, self._scratch(self._wanted.on_host), self._scratch(recorder), cpus)
        return held

    def _scratch(self, recorder: ExecutionRecorder) -> dict[int, Counter[int]]:
        """Return the scratch memory by task, once per task even if it runs repeatedly."""
        found, tasks = scratch_sizes(recorder), zip(self._nodes, self._task_of, strict=True)
        return {task: found[node.name] for node, task in tasks if node.is_own and node.name in found}

    def _walked_steps(self) -> list[StepTasks]:
        rows = zip(self._recorded.items(), self._steps, self._numbers_of, strict=True)
        return [
            StepTasks(first, executions, [tuple(self._task_of[own[node]] for node in nodes) for nodes in step.of_execution])
            for (first, executions), step, own in rows
        ]

    def _least_peak(self, held: MemoryLifetimes, problem: PlanningProblem, movable: Sequence[NodeGroup]) -> float:
        """Return a lower bound of the peak of any placement; see `bound_peak`."""
        reads, makes = [True] * len(problem.tasks), [True] * len(problem.tasks)
        for node, task in enumerate(self._task_of):
            on_host = self._on_host(self._nodes[node])
            reads[task] = reads[task] and not any(on_host.inputs)
            makes[task] = makes[task] and not any(on_host.outputs)
        orders = []
        for walked, step, own in zip(self._walked_steps(), self._steps, self._numbers_of, strict=True):
            waits: dict[int, set[int]] = {}
            for node, sources in enumerate(zip(step.inputs, step.controls, strict=True)):
                task = self._task_of[own[node]]
                found = {self._task_of[own[source]] for row in sources for source in row}
                waits.setdefault(task, set()).update(found - {task})
            orders.append(StepOrder(walked, waits, reads, makes))
        homes = [frozenset(group.choices) for group in movable]
        return bound_peak(held, orders, problem.group_of, homes)

    def _on_host(self, node: StepNode) -> MemoryTypes:
        """Return the inputs and outputs that a node would have in host memory on a GPU; all for a node outside the graph."""
        graph = self._prepared.placement.graph
        if not node.is_own or node.name not in graph.ids:
            return MemoryTypes((True,), (True,))
        return memory_types(graph.registry, graph.node(node.name).signature, "GPU")

    # --- tasks

    def _sources(self, members: Sequence[Sequence[int]], sources_of: Sequence[set[int]]) -> list[set[int]]:
        """Return for each task the other tasks that contain sources of its nodes; `sources_of` has the sources of each node."""
        return [
            {self._task_of[source] for node in rows for source in sources_of[node]} - {task}
            for task, rows in enumerate(members)
        ]

    def _tasks(self, members: Sequence[Sequence[int]]) -> list[ProblemTask]:
        """Return the tasks. Each output counts with a fraction: the maximum share of all outputs that was alive at one time."""
        drafts = [self._draft(rows) for rows in members]
        kept, made = math.fsum(draft.kept for draft in drafts), math.fsum(draft.made for draft in drafts)
        share = min(1.0, max(0.0, (self._wanted.peak - kept) / made)) if made else 0.0
        sent = self._sent(members)
        tasks = [self._task(draft, share)._replace(sends=sends) for draft, sends in zip(drafts, sent, strict=True)]
        if self._wanted.sought is not PlanMeasure.LATENCY:
            return tasks
        numbers = {node.name: task for node, task in zip(self._nodes, self._task_of, strict=True)}
        return [self._in_memories(task, rows, numbers) for task, rows in zip(tasks, members, strict=True)]

    def _in_memories(self, task: ProblemTask, rows: Sequence[int], numbers: Mapping[str, int]) -> ProblemTask:
        """Return a task with the use of host memory on a GPU; a task of several nodes only uses the GPU's."""
        found, graph = self._nodes[rows[0]], self._prepared.client.graph
        gpu = next((place for place in self._places if place.gpu is not None), None)
        if len(rows) > 1 or not found.is_own or gpu is None:
            return task
        node = graph.node(found.name)
        types = self._memory_types(found.name)
        is_from_host: dict[int, bool] = {}
        for source, on_host in zip(node.input_nodes, types.inputs, strict=True):
            number = numbers.get(graph.nodes[source].name)
            if number is not None:
                is_from_host[number] = is_from_host.get(number, True) and on_host
        runs_on_host = self._kernel(found, found.executions[0], gpu).placed.resource == gpu.cores
        if runs_on_host:
            work = (0.0 if place.gpu is not None else own for place, own in zip(self._examples, task.work, strict=True))
            task = task._replace(work=tuple(work))
        return task._replace(
            on_host=bool(types.outputs) and all(types.outputs),
            runs_on_host=runs_on_host,
            host_inputs=frozenset(number for number, on_host in is_from_host.items() if on_host),
        )

    def _draft(self, rows: Sequence[int]) -> _Draft:
        nodes = [self._nodes[row] for row in rows]
        sizes = [num_bytes(execution.outputs) for node in nodes for execution in node.executions]
        kept = math.fsum(num_bytes(node.executions[0].outputs) for node in nodes if node.op in HELD)
        is_of_memory = self._wanted.sought is PlanMeasure.MEMORY
        parts = () if is_of_memory else self._parts(nodes)
        is_divided = sum(len(node.executions) for node in nodes) > 1
        return _Draft(nodes[0].name, parts, kept, math.fsum(sizes), is_divided)

    def _parts(self, nodes: Sequence[StepNode]) -> tuple[_Part, ...]:
        """Return the costs of nodes on each kind of device. Equal single nodes share one computation."""
        node, execution = nodes[0], nodes[0].executions[0]
        site = execution.site
        key: tuple[object, ...] | None = None
        if len(nodes) == len(node.executions) == 1 and site is not None and not site.calls:
            own = self._prepared.client.graph.node(node.name).signature if node.is_own else None
            shapes = execution.inputs, execution.outputs
            key = (id(own), id(site.instruction.attrs), node.op, site.output_on_host, *shapes)
        found = None if key is None else self._known.get(key)
        if found is None:
            found = tuple(self._on(nodes, place) for place in self._examples)
            if key is not None:
                self._known[key] = found
        return found

    def _task(self, draft: _Draft, share: float) -> ProblemTask:
        """Make a task from a draft; `share` is the fraction of its outputs that counts."""
        holds, parts = draft.kept + share * draft.made, draft.parts
        match self._wanted.sought:
            case PlanMeasure.MEMORY:
                return ProblemTask(draft.name, (0.0,) * len(self._examples), holds)
            case PlanMeasure.THROUGHPUT:
                return ProblemTask(draft.name, tuple(part.alone for part in parts), holds, draft.made)
        return ProblemTask(
            draft.name,
            tuple(part.seconds for part in parts),
            holds,
            draft.made,
            launches=tuple(part.launch for part in parts),
            cores=tuple(part.cores for part in parts),
            path=tuple(part.path for part in parts),
            work=tuple(part.work for part in parts),
            is_divided=draft.is_divided,
        )

    def _sent(self, members: Sequence[Sequence[int]]) -> list[float]:
        """Return for each task the bytes that each other reading device certainly receives; see `ProblemTask.sends`.

        Nothing is certain for repeated tasks, control edges, and outputs that a GPU keeps in host memory.
        """
        if self._wanted.sought is PlanMeasure.MEMORY:
            return [UNSURE] * len(members)
        found = [math.inf] * len(self._nodes)
        for number, sources in enumerate(self._inputs):
            for source in sources:
                found[source] = min(found[source], self._read_bytes(source, number))
        for controls in self._controls:
            for source in controls:
                if not num_bytes(self._nodes[source].executions[0].outputs):
                    found[source] = UNSURE
        return [UNSURE if len(rows) > 1 or math.isinf(found[rows[0]]) else found[rows[0]] for rows in members]

    def _read_bytes(self, source: int, reader: int) -> float:
        """Return the bytes that one node reads from another; UNSURE if possibly no transfer is needed."""
        graph, maker, taker = self._prepared.client.graph, self._nodes[source], self._nodes[reader]
        made = maker.executions[0].outputs
        if not taker.is_own or len(maker.executions) > 1 or len(taker.executions) > 1:
            return UNSURE
        node = graph.node(taker.name)
        on_host = self._memory_types(taker.name).inputs
        if any(on_host):
            return UNSURE
        if not maker.is_own:
            return float(num_bytes(made)) if maker.op in ARGUMENTS else UNSURE
        own = graph.node(maker.name)
        if any(self._memory_types(maker.name).outputs) or len(made) != len(own.signature.output_dtypes):
            return UNSURE
        slots = {slot for input_node, slot in zip(node.input_nodes, node.input_slots, strict=True) if input_node == own.id}
        return float(num_bytes([made[slot] for slot in slots])) if slots else UNSURE

    def _mark_backward(
        self,
        tasks: list[ProblemTask],
        members: Sequence[Sequence[int]],
        inputs: Sequence[set[int]],
        groups: Sequence[Sequence[int]],
        movable: Sequence[NodeGroup],
    ) -> None:
        """Mark tasks that need not be contiguous: gradients, their direct and indirect readers, and tasks that cannot move."""
        if not self._wanted.needs_contiguous:
            return
        waiting = [task for task, rows in enumerate(members) if any(is_gradient_name(self._nodes[row].name) for row in rows)]
        readers: list[list[int]] = [[] for _ in tasks]
        for task, sources in enumerate(inputs):
            for source in sources:
                readers[source].append(task)
        backward = set(waiting)
        while waiting:
            new = [reader for reader in readers[waiting.pop()] if reader not in backward]
            backward.update(new)
            waiting += new
        fixed = {task for group, known in zip(groups, movable, strict=True) if len(known.choices) < 2 for task in group}
        for task in backward | fixed:
            tasks[task] = tasks[task]._replace(is_backward=True)

    def _on(self, nodes: Iterable[StepNode], place: DevicePlace) -> _Part:
        """Return the cost of nodes with all their runs, as if they were on the device with this index."""
        # the time of a collective depends on the devices of all its members, so that only simulations count it
        runs = [(node, run) for node in nodes for run in node.executions if run.site is None or not is_member(run.site)]
        kernels = [self._kernel(node, run, place).placed for node, run in runs]
        own = place.cores if place.gpu is None else place.gpu.compute
        seconds = [kernel.predicted.seconds for kernel in kernels]
        # the host's work for a node of a GPU overlaps with the GPU's stream
        busy = [kernel.predicted.seconds * kernel.cores for kernel in kernels if kernel.resource == own]
        # a stream runs kernels one after another, but a host's cores may overlap them
        path = max(seconds, default=0.0) if place.gpu is None else max(math.fsum(busy), max(seconds, default=0.0))
        launching = [kernel.launch for kernel in kernels]
        # nothing runs before the first launch, and the other launches overlap with running kernels
        first = min(launching, default=0.0)
        together = max(math.fsum(seconds), math.fsum(launching) - first)
        return _Part(
            math.fsum(seconds), together, first, max((kernel.cores for kernel in kernels), default=1), path, math.fsum(busy)
        )

    def _kernel(self, node: StepNode, execution: Execution, place: DevicePlace) -> PlacedKernel:
        site = execution.site
        assert site is not None
        on_host = site.output_on_host
        if node.is_own:
            on_host = self._memory_types(node.name, place.device.type).outputs
        return self._costs.kernel_on(place, site, node_shapes(site, execution), on_host)

    def _memory_types(self, name: str, device_type: str = "GPU") -> MemoryTypes:
        """Return the memory types of a node of the graph on a device type; they are found only once."""
        key = name, device_type
        if key not in self._found_types:
            graph = self._prepared.client.graph
            self._found_types[key] = memory_types(graph.registry, graph.node(name).signature, device_type)
        return self._found_types[key]

    # --- groups

    def _groups(self, members: Sequence[Sequence[int]], devices_of: Sequence[int]) -> tuple[list[list[int]], list[NodeGroup]]:
        """Return the groups of tasks, and the nodes and allowed devices of each group.

        If a task has nodes of several groups, these groups are merged. Nodes that cannot be annotated keep their device.
        """
        placed = possible_devices(self._prepared.placement)
        of_name = {name: number for number, known in enumerate(placed) for name in known.nodes}
        parent: dict[tuple[str, int], tuple[str, int]] = {}
        root = partial(_root, parent)
        callers: dict[int, int] = {}
        for task, rows in enumerate(members):
            for row in rows:
                node = self._nodes[row]
                group = of_name.get(node.name) if node.is_own else None
                other = ("fixed", devices_of[task]) if group is None else ("group", group)
                parent[root(("task", task))] = root(other)
                if group is not None and _calls(node):
                    callers[group] = devices_of[task]
        found = grouped((root(("task", task)), task) for task in range(len(members)))
        graphs = grouped((root(("group", number)), number) for number in range(len(placed)) if ("group", number) in parent)
        fixed = {root(key): key[1] for key in list(parent) if key[0] == "fixed"}
        movable = []
        for key in found:
            numbers = graphs.get(key, [])
            names = tuple(name for number in numbers for name in placed[number].nodes)
            choices = set(range(len(self._devices)))
            for number in numbers:
                # the placement of a body's nodes depends on the caller, so both keep their devices
                choices &= {callers[number]} if number in callers else set(placed[number].choices)
            if key in fixed or not numbers or not any(name in self._graph.ids for name in names):
                movable.append(NodeGroup((), (devices_of[found[key][0]],)))
            else:
                choices = choices - self._wanted.avoided or choices
                movable.append(NodeGroup(names, tuple(sorted(choices)) or (devices_of[found[key][0]],)))
        return list(found.values()), movable

    def _restricted(
        self,
        tasks: Sequence[ProblemTask],
        groups: Sequence[Sequence[int]],
        movable: Sequence[NodeGroup],
        choices: Sequence[tuple[int, frozenset[int]]],
    ) -> Iterable[ProblemTask]:
        """Yield the tasks with infinite times on the devices that their groups may not use; see `_choice_kinds`."""
        of_task = {member: number for number, group in enumerate(groups) for member in group}
        for number, task in enumerate(tasks):
            allowed = movable[of_task[number]].choices
            allowing = [(kind, members <= set(allowed)) for kind, members in choices]
            seconds, path, work = (
                tuple(row[kind] if may else math.inf for kind, may in allowing) if row else ()
                for row in (task.seconds, task.path, task.work)
            )
            launches = tuple(task.launches[kind] for kind, _ in allowing) if task.launches else ()
            cores = tuple(task.cores[kind] for kind, _ in allowing) if task.cores else ()
            yield task._replace(seconds=seconds, path=path, work=work, launches=launches, cores=cores)

    def _problem_devices(self, choices: Sequence[tuple[int, frozenset[int]]]) -> Iterable[ProblemDevice]:
        for number, device in enumerate(self._devices):
            kind = next(place for place, (_, members) in enumerate(choices) if number in members)
            limit = device.allocation_limit
            pays = device.gpu is not None or self._wanted.sought is PlanMeasure.MEMORY
            yield ProblemDevice(device.name, kind, math.inf if limit is None else float(limit), pays)

    def _ways(self) -> tuple[tuple[DeviceLink, ...], ...]:
        """Return the transfer times between all devices, with each transfer alone on its route."""
        layout = self._layout()
        devices = range(len(self._devices))
        return tuple(tuple(layout.way(source, target) for target in devices) for source in devices)

    def _layout(self) -> MachineLayout:
        places, machine = self._places, self._machine
        runs_on = tuple(place.cores if place.gpu is None else place.gpu.compute for place in places)
        ends = [(place, place.gpu is None) for place in places] + [(place, True) for place in places]
        by_memory = tuple(
            tuple(
                (route.links, route.streams)
                for route in (
                    machine.route(sender, receiver, from_host=from_host, to_host=to_host) for receiver, to_host in ends
                )
            )
            for sender, from_host in ends
        )
        hosts = tuple(place.cores for place in places)
        routes = tuple(row[: len(places)] for row in by_memory[: len(places)])
        return MachineLayout(tuple(machine.resources), tuple(machine.links), runs_on, routes, hosts, by_memory)


def prefer_gpus(drawn: GraphProblem) -> GraphProblem:
    """Forbid CPUs for the groups that a GPU may run."""
    problem, tasks = drawn.problem, list(drawn.problem.tasks)
    gpus = {number for number, device in enumerate(drawn.devices) if device.gpu is not None}
    kinds = {problem.devices[number].kind for number in gpus}
    for members, homes in zip(problem.groups, problem.homes, strict=True):
        for task in members if homes & gpus else ():
            seconds = tuple(time if kind in kinds else math.inf for kind, time in enumerate(tasks[task].seconds))
            tasks[task] = tasks[task]._replace(seconds=seconds)
    return replace(drawn, problem=replace(problem, tasks=tuple(tasks)))


def keep_apart(drawn: GraphProblem, patterns: Sequence[str], handles: Mapping[str, Sequence[str]]) -> GraphProblem:
    """Forbid groups with nodes that match the same pattern to share a device.

    `handles` are the ids of nodes in the graph file.  Raises UsageError for a pattern without matches.
    """
    rows = []
    for pattern in patterns:
        fits = matcher([pattern], handles)
        row = tuple(number for number, group in enumerate(drawn.groups) if any(map(fits, group.nodes)))
        if not row:
            raise UsageError(f"no node matches --apart: got '{pattern}', expected a node that the step runs")
        rows.append(row)
    return replace(drawn, problem=replace(drawn.problem, apart=tuple(rows)))


def _calls(node: StepNode) -> bool:
    """Return whether a node calls functions, whose nodes are separate executions."""
    return any(execution.site is not None and execution.site.calls for execution in node.executions)


def _root(parent: dict[tuple[str, int], tuple[str, int]], key: tuple[str, int]) -> tuple[str, int]:
    """Return the representative of a key's set in a union-find forest, and shorten the path to it."""
    parent.setdefault(key, key)
    while parent[key] != key:
        parent[key] = parent[parent[key]]
        key = parent[key]
    return key


def relax_capacities(problem: PlanningProblem, movable: Sequence[NodeGroup]) -> PlanningProblem:
    """Reduce the memory of groups that no allowed device has room for, so that they are not excluded.

    Their memory is only an estimate, and the simulation decides whether they fit.
    """
    tasks = list(problem.tasks)
    for members, held, known in zip(problem.groups, problem.held, movable, strict=True):
        most = max(problem.devices[device].capacity for device in known.choices)
        if held > most:
            for task in members:
                tasks[task] = tasks[task]._replace(holds=tasks[task].holds * most / held * (1 - 1e-9))
    return replace(problem, tasks=tuple(tasks))


def _choice_kinds(kinds: Sequence[int], movable: Sequence[NodeGroup]) -> list[tuple[int, frozenset[int]]]:
    """Divide each kind of devices into parts, so that each group may use all or no devices of a part. Return (kind, part)."""
    parts: list[tuple[int, frozenset[int]]] = [
        (kind, frozenset(n for n, own in enumerate(kinds) if own == kind)) for kind in dict.fromkeys(kinds)
    ]
    for choices in {frozenset(group.choices) for group in movable}:
        divided = []
        for kind, members in parts:
            divided += [(kind, part) for part in (members & choices, members - choices) if part]
        parts = divided
    return sorted(parts, key=lambda part: min(part[1]))


def _device_of_groups(groups: Sequence[Sequence[int]], devices_of: Sequence[int]) -> tuple[int, ...]:
    """Return the device of each task: the device of the first task in its group, apart from signals (`_with_signals`)."""
    found: dict[int, int] = {}
    for group in groups:
        device = next((devices_of[task] for task in group if task < len(devices_of)), 0)
        found |= dict.fromkeys(group, device)
    return tuple(found[task] for task in range(len(found)))


def _with_signals(
    tasks: list[ProblemTask], inputs: list[set[int]], controls: Sequence[set[int]], groups: list[list[int]]
) -> tuple[list[ProblemTask], list[set[int]], list[list[int]]]:
    """Add a signal for each task that others wait for without reading its output.

    A signal is a task without work. It represents the message by which another device learns that a task has ended.
    """
    group_of = {task: number for number, group in enumerate(groups) for task in group}
    signals: dict[int, int] = {}
    for task, sources in enumerate(controls):
        for source in sorted(sources):
            if not tasks[source].makes:
                inputs[task].add(source)
                continue
            if source not in signals:
                signals[source] = len(tasks)
                nothing = (0.0,) * len(tasks[source].seconds)
                signal = ProblemTask(tasks[source].name, nothing, is_backward=tasks[source].is_backward, sends=UNSURE)
                if tasks[source].launches:
                    signal = signal._replace(launches=nothing, cores=(1,) * len(nothing), path=nothing, work=nothing)
                tasks.append(signal)
                inputs.append({source})
                groups[group_of[source]].append(signals[source])
            inputs[task].add(signals[source])
    return tasks, inputs, groups
