"""Make sparse tensors from dense tensors, strings and sparse tensors, and count values."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.arithmetic import parts, sparse, sparse_reorder, sparse_tensor_to_dense
from placesim.tf1.sparse.values import SparseTensor, SparseTensorLike, convert_to_tensor_or_sparse_tensor
from placesim.tf1.types import dtypes

tf = namespace("")


def sparse_eye(
    num_rows: TensorLike, num_columns: TensorLike | None = None, dtype: DTypeLike = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """`tf.sparse.eye`: ones along the diagonal."""
    with name_scope(name, "eye", [num_rows, num_columns]):
        rows = convert_to_tensor(num_rows, dtypes.int64, name="num_rows")
        columns = rows if num_columns is None else convert_to_tensor(num_columns, dtypes.int64, name="num_columns")
        count = tf.minimum(rows, columns)
        places = tf.range(count, dtype=dtypes.int64)
        return SparseTensor(tf.stack([places, places], axis=1), tf.ones(count, dtype), [rows, columns])


def from_dense(tensor: TensorLike, name: str | None = None) -> SparseTensor:
    """`tf.sparse.from_dense`: the non-zero elements."""
    with name_scope(name, "dense_to_sparse"):
        tensor = convert_to_tensor(tensor)
        places = tf.where_v2(tf.not_equal(tensor, tf.zeros_like(tensor)))
        return SparseTensor(places, tf.gather_nd(tensor, places), tf.shape(tensor, out_type=dtypes.int64))


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: TensorLike, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """`tf.sparse_merge`: values indexed by ids in the last dimension.  Raises TypeError or ValueError for wrong sizes."""
    if isinstance(sp_ids, SparseTensor) or hasattr(sp_ids, "dense_shape"):
        sp_ids, vocab_size = [sp_ids], [vocab_size]
    if not isinstance(vocab_size, list | tuple):
        raise TypeError(f"vocab_size has to be a list of Tensors or Python ints. Found {type(vocab_size)}")
    if len(sp_ids) != len(vocab_size):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    with name_scope(name, "SparseMerge", [sp_ids, sp_values]):
        tensors: list[Any] = [sparse(ids) for ids in sp_ids]
        sp_values = sparse(sp_values)
        columns = [tf.expand_dims(tf.cast(ids.values, dtypes.int64), axis=1) for ids in tensors]
        sizes = [tf.cast(size, dtypes.int64) for size in vocab_size]
        indices = tf.concat([tensors[0].indices[:, :-1], *columns], 1)
        shape = tf.concat([tensors[0].dense_shape[:-1], sizes], 0)
        result = SparseTensor(indices, sp_values.values, shape)
        if already_sorted:
            return result
        found = sparse_reorder(result)
        return SparseTensor(found.indices, found.values, shape)


def sparse_to_indicator(sp_input: SparseTensorLike, vocab_size: TensorLike, name: str | None = None) -> Any:
    """`tf.sparse.to_indicator`: whether each id is present."""
    sp_input = sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [sp_input]) as scope:
        count = tf.shape(sp_input.indices)[0]
        values = SparseTensor(sp_input.indices, tf.fill(tf.expand_dims(count, 0), True), sp_input.dense_shape)
        merged = sparse_merge(sp_input, values, vocab_size, scope)
        no = convert_to_tensor(False, name="default_value")
        return sparse_tensor_to_dense(merged, default_value=no, validate_indices=False, name=scope)


# --- serialization --------------------------------------------------------------------------------------------------


def serialize_sparse(sp_input: SparseTensorLike, name: str | None = None, out_type: Any = dtypes.string) -> Any:
    """`tf.io.serialize_sparse`: the three tensors as strings."""
    return gen("SerializeSparse")(*parts(sparse(sp_input)), out_type, name=name)


def serialize_many_sparse(sp_input: SparseTensorLike, name: str | None = None, out_type: Any = dtypes.string) -> Any:
    """`tf.io.serialize_many_sparse`: the three tensors of each row as strings."""
    return gen("SerializeManySparse")(*parts(sparse(sp_input)), out_type, name=name)


def deserialize_many_sparse(
    serialized_sparse: object, dtype: DTypeLike, rank: object = None, name: str | None = None
) -> SparseTensor:
    """`tf.io.deserialize_many_sparse`: a SparseTensor whose rows are the serialized tensors."""
    indices, values, shape = gen("DeserializeManySparse")(serialized_sparse, dtype, name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


# --- crosses and counts ---------------------------------------------------------------------------------------------

_HASH_KEY = 0xDECAFCAFFE
"""TensorFlow's default hash key of crosses."""


