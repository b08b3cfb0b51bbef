"""Features of a batch as tensors, each converted once, and their sparse form."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.sparse.values import SparseTensor, convert_to_tensor_or_sparse_tensor


class FeatureCache:
    """Tensors of features by key, and of columns, made at their first use."""

    def __init__(self, features: dict[str, Any]) -> None:
        self._features = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """Tensor of a feature or a column.  Raises ValueError for a missing feature or one of rank 0."""
        if key not in self._made:
            self._made[key] = self._raw(key) if isinstance(key, str) else key.transform(self)
        return self._made[key]

    def _raw(self, key: str) -> Any:
        """The feature with at least two dimensions: a vector becomes a matrix of one column."""
        if key not in self._features:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        tensor = convert_to_tensor_or_sparse_tensor(self._features[key])
        rank = tensor.shape.ndims
        wrong = f"Feature (key: {key}) cannot have rank 0. Given: {tensor}"
        if rank == 0:
            raise ValueError(wrong)
        if rank is not None:
            return _with_column(tensor) if rank == 1 else tensor
        with tf.control_dependencies([tf.assert_positive(tf.rank(tensor), message=wrong)]):
            return tf.cond(tf.equal(1, tf.rank(tensor)), lambda: _with_column(tensor), lambda: tensor)


def _with_column(tensor: Any) -> Any:
    if isinstance(tensor, SparseTensor):
        return tf.sparse_reshape(tensor, [tf.shape(tensor)[0], 1])
    return tf.expand_dims(tensor, -1)


def to_sparse(tensor: Any, missing: object = None) -> SparseTensor:
    """A dense feature as a SparseTensor without missing values: by default `''`, -1 for integers, and 0."""
    tensor = convert_to_tensor_or_sparse_tensor(tensor)
    if not isinstance(tensor, Tensor):
        return tensor  # type: ignore[no-any-return]
    with tf.name_scope(None, "to_sparse_input", (tensor,)):
        if missing is None:
            is_text = tensor.dtype == tf.string
            missing = "" if is_text else -1 if tensor.dtype.is_integer else tensor.dtype.as_numpy_dtype()
        missing = tf.cast(missing, tensor.dtype, name="ignore_value")
        indices = tf.where_v2(tf.not_equal(tensor, missing), name="indices")
        values = tf.gather_nd(tensor, indices, name="values")
        return SparseTensor(indices, values, tf.shape(tensor, out_type=tf.int64, name="dense_shape"))
