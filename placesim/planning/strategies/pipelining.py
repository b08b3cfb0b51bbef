"""A training graph as a pipeline: a GPU has one stage of the forward and backward pass, with its variables and updates."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from placesim.core.errors import UsageError
from placesim.graph.graph import Node, NodeDef, TensorRef
from placesim.graph.session_steps import GraphFile
from placesim.machine.inventory import with_gpus
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.node_writer import on_gpu, with_labels
from placesim.planning.strategies.pipeline_costs import ASSUMED_BATCH, PipelineCosts
from placesim.planning.strategies.pipeline_cuts import CutCosts, balanced_cuts, named_cuts
from placesim.planning.strategies.pipeline_places import ForwardPlaces
from placesim.planning.strategies.pipeline_schedules import PipelineTimes, Schedule
from placesim.planning.strategies.recomputation import COPIES
from placesim.planning.strategies.training_graph import MAX_NAMED, TrainingGraph, find_held_variables


@dataclass(frozen=True, slots=True)
class StageFacts:
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
    """The stage of each node that has one (`stage_of`, by id), and predictions of the pipeline.

    - `stages`: facts about each stage.
    - `memory`: the predicted bytes of each device: variables, gradients, the batch, copies of other
      stages' variables, activations that the schedule keeps, and what the largest gradient node reads and writes.
    - `times`: predicted times of a step.
    - `notes`: sentences about variables of several stages, and about stages that do not fit.

    Raises UsageError for a graph that has no such stages.
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
        self._copied = frozenset((*training.forward, *training.backward))
        places = ForwardPlaces(training)
        count = schedule.stages
        if len(places.main) < count:
            raise UsageError(
                f"too many stages: got {count}, expected at most {len(places.main)}, the number of forward nodes that depend "
                "on the batch and on variables"
            )
        predicted = PipelineCosts(file, training, shapes, parts)
        costs = CutCosts(places, predicted)
        fitting = named_cuts(places, count, scopes) if scopes else balanced_cuts(costs, schedule, predicted.room)
        cuts = fitting or balanced_cuts(costs, schedule, _NO_LIMIT) or ()
        self.stage_of = {number: bisect_right(cuts, place) for number, place in places.of.items()}
        self.variables = {number: bisect_right(cuts, place) for number, place in places.variables.items()}
        self._check_references(places)
        bounds = (0, *cuts, len(places.main))
        crossing = (*(int(costs.crossing[cut]) for cut in cuts), 0)
        self.stages = tuple(
            StageFacts(
                stage % schedule.devices,
                places.main[first].name,
                places.main[end - 1].name,
                sum(self.stage_of[node.id] == stage for node in places.forward),
                float(costs.forward[first:end].sum()),
                float(costs.backward[first:end].sum()),
                crossing[stage],
            )
            for stage, (first, end) in enumerate(pairwise(bounds))
        )
        transfers = [predicted.transfer_seconds(size) for size in crossing]
        self.times: PipelineTimes = schedule.simulate(
            lambda own: self.stages[own.stage].backward if own.is_backward else self.stages[own.stage].forward,
            transfers.__getitem__,
        )
        self.memory = self._find_memory(places, costs, predicted, bounds)
        self.notes = tuple(self._find_notes(places, predicted))

    def _check_references(self, places: ForwardPlaces) -> None:
        """Raise UsageError for a node that needs a variable's handle or reference, but is in another stage."""
        for node in (*places.forward, *places.backward):
            for variable in find_held_variables(self._graph, node):
                stage = self.variables.get(variable.id)
                if stage not in (None, self.stage_of[node.id]):
                    raise UsageError(
                        f"no stages: got {node.name} ({node.op}) in stage {self.stage_of[node.id]}, which needs the variable "
                        f"{variable.name} of stage {stage} on its own device; choose other stages with --stage"
                    )

    def _find_memory(
        self, places: ForwardPlaces, costs: CutCosts, predicted: PipelineCosts, bounds: Sequence[int]
    ) -> tuple[int, ...]:
        schedule = self.schedule
        activations, inputs = [0] * schedule.stages, [0] * schedule.devices
        for ref, readers in costs.kept.items():
            for stage in {bisect_right(bounds, place) - 1 for place in readers}:
                activations[stage] += predicted.size(ref)
        for ref, readers in costs.batch_readers.items():
            for device in {(bisect_right(bounds, place) - 1) % schedule.devices for place in readers}:
                inputs[device] += predicted.size(ref) * schedule.micro_batches
        for variable, readers in places.readers.items():
            own = {self.variables[variable] % schedule.devices}
            for device in {self.stage_of[reader] % schedule.devices for reader in readers} - own:
                inputs[device] += predicted.size(TensorRef(variable, 0))
        weights = [int(costs.weights[first:end].sum()) for first, end in pairwise(bounds)]
        working = [int(costs.working[first:end].max()) for first, end in pairwise(bounds)]
        found = []
        for device, size in enumerate(inputs):
            alive = max(sum(map(int.__mul__, counts, activations)) for counts in schedule.alive(device))
            found.append(size + alive + sum(weights[device :: schedule.devices]) + max(working[device :: schedule.devices]))
        return tuple(found)

    def _find_notes(self, places: ForwardPlaces, predicted: PipelineCosts) -> Iterator[str]:
        nodes = self._graph.nodes
        for variable, readers in sorted(places.readers.items()):
            stages = sorted({self.stage_of[reader] for reader in readers})
            if len(stages) > 1:
                read = ", ".join(map(str, stages[:MAX_NAMED])) + (", ..." if len(stages) > MAX_NAMED else "")
                yield (
                    f"{nodes[variable].name} is read in stages {read}: it is on the GPU of stage {self.variables[variable]}, "
                    "where its gradients are added"
                )
        largest = max(self.memory)
        if largest > predicted.room:
            yield f"a GPU needs about {largest:,} bytes, and has {predicted.room:,}"
        if predicted.is_assumed:
            yield f"times and memory are those of an assumed batch of {ASSUMED_BATCH}, since no step feeds one"

    def stages_in(self, training: TrainingGraph) -> dict[int, int]:
        """Return the stage of each copied node, after a recomputation has added nodes and renumbered all."""
        names = {self._graph.nodes[number].name: stage for number, stage in self.stage_of.items()}
        nodes = (training.graph.nodes[number] for number in (*training.forward, *training.backward))
        return {node.id: names[node.name.removeprefix(f"{COPIES}/")] for node in nodes}

    def file(self, file: GraphFile, *, moves_variables: bool = True) -> GraphFile:
        """Return the file with the request of its stage's GPU for each node that has a stage and a kernel for GPUs.

        Without `moves_variables`, only the forward and backward pass gets requests.
        """
        graph = self._graph
        numbers = self.stage_of if moves_variables else self._copied
        devices = {
            number: on_gpu(graph, graph.nodes[number], self.stage_of[number] % self.schedule.devices) for number in numbers
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
