"""Predicted cost of a node on each device: its time, the bottleneck, and the transfers of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.machine.inventory import Device
from placesim.ops.categories import ARGUMENTS
from placesim.prediction.cost_formulas import machine_of, start_seconds, work_family
from placesim.prediction.machine_resources import DevicePlace, SimulatedMachine
from placesim.prediction.node_shapes import KeptTensors, node_shapes, num_bytes
from placesim.prediction.step_tasks import PlacedKernel, StepCosts, count_operations
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.partitioning.memory_types import MemoryTypes, memory_types
from placesim.runtime.recording.recorder import Execution

if TYPE_CHECKING:
    from placesim.graph.graph import Node
    from placesim.prediction.node_work import NodeShapes
    from placesim.runtime.partitioning.prepared_step import PreparedStep
    from placesim.runtime.partitioning.pruning import ClientGraph

COMPUTE, MEMORY, LAUNCH = "compute", "memory", "launch"


class InputTransfer(NamedTuple):
    """An input that must be copied from another memory: its bytes, and the seconds of the copy on links without other
    transfers.
    """

    tensor: str
    sender: str
    bytes: int
    seconds: float


class DeviceCost(NamedTuple):
    """Cost of all runs of a node in a step if the node were on this device; times are in seconds.

    - `compute`: time for the operations at the rate that the processor sustains.
    - `memory`: time for the bytes at the bandwidth that copying reaches.
    - `launch`: the part of `seconds` that does not depend on sizes: the kernel's start or, on a host, its dispatch.
    - `launch_on_host`: time on the host before a GPU begins; `seconds` does not include it.
    - `bound`: name of the largest of `compute`, `memory` and `launch`.
    - `family`: name of the fitted formula; empty if the node only costs its dispatch.
    - `is_uncertain`: whether the node runs on a host with assumed figures.
    - `transfers`: transfers of the inputs that are in another memory.
    """

    device: str
    processor: str
    seconds: float
    low: float
    high: float
    compute: float
    memory: float
    launch: float
    launch_on_host: float
    bound: str
    family: str
    is_uncertain: bool
    transfers: tuple[InputTransfer, ...]

    @property
    def bound_text(self) -> str:
        """Name of the largest part for reports, which show `launch` as the kernel's start."""
        return "the kernel's start" if self.bound == LAUNCH else self.bound

    @property
    def transfer_seconds(self) -> float:
        """Total seconds of all input transfers."""
        return sum(transfer.seconds for transfer in self.transfers)


@dataclass(frozen=True)
class NodeCostEstimate:
    """Predicted time of a node in the steady state of a step of `run:`, on its own device (`here`) and on others (`elsewhere`).

    `operations` and `bytes` are totals of all `runs` executions: operations as the kernel counts them, and bytes that it reads
    and writes.  `unknown` has each device without a prediction, with the reason.  `calls` is set if the node calls functions;
    the nodes of a function have costs of their own.
    """

    node: str
    step: int
    runs: int
    operations: int
    bytes: int
    here: DeviceCost | None
    elsewhere: tuple[DeviceCost, ...]
    unknown: tuple[tuple[str, str], ...]
    calls: bool


class _Run(NamedTuple):
    """A node of a prepared step, and the executions of that node in the step."""

    step: int
    prepared: PreparedStep
    node: Node
    executions: list[Execution]


