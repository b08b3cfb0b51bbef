"""A model's inputs and outputs as tensors that can be fed and fetched.

A sequence is fed as one tensor with its members along the first axis, or member by member. It is fetched as separate members
if their number is known, else as one tensor, for which the members must have one shape. A map is fed as keys and values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from placesim.core.dtypes import DataType
from placesim.formats.onnx.bodies import emitter_of
from placesim.formats.onnx.graph_reading import GraphReader
from placesim.formats.onnx.lists import element_dtype, element_type, open_sizes, optional_content, shape_operand, stacked
from placesim.formats.onnx.names import scope_name
from placesim.formats.onnx.onnx_node import UnsupportedNodeError, dtype_of, tensor_of
from placesim.formats.onnx.values import Value, dims_of, tensor_type
from placesim.graph.graph import TensorRef
from placesim.ops.attributes import UNKNOWN_RANK, Shape

_MEMBER = re.compile(r"(.+)\[([0-9]{1,6})\]")
"""Name of a sequence's member: `x[0]`."""


def fed_members(feed: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of members of sequences that are fed member by member, as `x[0]` and `x[1]`.

    A feed of None is an empty sequence, or an optional without content.
    """
    found = {name: 0 for name, value in feed.items() if value is None}
    for match in filter(None, map(_MEMBER.fullmatch, feed)):
        found[match[1]] = max(found.get(match[1], 0), int(match[2]) + 1)
    return found


def model_input(
    reading: GraphReader, name: str, kind: Any, members: Mapping[str, int] = MappingProxyType({})
) -> tuple[dict[str, TensorRef], Value]:
    """Add an input as a Placeholder with its name, and return the Placeholder by name and the value.

    A sequence in `members`, the result of `fed_members`, has a Placeholder for each member. Raises UnsupportedNodeError.
    """
    which = kind.WhichOneof("value")
    if which == "optional_type":
        if members.get(name) == 0:
            return {}, Value(None, kind, None, ())
        refs, content = model_input(reading, name, kind.optional_type.elem_type, members)
        return refs, Value(None, kind, None, (content,))
    if which == "sequence_type":
        if name not in members:
            return _sequence(reading, name, kind)
        parts = [model_input(reading, f"{name}[{index}]", kind.sequence_type.elem_type) for index in range(members[name])]
        return {key: ref for refs, _ in parts for key, ref in refs.items()}, Value(None, kind, None, tuple(v for _, v in parts))
    if which == "map_type":
        return _map(reading, name, kind)
    if which != "tensor_type":
        expected = "a tensor, a sequence, a map or an optional"
        raise UnsupportedNodeError(f"unsupported input: got {which or 'no type'}, expected {expected}")
    if not kind.tensor_type.elem_type:
        raise UnsupportedNodeError("no element type: got an input without one, expected a type")
    dtype, dims = dtype_of(kind.tensor_type.elem_type), dims_of(kind)
    if dims is not None and any(dim is not None and dim < 0 for dim in dims):
        raise UnsupportedNodeError(f"wrong shape: got {list(dims)}, expected sizes from 0 on")
    ref = _placeholder(reading, name, dtype, UNKNOWN_RANK if dims is None else Shape(open_sizes(dims)))
    return {name: ref}, Value(ref, kind)


def _placeholder(reading: GraphReader, name: str, dtype: DataType, shape: Shape) -> TensorRef:
    made = reading.builder.add("Placeholder", name=scope_name(name, "Placeholder"), attrs={"dtype": dtype, "shape": shape})
    return TensorRef(made.id, 0)


def _sequence(reading: GraphReader, name: str, kind: Any) -> tuple[dict[str, TensorRef], Value]:
    value = Value(None, kind)
    dtype, dims = element_dtype(value), dims_of(element_type(value))
    shape = UNKNOWN_RANK if dims is None else Shape((-1, *open_sizes(dims)))
    ref = _placeholder(reading, name, dtype, shape)
    with reading.builder.name_scope(scope_name(name, "Placeholder")):
        made = emitter_of(reading).emit("TensorListFromTensor", ref, shape_operand(dims), element_dtype=dtype)
    return {name: ref}, Value(made, kind)


def _map(reading: GraphReader, name: str, kind: Any) -> tuple[dict[str, TensorRef], Value]:
    """Add the keys and the values of a map as two vectors, `NAME.keys` and `NAME.values`, which are the items of its value."""
    numbers = kind.map_type.key_type, kind.map_type.value_type.tensor_type.elem_type
    kinds = {f"{name}.{part}": tensor_type(number, [None]) for part, number in zip(("keys", "values"), numbers, strict=True)}
    parts = [model_input(reading, part, part_kind) for part, part_kind in kinds.items()]
    return {key: ref for refs, _ in parts for key, ref in refs.items()}, Value(None, kind, None, tuple(v for _, v in parts))


def model_outputs(reading: GraphReader, name: str, value: Value) -> dict[str, TensorRef]:
    """Return the fetches for an output by name: `y`, or `y[0]` and `y[1]` for the members of `y`."""
    if value.items is not None:
        found: dict[str, TensorRef] = {}
        is_optional = value.type.WhichOneof("value") == "optional_type"
        for index, item in enumerate(value.items):
            found |= model_outputs(reading, name if is_optional else f"{name}[{index}]", item)
        return found
    kind = "tensor_type" if value.type is None else value.type.WhichOneof("value")
    if kind == "tensor_type":
        return {name: tensor_of(value)}
    with reading.builder.name_scope(scope_name(name, "Output")):
        node = emitter_of(reading)
        if kind == "optional_type":
            content = optional_content(node, value)
        else:
            content = stacked(node, tensor_of(value), element_dtype(value), dims_of(element_type(value)))
    return model_outputs(reading, name, content)
