"""Sparse tensors: `tf.sparse_NAME`, most of which are also `tf.sparse.NAME`."""

from __future__ import annotations

_BASIC = "add reduce_sum reduce_max reorder softmax slice fill_empty_rows maximum minimum reduce_sum_sparse reduce_max_sparse"
_SHAPING = "concat reshape reset_shape retain split transpose mask"
_MAKING = "merge to_indicator"


def _both(names: str) -> str:
    """`tf.sparse_NAME` and `tf.sparse.NAME`."""
    return " ".join(f"sparse_{name} sparse.{name}=sparse_{name}" for name in names.split())


ROWS = {
    "sparse.arithmetic": (
        "sparse_tensor_dense_matmul sparse.matmul=sparse_tensor_dense_matmul "
        "sparse.sparse_dense_matmul=sparse_tensor_dense_matmul sparse_to_dense sparse_tensor_to_dense "
        "sparse.to_dense=sparse_tensor_to_dense " + _both(_BASIC)
    ),
    "sparse.shaping": _both(_SHAPING) + " sparse.expand_dims=sparse_expand_dims",
    "sparse.making": (
        _both(_MAKING) + " sparse.eye=sparse_eye sparse.from_dense sparse.cross=sparse_cross sparse.bincount=sparse_bincount "
        "sparse.cross_hashed=sparse_cross_hashed serialize_sparse io.serialize_sparse serialize_many_sparse "
        "io.serialize_many_sparse deserialize_many_sparse io.deserialize_many_sparse"
    ),
    "graphs.placeholders": "sparse.placeholder=sparse_placeholder",
}
