"""`tf.graph_util`: extract parts of GraphDefs, and replace variables by constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.attr_value import write_attr
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.ops.constant_literals import make_tensor
from placesim.tf1.session.stacks import RunningSession

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
_PASSING = ("Identity", "Enter", "Switch", "RefEnter", "RefSwitch", "RefIdentity")


def _source(text: str) -> str:
    """Name of an input's node."""
    return text.removeprefix("^").partition(":")[0]


def extract_sub_graph(graph_def: object, dest_nodes: Any) -> Any:
    """GraphDef of the nodes that `dest_nodes` need.  Raises TypeError, or AssertionError for an unknown node."""
    if not isinstance(graph_def, message_class("GraphDef")):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto, but got type " + str(type(graph_def)) + ".")
    if isinstance(dest_nodes, str):
        raise TypeError(f"dest_nodes must be an iterable of strings, but got type {type(dest_nodes)}.")
    by_name = {node.name: node for node in graph_def.node}
    for name in dest_nodes:
        if name not in by_name:
            raise AssertionError(f"{name} is not in graph")
    kept = _reachable(by_name, dest_nodes)
    found = message_class("GraphDef")()
    found.node.extend(node for node in graph_def.node if node.name in kept)
    found.library.CopyFrom(graph_def.library)
    found.versions.CopyFrom(graph_def.versions)
    return found


