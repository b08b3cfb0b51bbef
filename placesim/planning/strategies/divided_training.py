"""A training graph whose batch is computed in equal parts: the nodes that are copied for each part, and all other nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.core.errors import UsageError
from placesim.graph.graph import Node, TensorRef
from placesim.inspection.memory_categories import find_origin, find_written_variable
from placesim.ops.categories import ENTERS, LOOPS, VARIABLES
from placesim.ops.kernels.shapes import format_dims, is_fully_defined
from placesim.planning.strategies.batch_dependence import BatchDependence, Dependence
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.mirrored_variables import MirroredVariables
from placesim.planning.strategies.pipelines.pass_order import PassOrder
from placesim.planning.strategies.training_graph import TrainingGraph, list_names
from placesim.planning.strategies.zero_gradients import find_ignored_variables


class Part(NamedTuple):
    """A copy of the replicated nodes, for part `number` of the batch: micro-batch `micro_batch` of a replica."""

    number: int
    replica: int
    micro_batch: int
    scope: str


@dataclass(frozen=True, slots=True)
class Replication:
    """The numbers of replicas, each on its own GPUs, and of micro-batches that each replica computes one after another.

    `reduction` is a name of `REDUCTIONS`. With `is_mirrored`, each replica has its own variables, updated with the same
    gradients; otherwise all replicas share variables on the CPU. `gpus` is the number of GPUs of a replica; if there are
    several, nodes request the GPUs of the first replica.
    """

    replicas: int = 1
    micro_batches: int = 1
    reduction: str = "cpu"
    is_mirrored: bool = False
    gpus: int = 1

    def parts(self) -> tuple[Part, ...]:
        """Return the copies, ordered by replica and then by micro-batch."""
        found: list[Part] = []
        for replica in range(self.replicas):
            for micro_batch in range(self.micro_batches):
                scopes = [f"tower_{replica}"] * (self.replicas > 1) + [f"micro_batch_{micro_batch}"] * (self.micro_batches > 1)
                found.append(Part(len(found), replica, micro_batch, "/".join(scopes)))
        return tuple(found)


class DividedTraining:
    """The parts of the batch, and the role of each node. Raises UsageError if the batch cannot be computed in parts.

    - `copied`: the nodes of the forward and backward pass, which are copied for each part; `backward`: the nodes of gradients
      among them.
    - `after`: the other nodes that depend on copied nodes. They read the combined results of all parts.
    - `gradients`: the gradients that nodes in `after` read, if they have the same shape in each part.
    - `awaited`: nodes in `after` for which copied nodes wait, such as moving averages of statistics. In the rewritten graph,
      the updates wait for them, since otherwise each copy would wait for all copies.
    - `on_cpu`: variables that replicas share, and the nodes between gradients and updates.
    - `is_mean`: whether the loss is a mean over the batch; else it is a sum.
    - `order`: the order of the passes of a pipeline. Without an order, each micro-batch waits for the previous one.
    """

    def __init__(self, training: TrainingGraph, settings: Replication, order: PassOrder | None = None) -> None:
        self.training = training
        self.settings = settings
        self.order = order
        self.graph = training.graph
        refuse_loops(training, "copies")
        self.parts = settings.parts()
        self.shapes = BatchShapes(training, len(self.parts))
        self.dependence = BatchDependence(self.shapes)
        self.is_mean = self.dependence.of_loss() is Dependence.MEAN
        self.nodes = [self.graph.nodes[number] for number in self.graph.runtime_order()]
        self.copied = frozenset((*training.forward, *training.backward))
        self.backward = frozenset(training.backward)
        self.after = self._find_after()
        self.gradients = self._find_gradients()
        self.updates = frozenset(update.node for update in training.updates)
        waited = (i for node in self.nodes if node.id in self.copied for i in node.control_inputs if i in self.after)
        self.awaited = tuple(dict.fromkeys(self.graph.nodes[i].name for i in waited))
        has_replicas = settings.replicas > 1
        self.mirrored = MirroredVariables(training if has_replicas and settings.is_mirrored else None)
        self.on_cpu = self._find_cpu_nodes() if has_replicas and not settings.is_mirrored else frozenset()
        self._variable_names = {
            update.gradients[0]: self.graph.nodes[update.variable].name
            for update in training.updates
            if len(update.gradients) == 1
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences about results that depend on the division of the batch."""
        found = []
        if self.dependence.local_statistics:
            found.append(f"statistics of a part of the batch, not of the whole: {list_names(self.dependence.local_statistics)}")
        random = [node for node in map(self.graph.nodes.__getitem__, self.training.forward) if _is_random(node)]
        if random:
            found.append(f"other random numbers in each part: {list_names(random)}")
        ignored = [*find_ignored_variables(self.training, self.shapes.full)]
        if ignored:
            by = list_names([*{own.by.id: own.by for own in ignored}.values()])
            named = list_names([own.variable for own in ignored])
            found.append(
                f"the exact gradient is 0, so rounding decides the updates: {named} (what they add is ignored by {by})"
            )
        return tuple(found)

    def dtype(self, ref: TensorRef) -> DataType:
        """Return the element type of a tensor."""
        return self.graph.nodes[ref.node].signature.output_dtypes[ref.slot]

    def gradient_name(self, ref: TensorRef) -> str:
        """Return the variable's name for a gradient of a variable, and the tensor's own name otherwise."""
        return self._variable_names.get(ref) or self.graph.tensor_name(ref).replace(":", "_")

    def result_name(self, ref: TensorRef) -> str:
        """Return the name of the combined results of all parts of a tensor."""
        if ref in self._variable_names:
            return f"{'average' if self.is_mean else 'total'}/{self._variable_names[ref]}"
        return self.gradient_name(ref)

    def _find_after(self) -> frozenset[int]:
        found: set[int] = set()
        reached = set(self.copied)
        for node in self.nodes:
            if node.id not in reached and not reached.isdisjoint((*node.input_nodes, *node.control_inputs)):
                found.add(node.id)
                reached.add(node.id)
        return frozenset(found)

    def _find_gradients(self) -> tuple[TensorRef, ...]:
        read = dict.fromkeys(ref for node in self.nodes if node.id not in self.copied for ref in node.inputs)
        found = [ref for ref in read if ref.node in self.backward and self.shapes.axis(ref) is None]
        for ref in found:
            dims = self.shapes.full.shape(ref)
            if not is_fully_defined(dims):
                got = f"{self.graph.tensor_name(ref)} {format_dims(dims)}"
                raise UsageError(
                    f"gradient of unknown shape: got {got}, expected the shape of a variable, or rows of the batch"
                )
        return tuple(ref for ref in found if self.dtype(ref).is_floating)

    def _find_cpu_nodes(self) -> frozenset[int]:
        nodes, graph = self.graph.nodes, self.graph
        found = {node.id for node in nodes if find_origin(graph, node.id).op in VARIABLES}
        found |= {node.id for node in nodes if find_written_variable(graph, node) is not None}
        waiting = [*self.updates]
        while waiting:
            new = {source for source in nodes[waiting.pop()].input_nodes if source in self.after and source not in found}
            found |= new
            waiting += new
        return frozenset(found)


def refuse_loops(training: TrainingGraph, what: str) -> None:
    """Raise UsageError for a loop in the forward pass, since loops cannot be copied or divided into stages."""
    for number in training.forward:
        node = training.graph.nodes[number]
        if node.op in (*ENTERS, *LOOPS):
            raise UsageError(
                f"cannot rewrite a loop as {what}: got {node.name} ({node.op}), expected a loss without dynamic loops"
            )


def _is_random(node: Node) -> bool:
    definition = node.signature.definition
    return definition is not None and definition.is_stateful and "seed2" in definition.attrs
