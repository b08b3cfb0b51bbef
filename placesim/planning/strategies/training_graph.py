"""The parts of a training graph: batch, forward pass, loss, gradients and updates of variables.

Gradients are recognized by the name scopes of `tf.gradients`; all other parts follow from the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import BOOL, RESOURCE
from placesim.core.errors import UsageError
from placesim.core.suggestions import did_you_mean
from placesim.graph.graph import Graph, Node, TensorRef, split_tensor_name
from placesim.graph.node_patterns import gradient_scope, is_gradient_name
from placesim.graph.session_steps import FileFeed, GeneratedFeed, GraphFile
from placesim.inspection.memory_categories import find_origin, find_written_variable
from placesim.ops.categories import EXITS, MERGES, PLACEHOLDERS, SWITCHES, VARIABLES
from placesim.ops.kernels import has_trait
from placesim.ops.kernels.kernel import Trait
from placesim.ops.kernels.shapes import Dims
from placesim.runtime.shapes.graph_shapes import GraphShapes
from placesim.runtime.shapes.loop_frames import find_frames

MAX_NAMED = 4
Edges = Sequence[Sequence[int]]


def list_names(nodes: Sequence[Node]) -> str:
    """Return the names of the first nodes, and the number of further nodes."""
    named = ", ".join(node.name for node in nodes[:MAX_NAMED])
    return f"{named} and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else named


class VariableUpdate(NamedTuple):
    """The ops that write a variable from a gradient: ids of the writing op and of the variable's node, and the gradients.

    `gradients` are the tensors of `tf.gradients` that the written value depends on: one for a dense gradient, values and
    indices for a sparse one, and those of all variables if gradients are clipped by their global norm.
    """

    node: int
    variable: int
    gradients: tuple[TensorRef, ...]


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """A graph with its training parts, as node ids in graph order.

    `batch` are the tensors that hold a batch of examples. `forward` and `backward` are the nodes that each replica computes
    for its part of the batch: all nodes that the loss and the gradients need, except variables, reads of variables, and the
    nodes that make the batch. Constants are among them.
    """

    graph: Graph
    batch: tuple[TensorRef, ...]
    loss: TensorRef
    updates: tuple[VariableUpdate, ...]
    forward: tuple[int, ...]
    backward: tuple[int, ...]

    @property
    def variables(self) -> tuple[int, ...]:
        """The variables that the updates write."""
        return tuple(dict.fromkeys(update.variable for update in self.updates))

    def forward_node(self, node: Node) -> Node | None:
        """Return the node whose gradient a backward node computes, if known."""
        return find_forward_node(self.graph, node)


def find_training(
    graph: Graph, batch: Sequence[str] = (), fed: Mapping[TensorRef, Dims] = MappingProxyType({}), *, needs_batch: bool = True
) -> TrainingGraph:
    """Return the training parts of a graph.

    `batch` names the tensors that hold the batch; if empty, all placeholders, datasets and queues, but no scalars, static or
    `fed`. Without `needs_batch`, only named tensors are the batch.

    Raises UsageError for a part that cannot be recognized, with the node and the reason.
    """
    updates = _find_updates(graph)
    if not updates:
        raise UsageError(
            "not a training graph: got no variable that is updated with a gradient of tf.gradients, expected an optimizer: "
            "in a script, `minimize`; in a graph file, an entry `train`"
        )
    cuts = dict.fromkeys(ref.node for update in updates for ref in update.gradients)
    loss = _find_loss(graph, [node for node in _ancestors(graph, cuts) if is_gradient_name(node.name)])
    scopes = {gradient_scope(graph.nodes[number].name) for number in cuts}
    gradients = (node.id for node in graph.nodes if gradient_scope(node.name) in scopes)
    given = tuple(_named_tensor(graph, name) for name in batch)
    sources = frozenset(ref.node for ref in given)
    region = [node for node in _ancestors(graph, [*gradients, loss.node], sources) if not _is_shared(graph, node, sources)]
    found = given or (_find_batch(graph, region, fed) if needs_batch else ())
    is_backward = {node.id: is_gradient_name(node.name) for node in region}
    return TrainingGraph(
        graph,
        found,
        loss,
        updates,
        tuple(number for number in sorted(is_backward) if not is_backward[number]),
        tuple(number for number in sorted(is_backward) if is_backward[number]),
    )


def find_forward_node(graph: Graph, node: Node) -> Node | None:
    """Return the node whose gradient a node computes, from the name that `tf.gradients` gives: `gradients/NAME_grad/...`.

    In a copied scope, the forward node is in the same copy.
    """
    known = graph.gradients_of.get(node.name)
    if known is not None and known in graph.ids:
        return graph.node(known)
    scope = gradient_scope(node.name)
    rest = node.name[len(scope) :] if scope else ""
    around = scope[: scope.rstrip("/").rfind("/") + 1]
    end = rest.rfind(_GRAD)
    while end >= 0:
        for name in (around + rest[:end], rest[:end]):
            if name in graph.ids:
                return graph.node(name)
        end = rest.rfind(_GRAD, 0, end)
    return None


_GRAD = "_grad/"


# --- updates --------------------------------------------------------------------------------------------------------


def _find_updates(graph: Graph) -> tuple[VariableUpdate, ...]:
    """Return the ops outside the backward pass that write a variable from gradients, in graph order."""
    reached: dict[int, dict[TensorRef, None]] = {}
    found = []
    for number in graph.runtime_order():
        node = graph.nodes[number]
        if is_gradient_name(node.name):
            continue
        gradients: dict[TensorRef, None] = {}
        for ref in node.inputs:
            if is_gradient_name(graph.nodes[ref.node].name):
                gradients[ref] = None
            elif graph.nodes[ref.node].signature.output_dtypes[ref.slot] is not BOOL:  # a decision is no value
                gradients |= reached.get(ref.node, {})
        if not gradients:
            continue
        variable = find_written_variable(graph, node)
        if variable is None:
            reached[number] = gradients
        else:
            found.append(VariableUpdate(number, variable, tuple(gradients)))
    return tuple(sorted(found))


def find_held_variables(graph: Graph, node: Node) -> Iterator[Node]:
    """Yield the variables whose reference or handle a node takes, so that it must run on their devices."""
    for position, ref in enumerate(node.inputs):
        is_handle = graph.nodes[ref.node].signature.output_dtypes[ref.slot] is RESOURCE
        origin = find_origin(graph, ref.node)
        if (is_handle or position in node.signature.tied_inputs) and origin.op in VARIABLES:
            yield origin


# --- loss -----------------------------------------------------------------------------------------------------------


def _find_loss(graph: Graph, backward: Sequence[Node]) -> TensorRef:
    """Return the output of the last forward node that has a gradient, or the sum of several such nodes."""
    differentiated = {node.id: node for node in (find_forward_node(graph, node) for node in backward) if node is not None}
    inner = {source for node in differentiated.values() for source in node.input_nodes}
    before = {node.id for node in _ancestors(graph, inner)}
    last = [node for node in differentiated.values() if node.id not in before and not is_gradient_name(node.name)]
    # unread results of a loop, such as the final state of a network, have gradients, too
    last = [node for node in last if node.op not in EXITS] or last
    if len(last) > 1:
        last = _find_sums(graph, last, backward) or last
    if len(last) == 1:
        return TensorRef(last[0].id, 0)
    if not last:
        raise UsageError("no loss: got gradients in scopes without forward nodes, expected the names that tf.gradients gives")
    named = ", ".join(node.name for node in last[:MAX_NAMED])
    error = UsageError(f"several losses: got {named}{', ...' if len(last) > MAX_NAMED else ''}, expected gradients of one loss")
    error.help = (
        "one optimizer can minimize the sum of several losses",
        "a graph that already has towers cannot get more: write it with one tower",
    )
    raise error


def _find_sums(graph: Graph, losses: Sequence[Node], backward: Sequence[Node]) -> list[Node]:
    """Return the last sums of losses that share one initial gradient.

    Addition gives its gradient to each term as it is. So a sum has no gradient node of its own, and the gradients of its terms
    read the same tensor.
    """
    terms = {node.id for node in losses}
    initial = {
        source
        for node in backward
        if (forward := find_forward_node(graph, node)) is not None and forward.id in terms
        for source in node.input_nodes
        if is_gradient_name(graph.nodes[source].name) and find_forward_node(graph, graph.nodes[source]) is None
    }
    if len(initial) > 1:
        return []
    sums = dict.fromkeys(terms)
    for number in graph.runtime_order():
        node = graph.nodes[number]
        if has_trait(node.op, Trait.ADDS) and node.input_nodes and sums.keys() >= set(node.input_nodes):
            sums[number] = None
    summed = {source for number in sums for source in graph.nodes[number].input_nodes if source in sums}
    return [graph.nodes[number] for number in sums if number not in summed]


# --- the replicated part and the batch ------------------------------------------------------------------------------


def _ancestors(graph: Graph, numbers: Iterable[int], sources: frozenset[int] = frozenset()) -> Iterator[Node]:
    """Yield the nodes and all nodes that they depend on. The search does not continue behind nodes that replicas share."""
    waiting = list(dict.fromkeys(numbers))
    seen = set(waiting)
    while waiting:
        node = graph.nodes[waiting.pop()]
        yield node
        if _is_shared(graph, node, sources):
            continue
        new = [source for source in dict.fromkeys((*node.input_nodes, *node.control_inputs)) if source not in seen]
        seen.update(new)
        waiting += new


def reachable(edges: Edges, numbers: Iterable[int]) -> set[int]:
    """Return the nodes, and all nodes that can be reached from them."""
    found = set(numbers)
    waiting = [*found]
    while waiting:
        new = set(edges[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def find_conditional_nodes(graph: Graph) -> frozenset[int]:
    """Return the nodes in branches and loops, which may run never or several times in a step."""
    frames = find_frames(graph)
    depth = [0] * len(graph)
    for number in graph.runtime_order():
        node = graph.nodes[number]
        depth[number] = max((depth[source] for source in (*node.input_nodes, *node.control_inputs)), default=0)
        if frames[number] is None:  # in a loop, the same ops end iterations
            depth[number] += (node.op in SWITCHES) - (node.op in MERGES)
    # the exits of a loop run outside, which may be another loop
    around = [frame.parent if frame and node.op in EXITS else frame for node, frame in zip(graph.nodes, frames, strict=True)]
    return frozenset(node.id for node in graph.nodes if depth[node.id] > 0 or around[node.id])


def _is_shared(graph: Graph, node: Node, sources: frozenset[int]) -> bool:
    """Whether replicas share a node: it holds, reads or writes a variable or another resource, or makes the batch."""
    if node.id in sources or node.op in (*PLACEHOLDERS, *VARIABLES) or has_trait(node.op, Trait.GIVES_ELEMENTS):
        return True
    if node.signature.is_resource_generator or find_written_variable(graph, node) is not None:
        return True
    return find_origin(graph, node.id).op in VARIABLES


def _find_batch(graph: Graph, region: Sequence[Node], fed: Mapping[TensorRef, Dims]) -> tuple[TensorRef, ...]:
    """Return the tensors, except scalars, that replicated nodes read from placeholders, datasets and queues."""
    shapes = GraphShapes(graph)
    read = sorted({ref for node in region for ref in node.inputs})
    found = []
    for ref in read:
        node = graph.nodes[ref.node]
        is_source = node.op in PLACEHOLDERS or has_trait(node.op, Trait.GIVES_ELEMENTS)
        if is_source and node.signature.output_dtypes[ref.slot] is not RESOURCE:
            dims = batch_dims(graph, shapes, ref)
            if dims is None and fed.get(ref) != ():
                raise UsageError(
                    f"no batch dimension: got {graph.tensor_name(ref)} of unknown rank, expected a known rank, or a fed scalar"
                )
            if dims:
                found.append(ref)
    if not found:
        raise UsageError(
            "no batch: got a loss that reads no placeholder, dataset or queue; name the tensors that hold the "
            "batch with --split"
        )
    return tuple(found)


def batch_dims(graph: Graph, shapes: GraphShapes, ref: TensorRef) -> Dims:
    """Return the static shape of a tensor of the batch; for a dequeued tensor, it follows from the queue's elements."""
    node, dims = graph.nodes[ref.node], shapes.shape(ref)
    if dims is not None or not has_trait(node.op, Trait.GIVES_ELEMENTS):
        return dims
    queue, *numbers = node.inputs
    listed = graph.nodes[queue.node].attrs.get("shapes")
    if not listed:
        return None
    own: Dims = ((), *(shape.dims for shape in listed))[ref.slot - len(node.signature.output_dtypes)]  # first, a priority
    if own is None or not numbers:
        return own
    count = None if node.op.startswith("QueueDequeueUpTo") else shapes.value(numbers[0])
    return (-1 if count is None else int(count), *own)


