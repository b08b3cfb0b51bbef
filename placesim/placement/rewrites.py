"""TensorFlow's rewrites of a graph before placement; each is a function of an editable graph.

TensorFlow's order is:

- `AccumulateNV2` is replaced by the ops that compute it.
- Functional control flow becomes Switch and Merge (`lowering.py`).
- `ParallelConcat` is replaced by its updates.
- Calls that return resources are isolated between identities (5.8).

The order is visible in the names, since new nodes are numbered consecutively across all rewrites.
"""

from __future__ import annotations

import numpy as np

from placesim.core.dtypes import INT32, RESOURCE
from placesim.graph.functions import find_function
from placesim.graph.graph import Graph, Node
from placesim.ops.attributes import Shape, TensorValue
from placesim.ops.categories import CALLS, ENTERS, EXITS, LOWERED
from placesim.placement.editable_graph import EditableGraph
from placesim.placement.editable_node import EditableNode
from placesim.placement.lowering import is_lowered, lower_functional_ops


def rewrite(graph: Graph) -> Graph:
    """Rewrite a graph as TensorFlow does before placement.  Return the same object if nothing changes.

    Raises InvalidArgumentError for an unknown function, and for a function that does not fit its call.
    """
    ops = {signature.op for signature in graph.signatures.all()}
    wants_lowering = any(is_lowered(node) for node in graph.nodes) if ops & LOWERED else False
    # most graphs have nothing to rewrite, and keep their nodes
    wants_isolation = bool(ops & set(CALLS)) and bool(graph.functions)
    if not (wants_lowering or wants_isolation or ops & {"ParallelConcat", "AccumulateNV2"}):
        return graph
    # one editable graph for all rewrites, since they share the counter of new names
    edited = EditableGraph(graph)
    replace_accumulations(edited)
    lower_functional_ops(edited)
    replace_parallel_concats(edited)
    isolate_resource_calls(edited)
    return edited.finish()


def replace_parallel_concats(edited: EditableGraph) -> None:
    """Replace each `ParallelConcat` by a start node, one update per input, and an identity with the name of the
    `ParallelConcat`.
    """
    for node in [n for n in edited.nodes if n.op == "ParallelConcat" and not n.removed]:
        dtype, prefix = node.attrs["T"], f"{node.name}/Internal"
        start_attrs = {"shape": node.attrs["shape"], "dtype": dtype}
        # only the start waits for control inputs: all other new nodes follow it
        start = edited.add(edited.new_name(prefix), "_ParallelConcatStart", start_attrs, node.device, (), node.control)
        updates = [
            edited.add(
                edited.new_name(prefix), "_ParallelConcatUpdate", {"T": dtype, "loc": i}, node.device, [(start, 0), source]
            )
            for i, source in enumerate(node.data)
        ]
        # the identity has the old name, which may be fetched, and waits for all updates
        identity = edited.add(node.name, "Identity", {"T": dtype}, node.device, [(start, 0)], updates)
        edited.replace(node, [(identity, 0)], identity)


def replace_accumulations(edited: EditableGraph) -> None:
    """Replace each `AccumulateNV2` by a temporary variable to which all inputs are added, or inside a loop by `AddN`."""
    for node in [n for n in edited.nodes if n.op == "AccumulateNV2" and not n.removed]:
        if _is_in_loop(node):
            attrs = {"N": node.attrs["N"], "T": node.attrs["T"]}
            made = edited.add(node.name, "AddN", attrs, node.device, node.data, node.control)
        else:
            made = _accumulate(edited, node)
        edited.replace(node, [(made, 0)], made)


