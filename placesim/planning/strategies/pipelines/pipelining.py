"""A training graph as a pipeline: each stage of the forward and backward pass, with variables and updates, is on one GPU."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from placesim.core.errors import UsageError
from placesim.graph.graph import Node, NodeDef, TensorRef
from placesim.graph.session_steps import GraphFile
from placesim.machine.inventory import with_gpus
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.gpu_requests import GpuRequests
from placesim.planning.strategies.node_writer import with_labels
from placesim.planning.strategies.pipelines.costs import ASSUMED_BATCH, PipelineCosts
from placesim.planning.strategies.pipelines.cuts import CutCosts, balanced_cuts, named_cuts
from placesim.planning.strategies.pipelines.places import ForwardPlaces
from placesim.planning.strategies.pipelines.schedules import PipelineTimes, Schedule
from placesim.planning.strategies.recomputation import Recomputation
from placesim.planning.strategies.training_graph import MAX_NAMED, TrainingGraph, find_held_variables


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """A stage: its GPU, the names of its first and last forward node, and the number of its forward nodes.

    `forward` and `backward` are predicted seconds of a micro-batch. `sent` are the bytes of a micro-batch's tensors that go to
    the next stage.
    """

    device: int
    first: str
    last: str
    nodes: int
    forward: float
    backward: float
    sent: int


class Pipeline:
    """A cut of a training graph into stages, and predictions of the pipeline.

    - `stage_of`: the stage of each node that has one, by id.
    - `variables`: the stage of each variable of the forward pass and of the optimizer.

    Raises UsageError for a graph that cannot be cut into stages.
    """

    def __init__(
        self,
        file: GraphFile,
        training: TrainingGraph,
        schedule: Schedule,
        shapes: BatchShapes | None,
        parts: int,
        scopes: Sequence[str] = (),
    ) -> None:
        self.schedule = schedule
        self._graph = training.graph
        self._places = places = ForwardPlaces(training)
        count = schedule.stages
        if len(places.main) < count:
            raise UsageError(
                f"too many stages: got {count}, expected at most {len(places.main)}, the number of forward nodes that depend "
                "on the batch and on variables"
            )
        self._predicted = PipelineCosts(file, training, shapes, parts)
        self._costs = costs = CutCosts(places, self._predicted, schedule)
        room = self._predicted.room - int(costs.working.max())
        fitting = named_cuts(places, count, scopes) if scopes else balanced_cuts(costs, schedule, room)
        self._cuts = fitting or balanced_cuts(costs, schedule, _NO_LIMIT) or ()
        self.stage_of = {number: self._stage(place) for number, place in places.of.items()}
        self.variables = {number: self._stage(place) for number, place in places.variables.items()}
        self._check_references()

    def _stage(self, place: int) -> int:
        return bisect_right(self._cuts, place)

    def _device(self, place: int) -> int:
        return self._stage(place) % self.schedule.devices

    def _check_references(self) -> None:
        """Raise UsageError for a node that needs a variable's handle or reference, but is in another stage."""
        for node in (*self._places.forward, *self._places.backward):
            for variable in find_held_variables(self._graph, node):
                stage = self.variables.get(variable.id)
                if stage not in (None, self.stage_of[node.id]):
                    raise UsageError(
                        f"cannot cut into stages: got {node.name} ({node.op}) in stage {self.stage_of[node.id]}, which needs "
                        f"the variable {variable.name} of stage {stage} on its own device; choose other stages with --stage"
                    )

    @cached_property
    def stages(self) -> tuple[PipelineStage, ...]:
        """The stages, with their predicted times."""
        return tuple(self._make_stage(stage, *bounds) for stage, bounds in enumerate(self._bounds()))

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Yield the first place of each stage, and the place after its last place."""
        yield from pairwise((0, *self._cuts, len(self._places.main)))

    def _make_stage(self, stage: int, first: int, end: int) -> PipelineStage:
        places, costs = self._places, self._costs
        return PipelineStage(
            stage % self.schedule.devices,
            places.main[first].name,
            places.main[end - 1].name,
            sum(self.stage_of[node.id] == stage for node in places.forward),
            float(costs.forward[first:end].sum()),
            float(costs.backward[first:end].sum()),
            int(costs.crossing[end]) if end < len(places.main) else 0,
        )

    @cached_property
    def times(self) -> PipelineTimes:
        """The predicted times of a step."""
        transfers = [self._predicted.transfer_seconds(stage.sent) for stage in self.stages]
        return self.schedule.simulate(
            lambda own: self.stages[own.stage].backward if own.is_backward else self.stages[own.stage].forward,
            transfers.__getitem__,
        )

    @cached_property
    def memory(self) -> tuple[int, ...]:
        """The predicted bytes of each device.

        The bytes are the sum of the stage's variables, their gradients, the batch, copies of other stages' variables, the
        activations that the schedule keeps at once, and the tensors of the largest gradient node.
        """
        schedule, costs = self.schedule, self._costs
        activations, found = [0] * schedule.stages, [0] * schedule.devices
        for ref, readers in costs.kept.items():
            for stage in {self._stage(place) for place in readers}:
                activations[stage] += self._predicted.size(ref)
        for ref, readers in costs.batch_readers.items():
            for device in {self._device(place) for place in readers} - {self._device(min(readers))}:
                found[device] += costs.arriving[ref]
        for variable, readers in self._places.readers.items():
            for device in {self._device(self._places.of[reader]) for reader in readers}:
                if device != self.variables[variable] % schedule.devices:
                    found[device] += self._predicted.size(TensorRef(variable, 0))
        working = [0] * schedule.devices
        for stage, (first, end) in enumerate(self._bounds()):
            device = stage % schedule.devices
            found[device] += int(costs.held[first:end].sum())
            working[device] = max(working[device], int(costs.working[first:end].max()))
        for device in range(schedule.devices):
            alive = (sum(map(int.__mul__, counts, activations)) for counts in schedule.alive(device))
            found[device] += working[device] + max(alive)
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about variables of several stages, devices without enough memory, and an assumed batch."""
        return tuple(self._find_notes())

    def _find_notes(self) -> Iterator[str]:
        for variable, readers in sorted(self._places.readers.items()):
            stages = sorted({self.stage_of[reader] for reader in readers})
            if len(stages) > 1:
                read = ", ".join(map(str, stages[:MAX_NAMED])) + (", ..." if len(stages) > MAX_NAMED else "")
                yield (
                    f"{self._graph.nodes[variable].name} is read in stages {read}: it belongs to stage "
                    f"{self.variables[variable]}, where its gradients are added"
                )
        largest, room = max(self.memory), self._predicted.room
        if largest > room:
            yield f"a GPU needs about {largest:,} bytes without recomputation, and has {room:,}"
        if self._predicted.is_assumed:
            yield f"times and memory are for an assumed batch of {ASSUMED_BATCH}, since no step feeds a batch"

    def stages_in(self, training: TrainingGraph, recomputation: Recomputation | None) -> dict[int, int]:
        """Return the stage of each copied node, after recomputation has added nodes and renumbered all nodes."""
        stages = {self._graph.nodes[number].name: stage for number, stage in self.stage_of.items()}
        if recomputation is not None:
            copies = recomputation.copy_names.items()
            stages |= {name: stages[recomputation.graph.nodes[number].name] for number, name in copies}
        return {number: stages[training.graph.nodes[number].name] for number in (*training.forward, *training.backward)}

    def file(self, file: GraphFile, *, moves_variables: bool = True) -> GraphFile:
        """Return the file in which each node with a stage and a GPU kernel requests the GPU of its stage.

        Without `moves_variables`, only nodes of the forward and backward pass get requests.
        """
        graph = self._graph
        passes = (*self._places.forward, *self._places.backward)
        numbers = self.stage_of if moves_variables else [node.id for node in passes]
        requests = GpuRequests(graph)
        devices = {
            number: requests.request(graph.nodes[number], self.stage_of[number] % self.schedule.devices) for number in numbers
        }

        def written(node: Node) -> NodeDef:
            device = devices.get(node.id, node.device)
            attrs = with_labels(graph, node, lambda holder: holder.name if is_together(node, holder) else None)
            return NodeDef(node.name, node.op, tuple(graph.input_texts(node)), device, attrs, node.location)

        def is_together(node: Node, holder: Node) -> bool:
            return node.id not in devices or devices[node.id] == devices.get(holder.id, holder.device)

        new = graph.emptied()
        new.extend([written(node) for node in graph.nodes])
        inventory = with_gpus(file.inventory, self.schedule.devices)
        return replace(file, graph=new, inventory=inventory, as_read=None)


_NO_LIMIT = 1 << 62