def find_declared_size(training: TrainingGraph, shapes: GraphShapes) -> int | None:
    """Return the number of examples in the batch that the graph declares; None if it leaves the number unknown."""
    sizes = ((batch_dims(training.graph, shapes, ref) or (-1,))[0] for ref in training.batch)
    return next((size for size in sizes if size > 0), None)


def _named_tensor(graph: Graph, text: str) -> TensorRef:
    (spelled,) = graph.spelled_out(text) if len(graph.spelled_out(text)) == 1 else (text,)
    name, slot = split_tensor_name(spelled)
    if name not in graph.ids or slot >= len(graph.node(name).signature.output_dtypes):
        raise UsageError(
            f"no such tensor: got '{text}' in --split, expected a tensor of the graph{did_you_mean(name, graph.ids)}"
        )
    return TensorRef(graph.ids[name], slot)


def fed_shapes(file: GraphFile) -> dict[TensorRef, Dims]:
    """Return the shapes of the tensors that the steps feed, each as in the first step that feeds it."""
    found: dict[TensorRef, Dims] = {}
    for ref, dims in find_feeds(file):
        found.setdefault(ref, dims)
    return found


def find_feeds(file: GraphFile) -> Iterator[tuple[TensorRef, tuple[int, ...]]]:
    """Yield the tensors that the steps feed, with their shapes, except tensors that are fed from a file."""
    for step in (*(file.steps or ()), *(file.each_step or ())):
        for feed in step.feeds:
            name, slot = split_tensor_name(next(iter(file.graph.spelled_out(feed.tensor)), feed.tensor))
            number = file.graph.ids.get(name)
            if number is not None and not isinstance(feed.value, FileFeed | Mapping):
                dims = feed.value.shape if isinstance(feed.value, GeneratedFeed) else np.shape(feed.value)
                yield TensorRef(number, slot), tuple(dims)
