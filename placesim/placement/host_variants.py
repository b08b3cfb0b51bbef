"""Restriction of groups to the CPU for nodes that read a host-only variant (5.12).

The content of a variant is found by following its edges backwards.  They lead to a dataset, a mutex lock, a ragged tensor, or a
tensor list with its element type.
"""

from __future__ import annotations

from collections.abc import Iterator

from placesim.core.dtypes import RESOURCE, STRING, VARIANT, DataType
from placesim.graph.graph import Graph, Node
from placesim.machine.device_names import ANY
from placesim.ops.categories import KEEPING_FULL_TYPE, TENSOR_LISTS, WITHOUT_HOST_MEMORY
from placesim.placement.colocation import ColocationGraph
from placesim.placement.dataset_ops import is_dataset_op


def keep_variants_on_host(groups: ColocationGraph) -> None:
    """Restrict the group of every node that reads a host-only variant to the CPU, if the CPU can run it."""
    if not any(VARIANT in signature.input_dtypes for signature in groups.own.signatures):
        return
    for node_id in _host_only_nodes(groups):
        root = groups.root(node_id)
        found = groups.constraints[root]
        types = tuple(pair for pair in found.types if pair[0] == "CPU")
        if types:
            groups.constraints[root] = found.with_types(types)


def _host_only_nodes(groups: ColocationGraph) -> Iterator[int]:
    """Yield the nodes that a variant input restricts to the CPU, by runtime id, except nodes that are already restricted.

    The caller must restrict the group of each node before it requests the next.
    """
    graph = groups.graph
    held: dict[int, bool | None] = {}
    typed: set[int] = set()
    for node_id in groups.order:
        node = graph.nodes[node_id]
        reads_typed = any(i in typed for i in (*node.input_nodes, *node.control_inputs))
        if _makes_host_only(node) or (reads_typed and node.op in KEEPING_FULL_TYPE):
            typed.add(node_id)
        if VARIANT not in node.signature.input_dtypes:
            continue
        held[node_id] = _holds_host_only(graph, node, held)
        found = groups.constraints[groups.root(node_id)]
        if all(device_type == "CPU" for device_type, _ in found.types):
            continue
        is_free = node.op in WITHOUT_HOST_MEMORY or node.signature.definition is None
        # a full type restricts only kernels that do not declare host memory for the variant
        if held[node_id] or (reads_typed and is_free and found.assigned == ANY):
            yield node_id


def _makes_host_only(node: Node) -> bool:
    """Return whether TensorFlow's full type of an op's output marks it as host-only."""
    if node.op == "RaggedTensorToVariant":
        return node.attrs.get("Tvalues") is STRING
    return node.op == "MutexLock" or is_dataset_op(node.signature.definition)


def _holds_host_only(graph: Graph, node: Node, held: dict[int, bool | None]) -> bool | None:
    """Return whether the tensor lists that a node reads have host-only elements; None if there is no list."""
    sources = _variant_sources(graph, node)
    # chains of list ops are long, and each link would walk the whole chain again
    if len(sources) == 1 and sources[0] in held and _element_dtype(node) is None:
        return held[sources[0]]
    result: bool | None = None
    waiting, visited = [node.id], set()
    while waiting:
        node_id = waiting.pop()
        if node_id in visited:
            continue
        visited.add(node_id)
        current = graph.nodes[node_id]
        element = _element_dtype(current)
        if element is not None:
            # among several lists, the last visited one decides
            result = element in (STRING, RESOURCE)
        if result is None:
            waiting += [i for i in _variant_sources(graph, current) if i not in visited]
    return result


def _variant_sources(graph: Graph, node: Node) -> list[int]:
    """Return the sources of a node's variant inputs, by input slot."""
    pairs = zip(node.input_nodes, node.input_slots, strict=True)
    return [i for i, slot in pairs if graph.nodes[i].signature.output_dtypes[slot] is VARIANT]


def _element_dtype(node: Node) -> DataType | None:
    """Return the element type of a tensor list op; None for other ops, and for lists of variants, where the elements matter."""
    if node.op not in TENSOR_LISTS:
        return None
    element: DataType | None = node.attrs.get("element_dtype")
    return None if element is VARIANT else element