def _reachable(by_name: dict[str, Any], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name not in by_name:
            continue
        found.add(name)
        waiting.extend(map(_source, by_name[name].input))
    return found


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node must be on a CPU because of its type: strings, or int32 such as in shapes."""
    definition = node.node_def if hasattr(node, "node_def") else node
    if pin_variables_on_cpu and definition.op in _VARIABLES:
        return True
    if definition.op == "Const":
        return definition.attr["dtype"].type in (tf.string.as_datatype_enum, tf.int32.as_datatype_enum)
    if definition.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return bool(definition.attr["T"].type == tf.int32.as_datatype_enum)
    if definition.op == "Cast":
        return bool(definition.attr["SrcT"].type == tf.int32.as_datatype_enum)
    return False


def tensor_shape_from_node_def_name(graph: Any, input_name: str) -> Any:
    """The static shape of a tensor by its name."""
    return graph.get_tensor_by_name(input_name if ":" in input_name else input_name + ":0").shape


def remove_training_nodes(input_graph: Any, protected_nodes: Sequence[str] | None = None) -> Any:
    """GraphDef without the ops that only training needs: Identity, StopGradient and CheckNumerics.

    The readers of a CheckNumerics lose this input, as in TensorFlow.
    """
    kept_names = set(protected_nodes or ())
    checked = {node.name for node in input_graph.node if node.op == "CheckNumerics"} - kept_names
    found = message_class("GraphDef")()
    for node in input_graph.node:
        if node.name not in checked:
            added = found.node.add()
            added.CopyFrom(node)
            added.ClearField("input")
            added.input.extend(text for text in node.input if text.removeprefix("^") not in checked)
    for node in found.node:
        kept_names |= {text[1:] for text in node.input if text.startswith("^")}
        if "_class" in node.attr:
            kept_names |= {label.decode().removeprefix("loc:@") for label in node.attr["_class"].list.s}
        if any(text.startswith("^") for text in node.input):
            kept_names.add(node.name)
    passing = (node for node in found.node if node.op in ("Identity", "StopGradient"))
    skipped = {node.name: node.input[0] for node in passing if node.name not in kept_names}
    kept = message_class("GraphDef")()
    for node in found.node:
        if node.name not in skipped:
            for i, text in enumerate(node.input):
                while text in skipped:
                    text = skipped[text]
                node.input[i] = text
            kept.node.add().CopyFrom(node)
    return kept


def convert_variables_to_constants(
    sess: RunningSession,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Sequence[str] | None = None,
    variable_names_blacklist: Sequence[str] | None = None,
) -> Any:
    """The part of a GraphDef that `output_node_names` need, with variables replaced by Consts of their values in a session."""
    graph_def = extract_sub_graph(input_graph_def, output_node_names)
    by_name = {node.name: node for node in graph_def.node}
    allowed = None if variable_names_whitelist is None else set(variable_names_whitelist)
    refused = set(variable_names_blacklist or ())
    frozen = [
        node
        for node in graph_def.node
        if node.op in _VARIABLES and (allowed is None or node.name in allowed) and node.name not in refused
    ]
    values = _values(sess, frozen, by_name)
    handles = _handles(graph_def, {node.name for node in frozen if node.op == "VarHandleOp"})
    found = message_class("GraphDef")()
    for node in graph_def.node:
        added = found.node.add()
        if node.name in values:
            _become_const(added, node, values[node.name])
        elif node.op == "ReadVariableOp" and _source(node.input[0]) in handles:
            added.name, added.op, added.device = node.name, "Identity", node.device
            added.input.extend(node.input)
            added.attr["T"].CopyFrom(node.attr["dtype"])
            if "_class" in node.attr:
                added.attr["_class"].CopyFrom(node.attr["_class"])
        elif node.op == "ResourceGather" and _source(node.input[0]) in handles:
            _become_gather(found, added, node)
        else:
            added.CopyFrom(node)
            if node.name in handles and node.op in _PASSING:
                variable = by_name[handles[node.name]]
                added.attr["T"].CopyFrom(variable.attr["dtype"])
    found.library.CopyFrom(graph_def.library)
    found.versions.CopyFrom(input_graph_def.versions)
    return found


def _values(sess: RunningSession, variables: Sequence[Any], by_name: dict[str, Any]) -> dict[str, Any]:
    names = []
    for node in variables:
        if node.op != "VarHandleOp":
            names.append(node.name + ":0")
            continue
        read = next(
            (each for each in by_name.values() if each.op == "ReadVariableOp" and _source(each.input[0]) == node.name), None
        )
        names.append((node.name + "/Read/ReadVariableOp" if read is None else read.name) + ":0")
    found = sess.run(names) if names else []
    return {node.name: value for node, value in zip(variables, found, strict=True)}


def _handles(graph_def: Any, variables: set[str]) -> dict[str, str]:
    """Map each node whose output is a frozen variable's handle to the variable."""
    found = {name: name for name in variables}
    is_grown = True
    while is_grown:
        is_grown = False
        for node in graph_def.node:
            if node.op in _PASSING and node.name not in found and node.input and _source(node.input[0]) in found:
                found[node.name] = found[_source(node.input[0])]
                is_grown = True
    return found


def _become_const(added: Any, node: Any, value: Any) -> None:
    added.name, added.op, added.device = node.name, "Const", ""
    added.attr["dtype"].CopyFrom(node.attr["dtype"])
    added.attr["value"].CopyFrom(write_attr(make_tensor(value, tf.as_dtype(node.attr["dtype"].type), None, False)))


def _become_gather(found: Any, added: Any, node: Any) -> None:
    """Replace a `ResourceGather` by a Const for the axis, and a `GatherV2` of the variable's Const."""
    added.name, added.op = node.name + "/axis", "Const"
    added.attr["dtype"].type = tf.int32.as_datatype_enum
    added.attr["value"].CopyFrom(write_attr(make_tensor(0, tf.int32, None, False)))
    gather = found.node.add()
    gather.name, gather.op, gather.device = node.name, "GatherV2", node.device
    gather.input.extend([node.input[0], node.input[1], node.name + "/axis"])
    gather.attr["Tparams"].CopyFrom(node.attr["dtype"])
    gather.attr["Tindices"].CopyFrom(node.attr["Tindices"])
    gather.attr["Taxis"].type = tf.int32.as_datatype_enum
    gather.attr["batch_dims"].CopyFrom(node.attr["batch_dims"])
    if "_class" in node.attr:
        gather.attr["_class"].CopyFrom(node.attr["_class"])
