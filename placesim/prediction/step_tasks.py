"""Conversion of a step's executions to tasks and transfers on a machine's streams, cores and links; task n is execution n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.core.errors import InvalidArgumentError
from placesim.machine.host_models import HostProfile
from placesim.machine.timelines.workload import NOWHERE, LinkTransfer, Task
from placesim.ops.categories import FUNCTION_ENDS, HOST_TRANSFERS, RECEIVES, SENDS, VARIABLE_READS, VARIABLES
from placesim.ops.kernels.cost_model import DISPATCH
from placesim.prediction.calling_thread import passed_to_pool, uses_pool
from placesim.prediction.collectives import TREE, group_members, hops_seconds, ring_hops, ring_order, tree_seconds
from placesim.prediction.cost_formulas import Prediction, has_rare_kernel, predict
from placesim.prediction.host_costs import kernel_prediction
from placesim.prediction.host_loads.elements import is_direct
from placesim.prediction.host_loads.rules import host_load
from placesim.prediction.hosts import SHARE_SECONDS
from placesim.prediction.machine_resources import DevicePlace, Route, SimulatedMachine
from placesim.prediction.node_shapes import KeptTensors, num_bytes
from placesim.prediction.node_work import NodeShapes, arithmetic_of, node_work
from placesim.prediction.processors import NoFiguresError, Processor
from placesim.prediction.work_amounts import Product, Work
from placesim.runtime.accounting.node_sites import Site
from placesim.runtime.executors.program import Program, needs_dataflow
from placesim.runtime.executors.transfer_keys import TransferKey
from placesim.runtime.partitioning.partition import tensor_of
from placesim.runtime.partitioning.pruning import is_step_end
from placesim.runtime.recording.recorder import Execution

NOTHING = Prediction(0.0, 0.0, 0.0)


class ExecutionCost(NamedTuple):
    """Cost and place of an execution on `resource`.

    If the resource is a GPU's stream, the host first takes `launch` seconds to launch the execution. `is_assumed` is set for a
    host with assumed figures. Only transfers have a `route` and `num_bytes`. A member of a ring has a `hop` instead, without
    inputs. `operations` are the floating-point operations on the device itself, and `peak_seconds` is their time at its peak
    rate. A node of a host may occupy a calling thread (`caller`) instead of a thread of the pool. `is_rare` is set for kernels
    that deviate together, since a library has quick ones for all of them or none.
    """

    predicted: Prediction
    resource: int = NOWHERE
    launch: float = 0.0
    cores: int = 1
    is_assumed: bool = False
    route: Route | None = None
    num_bytes: int = 0
    operations: int = 0
    peak_seconds: float = 0.0
    hop: LinkTransfer | None = None
    caller: int = NOWHERE
    is_rare: bool = False


class PlacedKernel(NamedTuple):
    """Cost of a kernel on a device, with the processor and the work; `work` is None if the kernel only costs its dispatch."""

    placed: ExecutionCost
    processor: Processor
    work: Work | None = None


_NOWHERE = ExecutionCost(NOTHING)
_BESIDE = dict(zip(FUNCTION_ENDS, ("fed", "fetched"), strict=True)) | dict.fromkeys((*VARIABLES, *VARIABLE_READS), "variable")
"""Names of the seconds, in a host's profile, that nodes of these ops take beside their dispatch."""


