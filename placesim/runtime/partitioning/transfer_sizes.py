"""Bytes of a prepared step's transfers, as far as static shapes determine them."""

from __future__ import annotations

import math

from placesim.graph.graph import Graph, TensorRef, split_tensor_name
from placesim.ops.categories import NEXT_ITERATIONS, PLACEHOLDERS
from placesim.ops.kernels.shapes import Dims, is_fully_defined
from placesim.runtime.partitioning.prepared_step import PreparedStep
from placesim.runtime.partitioning.pruning import ClientGraph
from placesim.runtime.partitioning.step_requests import declared_dims
from placesim.runtime.shapes.graph_shapes import GraphShapes


def transfer_sizes(step: PreparedStep, written: GraphShapes | None = None) -> list[int | None]:
    """Return the bytes of each transfer of a step: 0 for a control edge, None for an unknown shape or element size.

    `written` has the inferred shapes of the whole graph, if the caller has them. They are used if they hold in the step too.
    """
    graph, client = step.placement.graph, step.client
    # an `_Arg` has no static shape: it gets that of the placeholder that it replaces
    fed = GraphShapes(client.graph, [_declared_shape(graph, feed) for feed in client.feeds])
    shared = [written] if written is not None and _hold_in_step(written, graph, client) else []
    return [_size((*shared, fed), transfer.producer, transfer.slot) for transfer in step.partitions.transfers]


def _hold_in_step(written: GraphShapes, graph: Graph, client: ClientGraph) -> bool:
    """Whether the shapes of the whole graph hold for the tensors of a step.

    They may not hold if a feed replaces a tensor that is not a placeholder's, since the fed value may have any shape. The
    shapes of a graph with loops are always inferred again, as they depend on the node at which the inference enters a loop.
    """
    if graph is not written.graph:
        return False
    names = [split_tensor_name(feed)[0] for feed in client.feeds]
    if any(name not in graph.ids or graph.node(name).op not in PLACEHOLDERS for name in names):
        return False
    return all(
        node.op not in NEXT_ITERATIONS and (node.name not in graph.ids or graph.node(node.name).op == node.op)
        for node in client.graph.nodes
    )


def _size(known: tuple[GraphShapes, ...], producer: str, slot: int) -> int | None:
    if slot < 0:
        return 0
    shapes = next((found for found in known if producer in found.graph.ids), None)
    if shapes is None:
        return None
    node = shapes.graph.node(producer)
    dims, size = shapes.shape(TensorRef(node.id, slot)), node.signature.output_dtypes[slot].size
    return math.prod(dims) * size if dims is not None and is_fully_defined(dims) and size else None


def _declared_shape(graph: Graph, tensor: str) -> Dims:
    """Return the shape that the placeholder of a fed tensor declares; None for any other node."""
    name, _ = split_tensor_name(tensor)
    return declared_dims(graph.node(name)) if name in graph.ids else None
