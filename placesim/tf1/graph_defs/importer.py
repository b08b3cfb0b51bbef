"""`tf.import_graph_def`: add a GraphDef's nodes to the default graph, with a prefix, and with some inputs replaced."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.function_def import read_function
from placesim.formats.tensorflow.messages import message_class
from placesim.formats.tensorflow.node_def import NodeReader
from placesim.graph.graph import NodeDef
from placesim.ops.attributes import Attrs
from placesim.tf1.control_flow.switching import MERGES
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor

_NEXT_ITERATION = ("NextIteration", "RefNextIteration")


def import_graph_def(
    graph_def: object,
    input_map: object = None,
    return_elements: object = None,
    name: str | None = None,
    op_dict: object = None,
    producer_op_list: object = None,
) -> list[Any] | None:
    """Add a GraphDef's nodes, and return the operations and tensors that `return_elements` names.

    Raises TypeError for arguments of the wrong kind, ValueError for names that are not in the GraphDef, and for invalid nodes.
    """
    if not isinstance(graph_def, message_class("GraphDef")):
        raise TypeError("Argument `graph_def` must be a GraphDef proto.")
    mapped = _checked_map(input_map)
    wanted = _checked_elements(return_elements)
    graph = get_default_graph()
    with tf.name_scope(name, "import", list(mapped.values())) as scope:
        if not all(isinstance(value, Tensor) or key.startswith("^") for key, value in mapped.items()):
            if name == "":
                raise ValueError(
                    "tf.import_graph_def() requires a non-empty `name` if `input_map` contains non-Tensor values. Try calling "
                    "tf.convert_to_tensor() on `input_map` values before calling tf.import_graph_def()."
                )
            with tf.name_scope("_inputs"):
                mapped = {key: value if key.startswith("^") else tf.convert_to_tensor(value) for key, value in mapped.items()}
        reader = NodeReader()
        graph.functions.update(
            {
                function.signature.name: read_function(function.SerializeToString(), reader)
                for function in graph_def.library.function
                if function.signature.name not in graph.functions
            }
        )
        importing = _Import(graph, [reader.read(node.SerializeToString()) for node in graph_def.node], mapped, scope)
        importing.check_wanted(wanted or ())
        importing.run()
        unused = [key for key in mapped if key not in importing.used]
        missing = [key for key in unused if _split(key.removeprefix("^"))[0] not in importing.places]
        if missing:
            listed = ", ".join(missing)
            raise ValueError(f"Attempted to map inputs that were not found in graph_def: [{listed}]")
        return None if wanted is None else [importing.element(each) for each in wanted]


def _checked_map(input_map: object) -> dict[str, Any]:
    if input_map is None:
        return {}
    if not isinstance(input_map, dict):
        raise TypeError(f"Argument `input_map` must be a dictionary. Obtained {type(input_map).__name__}")
    if not all(isinstance(key, str | bytes) for key in input_map):
        raise TypeError(f"All keys for argument `input_map` must be strings. Obtained keys: {list(input_map)}")
    found = {}
    for key, value in input_map.items():
        key = key.decode() if isinstance(key, bytes) else key
        node, slot = _split(key)
        found[key if key.startswith("^") else f"{node}:{slot}"] = value
    return found


def _checked_elements(elements: Any) -> tuple[str, ...] | None:
    if elements is None:
        return None
    if not all(isinstance(element, str | bytes) for element in elements):
        raise TypeError(f"Argument `return_elements` must be a list of strings. Obtained {elements}.")
    return tuple(element.decode() if isinstance(element, bytes) else element for element in elements)


def _split(text: str) -> tuple[str, int]:
    name, colon, slot = text.rpartition(":")
    return (name, int(slot)) if colon and slot.isdigit() else (text, 0)


def _colocated_names(attrs: Attrs) -> list[str]:
    """Names in the colocation labels of a node."""
    labels = attrs.get("_class", ())
    texts = (
        [label.decode() if isinstance(label, bytes) else str(label) for label in labels] if isinstance(labels, tuple) else []
    )
    return [text.removeprefix("loc:@") for text in texts if text.startswith("loc:@")]


class _Import:
    """One import, which adds nodes in the order of the GraphDef, except that inputs come first."""

    def __init__(self, graph: Graph, nodes: Sequence[NodeDef], mapped: dict[str, Any], scope: str) -> None:
        self._graph, self._nodes, self._mapped, self._scope = graph, nodes, mapped, scope
        self.places = {node.name: i for i, node in enumerate(nodes)}
        twice = next((node.name for i, node in enumerate(nodes) if self.places[node.name] != i), None)
        if twice is not None:
            raise ValueError(f"Node '{twice}' is not unique")
        self.made: dict[str, Operation] = {}
        self.used: set[str] = set()
        self._late: list[tuple[str, int, str]] = []
        """Merge inputs from a NextIteration, which are set at the end: name of the Merge, slot, input's text."""
        self._colocated: list[Operation] = []
        """Operations with colocation labels, whose devices are set at the end."""

    def check_wanted(self, wanted: Sequence[str]) -> None:
        for each in wanted:
            if ":" in each:
                if _split(each)[0] not in self.places:
                    raise ValueError(f"Requested return tensor '{each}' not found in graph def")
            elif each not in self.places:
                raise ValueError(f"Requested return node '{each}' not found in graph def")

    def element(self, text: str) -> Any:
        if ":" not in text:
            return self.made[text]
        mapped = self._mapped.get("{}:{}".format(*_split(text)))
        if mapped is not None:
            return mapped
        name, slot = _split(text)
        outputs = self.made[name].outputs
        if slot >= len(outputs):
            raise ValueError(f"Invalid return output {slot} of node '{name}', which has {len(outputs)} output(s)")
        return outputs[slot]

    def run(self) -> None:
        """Add all nodes.  Raises ValueError, before any is added, for inputs that do not exist or have another type."""
        self._check_types()
        self._check_colocation()
        readers: dict[str, list[int]] = {}
        pending = []
        ready: list[int] = []
        for i, node in enumerate(self._nodes):
            sources = [self._source(text) for text in node.inputs if not self._is_late(node, text)]
            needed = [source for source in sources if source is not None]
            for source in needed:
                if source not in self.places:
                    raise ValueError(f"Node '{node.name}': Unknown input node '{self._shown(node, source)}'")
                readers.setdefault(source, []).append(i)
            pending.append(len(needed))
            if not needed:
                heapq.heappush(ready, i)
        count = 0
        while ready:
            i = heapq.heappop(ready)
            self._add(self._nodes[i])
            count += 1
            for reader in readers.get(self._nodes[i].name, ()):
                pending[reader] -= 1
                if not pending[reader]:
                    heapq.heappush(ready, reader)
        if count < len(self._nodes):
            raise ValueError(f"{len(self._nodes) - count} nodes in a cycle")
        for name, slot, text in self._late:
            self.made[name]._update_input(slot, self._tensor(name, text))
        for operation in self._colocated:
            operation.node.device = self._device_of_group(operation)

    def _device_of_group(self, operation: Operation) -> str:
        """First nonempty device of the operations that the colocation labels of `operation` name; empty if there is none."""
        nodes = self._graph.builder.graph
        names = _colocated_names(operation.node.attrs)
        return next((found for name in names if name in nodes.ids and (found := nodes.node(name).device)), "")

    def _shown(self, node: NodeDef, source: str) -> str:
        return next(text for text in node.inputs if self._source(text) == source)

    def _is_late(self, node: NodeDef, text: str) -> bool:
        source = self.places.get(_split(text)[0])
        return node.op in MERGES and source is not None and self._nodes[source].op in _NEXT_ITERATION

    def _source(self, text: str) -> str | None:
        """The node of the GraphDef that an input needs; None for a replaced input."""
        if text.startswith("^"):
            return None if text in self._mapped else text[1:]
        name, slot = _split(text)
        return None if f"{name}:{slot}" in self._mapped else name

    def _tensor(self, reader: str, text: str) -> Tensor:
        name, slot = _split(text)
        key = f"{name}:{slot}"
        if key in self._mapped:
            self.used.add(key)
            return self._mapped[key]  # type: ignore[no-any-return]
        outputs = self.made[name].outputs
        if slot >= len(outputs):
            invalid = f"Connecting to invalid output {slot} of source node {name} which has {len(outputs)} outputs."
            raise ValueError(f"Node '{reader}': {invalid}")
        return outputs[slot]

    def _add(self, node: NodeDef) -> None:
        graph = self._graph
        inputs: list[Tensor | None] = []
        controls: list[Operation] = []
        for text in node.inputs:
            if text.startswith("^"):
                self.used.add(text)
                target = self._mapped.get(text)
                source = self.made[text[1:]] if target is None else target
                controls.append(source if isinstance(source, Operation) else source.op)
            elif self._is_late(node, text):
                self._late.append((node.name, len(inputs), text))
                inputs.append(None)
            else:
                inputs.append(self._tensor(node.name, text))
        # a NextIteration is made later; until then its Merge reads the entering tensor in its place
        entering = next((each for each in inputs if each is not None), None)
        tensors = [each for each in (entering if each is None else each for each in inputs) if each is not None]
        attrs = dict(node.attrs)
        if isinstance(attrs.get("_class"), tuple):
            attrs["_class"] = tuple(self._moved(label) for label in attrs["_class"])
        attrs.pop("_output_shapes", None)
        builder = graph.builder
        full = self._free(node.name)
        with builder.control_dependencies(None), graph.device("" if builder._colocation else node.device):
            operation = graph.make(node.op, builder.claim_name(node.op, full + "/"), tensors, attrs, controls)
            builder.note_name(full)
            if not builder._colocation and any(tensor._is_ref for tensor in tensors):
                # the builder colocated the node with its reference; TensorFlow's import does not
                operation.node.device = builder._device_text
                if "_class" not in attrs:
                    operation._clear_attr("_class")
        waited = [graph._operations[i] for controller in builder._controllers for i in controller.inputs]
        if waited:
            read = {tensor.op for tensor in tensors}
            operation._add_control_inputs([each for each in waited if each not in read])
        if set(_colocated_names(attrs)) - {operation.name}:
            operation.node.device = ""
            self._colocated.append(operation)
        self.made[node.name] = operation

    def _check_types(self) -> None:
        """Raise ValueError for a replaced input whose type differs from its node's attr."""
        builder = self._graph.builder
        for node in self._nodes if self._mapped else ():
            keys = ["{}:{}".format(*_split(text)) for text in node.inputs if not text.startswith("^")]
            if not any(key in self._mapped for key in keys):
                continue
            expected = builder._signature(node.op, builder.intern(node.op, node.attrs)).input_dtypes
            for slot, (key, dtype) in enumerate(zip(keys, expected, strict=False)):
                tensor = self._mapped.get(key)
                if tensor is not None and tensor.element is not dtype:
                    raise ValueError(
                        f"Input {slot} of node {self._free(node.name)} was passed {tensor.element.name} from {tensor.name} "
                        f"incompatible with expected {dtype.name}."
                    )

    def _check_colocation(self) -> None:
        """Raise ValueError for a colocation label that names no node of the GraphDef."""
        for node in self._nodes:
            for name in _colocated_names(node.attrs):
                if name not in self.places:
                    raise ValueError(f"Node '{node.name}' expects to be colocated with unknown node '{name}'")

    def _free(self, name: str) -> str:
        """Full name of a new node, with a number if the name is in use."""
        full = found = self._scope + name
        taken = self._graph.builder.graph.ids
        number = 0
        while found in taken or (number and found.removeprefix(self._scope) in self.places):
            number += 1
            found = f"{full}_{number}"
        return found

    def _moved(self, label: Any) -> Any:
        text = label.decode() if isinstance(label, bytes) else label
        if not text.startswith("loc:@"):
            return label
        owner = self.made.get(text[5:])
        return "loc:@" + (self._free(text[5:]) if owner is None else owner.name)