class StepCosts:
    """Costs of executions on a machine; the cost of equal executions is computed only once."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._known: dict[tuple[object, ...], ExecutionCost] = {}
        self._orders: dict[tuple[str, ...], Sequence[int]] = {}
        self._by_arrival: dict[int, bool] = {}
        self._is_measured = any(host.profile is not None for host in machine.hosts.values())
        self._compute_streams = {place.gpu.compute for place in machine.places.values() if place.gpu is not None}

    def placed(self, step: Sequence[Execution]) -> list[ExecutionCost]:
        """Return the cost of each execution.  Raises NoFiguresError if a GPU's rate for a node is unknown."""
        found: list[ExecutionCost] = []
        kept = self.kept_tensors(step)
        for execution in step:
            is_end = execution.site is None
            found.append(self._end_of_call(execution, found) if is_end else self._placed(execution, step, kept))
        for members in group_members(step):
            for member, cost in zip(members, self._collective([step[member] for member in members]), strict=True):
                found[member] = cost
        if self._is_measured:
            self._begin(step, found)
            self._choose_threads(step, found)
        return found

    def kept_tensors(self, step: Sequence[Execution]) -> KeptTensors:
        """Return the tensors that a step reads and does not make; none unless a host is measured."""
        return KeptTensors(step if self._is_measured else ())

    def _begin(self, step: Sequence[Execution], found: list[ExecutionCost]) -> None:
        """Add the time to begin and end a step to the step's first node on a measured host."""
        for number, execution in enumerate(step):
            if execution.site is None:
                continue
            place, cost = self._machine.places[execution.site.program.state.device.name], found[number]
            if cost.resource == place.cores and place.host.profile is not None:
                found[number] = cost._replace(predicted=_later(cost.predicted, place.host.profile.seconds["step"]))
                return

    def _choose_threads(self, step: Sequence[Execution], found: list[ExecutionCost]) -> None:
        """Divide the nodes of measured hosts among the calling thread and the pool, and add the time that this takes."""
        resources, places = self._machine.resources, self._machine.places
        pools = [resources[place.cores] for place in places.values() if place.caller != NOWHERE]
        if not pools:
            return
        has_pool = uses_pool(step)
        passed = passed_to_pool(step) if has_pool else frozenset()
        for number, execution in enumerate(step):
            site, cost = execution.site, found[number]
            if site is None:
                continue
            place = places[site.program.state.device.name]
            profile = place.host.profile
            if profile is None or cost.resource != place.cores:
                continue
            predicted = cost.predicted
            # else this is part of the kernel's cost
            if has_pool and not execution.is_called and not self._starts_by_arrival(site.program):
                predicted = _later(predicted, profile.seconds["dataflow"] - profile.seconds["dispatch"])
            if number in passed:
                predicted = _later(predicted, profile.seconds["handed"], 1 + profile.spreads.get("handed", 0.0))
            found[number] = cost._replace(predicted=predicted, caller=NOWHERE if number in passed else place.caller)

    def _starts_by_arrival(self, program: Program) -> bool:
        """Return whether a program's nodes start as their inputs arrive even without a pool."""
        if id(program) not in self._by_arrival:
            self._by_arrival[id(program)] = needs_dataflow((program,))
        return self._by_arrival[id(program)]

    def _collective(self, members: Sequence[Execution]) -> list[ExecutionCost]:
        """Return the cost of each member of a collective, which occupies a GPU's stream for copies to other GPUs.

        The faster of ring and tree is chosen by NCCL's estimates. In a ring, each member has a transfer over the links of its
        hop. A tree, which is faster only for small tensors, is a task of fixed duration.
        """
        sites = [member.site for member in members if member.site is not None]
        places = [self._machine.places[site.program.state.device.name] for site in sites]
        size = max(num_bytes((*member.inputs[:1], *member.outputs)[:1]) for member in members)
        kind = sites[0].instruction.kernel.cost.kind
        if len(places) < 2:
            return [self._member(place, 0.0) for place in places]
        names = tuple(place.device.name for place in places)
        if names not in self._orders:
            self._orders[names] = ring_order(places, self._machine)
        hops = ring_hops(kind, places, self._orders[names], self._machine, size)
        seconds = hops_seconds(hops, self._machine)
        if kind == TREE and (along_tree := tree_seconds(places, self._machine, size)) < seconds:
            return [self._member(place, along_tree) for place in places]
        costs = [self._member(place, seconds) for place in places]
        streams = [() if place.gpu is None else (place.gpu.to_others,) for place in places]
        return [
            cost._replace(hop=LinkTransfer(hops.num_bytes, route, (), own))
            for cost, route, own in zip(costs, hops.routes, streams, strict=True)
        ]

    def _member(self, place: DevicePlace, seconds: float) -> ExecutionCost:
        if place.gpu is None:
            return ExecutionCost(_exactly(seconds), place.cores, is_assumed=place.host.is_assumed)
        return ExecutionCost(_exactly(seconds), place.gpu.to_others, place.gpu.launch or place.host.launch)

    def _end_of_call(self, execution: Execution, before: Sequence[ExecutionCost]) -> ExecutionCost:
        """Return the cost of the end of a function call, which takes no time.

        If all of the function's last kernels run on one stream, the end is put on that stream.  Kernels of that stream that
        read the function's results then wait only for their turn on the stream.
        """
        resources = {before[source].resource for source in execution.sources}
        streams = resources & self._compute_streams
        return ExecutionCost(NOTHING, min(streams)) if len(streams) == 1 else _NOWHERE

    def work_seconds(self, step: Sequence[Execution]) -> float:
        """Return the total seconds of a step's executions and transfers, as if each ran alone."""
        found = 0.0
        for cost in self.placed(step):
            found += cost.predicted.seconds + cost.launch
            if cost.route is not None:
                found += self._machine.copy_seconds(cost.route, cost.num_bytes)
        return found

    def _placed(self, execution: Execution, step: Sequence[Execution], kept: KeptTensors) -> ExecutionCost:
        site = execution.site
        if site is None or execution.is_dead:
            return _NOWHERE
        op = site.instruction.node.op
        if op in SENDS:
            return _NOWHERE
        if op in RECEIVES:
            return self._transfer(site, execution, step)
        key: tuple[object, ...] = (id(site.program), _beside(site))
        if not is_dispatch(site):
            read = (kept.read_bytes(site, execution), kept.step_bytes)
            key = (*key, id(site.instruction.attrs), op, site.output_on_host, execution.inputs, execution.outputs, *read)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._kernel(site, kept.shapes(site, execution))
        return found

    def _transfer(self, site: Site, execution: Execution, step: Sequence[Execution]) -> ExecutionCost:
        op, key = site.instruction.node.op, site.instruction.key
        assert key is not None
        senders = (step[source].site for source in execution.sources)
        from_host = any(sender is not None and sender.instruction.node.op in HOST_TRANSFERS for sender in senders)
        known = (key[0], key[1], op, from_host, execution.outputs)
        found = self._known.get(known)
        if found is None:
            places = self._machine.places
            route = self._machine.route(places[key[0]], places[key[1]], from_host=from_host, to_host=op in HOST_TRANSFERS)
            found = self._known[known] = ExecutionCost(NOTHING, route=route, num_bytes=num_bytes(execution.outputs))
        return found

    def _kernel(self, site: Site, shapes: NodeShapes) -> ExecutionCost:
        place = self._machine.places[site.program.state.device.name]
        kernel = self.kernel_on(place, site, shapes, site.output_on_host)
        own, resource = (
            (place.host.processor(place.host.cores), place.cores)
            if place.gpu is None
            else (place.gpu.processor, place.gpu.compute)
        )
        operations = count_operations(shapes, kernel.work)
        if kernel.placed.resource != resource or not operations:
            return kernel.placed
        peak = own.peak(arithmetic_of(shapes.dtype, own))
        return kernel.placed._replace(operations=operations, peak_seconds=operations / peak)

    def kernel_on(self, place: DevicePlace, site: Site, shapes: NodeShapes, output_on_host: Sequence[bool]) -> PlacedKernel:
        """Return the cost of a node with these shapes on the device of `place`.

        Raises NoFiguresError, which names the node, if the device has no rate for the node's arithmetic.
        """
        # outputs in host memory are computed on the host, except those that describe a tensor on the GPU
        on_host = place.gpu is None or (any(output_on_host) and all(output_on_host))
        is_dispatched = is_dispatch(site) or not shapes.moved_bytes
        if place.gpu is not None and (is_dispatched or not on_host):
            processor = place.gpu.processor
            work = None if is_dispatched else node_work(shapes, processor)
            if work is None:
                return PlacedKernel(ExecutionCost(NOTHING, place.gpu.compute, place.host.dispatch), processor)
            launch = place.gpu.launch or place.host.launch
            cost = ExecutionCost(_predicted(site.name, work, processor), place.gpu.compute, launch)
            return PlacedKernel(cost._replace(is_rare=has_rare_kernel(work, processor)), processor, work)
        return self._on_host(site, shapes, place, is_dispatched=is_dispatched)

    def _on_host(self, site: Site, shapes: NodeShapes, place: DevicePlace, *, is_dispatched: bool) -> PlacedKernel:
        host, threads = place.host, self._machine.intra_op(place.host)
        if host.profile is not None:
            return self._on_measured_host(site, shapes, place, host.profile, is_dispatched=is_dispatched)
        work = None if is_dispatched else node_work(shapes, host.processor(1))
        if work is None:
            placed = ExecutionCost(_exactly(host.dispatch), place.cores, is_assumed=host.is_assumed)
            return PlacedKernel(placed, host.processor(1))
        alone, factor = _predicted(site.name, work, host.processor(1)), host.model.ops.get(shapes.op, 1.0)
        cores = max(1, min(threads, int(alone.seconds / SHARE_SECONDS)))
        found = alone if cores == 1 else min(alone, _predicted(site.name, work, host.processor(cores)))
        predicted = Prediction(*(seconds * factor + host.dispatch for seconds in found))
        placed = ExecutionCost(predicted, place.cores, cores=cores, is_assumed=host.is_assumed)
        return PlacedKernel(placed, host.processor(cores), work)

    def _on_measured_host(
        self, site: Site, shapes: NodeShapes, place: DevicePlace, profile: HostProfile, *, is_dispatched: bool
    ) -> PlacedKernel:
        key = "dataflow" if self._starts_by_arrival(site.program) else "dispatch"
        load = None if is_dispatched else host_load(shapes)
        if load is None:
            beside = _beside(site)
            seconds = profile.seconds[key] + (profile.seconds[beside] if beside else 0.0)
            return PlacedKernel(ExecutionCost(_exactly(seconds), place.cores), place.host.processor(1))
        beside = "beside_direct" if is_direct(shapes) else "beside"
        dispatch = profile.seconds[beside] + profile.seconds[key] - profile.seconds["dispatch"]
        threads = min(self._machine.intra_op(place.host), load.parts)
        found = kernel_prediction(load, profile, threads)
        placed = ExecutionCost(_later(found, dispatch), place.cores, cores=max(1, threads))
        return PlacedKernel(placed, place.host.processor(max(1, threads)), node_work(shapes, place.host.processor(1)))


