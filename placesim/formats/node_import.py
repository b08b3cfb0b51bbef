"""Nodes by names -> a checked graph, with the checks and the words of TensorFlow's `import_graph_def`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from placesim.dtypes import DType
from placesim.formats.problems import Problems, did_you_mean
from placesim.formats.tensorflow.wire import shortened
from placesim.graph.graph import Graph, Node, NodeDef, Signature, split_tensor_name
from placesim.ops.attributes import Attrs, AttrValue, FunctionName, Placeholder, Shape, TensorValue
from placesim.ops.definitions import OpDef, format_op_def

MAX_PROBLEMS = 100
"""A file with more is not read to its end."""
MAX_COUNT = 1 << 20
"""A count attr beyond this stands for more tensors than any op has."""
_MAX_SUGGESTIONS = 3
_OUTDATED = ". (Check whether your GraphDef-interpreting binary is up to date with your GraphDef-generating binary.)."
_NODE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\-/>]*").fullmatch
_FIRST_OUTPUTS = tuple((0,) * count for count in range(64))

_IS_OF_TYPE: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str | bytes),
    "int": lambda value: value.__class__ is int,
    "float": lambda value: isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "type": lambda value: isinstance(value, DType),
    "shape": lambda value: isinstance(value, Shape),
    "tensor": lambda value: isinstance(value, TensorValue),
    "func": lambda value: isinstance(value, FunctionName),
}


class NodeImport:
    """Takes nodes, in any order; `finish` ties those whose inputs came later, and raises what is wrong with all of them."""

    def __init__(self, graph: Graph, problems: Problems) -> None:
        self._graph = graph
        self._problems = problems
        self._count = 0
        self._has_forward_edges = False
        self._pending: list[tuple[Node, tuple[str, ...]]] = []
        self._broken: set[str] = set()
        self._checked: dict[tuple[str, int], Attrs] = {}
        self._signatures: dict[Any, tuple[Signature, Attrs]] = {}

    @property
    def release(self) -> str:
        return self._graph.registry.release

    def report(self, message: str, error: str = "ValueError") -> None:
        """Note a problem; raises GraphFileError when there are too many to go on."""
        self._problems.add(0, shortened(message), error)
        self._count += 1
        if self._count >= MAX_PROBLEMS:
            self._problems.raise_if_any()

    def add(self, node_def: NodeDef) -> None:
        """One node; what is wrong with it is noted."""
        name, op, inputs, device, attrs, _ = node_def
        graph = self._graph
        ids = graph.ids
        if name in ids or name in self._broken or not name:
            self.report(f"Node '{name}' is not unique" if name else f"a node of op '{op}' without a name")
            return
        found = self._signatures.get(id(attrs))
        signature = found[0] if found is not None and found[0].op == op else self._signature(node_def, attrs)
        if not _NODE_NAME(name):
            self.report(f"Node '{name}': Node name contains invalid characters")
            signature = None
        if signature is None:
            self._broken.add(name)
            return
        nodes = graph.nodes
        node = Node(len(nodes), name, signature, attrs, (), (), (), device)
        ids[name] = len(nodes)
        nodes.append(node)
        if (inputs or signature.input_dtypes) and not self._tie(node, inputs, False):
            self._has_forward_edges = True
            self._pending.append((node, inputs))

    def _signature(self, node_def: NodeDef, attrs: Attrs) -> Signature | None:
        """The node's signature, made once for attrs that are one mapping and for constants of one type; None where wrong."""
        op = node_def.op
        is_constant = op == "Const" and len(attrs) == 2 and attrs.get("value").__class__ is TensorValue
        key = attrs.get("dtype") if is_constant else id(attrs)
        found = self._signatures.get(key)
        if found is not None and found[0].op == op:
            return found[0]
        if not self.check(node_def):
            return None
        signature = self._graph.signatures.signature(op, attrs)
        if is_constant or op != "Const":
            self._signatures[key] = (signature, attrs)
        return signature

    # --- attrs ------------------------------------------------------------------------------------------------------

    def check(self, node_def: NodeDef, where: str = "") -> bool:
        """Whether a node's op and attrs are what TensorFlow allows; what is not is noted.  `where` names a function's body."""
        op, attrs = node_def.op, node_def.attrs
        if (op, id(attrs)) in self._checked:
            return True
        definition = self._graph.registry.op(op)
        found = self._check_call(node_def, where) if definition is None else self._check_attrs(node_def, definition, where)
        if found and op != "Const":
            self._checked[op, id(attrs)] = attrs
        return found

    def _check_call(self, node_def: NodeDef, where: str) -> bool:
        function = self._graph.functions.get(node_def.op)
        if function is None:
            near = self._near(node_def.op, (*self._graph.registry.op_names, *self._graph.functions))
            release = self._graph.registry.release
            expected = f"expected an op of TensorFlow {release} or a function of the file"
            self.report(f"unknown op: got '{node_def.op}' of node '{node_def.name}'{where}, {expected}{near}", "")
            return False
        for arg in (*function.inputs, *function.outputs):
            if arg.type_attr and not isinstance(node_def.attrs.get(arg.type_attr), DType | Placeholder):
                self.report(f"NodeDef missing attr '{arg.type_attr}' from function '{function.name}'{_node(node_def)}{where}")
                return False
        return True

    def _check_attrs(self, node_def: NodeDef, definition: OpDef, where: str) -> bool:
        known = definition.attrs
        message = ""
        for name, value in node_def.attrs.items():
            attr = known.get(name)
            if attr is None:
                if not name.startswith("_"):
                    message = f"NodeDef mentions attr '{name}' not in {format_op_def(definition)}{_node(node_def)}{_OUTDATED}"
            elif value.__class__ is Placeholder:
                if not where:
                    message = f"attr '{name}' is a placeholder outside of a function{_node(node_def)}"
            elif not _is_of_type(attr.type, value):
                message = f"AttrValue had value with type '{_type_name(value)}' when '{attr.type}' expected"
                message += f"\n\t for attr '{name}'\n\t{_node(node_def)}; {format_op_def(definition)}"
        return self._check_deciding(node_def, definition, message, where)

    def _check_deciding(self, node_def: NodeDef, definition: OpDef, message: str, where: str) -> bool:
        attrs = node_def.attrs
        for arg in (*definition.inputs, *definition.outputs):
            for name in (arg.type_attr, arg.number_attr, arg.type_list_attr):
                if name and name not in attrs and not definition.attrs[name].has_default:
                    message = f"NodeDef missing attr '{name}' from {format_op_def(definition)}{_node(node_def)}"
            count = attrs.get(arg.number_attr) if arg.number_attr else None
            if isinstance(count, int) and not 0 <= count <= MAX_COUNT:
                message = f"Value for attr '{arg.number_attr}' of {count} is not a number of tensors{_node(node_def)}"
        if message:
            self.report(message + where)
        return not message

    # --- edges ------------------------------------------------------------------------------------------------------

    def _tie(self, node: Node, inputs: tuple[str, ...], is_last: bool) -> bool:
        """Resolve a node's inputs; False where one names no node so far and more are to come."""
        ids = self._graph.ids
        nodes: list[int] = []
        slots: list[int] | None = None
        controls: list[int] = []
        for text in inputs:
            source, slot = ids.get(text), 0
            if source is None:
                if text[:1] == "^":
                    source, slot = ids.get(text[1:]), -1
                elif ":" in text:
                    name, slot = split_tensor_name(text)
                    source = ids.get(name)
                if source is None:
                    if not is_last:
                        return False
                    self._report_unknown(node, text)
                    return True
            if slot < 0:
                controls.append(source)
                continue
            if controls:
                self.report(f"Node '{node.name}': Control dependencies must come after regular dependencies")
                return True
            nodes.append(source)
            if slots is not None:
                slots.append(slot)
            elif slot:
                slots = [*[0] * (len(nodes) - 1), slot]
        node.input_nodes, node.control_inputs = tuple(nodes), tuple(controls)
        node.input_slots = _FIRST_OUTPUTS[len(nodes)] if slots is None and len(nodes) < 64 else tuple(slots or [0] * len(nodes))
        if node.id in nodes or node.id in controls:
            self._has_forward_edges = True
        self._check_types(node)
        return True

    def _report_unknown(self, node: Node, text: str) -> None:
        name = split_tensor_name(text.removeprefix("^"))[0]
        if name not in self._broken:
            near = self._near(name, self._graph.ids)
            self.report(f"Node '{node.name}': Unknown input node '{text}'{near}")

    def _near(self, word: str, words: Any) -> str:
        return did_you_mean(word, words) if self._count < _MAX_SUGGESTIONS and len(word) < 200 else ""

    def _check_types(self, node: Node) -> None:
        signature, all_nodes = node.signature, self._graph.nodes
        wanted = signature.input_dtypes
        if len(node.input_nodes) != len(wanted):
            expected = ", ".join(dtype.name for dtype in wanted[:100])
            shape = f"; {format_op_def(signature.definition)}" if signature.definition is not None else ""
            message = f"NodeDef expected inputs '{expected}' do not match {len(node.input_nodes)} inputs specified"
            self.report(f"{message}{shape}; NodeDef: {{{{node {node.name}}}}}")
            return
        is_ref = signature.input_is_ref
        for index, (source_id, slot, dtype) in enumerate(zip(node.input_nodes, node.input_slots, wanted, strict=True)):
            source = all_nodes[source_id].signature
            outputs = source.output_dtypes
            if slot >= len(outputs) or outputs[slot] is not dtype or is_ref[index] > source.output_is_ref[slot]:
                self.report(self._conflict(node, all_nodes[source_id], index, slot))

    def _conflict(self, node: Node, source: Node, index: int, slot: int) -> str:
        outputs = source.signature.output_dtypes
        if slot >= len(outputs):
            what = f"Connecting to invalid output {slot} of source node {source.name} which has {len(outputs)} outputs."
            return f"Node '{node.name}': {what}"
        got = outputs[slot].name + "_ref" * source.signature.output_is_ref[slot]
        wanted = node.signature.input_dtypes[index].name + "_ref" * node.signature.input_is_ref[index]
        what = f"was passed {got} from {source.name}:{slot} incompatible with expected {wanted}."
        return f"Input {index} of node {node.name} {what}"

    def finish(self) -> None:
        """Tie what waited for later nodes.  Raises GraphFileError with all that is wrong."""
        pending, self._pending = self._pending, []
        for node, inputs in pending:
            self._tie(node, inputs, True)
        cycle = self._graph.find_cycle() if self._has_forward_edges and not self._count else None
        if cycle is not None:
            start = min(range(len(cycle) - 1), key=lambda i: self._graph.ids[cycle[i]])
            names = [*cycle[start:-1], *cycle[:start], cycle[start]]
            shown = names if len(names) <= 20 else [*names[:10], "...", *names[-10:]]
            self._problems.add(0, f"a cycle: {' -> '.join(shown)}; expected only NextIteration to lead back, into a Merge")
        self._problems.raise_if_any()


def _node(node_def: NodeDef) -> str:
    return f"; NodeDef: {{{{node {node_def.name}}}}}"


def _is_of_type(attr_type: str, value: AttrValue) -> bool:
    if not attr_type.startswith("list("):
        return _IS_OF_TYPE[attr_type](value)
    return value.__class__ is tuple and (not value or _IS_OF_TYPE[attr_type[5:-1]](value[0]))


def _type_name(value: AttrValue) -> str:
    if value.__class__ is tuple:
        return f"list({_type_name(value[0])})" if value else "list(any)"
    return next((name for name, is_of_type in _IS_OF_TYPE.items() if is_of_type(value)), type(value).__name__)
