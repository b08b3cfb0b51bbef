"""What a step executed -> tasks and transfers on a machine's streams, cores and links; task n is execution n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from placesim.devices.host_models import HostProfile
from placesim.dtypes import FLOAT
from placesim.errors import InvalidArgumentError, UsageError
from placesim.ops.categories import RECEIVES, SENDS
from placesim.prediction.costs import Prediction, predict
from placesim.prediction.host_costs import kernel_prediction
from placesim.prediction.host_loads import host_load
from placesim.prediction.hosts import SHARE_SECONDS
from placesim.prediction.machines import Place, Route, SimulatedMachine
from placesim.prediction.node_work import DISPATCHED, NodeShapes, node_work
from placesim.prediction.processors import Processor
from placesim.prediction.work import Work
from placesim.runtime.accounting.sites import Site
from placesim.runtime.dataflow import LARGE_INPUT_BYTES
from placesim.runtime.kernels.kernel import is_expensive
from placesim.runtime.program import needs_dataflow
from placesim.runtime.recording import Execution, TypedShape
from placesim.timelines.workload import NOWHERE, Task, Transfer

NOTHING = Prediction(0.0, 0.0, 0.0)


class Placed(NamedTuple):
    """What an execution takes and where: on `resource`, after `launch` seconds on the host where that is a stream.

    `is_assumed` tells what runs on a host's cores of which nothing is known.  Transfers have a `route` and `num_bytes`.
    """

    predicted: Prediction
    resource: int = NOWHERE
    launch: float = 0.0
    cores: int = 1
    is_assumed: bool = False
    route: Route | None = None
    num_bytes: int = 0


_NOWHERE = Placed(NOTHING)


class StepCosts:
    """What executions take on a machine, found once for those that are alike."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._known: dict[tuple[object, ...], Placed] = {}

    def placed(self, step: Sequence[Execution]) -> list[Placed]:
        """One for each execution; UsageError where a GPU has no rate for what a node computes."""
        return [self._placed(execution, step) for execution in step]

    def _placed(self, execution: Execution, step: Sequence[Execution]) -> Placed:
        site = execution.site
        if site is None or execution.is_dead:
            return _NOWHERE
        op = site.instruction.node.op
        if op in SENDS:
            return _NOWHERE
        if op in RECEIVES:
            return self._transfer(site, execution, step)
        key = (id(site.program), id(site.instruction.attrs), op, site.output_on_host, execution.inputs, execution.outputs)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._kernel(site, execution)
        return found

    def _transfer(self, site: Site, execution: Execution, step: Sequence[Execution]) -> Placed:
        key, places = site.instruction.key, self._machine.places
        assert key is not None
        senders = (step[source].site for source in execution.sources)
        from_host = any(sender is not None and sender.instruction.node.op == "_HostSend" for sender in senders)
        to_host = site.instruction.node.op == "_HostRecv"
        route = self._machine.route(places[key[0]], places[key[1]], from_host=from_host, to_host=to_host)
        return Placed(NOTHING, route=route, num_bytes=num_bytes(execution.outputs))

    def _kernel(self, site: Site, execution: Execution) -> Placed:
        place = self._machine.places[site.program.state.device.name]
        # what lives in host memory is computed on the host, unless it is read off a tensor of the GPU's
        on_host = place.gpu is None or (any(site.output_on_host) and all(site.output_on_host))
        shapes = node_shapes(site, execution)
        is_dispatched = shapes.op in DISPATCHED or site.calls or not shapes.moved_bytes
        if place.gpu is not None and (is_dispatched or not on_host):
            work = None if is_dispatched else node_work(shapes, place.gpu.processor)
            if work is None:
                return Placed(NOTHING, place.gpu.compute, place.host.dispatch)
            return Placed(_predicted(site, work, place.gpu.processor), place.gpu.compute, place.gpu.launch or place.host.launch)
        return self._on_host(site, shapes, place, is_dispatched=is_dispatched)

    def _on_host(self, site: Site, shapes: NodeShapes, place: Place, *, is_dispatched: bool) -> Placed:
        host, threads = place.host, self._machine.intra_op(place.host)
        if host.profile is not None:
            return self._on_measured_host(site, shapes, place, host.profile, is_dispatched=is_dispatched)
        work = None if is_dispatched else node_work(shapes, host.processor(1))
        if work is None:
            return Placed(_exactly(host.dispatch), place.cores, is_assumed=host.is_assumed)
        alone = _predicted(site, work, host.processor(1))
        cores = max(1, min(threads, int(alone.seconds / SHARE_SECONDS)))
        found = alone if cores == 1 else min(alone, _predicted(site, work, host.processor(cores)))
        predicted = Prediction(*(seconds + host.dispatch for seconds in found))
        return Placed(predicted, place.cores, cores=cores, is_assumed=host.is_assumed)

    def _on_measured_host(
        self, site: Site, shapes: NodeShapes, place: Place, profile: HostProfile, *, is_dispatched: bool
    ) -> Placed:
        in_parallel = self._machine.threads.inter_op > 1
        key = "dataflow" if in_parallel or needs_dataflow((site.program,)) else "dispatch"
        load = None if is_dispatched else host_load(shapes)
        if load is None:
            return Placed(_exactly(profile.seconds[key]), place.cores)
        dispatch = profile.seconds["beside"] + profile.seconds[key] - profile.seconds["dispatch"]
        if in_parallel and is_handed_over(site, shapes):
            dispatch += profile.seconds["handed"]
        threads = min(self._machine.intra_op(place.host), load.parts)
        found = kernel_prediction(load, profile, threads)
        return Placed(Prediction(*(seconds + dispatch for seconds in found)), place.cores, cores=max(1, threads))


