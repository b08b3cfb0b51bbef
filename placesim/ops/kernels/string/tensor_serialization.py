"""Tensors as serialized `TensorProto` messages and back."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import RESOURCE, VARIANT
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.core.protobuf_wire import WireError, message_field, write_varint
from placesim.core.tensor_fields import read_serialised, serialise_tensor
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.named_resources import serialise_handle
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import scalar
from placesim.ops.kernels.string_tensors import flat_strings, string_array


def serialize_tensor(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the tensor as a serialized `TensorProto`, a scalar string. Raises UnimplementedError for variants."""
    dtype = attrs["T"]
    if dtype is VARIANT:
        raise UnimplementedError("placesim cannot serialize variants")
    if dtype is RESOURCE:
        handles = [serialise_handle(handle) for handle in np.asarray(inputs[0]).reshape(-1)]
        content = b"".join(write_varint(len(handle)) for handle in handles) + b"".join(handles)
        return (string_array([serialise_tensor(np.empty(np.shape(inputs[0]), "V0"), dtype) + message_field(4, content)], ()),)
    return (string_array([serialise_tensor(np.asarray(inputs[0]), dtype)], ()),)


def parse_tensor(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the tensor that a scalar string serializes. Raises InvalidArgumentError for an invalid string or another type."""
    if np.ndim(inputs[0]):
        raise InvalidArgumentError(f"Expected `serialized` to be a scalar, got shape: {shape_text(inputs[0])}")
    (serialized,) = flat_strings(inputs[0])
    try:
        dtype, array = read_serialised(serialized)
    except WireError:
        shown = b64encode(serialized).decode()
        raise InvalidArgumentError(f"Could not parse `serialized` as TensorProto, base64: {shown}") from None
    if dtype is not attrs["out_type"]:
        raise InvalidArgumentError(f"Type mismatch between parsed tensor ({dtype}) and dtype ({attrs['out_type']})")
    return (array,)


TABLE: Table = {
    "SerializeTensor": Kernel(serialize_tensor, scalar),
    "ParseTensor": Kernel(parse_tensor, lambda context: (None,)),
}
