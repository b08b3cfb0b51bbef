"""Products of matrices: MatMul, the BatchMatMul family and SparseMatMul.

Half and bfloat16 are multiplied in float and rounded once, as TensorFlow's CPU kernels do.
Source: TensorFlow's `matmul_op_impl.h` and `sparse_matmul_op.cc`, for rules and error texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import FLOAT, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.epilogues import taken
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements
from placesim.ops.kernels.linalg.products import product
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.precision import is_narrow
from placesim.ops.kernels.shape_operands import broadcast_dims
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    broadcast,
    concatenate,
    format_dims,
    merge,
    merge_dim,
    subshape,
    unknown_dims,
    with_rank,
    with_rank_at_least,
)


def multiply(a: Tensor, b: Tensor, dtype: DataType) -> Tensor:
    """`[..., m, k]` times `[..., k, n]`, with batch dimensions broadcast; operands and result are of type `dtype`."""
    if is_narrow(dtype.numpy):
        return product(a.astype(np.float32), b.astype(np.float32)).astype(dtype.numpy)
    return product(a, b, taken())


def adjoint(matrix: Tensor) -> Tensor:
    """The conjugate transposes of `[..., m, n]`."""
    swapped = matrix.swapaxes(-1, -2)
    return swapped.conj() if swapped.dtype.kind == "c" else swapped


# --- MatMul ---------------------------------------------------------------------------------------------------------


def compute_matmul(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """`[m, k]` times `[k, n]`, each transposed first if attr `transpose_a` or `transpose_b` says so.

    Raises InvalidArgumentError for inputs that are not matrices, or whose inner dimensions differ.
    """
    a, b = inputs
    if a.ndim != b.ndim:
        raise _different_ranks(a, b)
    if a.ndim != 2:
        raise InvalidArgumentError(f"In[0] and In[1] ndims must be == 2: {a.ndim}")
    left = a.T if attrs["transpose_a"] else a
    right = b.T if attrs["transpose_b"] else b
    if left.shape[1] != right.shape[0]:
        raise _incompatible(a, b)
    return (multiply(left, right, attrs["T"]),)


def _different_ranks(a: Tensor, b: Tensor) -> InvalidArgumentError:
    return InvalidArgumentError(f"In[0] and In[1] has different ndims: {format_dims(a.shape)} vs. {format_dims(b.shape)}")


def _incompatible(a: Tensor, b: Tensor) -> InvalidArgumentError:
    return InvalidArgumentError(f"Matrix size-incompatible: In[0]: {format_dims(a.shape)}, In[1]: {format_dims(b.shape)}")


# --- BatchMatMul ----------------------------------------------------------------------------------------------------


def compute_batch_matmul(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """`[..., m, k]` times `[..., k, n]` with equal batch dimensions.

    Raises InvalidArgumentError for ranks or batch dimensions that differ, ranks below 2, and inner dimensions that differ.
    """
    a, b = inputs
    if a.ndim != b.ndim:
        raise _different_ranks(a, b)
    if a.ndim < 2:
        raise InvalidArgumentError(f"In[0] and In[1] ndims must be >= 2: {a.ndim}")
    for axis, (one, two) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        if one != two:
            raise InvalidArgumentError(
                f"In[0].dim({axis}) and In[1].dim({axis}) must be the same: {format_dims(a.shape)} vs {format_dims(b.shape)}"
            )
    return (_multiply_batches(a, b, attrs, attrs["T"]),)


def compute_broadcast_matmul(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """`[..., m, k]` times `[..., k, n]` with batch dimensions broadcast; the inputs are cast to the output's type.

    Raises InvalidArgumentError for ranks below 2, batch dimensions that do not fit, and inner dimensions that differ.
    """
    a, b = inputs
    check_matrices(a, b)
    check_broadcast_batches(a, b)
    dtype = attrs["Tout"] if "Tout" in attrs else attrs["T"]
    return (_multiply_batches(a.astype(dtype.numpy, copy=False), b.astype(dtype.numpy, copy=False), attrs, dtype),)


def check_matrices(*inputs: Tensor) -> None:
    """Raises InvalidArgumentError for an input of rank below 2."""
    for index, tensor in enumerate(inputs):
        if tensor.ndim < 2:
            raise InvalidArgumentError(f"In[{index}] ndims must be >= 2: {tensor.ndim}")


def check_broadcast_batches(a: Tensor, b: Tensor) -> None:
    """Raises InvalidArgumentError if the batch dimensions do not broadcast."""
    if broadcast_dims(a.shape[:-2], b.shape[:-2]) is None:
        raise InvalidArgumentError(
            "In[0] and In[1] must have compatible batch dimensions: " + " vs. ".join(format_dims(t.shape) for t in (a, b))
        )


def _multiply_batches(a: Tensor, b: Tensor, attrs: Attrs, dtype: DataType) -> Tensor:
    left = adjoint(a) if attrs["adj_x"] else a
    right = adjoint(b) if attrs["adj_y"] else b
    if left.shape[-1] != right.shape[-2]:
        raise _incompatible(a, b)
    return multiply(left, right, dtype)


# --- SparseMatMul ---------------------------------------------------------------------------------------------------


def compute_sparse_matmul(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """`[m, k]` times `[k, n]` of float or bfloat16, computed in float.

    With attr `a_is_sparse` (`b_is_sparse`), a zero of a (b) times NaN or infinity gives zero. Raises InvalidArgumentError for
    inputs that are not matrices, or whose inner dimensions differ.
    """
    a, b = inputs
    for name, matrix in zip("ab", inputs, strict=True):
        if matrix.ndim != 2:
            raise InvalidArgumentError(f"{name} is not a matrix")
    left, right = (t.astype(np.float32, copy=False) for t in inputs)
    left = left.T if attrs["transpose_a"] else left
    right = right.T if attrs["transpose_b"] else right
    if left.shape[1] != right.shape[0]:
        raise InvalidArgumentError(f"Matrix size incompatible: a: {format_dims(a.shape)}, b: {format_dims(b.shape)}")
    return (_multiply_sparse(left, right, attrs),)


def _multiply_sparse(left: Tensor, right: Tensor, attrs: Attrs) -> Tensor:
    """The product without the zeros of the sparse side (the left side if both are sparse), which TensorFlow skips."""
    sparse, dense = (left, right) if attrs["a_is_sparse"] else (right, left)
    # skipping zeros makes a difference only for NaN and infinity
    if not (attrs["a_is_sparse"] or attrs["b_is_sparse"]) or np.isfinite(dense).all():
        return multiply(left, right, FLOAT)
    # compute each product separately, so that those of zeros can be left out
    products = left[:, :, None] * right[None, :, :]
    skipped = (sparse == 0)[:, :, None] if attrs["a_is_sparse"] else (sparse == 0)[None, :, :]
    total: Tensor = np.where(skipped, np.float32(0), products).sum(1, dtype=np.float32)
    return total


# --- shape functions, costs and memory ------------------------------------------------------------------------------


def _last_two(dims: Dims, swap: bool) -> tuple[int, int]:
    rows, columns = (dims or unknown_dims(2) or ())[-2:]
    return (columns, rows) if swap else (rows, columns)


def infer_matmul(context: ShapeContext) -> tuple[Dims]:
    """Static shape of the product of two matrices, `[rows, columns]`. Raises ShapeError if they do not fit."""
    a, b = (with_rank(dims, 2) for dims in context.shapes)
    rows, inner_a = reversed(a) if context.attrs["transpose_a"] else a
    inner_b, columns = reversed(b) if context.attrs["transpose_b"] else b
    merge_dim(inner_a, inner_b)
    return ((rows, columns),)


def infer_batch_matmul(context: ShapeContext) -> tuple[Dims]:
    """`[..., m, k]` and `[..., k, n]` -> `[..., m, n]`; the batch dimensions must be the same."""
    a, b = (with_rank_at_least(dims, 2) for dims in context.shapes)
    batch = merge(subshape(a, 0, -2), subshape(b, 0, -2))
    return (concatenate(batch, _infer_product(a, b, context.attrs)),)


def infer_broadcast_matmul(context: ShapeContext) -> tuple[Dims]:
    """`[..., m, k]` and `[..., k, n]` -> `[..., m, n]`; the batch dimensions must broadcast."""
    a, b = (with_rank_at_least(dims, 2) for dims in context.shapes)
    matrices = _infer_product(a, b, context.attrs)
    return (concatenate(broadcast(subshape(a, 0, -2), subshape(b, 0, -2)), matrices),)


def _infer_product(a: Dims, b: Dims, attrs: Attrs) -> tuple[int, int]:
    rows, inner_a = _last_two(a, attrs["adj_x"])
    inner_b, columns = _last_two(b, attrs["adj_y"])
    merge_dim(inner_a, inner_b)
    return rows, columns


def _matmul_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    (a,) = inputs[:1]
    return 2 * elements(outputs[0]) * (a or (0, 0))[0 if attrs["transpose_a"] else 1]


def _batch_matmul_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return 2 * elements(outputs[0]) * _last_two(inputs[0], attrs["adj_x"])[1]


def matmul_memory(memory: KernelMemory) -> None:
    """The output; half and bfloat16 also have float copies of both inputs and the output."""
    memory.allocate()
    a, b, product = *memory.inputs, *memory.outputs
    if is_narrow(a.dtype.numpy) and a.dtype is b.dtype and product.elements and a.elements:
        for tensor in (a, b, product):
            memory.temporary_like(tensor, FLOAT)


_BATCH_COST = CostModel("batch matmul")
_BROADCAST = Kernel(
    compute_broadcast_matmul,
    infer_broadcast_matmul,
    _batch_matmul_flops,
    memory=matmul_memory,
    traits=Trait.NEW_MEMORY | Trait.SUMS,
    cost=_BATCH_COST,
)

TABLE: Table = {
    "MatMul": Kernel(
        compute_matmul,
        infer_matmul,
        _matmul_flops,
        memory=matmul_memory,
        traits=Trait.NEW_MEMORY | Trait.SUMS,
        cost=CostModel("matmul"),
    ),
    "BatchMatMul": Kernel(
        compute_batch_matmul,
        infer_batch_matmul,
        _batch_matmul_flops,
        memory=matmul_memory,
        traits=Trait.NEW_MEMORY | Trait.SUMS,
        cost=_BATCH_COST,
    ),
    "BatchMatMulV2": _BROADCAST,
    "BatchMatMulV3": _BROADCAST,
    "SparseMatMul": Kernel(compute_sparse_matmul, infer_matmul, _matmul_flops),
}
