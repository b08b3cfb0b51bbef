"""`tf.matmul`, and the product of a matrix and a vector."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.math.casting import cast, conj
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: object = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.matmul`: MatMul of two matrices, or BatchMatMulV2 of batches."""
    with name_scope(name, "MatMul", [a, b]) as scope:
        for which, is_transposed, is_adjoint in (("a", transpose_a, adjoint_a), ("b", transpose_b, adjoint_b)):
            if is_transposed and is_adjoint:
                raise ValueError(
                    f"Only one of `transpose_{which}` and `adjoint_{which}` can be True. Received "
                    f"`transpose_{which}`={is_transposed}, `adjoint_{which}`={is_adjoint}."
                )
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, dtype_hint=a.dtype.base_dtype, name="b")
        is_batch = any(tensor.shape.rank is None or tensor.shape.rank > 2 for tensor in (a, b))
        if is_batch and not a_is_sparse and not b_is_sparse:
            # BatchMatMulV2 only has adjoints, MatMul only transposes: conj converts, and leaves real numbers unchanged
            if transpose_a:
                a, adjoint_a = conj(a), True
            if transpose_b:
                b, adjoint_b = conj(b), True
            return gen("BatchMatMulV2")(a, b, adj_x=adjoint_a, adj_y=adjoint_b, grad_x=grad_a, grad_y=grad_b, name=scope)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        sparse_types = (dtypes.bfloat16, dtypes.float32)
        if (a_is_sparse or b_is_sparse) and a.dtype.base_dtype in sparse_types and b.dtype.base_dtype in sparse_types:
            found = gen("SparseMatMul")(a, b, transpose_a, transpose_b, a_is_sparse, b_is_sparse, name=scope)
            both = (a.dtype.base_dtype, b.dtype.base_dtype)
            return cast(found, dtypes.bfloat16) if both == (dtypes.bfloat16, dtypes.bfloat16) else found
        return gen("MatMul")(a, b, transpose_a, transpose_b, grad_a, grad_b, name=scope)


def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.linalg.matvec`."""
    from placesim.tf1.array.shaping import expand_dims, squeeze

    with name_scope(name, "MatVec", [a, b]):
        column = expand_dims(b, -1)
        found = matmul(
            a, column, transpose_a=transpose_a, adjoint_a=adjoint_a, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse
        )
        return squeeze(found, -1)
