"""`functions`: a GraphDef's function library."""

from __future__ import annotations

from typing import Any

from placesim.formats.graph_file.values import AttrReader, any_value, constant_value, dtype_value, text_value
from placesim.formats.problems import Problems, Wrong, did_you_mean, own_position, shown, value_position
from placesim.formats.problems import key_position as key_at
from placesim.graph.graph import Function, FunctionArg, NodeDef
from placesim.ops.attributes import Attrs
from placesim.ops.registry import Registry

_KEYS = ("name", "inputs", "outputs", "nodes", "control_outputs", "attrs")
_NODE_KEYS = ("op", "name", "inputs", "device", "attrs", "value", "dtype", "shape")


class FunctionReader:
    """Reads a library; functions may call each other in any order."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self._registry = registry
        self._problems = problems
        self._functions: dict[str, Function] = {}
        self._names: dict[str, int] = {}

    def read(self, tree: Any, position: int) -> dict[str, Function]:
        """The list under `functions`; what is wrong is reported."""
        entries = [
            self._problems.mapping(entry, value_position(tree, index), "a function")
            for index, entry in enumerate(self._problems.sequence(tree, position, "'functions'"))
        ]
        heads = [(entry, self._read_head(entry)) for entry in entries]
        for _, head in heads:
            if head is not None:
                self._functions[head.name] = head
        for entry, head in heads:
            if head is not None:
                self._functions[head.name] = self._read_body(entry, head)
        return self._functions

    def _read_head(self, entry: dict[Any, Any]) -> Function | None:
        self._problems.unknown_keys(entry, _KEYS, "a function")
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            message = f"no name of a function: got {shown(name)}, expected 'name'"
            self._problems.add(value_position(entry, "name") if "name" in entry else own_position(entry), message)
            return None
        position = value_position(entry, "name")
        if name in self._names:
            first = self._problems.location(self._names[name])
            self._problems.add(position, f"duplicate function: got '{name}' again, expected it once (the first is at {first})")
        self._names.setdefault(name, position)
        return Function(name, self._args(entry, "inputs"), self._args(entry, "outputs"), ())

    def _args(self, entry: dict[Any, Any], key: str) -> tuple[FunctionArg, ...]:
        if key not in entry:
            return ()
        listed = self._problems.sequence(entry[key], value_position(entry, key), f"'{key}'")
        found = []
        for index, tree in enumerate(listed):
            arg = self._problems.mapping(tree, value_position(listed, index), f"an entry of '{key}'")
            known = ("name", "type", "type_attr", *(("value",) if key == "outputs" else ()))
            self._problems.unknown_keys(arg, known, f"an entry of '{key}'")
            try:
                found.append(_arg(arg, key == "outputs"))
            except Wrong as wrong:
                self._problems.add(own_position(arg), str(wrong))
        return tuple(found)

    def _read_body(self, entry: dict[Any, Any], head: Function) -> Function:
        problems = self._problems
        reader = AttrReader(
            self._registry, self._functions, lambda tree, key, text: problems.add(value_position(tree, key), text)
        )
        nodes: list[NodeDef] = []
        tree = problems.sequence(entry.get("nodes", ()), value_position(entry, "nodes") if "nodes" in entry else 0, "'nodes'")
        for index, item in enumerate(tree):
            node = self._read_node(problems.mapping(item, value_position(tree, index), "a node"), reader)
            if node is not None:
                nodes.append(node)
        self._check_inputs(tree, head, nodes)
        controls = self._controls(entry)
        return Function(head.name, head.inputs, head.outputs, tuple(nodes), controls, self._attrs(entry))

    def _read_node(self, tree: dict[Any, Any], reader: AttrReader) -> NodeDef | None:
        problems = self._problems
        is_good = not problems.unknown_keys(tree, _NODE_KEYS, "a function's node")
        try:
            op, name = text_value(tree.get("op"), "'op'"), text_value(tree.get("name"), "'name'")
            device = text_value(tree.get("device", ""), "'device'")
        except Wrong as wrong:
            problems.add(own_position(tree), str(wrong))
            return None
        if self._registry.op(op) is None and op not in self._functions:
            expected = f"expected an op of TensorFlow {self._registry.release} or a function of the file"
            near = self._problems.did_you_mean(op, (*self._registry.op_names, *self._functions))
            problems.add(value_position(tree, "op"), f"unknown op: got '{op}', {expected}{near}")
            return None
        inputs = tuple(problems.sequence(tree.get("inputs", ()), own_position(tree), "'inputs'"))
        if any(not isinstance(text, str) for text in inputs):
            problems.add(value_position(tree, "inputs"), "wrong type of an input: expected the names of tensors")
            return None
        attrs = self._node_attrs(tree, op, reader)
        return NodeDef(name, op, inputs, device, attrs, own_position(tree)) if is_good and attrs is not None else None

    def _node_attrs(self, tree: dict[Any, Any], op: str, reader: AttrReader) -> Attrs | None:
        given = self._problems.mapping(tree.get("attrs", {}), own_position(tree), "'attrs'")
        attrs = reader.read(op, given)
        own = {key: tree[key] for key in ("value", "dtype", "shape") if key in tree}
        if not own or attrs is None:
            return attrs
        if op == "Const" and "value" in own:
            try:
                tensor = constant_value(own["value"], own.get("dtype"), own.get("shape"))
            except Wrong as wrong:
                self._problems.add(value_position(tree, "value"), str(wrong))
                return None
            return {"dtype": tensor.dtype, "value": tensor, **attrs}
        more = reader.read(op, own)
        return None if more is None else {**attrs, **more}

    def _check_inputs(self, tree: Any, head: Function, nodes: list[NodeDef]) -> None:
        known = dict.fromkeys([*(arg.name for arg in head.inputs), *(node.name for node in nodes)])
        if len(nodes) < len(tree):
            return
        for index, node in enumerate(nodes):
            for i, text in enumerate(node.inputs):
                if text.removeprefix("^").split(":")[0] not in known:
                    message = f"unknown input in function '{head.name}': got '{text}', expected an argument or a node of it"
                    self._problems.add(value_position(tree[index]["inputs"], i), message + did_you_mean(text, known))

    def _controls(self, entry: dict[Any, Any]) -> dict[str, str]:
        if "control_outputs" not in entry:
            return {}
        tree = self._problems.mapping(entry["control_outputs"], value_position(entry, "control_outputs"), "'control_outputs'")
        found = {}
        for key, value in tree.items():
            if isinstance(key, str) and isinstance(value, str):
                found[key] = value
            else:
                message = f"wrong type of a control output: got {shown(value)}, expected a node's name"
                self._problems.add(key_at(tree, key), message)
        return found

    def _attrs(self, entry: dict[Any, Any]) -> Attrs:
        if "attrs" not in entry:
            return {}
        tree = self._problems.mapping(entry["attrs"], value_position(entry, "attrs"), "'attrs'")
        found = {}
        for key, value in tree.items():
            try:
                found[text_value(key, "an attr's name")] = any_value(value)
            except Wrong as wrong:
                self._problems.add(value_position(tree, key), str(wrong))
        return found


def _arg(tree: dict[Any, Any], is_output: bool) -> FunctionArg:
    name = text_value(tree.get("name"), "'name'")
    value = text_value(tree.get("value"), "'value'") if is_output else ""
    if "type_attr" in tree:
        return FunctionArg(name, None, text_value(tree["type_attr"], "'type_attr'"), value)
    if "type" not in tree:
        raise Wrong(f"no type of '{name}': got nothing, expected 'type' or 'type_attr'")
    return FunctionArg(name, dtype_value(tree["type"]), None, value)
