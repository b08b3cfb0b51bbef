"""The `nodes` of a raw file: a GraphDef's NodeDefs as they stand, in any order, checked as TensorFlow's import checks them."""

from __future__ import annotations

from typing import Any

from placesim.formats.graph_file.values import AttrReader, constant_value
from placesim.formats.problems import Problems, Wrong, own_position, shown, value_position
from placesim.formats.problems import key_position as key_at
from placesim.graph.graph import Graph, Node, split_tensor_name
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.definitions import OpDef, format_op_def

RAW_KEYS = dict.fromkeys(("op", "name", "inputs", "device", "attrs", "value", "dtype", "shape")).keys()
_TENSOR_KEYS = ("value", "dtype", "shape")


class RawNodes:
    """Takes NodeDefs; `finish` ties their inputs, which may be forward references, and checks types and cycles."""

    def __init__(self, graph: Graph, problems: Problems) -> None:
        self._graph = graph
        self._problems = problems
        self._attr_reader = AttrReader(graph.registry, graph.functions, self._report)
        self._pending: list[tuple[Node, Any]] = []
        self._broken: dict[str, int] = {}
        self._complete: set[tuple[str, int]] = set()
        self._kept: list[Attrs] = []
        self._empty: Attrs = {}

    def _report(self, tree: Any, key: Any, message: str) -> None:
        position = key_at(tree, key) if message.startswith("unknown attr") else value_position(tree, key)
        self._problems.add(position, message)

    def take_all(self, entries: Any, position: int = 0) -> None:
        for index, entry in enumerate(self._problems.sequence(entries, position, "'nodes'")):
            self.take(entry, position if isinstance(entry, dict) else value_position(entries, index))

    def take(self, entry: Any, position: int = 0) -> None:
        """One NodeDef; what is wrong with it is reported, never raised."""
        problems, graph = self._problems, self._graph
        if not isinstance(entry, dict):
            problems.add(position, f"wrong type of an entry of 'nodes': got {shown(entry)}, expected a mapping")
            return
        is_good = entry.keys() <= RAW_KEYS or not problems.unknown_keys(entry, RAW_KEYS, "a raw node")
        position = own_position(entry)
        op, name, device = self._text(entry, "op"), self._text(entry, "name"), entry.get("device", "")
        if op is not None and graph.registry.op(op) is None and op not in graph.functions:
            near = self._problems.did_you_mean(op, (*graph.registry.op_names, *graph.functions))
            expected = f"expected an op of TensorFlow {graph.registry.release} or a function of the file"
            problems.add(value_position(entry, "op"), f"unknown op: got '{op}', {expected}{near}")
            op = None
        if not isinstance(device, str):
            problems.add(value_position(entry, "device"), f"wrong type of 'device': got {shown(device)}, expected a text")
            is_good = False
        if name is not None and self._is_taken(entry, name):
            return
        attrs = None if op is None else self._attrs(entry, op)
        if op is None or name is None or attrs is None or not is_good or not self._has_all_attrs(op, name, attrs, position):
            if name is not None:
                self._broken[name] = position
            return
        node = graph.add(name, op, attrs, device=device, location=position)
        if "inputs" in entry:
            inputs = problems.sequence(entry["inputs"], value_position(entry, "inputs"), "'inputs'")
            if not self._tie(node, inputs, False):
                self._pending.append((node, inputs))
        elif node.signature.input_dtypes:
            self._tie(node, [], True)

    def _text(self, entry: dict[Any, Any], key: str) -> str | None:
        value = entry.get(key)
        if isinstance(value, str) and value:
            return value
        if key in entry:
            self._problems.add(value_position(entry, key), f"wrong type of '{key}': got {shown(value)}, expected a text")
        else:
            self._problems.add(own_position(entry), f"no '{key}' of a raw node: got nothing, expected a text")
        return None

    def _is_taken(self, entry: dict[Any, Any], name: str) -> bool:
        node_id = self._graph.ids.get(name)
        first = self._broken.get(name) if node_id is None else self._graph.nodes[node_id].location
        if first is None:
            return False
        where = f" (the first is at {self._problems.location(first)})" if first else ""
        self._problems.add(value_position(entry, "name"), f"Node '{name}' is not unique{where}", "ValueError")
        return True

    def _attrs(self, entry: dict[Any, Any], op: str) -> Attrs | None:
        attrs: Attrs | None = self._empty
        if "attrs" in entry:
            tree = self._problems.mapping(entry["attrs"], value_position(entry, "attrs"), "'attrs'")
            attrs = self._attr_reader.read(op, tree)
        if "value" not in entry and "dtype" not in entry and "shape" not in entry:
            return attrs
        own = {key: entry[key] for key in _TENSOR_KEYS if key in entry}
        if op == "Const" and "value" in entry:
            return self._const_attrs(entry, own, attrs)
        more = AttrReader(self._graph.registry, {}, lambda _, key, text: self._report(entry, key, text)).read(op, own)
        return None if attrs is None or more is None else {**attrs, **more}

    def _const_attrs(self, entry: dict[Any, Any], own: dict[str, Any], attrs: Attrs | None) -> Attrs | None:
        try:
            tensor = constant_value(own["value"], own.get("dtype"), own.get("shape"))
        except Wrong as wrong:
            self._problems.add(value_position(entry, "value"), str(wrong))
            return None
        return None if attrs is None else {"dtype": tensor.dtype, "value": tensor, **attrs}

    def _has_all_attrs(self, op: str, name: str, attrs: Attrs, position: int) -> bool:
        definition = self._graph.registry.op(op)
        if definition is None or (op, id(attrs)) in self._complete:
            return True
        # Only attrs that say what flows in and out: TensorFlow's own dumps leave others away, such as a scalar's empty shape.
        args = (*definition.inputs, *definition.outputs)
        deciding = dict.fromkeys(name for arg in args for name in (arg.type_attr, arg.number_attr, arg.type_list_attr) if name)
        missing = [attr for attr in deciding if attr not in attrs and not definition.attrs[attr].has_default]
        for attr in missing:
            message = f"NodeDef missing attr '{attr}' from {format_op_def(definition)}; NodeDef: {{{{node {name}}}}}"
            self._problems.add(position, message, "ValueError")
        if not missing and not any(isinstance(value, TensorValue) for value in attrs.values()):
            self._complete.add((op, id(attrs)))
            self._kept.append(attrs)
        return not missing

    # --- edges ------------------------------------------------------------------------------------------------------

    def _tie(self, node: Node, inputs: Any, is_last: bool) -> bool:
        """Resolve a node's inputs; False where one names no node so far and more are to come."""
        ids = self._graph.ids
        nodes: list[int] = []
        slots: list[int] = []
        controls: list[int] = []
        is_good = True
        for index, text in enumerate(inputs):
            if text.__class__ is not str:
                if is_last or not isinstance(text, str):
                    message = f"wrong type of an input: got {shown(text)}, expected a node's name"
                    self._problems.add(value_position(inputs, index), message)
                    is_good = False
                continue
            if text[:1] == "^":
                source, slot = ids.get(text[1:]), -1
            else:
                source, slot = ids.get(text), 0
                if source is None and ":" in text:
                    name, slot = split_tensor_name(text)
                    source = ids.get(name)
            if source == node.id and not is_last:
                return False  # a cycle, which is looked for where something waits
            if source is None:
                if not is_last:
                    return False
                self._report_unknown(node, inputs, index)
                is_good = False
            elif slot < 0:
                controls.append(source)
            else:
                nodes.append(source)
                slots.append(slot)
        node.input_nodes, node.input_slots, node.control_inputs = tuple(nodes), tuple(slots), tuple(controls)
        if is_good:
            self._check_types(node, inputs)
        return True

    def _report_unknown(self, node: Node, inputs: Any, index: int) -> None:
        text = inputs[index]
        name = split_tensor_name(text.removeprefix("^"))[0]
        if name in self._broken:
            return
        near = self._problems.did_you_mean(name, self._graph.ids)
        position = value_position(inputs, index) or node.location
        self._problems.add(position, f"Node '{node.name}': Unknown input node '{text}'{near}", "ValueError")

    def _check_types(self, node: Node, inputs: Any) -> None:
        signature, all_nodes = node.signature, self._graph.nodes
        if len(node.input_nodes) != len(signature.input_dtypes):
            expected = ", ".join(dtype.name for dtype in signature.input_dtypes)
            shape = f"; {format_op_def(signature.definition)}" if isinstance(signature.definition, OpDef) else ""
            message = f"NodeDef expected inputs '{expected}' do not match {len(node.input_nodes)} inputs specified"
            self._problems.add(node.location, f"{message}{shape}; NodeDef: {{{{node {node.name}}}}}", "ValueError")
            return
        for index, (source_id, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True)):
            source = all_nodes[source_id]
            outputs = source.signature.output_dtypes
            is_fit = slot < len(outputs) and outputs[slot] is signature.input_dtypes[index]
            if is_fit and (not signature.input_is_ref[index] or source.signature.output_is_ref[slot]):
                continue
            message = self._conflict(node, source, index, slot)
            self._problems.add(value_position(inputs, index) or node.location, message, "ValueError")

    def _conflict(self, node: Node, source: Node, index: int, slot: int) -> str:
        outputs = source.signature.output_dtypes
        if slot >= len(outputs):
            place = f"output {slot} of source node {source.name} which has {len(outputs)} outputs."
            return f"Node '{node.name}': Connecting to invalid {place}"
        got = outputs[slot].name + "_ref" * source.signature.output_is_ref[slot]
        wanted = node.signature.input_dtypes[index].name + "_ref" * node.signature.input_is_ref[index]
        return (
            f"Input {index} of node {node.name} was passed {got} from {source.name}:{slot} incompatible with expected {wanted}."
        )

    def finish(self) -> None:
        """Tie what waited for later nodes; report what is dangling, and the first cycle that no Merge breaks."""
        for node, inputs in self._pending:
            self._tie(node, inputs, True)
        had_pending, self._pending = bool(self._pending), []
        cycle = self._graph.find_cycle() if had_pending else None
        if cycle is not None:
            start = min(range(len(cycle) - 1), key=lambda i: self._graph.ids[cycle[i]])
            names = [*cycle[start:-1], *cycle[:start], cycle[start]]
            message = f"a cycle: {' -> '.join(names)}; expected only NextIteration to lead back, into a Merge"
            self._problems.add(self._graph.node(names[0]).location, message)

    def tensor_names(self, text: str) -> list[str] | None:
        """The text itself where it names a node of the graph."""
        name = split_tensor_name(text)[0]
        return [text] if name in self._graph.ids or name in self._broken else None
