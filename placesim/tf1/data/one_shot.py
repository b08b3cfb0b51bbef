"""Function that makes the dataset of a one-shot iterator: a copy of the ops that the dataset depends on.

TensorFlow names the function by a hash of its body.  The hash is computed here too, so that the name is the same.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from placesim.formats.tensorflow.attr_value import read_string, write_attr
from placesim.formats.tensorflow.function_def import REST
from placesim.formats.tensorflow.messages import message_class, serialise
from placesim.graph.graph import LibraryFunction, NodeDef
from placesim.ops.attributes import AttrValue, FunctionName, TensorValue
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.functions.definitions import define
from placesim.tf1.functions.function_graph import devices_for
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor

_NAME = "_make_dataset"
_DESCRIPTION = "Factory function for a dataset."
_COLLECTIONS = (
    "concatenated_variables local_variables metric_variables model_variables moving_average_variables "
    "trainable_resource_variables trainable_variables variables"
)


def dataset_function(dataset: Dataset) -> FunctionName:
    """Name of the function, which is added to the default graph's library.

    Raises ValueError for a placeholder, and for stateful ops other than those of datasets.
    """
    outer = get_default_graph()
    body = _Body(outer)
    for name in _COLLECTIONS.split():  # TensorFlow shares these collections, which creates them
        body._collections[name] = outer.get_collection_ref(name)
    with body.as_default():
        body.outputs = [body.copied(dataset._variant_tensor)]
    found = _named(define(body))  # type: ignore[arg-type]
    outer.functions.setdefault(found.name, found)
    return FunctionName(found.name)


class _Body(Graph):
    """Graph of copies of a tensor's ancestors, under the current device scopes."""

    def __init__(self, outer: Graph) -> None:
        super().__init__()
        self.name = _NAME
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.control_outputs: list[Operation] = []
        self.seed = outer.seed
        self.builder.graph.files = outer.builder.graph.files
        self._file_numbers = outer._file_numbers
        self.builder._device_scopes = devices_for(self, outer)

    def copied(self, tensor: Tensor) -> Tensor:
        """Copy of a tensor and its ancestors, without control inputs; a tensor that is used twice is copied twice."""
        op = tensor.op
        if op.type.startswith("Placeholder") and op.type != "PlaceholderWithDefault":
            raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
        if op._is_stateful and op.outputs[0].dtype.name != "variant":
            raise ValueError(
                f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value.: A likely cause of this error is "
                "that the dataset for which you are calling `make_one_shot_iterator()` captures a stateful object, such as a "
                "`tf.Variable` or `tf.lookup.StaticHashTable`, which is not supported. Use `make_initializable_iterator()` "
                "instead."
            )
        inputs = [self.copied(each) for each in op.inputs]
        full = self.claim_name(op.type, op.name)
        made = self.make(op.type, full, inputs, dict(op.graph.builder.graph.full_attrs(op.node)))
        return made.outputs[tensor.value_index]


def _named(function: LibraryFunction) -> LibraryFunction:
    """The function with its hash in its name."""
    rest = message_class("FunctionDef")()
    rest.signature.is_stateful = True
    rest.signature.description = _DESCRIPTION
    digest = _hash(function)
    text = base64.urlsafe_b64encode(digest.to_bytes(8, "little")).decode().rstrip("=").replace("-", "a").replace("_", "A")
    attrs: dict[str, AttrValue] = {"_disable_call_shape_inference": True, REST: read_string(serialise(rest))}
    return replace(function, name=f"{_NAME}_{text}", attrs=attrs)


# --- TensorFlow's FunctionDefHash -----------------------------------------------------------------------------------

_START = 0xDECAFCAFFE
_MASK = (1 << 64) - 1


def _hash(function: LibraryFunction) -> int:
    """Hash of a function's signature, nodes and results, for a function without name, arguments and attrs."""
    signature = message_class("OpDef")(description=_DESCRIPTION, is_stateful=True)
    for result in function.outputs:
        assert result.dtype is not None
        signature.output_arg.add(name=result.name, type=result.dtype.number)
    nodes = _START
    for node in sorted(function.nodes, key=lambda node: node.name):
        nodes = _combined(_node_hash(node), _of_text(node.name, nodes))
    found = _combined(nodes, _of_bytes(signature.SerializeToString(deterministic=True), _START))
    for result in sorted(function.outputs, key=lambda result: result.name):
        found = _of_text(result.value, _of_text(result.name, found))
    return found


def _node_hash(node: NodeDef) -> int:
    found = _START
    for text in (node.name, node.op, node.device or "", *node.inputs):
        found = _of_text(text, found)
    return _of_attrs({name: value for name, value in node.attrs.items() if not name.startswith("_")}, found)


def _of_attrs(attrs: dict[str, AttrValue], seed: int) -> int:
    for name in sorted(attrs):
        seed = _combined(_attr_hash(attrs[name]), _of_text(name, seed))
    return seed


def _attr_hash(value: AttrValue) -> int:
    if isinstance(value, FunctionName):
        return _of_attrs(dict(value.attrs), _of_text(value.name, _START))
    message: Any = _content(value) if isinstance(value, TensorValue) else write_attr(value)
    return _of_bytes(message.SerializeToString(deterministic=True), _START)


def _content(tensor: TensorValue) -> Any:
    """TensorProto with all elements in `tensor_content`; the lengths of strings come first."""
    import numpy as np

    from placesim.core.protobuf_wire import write_varint

    message = message_class("TensorProto")(dtype=tensor.dtype.number)
    array = np.asarray(tensor.array)
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if tensor.dtype.name == "string":
        texts = [item.encode() if isinstance(item, str) else bytes(item) for item in array.reshape(-1).tolist()]
        message.tensor_content = b"".join(write_varint(len(text)) for text in texts) + b"".join(texts)
    else:
        message.tensor_content = np.ascontiguousarray(array).tobytes()
    return message


def _of_text(text: str, seed: int) -> int:
    return _of_bytes(text.encode(), seed)


def _of_bytes(data: bytes, seed: int) -> int:
    from placesim.ops.kernels.string.hashing import murmur_hash64

    return murmur_hash64(data, seed)


def _combined(first: int, second: int) -> int:
    """TensorFlow's Hash64Combine."""
    return first ^ (second + 0x9E3779B97F4A7800 + (first << 10) + (first >> 4)) & _MASK