def _exactly(seconds: float) -> Prediction:
    return Prediction(seconds, seconds, seconds)


def _later(predicted: Prediction, seconds: float, factor: float = 1.0) -> Prediction:
    """Return a prediction with `seconds` more, which may be `factor` times smaller or larger."""
    return Prediction(predicted.seconds + seconds, predicted.low + seconds / factor, predicted.high + seconds * factor)


def _beside(site: Site) -> str:
    """Return the name of the seconds, in a host's profile, that a node takes beside its dispatch; empty if there are none."""
    node = site.instruction.node
    return "" if node.op in FUNCTION_ENDS and not is_step_end(node) else _BESIDE.get(node.op, "")


def is_dispatch(site: Site) -> bool:
    """Return whether a node only costs its dispatch: its kernel computes nothing, or only calls functions."""
    return bool(site.calls) or site.instruction.kernel.cost.kind == DISPATCH.kind


def count_operations(shapes: NodeShapes, work: Work | None) -> int:
    """Return the floating-point operations of a node's kernel; a multiplication and an addition are two."""
    return shapes.operations or (round(work.operations) if isinstance(work, Product) else 0)


def transfer_ends(execution: Execution) -> tuple[str, str, str]:
    """Return the sending device, receiving device and tensor of a transfer; the tensor has its name in the graph."""
    sender, receiver, tensor = transfer_key(execution)
    return sender, receiver, tensor_of(tensor)


def transfer_key(execution: Execution) -> TransferKey:
    """Return the sending device, receiving device and tensor of a transfer, under the name that the partitioner gave it."""
    assert execution.site is not None
    key = execution.site.instruction.key
    assert key is not None
    return key


def _predicted(name: str, work: Work, processor: Processor) -> Prediction:
    try:
        return predict(work, processor)
    except InvalidArgumentError as error:
        raise NoFiguresError(f"no time for {name}: {error.message}") from None


def workload(step: Sequence[Execution], placed: Sequence[ExecutionCost]) -> list[Task | LinkTransfer]:
    """Return the tasks of a step, with their predicted seconds."""
    return [_task(execution, cost) for execution, cost in zip(step, placed, strict=True)]


def _task(execution: Execution, cost: ExecutionCost) -> Task | LinkTransfer:
    if cost.hop is not None:
        return cost.hop._replace(inputs=execution.sources)
    if cost.route is not None:
        return LinkTransfer(float(cost.num_bytes), cost.route.links, execution.sources, cost.route.streams)
    resource = cost.resource if cost.caller == NOWHERE else cost.caller
    return Task(cost.predicted.seconds, resource, execution.sources, cost.launch, cost.cores)
