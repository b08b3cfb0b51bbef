"""Sparse tensors serialized to strings or variants, and back; a string is a TensorProto with a part's raw content."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from placesim.core.dtypes import INT64, VARIANT
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.core.tensor_fields import serialise_tensor
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import leaves_untracked
from placesim.ops.kernels.shapes import format_dims, infer_by
from placesim.ops.kernels.sparse.tensors import check_indices, check_rank, make_sparse_tensor
from placesim.ops.process.memory_limit import check_elements, check_room


def serialize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Serialize a sparse tensor's indices, values and shape, to a vector `[3]`. Raises InvalidArgumentError for wrong ranks."""
    _check_parts(inputs)
    indices, values, dims = inputs
    return (_pack([_encode_parts(indices, values, dims, attrs)])[0],)


def serialize_many(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Serialize each row along the first dimension as a sparse tensor of one rank less; return strings or variants `[rows, 3]`.

    Raises InvalidArgumentError if the parts do not fit, the rank is below 2, or rows are not valid and in order.
    """
    _check_parts(inputs)
    indices, values, dims = inputs
    if len(dims) <= 1:
        raise InvalidArgumentError(f"Rank of input SparseTensor should be > 1, but saw rank: {len(dims)}")
    tensor = make_sparse_tensor(indices, values, dims)
    check_indices(indices, tensor.shape)
    check_room((int(dims[0]), 3), attrs["out_type"])
    check_elements(int(dims[0]))
    bounds = np.searchsorted(indices[:, 0], np.arange(int(dims[0]) + 1))
    rows = [slice(start, end) for start, end in pairwise(bounds)]
    return (_pack([_encode_parts(indices[row, 1:], values[row], dims[1:], attrs) for row in rows]),)


def _check_parts(inputs: Sequence[Tensor]) -> None:
    kinds = (("indices", "a matrix", 2), ("values", "a vector", 1), ("shape", "a vector", 1))
    for (noun, kind, rank), tensor in zip(kinds, inputs, strict=True):
        check_rank(tensor, rank, f"Input {noun} should be {kind} but received shape ")


def _encode_parts(indices: Tensor, values: Tensor, dims: Tensor, attrs: Attrs) -> list[bytes | Tensor]:
    if attrs["out_type"] is VARIANT:
        return [indices, values, dims]
    parts = ((indices, INT64), (values, attrs["T"]), (dims, INT64))
    return [serialise_tensor(part, dtype, has_raw_strings=True) for part, dtype in parts]


def deserialize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Join serialized sparse tensors `[..., 3]` to one, whose rank is higher by the number of dimensions before the last.

    Raises InvalidArgumentError for another last dimension, and for values of another type; UnimplementedError for strings.
    """
    (serialized,) = inputs
    if attrs["Tserialized"] is not VARIANT:
        raise UnimplementedError("placesim cannot deserialize sparse tensors from strings; serialize them to variants")
    if not serialized.ndim or serialized.shape[-1] != 3:
        raise InvalidArgumentError(f"Serialized sparse should have 3 as the last dimension {format_dims(serialized.shape)}")
    outer = serialized.shape[:-1]
    indices, values, dims = [], [], []
    for place in np.ndindex(*outer):
        part_indices, part_values, part_dims = (np.asarray(part) for part in serialized[place])
        if part_values.dtype != attrs["dtype"].numpy:
            raise InvalidArgumentError(
                f"Requested SparseTensor of type {attrs['dtype'].name} but SparseTensor has another type"
            )
        before = np.broadcast_to(np.array(place, np.int64), (len(part_indices), len(outer)))
        indices.append(np.concatenate([before, part_indices], axis=1))
        values.append(part_values)
        dims.append(part_dims)
    if not dims:
        raise InvalidArgumentError("Serialized sparse should have non-zero rank")
    shape = np.concatenate([np.array(outer, np.int64), np.max(dims, axis=0)])
    return np.concatenate(indices), np.concatenate(values), shape.astype(np.int64)


def _pack(rows: Sequence[Sequence[bytes | Tensor]]) -> Tensor:
    packed = np.empty((len(rows), 3), object)
    for number, row in enumerate(rows):
        for column, part in enumerate(row):
            packed[number, column] = part
    return packed


TABLE: Table = {
    "DeserializeSparse": Kernel(deserialize, infer_by("-> [?, ?], [?], [?]")),
    "SerializeManySparse": Kernel(serialize_many, infer_by("[?, ?], [?], [?] -> [?, 3]")),
    # unlike SerializeManySparse it does not use the device's allocator
    "SerializeSparse": Kernel(serialize, infer_by("[?, ?], [?], [?] -> [3]"), memory=leaves_untracked(0)),
}
