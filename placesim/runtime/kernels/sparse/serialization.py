"""Sparse tensors as strings: each part is the bytes of a TensorProto message that holds the raw content."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from placesim.dtypes import INT64, STRING, VARIANT, DType
from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, Table, Tensor
from placesim.runtime.kernels.sparse.tensors import check_indices, check_rank, make_sparse_tensor
from placesim.runtime.shapes import Dims, ShapeContext, with_rank

_DTYPE, _SHAPE, _CONTENT = 0x08, 0x12, 0x22
"""Tags of a TensorProto's fields: number and wire type."""
_DIM, _SIZE = 0x12, 0x08
"""Tags of a shape's dimension and of its size."""

# --- kernels --------------------------------------------------------------------------------------------------------


def serialize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[3]`: indices, values and shape; InvalidArgumentError unless they are a matrix and two vectors."""
    _check_parts(inputs)
    indices, values, dims = inputs
    return (_pack([_encode_parts(indices, values, dims, attrs)])[0],)


def serialize_many(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[rows, 3]`: each row of the first dimension as a sparse tensor of one rank less.

    InvalidArgumentError where the parts do not fit, the rank is below 2, or rows are out of bounds, out of order or repeated.
    """
    _check_parts(inputs)
    indices, values, dims = inputs
    if len(dims) <= 1:
        raise InvalidArgumentError(f"Rank of input SparseTensor should be > 1, but saw rank: {len(dims)}")
    tensor = make_sparse_tensor(indices, values, dims)
    check_indices(indices, tensor.shape)
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
    return [encode_tensor(INT64, indices), encode_tensor(attrs["T"], values), encode_tensor(INT64, dims)]


def _pack(rows: Sequence[Sequence[bytes | Tensor]]) -> Tensor:
    packed = np.empty((len(rows), 3), object)
    for number, row in enumerate(rows):
        for column, part in enumerate(row):
            packed[number, column] = part
    return packed


def encode_tensor(dtype: DType, tensor: Tensor) -> bytes:
    """A TensorProto with `tensor_content`; of strings this is all lengths, then all bytes."""
    dims = b"".join(_encode_field(_DIM, bytes([_SIZE]) + _encode_varint(dim) if dim else b"") for dim in tensor.shape)
    if dtype is STRING:
        strings = tensor.reshape(-1).tolist()
        content = b"".join(_encode_varint(len(text)) for text in strings) + b"".join(strings)
    else:
        content = np.ascontiguousarray(tensor).tobytes()
    head = bytes([_DTYPE]) + _encode_varint(dtype.number) + _encode_field(_SHAPE, dims)
    return head + (_encode_field(_CONTENT, content) if content else b"")


def _encode_field(tag: int, data: bytes) -> bytes:
    return bytes([tag]) + _encode_varint(len(data)) + data


def _encode_varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that more follow."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes(encoded) + bytes([number])


# --- shape functions ------------------------------------------------------------------------------------------------


def _check_shapes(context: ShapeContext) -> None:
    for dims, rank in zip(context.shapes, (2, 1, 1), strict=True):
        with_rank(dims, rank)


def _infer_serialize(context: ShapeContext) -> Sequence[Dims]:
    _check_shapes(context)
    return ((3,),)


def _infer_serialize_many(context: ShapeContext) -> Sequence[Dims]:
    _check_shapes(context)
    return ((-1, 3),)


TABLE: Table = {
    "SerializeManySparse": Kernel(serialize_many, _infer_serialize_many),
    "SerializeSparse": Kernel(serialize, _infer_serialize),
}