def _accumulate(edited: EditableGraph, node: EditableNode) -> EditableNode:
    dtype, device = node.attrs["T"], node.device
    accumulator = f"{node.name}/Internal/Accumulator"

    def add(op: str, attrs: dict[str, object], data: list[tuple[EditableNode, int]]) -> EditableNode:
        return edited.add(edited.new_name(f"{node.name}/Internal"), op, attrs, device, data)

    # the shape is that of an empty tensor: the assignment below gives the real one, since it does not validate
    variable = add("TemporaryVariable", {"shape": Shape((0,)), "dtype": dtype, "var_name": accumulator}, [])
    shape = add("Shape", {"T": dtype, "out_type": INT32}, [node.data[0]])
    zero = add("Const", {"dtype": dtype, "value": TensorValue(dtype, np.zeros((), dtype.numpy))}, [])
    # zeros of the first input's shape, which may be unknown until the step
    fill = add("Fill", {"T": dtype, "index_type": INT32}, [(shape, 0), (zero, 0)])
    initial = add("Assign", {"T": dtype, "validate_shape": False, "use_locking": True}, [(variable, 0), (fill, 0)])
    sums = [add("AssignAdd", {"T": dtype, "use_locking": True}, [(initial, 0), source]) for source in node.data]
    for source in node.control:
        edited.control(source, initial)
    attrs = {"T": dtype, "var_name": accumulator}
    return edited.add(node.name, "DestroyTemporaryVariable", attrs, device, [(initial, 0)], sums)


def _is_in_loop(node: EditableNode) -> bool:
    """Return whether a node depends on an `Enter` whose frame it has not left."""
    waiting, seen = [node], {id(node)}
    while waiting:
        current = waiting.pop()
        if current.op in ENTERS:
            # Iterations that never overlap can share one temporary variable.
            return int(current.attrs.get("parallel_iterations", 10)) != 1
        # beyond an Exit the search would enter a loop that has ended
        if current.op in EXITS:
            continue
        for source in (*(s for s, _ in current.data), *current.control):
            if id(source) not in seen:
                seen.add(id(source))
                waiting.append(source)
    return False


def isolate_resource_calls(edited: EditableGraph) -> None:
    """Put an identity at every input and output of a call whose function returns a resource (5.8).

    Raises InvalidArgumentError for an unknown function.
    """
    calls = [n for n in edited.nodes if n.op in CALLS and not n.removed and returns_resource(edited.base, n)]
    names = {n.name for n in edited.nodes if not n.removed} if calls else set()
    for call in calls:
        _isolate(edited, call, names)


def isolate_calls_in(graph: Graph) -> Graph:
    """Isolate the calls that return a resource.  Return the same object if there are none.

    Raises InvalidArgumentError for an unknown function.
    """
    if not any(node.op in CALLS for node in graph.nodes):
        return graph
    edited = EditableGraph(graph)
    isolate_resource_calls(edited)
    return edited.finish()


def returns_resource(graph: Graph, node: Node | EditableNode) -> bool:
    """Return whether a call's function returns a resource.  Raises InvalidArgumentError for an unknown function."""
    called = node.attrs["f"]
    attrs = dict(called.attrs)
    outputs = find_function(graph, called.name, node.name).outputs
    return any((output.dtype or attrs.get(output.type_attr)) is RESOURCE for output in outputs)


def _isolate(edited: EditableGraph, node: EditableNode, names: set[str]) -> None:
    """Isolate a call and add the names of new nodes to `names`, the names of all nodes."""
    for position, (source, slot) in enumerate(list(node.data)):
        identity = _add_identity(edited, _unique(f"{source.name}_{node.name}", names), source, slot)
        edited.reconnect(node, position, identity, 0)
    readers = edited.data_readers(node)
    for reader, position in readers:
        slot = reader.data[position][1]
        identity = _add_identity(edited, _unique(f"{node.name}_{reader.name}", names), node, slot)
        edited.reconnect(reader, position, identity, 0)
    used = {slot for identity, _ in edited.data_readers(node) for source, slot in identity.data if source is node}
    for slot in range(len(node.signature.output_dtypes)):
        if slot not in used:
            _add_identity(edited, _unique(node.name, names), node, slot)


def _add_identity(edited: EditableGraph, name: str, source: EditableNode, slot: int) -> EditableNode:
    return edited.add(name, "Identity", {"T": source.output_dtype(slot)}, "", [(source, slot)])


def _unique(candidate: str, names: set[str]) -> str:
    found, counter = candidate, 0
    # `_0` comes first, unlike the names of Python's graphs, which begin with `_1` (5.8, 2.3.2)
    while found in names:
        found, counter = f"{candidate}_{counter}", counter + 1
    names.add(found)
    return found