def sparse_cross(inputs: Any, name: str | None = None, separator: TensorLike | None = None) -> SparseTensor:
    """`tf.sparse.cross`: joined strings of all combinations."""
    separator = "_X_" if separator is None else separator
    separator = convert_to_tensor(separator, dtypes.string)
    tensors = [convert_to_tensor_or_sparse_tensor(value) for value in inputs]
    sparse_ones = [tensor for tensor in tensors if isinstance(tensor, SparseTensor)]
    dense = [_crossed(tensor) for tensor in tensors if not isinstance(tensor, SparseTensor)]
    found = gen("SparseCrossV2")(
        [tensor.indices for tensor in sparse_ones],
        [_crossed(tensor.values) for tensor in sparse_ones],
        [tensor.dense_shape for tensor in sparse_ones],
        dense,
        separator,
        name=name,
    )
    return SparseTensor(*found)


def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """`tf.sparse.cross_hashed`: the buckets of all combinations."""
    tensors = [convert_to_tensor_or_sparse_tensor(value) for value in inputs]
    sparse_ones = [tensor for tensor in tensors if isinstance(tensor, SparseTensor)]
    dense = [tensor for tensor in tensors if not isinstance(tensor, SparseTensor)]
    has_numbers = any(tensor.dtype is not dtypes.string for tensor in tensors)
    values = [_crossed(tensor.values) for tensor in sparse_ones]
    found = gen("SparseCross")(
        [tensor.indices for tensor in sparse_ones],
        values,
        [tensor.dense_shape for tensor in sparse_ones],
        [_crossed(tensor) for tensor in dense],
        hashed_output=True,
        num_buckets=num_buckets,
        hash_key=_HASH_KEY if hash_key is None else hash_key,
        out_type=dtypes.int64,
        internal_type=dtypes.int64 if has_numbers else dtypes.string,
        name=name,
    )
    return SparseTensor(*found)


def _crossed(tensor: Any) -> Any:
    """Convert an input of a cross: numbers to int64; strings stay."""
    return tensor if tensor.dtype is dtypes.string else tf.cast(tensor, dtypes.int64)


def sparse_bincount(
    values: Any,
    weights: TensorLike | None = None,
    axis: TensorLike = 0,
    minlength: object = None,
    maxlength: object = None,
    binary_output: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """`tf.sparse.bincount`: counts of each number, overall or per row.  Raises ValueError for other axes."""
    with name_scope(name, "count", [values, weights]):
        if not isinstance(values, SparseTensor):
            values = convert_to_tensor(values, name="values")
            if weights is not None and not isinstance(weights, SparseTensor):
                weights = convert_to_tensor(weights, name="weights")
        if weights is not None and binary_output:
            raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
        if axis is None:
            axis = 0
        if axis not in (0, -1):
            raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
        limits = {
            "minlength": -1 if minlength is None else minlength,
            "maxlength": -1 if maxlength is None else maxlength,
            "binary_output": binary_output,
        }
        if axis == 0:
            if isinstance(values, SparseTensor):
                weights = weights.values if isinstance(weights, SparseTensor) else weights
                values = values.values
            else:
                weights = None if weights is None else tf.reshape(weights, [-1])
                values = tf.reshape(values, [-1])
        if isinstance(values, SparseTensor):
            counted = weights.values if isinstance(weights, SparseTensor) else weights
            counted = _no_weights(values.values) if counted is None else counted
            return SparseTensor(*gen("SparseCountSparseOutput")(*parts(values), counted, **limits))
        counted = _no_weights(values) if weights is None else weights
        return SparseTensor(*gen("DenseCountSparseOutput")(values, counted, **limits))


def _no_weights(values: Any) -> Any:
    """An empty tensor instead of weights: int64 for int64 values, else int32."""
    return tf.constant([], dtypes.int64 if values.dtype is dtypes.int64 else dtypes.int32)