class NodeCosts:
    """Costs of the nodes in a graph's steps.  Each is computed when a caller asks for it."""

    def __init__(
        self, machine: SimulatedMachine, prepared: Sequence[PreparedStep], steps: Sequence[Sequence[Execution]]
    ) -> None:
        self._machine = machine
        self._costs = StepCosts(machine)
        self._prepared = prepared
        self._steps = steps
        self._runs: dict[str, _Run] | None = None
        self._kept: dict[int, KeptTensors] = {}

    def of(self, name: str, device_types: Sequence[str]) -> NodeCostEstimate | None:
        """Return a node's cost on its device and on all others of these types; None if no step runs it."""
        run = self._run(name)
        if run is None:
            return None
        places = self._machine.places
        own = run.prepared.client.devices[run.node.id]
        others = [
            place.device for place in places.values() if place.device.type in device_types and place.device.name != own.name
        ]
        found: list[DeviceCost] = []
        unknown: list[tuple[str, str]] = []
        for device in (own, *others):
            try:
                found.append(self._on(run, device))
            except PlacesimError as error:
                unknown.append((device.name, error.message))
        here = found[0] if found and found[0].device == own.name else None
        shapes = [_shapes(execution) for execution in run.executions]
        return NodeCostEstimate(
            node=name,
            step=run.step,
            runs=len(run.executions),
            operations=sum(shape.operations for shape in shapes),
            bytes=sum(shape.moved_bytes for shape in shapes),
            here=here,
            elsewhere=tuple(found[0 if here is None else 1 :]),
            unknown=tuple(unknown),
            calls=_site(run.executions[0]).calls,
        )

    def _run(self, name: str) -> _Run | None:
        """Return a node's executions in the last step that runs it; None if no step runs it."""
        if self._runs is None:
            self._runs = self._all_runs()
        return self._runs.get(name)

    def _all_runs(self) -> dict[str, _Run]:
        # a function's body may have nodes of the same names, so nodes are identified by object
        prepared_of = {
            id(node): prepared
            for prepared in self._prepared
            for part in prepared.partitions.parts
            for node in part.graph.nodes
            if node.name in prepared.client.graph.ids
        }
        found: dict[str, _Run] = {}
        for number, step in reversed(list(enumerate(self._steps))):
            for execution in step:
                site = execution.site
                if site is None or execution.is_dead or id(site.instruction.node) not in prepared_of:
                    continue
                name, prepared = site.instruction.node.name, prepared_of[id(site.instruction.node)]
                run = found.setdefault(name, _Run(number, prepared, prepared.client.graph.node(name), []))
                if run.step == number:
                    run.executions.append(execution)
        return found

    def _on(self, run: _Run, device: Device) -> DeviceCost:
        place = self._machine.places[device.name]
        registry = run.prepared.client.graph.registry
        memory = memory_types(registry, run.node.signature, device.type)
        parts = []
        if run.step not in self._kept:
            self._kept[run.step] = self._costs.kept_tensors(self._steps[run.step])
        for execution in run.executions:
            site = _site(execution)
            shapes = self._kept[run.step].shapes(site, execution)
            kernel = self._costs.kernel_on(place, site, shapes, memory.outputs)
            parts.append((kernel, _bounds(kernel, shapes, place), tuple(self._transfers(run, execution, device, memory))))
        kernels = [kernel for kernel, _, _ in parts]
        seconds, low, high = map(sum, zip(*(kernel.placed.predicted for kernel in kernels), strict=True))
        compute, moving, launch = map(sum, zip(*(bound for _, bound, _ in parts), strict=True))
        work = kernels[0].work
        return DeviceCost(
            device=device.name,
            processor=place.name,
            seconds=seconds,
            low=low,
            high=high,
            compute=compute,
            memory=moving,
            launch=launch,
            launch_on_host=sum(kernel.placed.launch for kernel in kernels),
            bound=max((launch, LAUNCH), (compute, COMPUTE), (moving, MEMORY), key=lambda part: part[0])[1],
            family="" if work is None else work_family(work, kernels[0].processor),
            is_uncertain=kernels[0].placed.is_assumed,
            transfers=_folded(transfer for _, _, transfers in parts for transfer in transfers),
        )

    def _transfers(self, run: _Run, execution: Execution, device: Device, memory: MemoryTypes) -> Iterator[InputTransfer]:
        """Yield a transfer for each input that is not in the device's memory.

        A variable that the node takes by reference needs no transfer, because it would move with the node.
        """
        client, node, places = run.prepared.client, run.node, self._machine.places
        seen: set[tuple[int, int]] = set()
        for number, (source, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True)):
            if number in node.signature.tied_inputs or (source, slot) in seen or number >= len(execution.inputs):
                continue
            seen.add((source, slot))
            sender, holder = client.graph.nodes[source], client.devices[source]
            made = memory_types(client.graph.registry, sender.signature, holder.type).outputs
            from_host, to_host = slot < len(made) and made[slot], number < len(memory.inputs) and memory.inputs[number]
            if holder is device and from_host == to_host:
                continue
            route = self._machine.route(places[holder.name], places[device.name], from_host=from_host, to_host=to_host)
            size = num_bytes((execution.inputs[number],))
            if route.links:
                seconds = self._machine.copy_seconds(route, size)
                yield InputTransfer(_tensor_name(client, sender, slot), holder.name, size, seconds)


def _tensor_name(client: ClientGraph, sender: Node, slot: int) -> str:
    """Return a tensor's name in the graph; the sender of a fed tensor is an `_Arg` node, which is only in the step."""
    if sender.op in ARGUMENTS:
        return client.feeds[sender.attrs["index"]].removesuffix(":0")
    return f"{sender.name}:{slot}" if slot else sender.name


def _folded(transfers: Iterable[InputTransfer]) -> tuple[InputTransfer, ...]:
    """Add up the bytes and seconds of transfers of the same tensor from the same sender."""
    found: dict[tuple[str, str], InputTransfer] = {}
    for transfer in transfers:
        known = found.get(transfer[:2])
        size, seconds = (0, 0.0) if known is None else known[2:]
        found[transfer[:2]] = transfer._replace(bytes=transfer.bytes + size, seconds=transfer.seconds + seconds)
    return tuple(found.values())


def _site(execution: Execution) -> Site:
    assert execution.site is not None
    return execution.site


def _shapes(execution: Execution) -> NodeShapes:
    return node_shapes(_site(execution), execution)


def _bounds(kernel: PlacedKernel, shapes: NodeShapes, place: DevicePlace) -> tuple[float, float, float]:
    """Return the seconds for the operations, for moving the bytes, and for the start, which does not depend on sizes."""
    if kernel.work is None:
        return 0.0, 0.0, kernel.placed.predicted.seconds
    machine = machine_of(kernel.work, kernel.processor)
    dispatch = place.host.dispatch if kernel.placed.resource == place.cores else 0.0
    return (
        count_operations(shapes, kernel.work) / machine.rate,
        shapes.moved_bytes / machine.bandwidth,
        dispatch + start_seconds(kernel.work, kernel.processor),
    )