def _exactly(seconds: float) -> Prediction:
    return Prediction(seconds, seconds, seconds)


def is_handed_over(site: Site, shapes: NodeShapes) -> bool:
    """Whether a session with threads between ops runs the node in one of them."""
    return is_expensive(site.instruction.kernel) and shapes.read_bytes > LARGE_INPUT_BYTES


def node_shapes(site: Site, execution: Execution) -> NodeShapes:
    instruction = site.instruction
    inputs = tuple(dims for dims, _ in execution.inputs)
    outputs = tuple(dims for dims, _ in execution.outputs)
    op, flops = instruction.node.op, instruction.kernel.flops
    computes = flops is not None and op not in DISPATCHED and bool(outputs)
    operations = int(flops(inputs, outputs, instruction.attrs)) if computes and flops is not None else 0
    made = (*execution.outputs, *execution.inputs)
    dtype = made[0][1] if made else FLOAT
    return NodeShapes(op, instruction.attrs, inputs, outputs, dtype, operations, num_bytes(made), num_bytes(execution.inputs))


def num_bytes(shapes: Sequence[TypedShape]) -> int:
    """The bytes of tensors; strings, handles and variants count for none."""
    found = 0
    for dims, dtype in shapes:
        count = dtype.size
        for dim in dims:
            count *= dim
        found += count
    return found


def _predicted(site: Site, work: Work, processor: Processor) -> Prediction:
    try:
        return predict(work, processor)
    except InvalidArgumentError as error:
        raise UsageError(f"no time for {site.name}: {error.message}") from None


def workload(step: Sequence[Execution], placed: Sequence[Placed], pick: Callable[[Prediction], float]) -> list[Task | Transfer]:
    """The tasks of a step, each with the seconds that are picked of its prediction."""
    found: list[Task | Transfer] = []
    for execution, cost in zip(step, placed, strict=True):
        if cost.route is not None:
            found.append(Transfer(float(cost.num_bytes), cost.route.links, execution.sources, cost.route.streams))
        else:
            found.append(Task(pick(cost.predicted), cost.resource, execution.sources, cost.launch, cost.cores))
    return found
