"""Arithmetic of sparse tensors: with each other, with dense tensors, and softmax along the last dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from placesim.core.dtypes import FLOAT, HALF
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, as_many_as, elements, per_element
from placesim.ops.kernels.memory_rules import KernelMemory, item_size
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, infer_by, merge_dim, with_rank
from placesim.ops.kernels.sparse.tensors import (
    check_parts,
    check_rank,
    dense_shape,
    gather_or_zero,
    group_starts,
    make_sparse_tensor,
    merge_rows,
    part_dims,
    row_order,
)

MAX_DENSE_RANK = 5
"""Maximum rank of a dense tensor that is combined with a sparse one."""


def _check_addends(inputs: Sequence[Tensor]) -> None:
    """Raise InvalidArgumentError unless the inputs are the parts of two sparse tensors of one shape."""
    a_indices, a_values, a_shape, b_indices, b_values, b_shape = inputs
    _check_ranks((a_indices, b_indices), 2, "Input indices should be matrices but received shapes: {} and {}")
    a_rank, b_rank = a_indices.shape[1], b_indices.shape[1]
    if a_rank != b_rank:
        raise InvalidArgumentError(f"Input indices must have the same dimension, got {a_rank} and {b_rank}")
    _check_ranks((a_values, b_values), 1, "Input values should be vectors but received shapes: {} and {}")
    if len(a_values) != len(a_indices) or len(b_values) != len(b_indices):
        raise InvalidArgumentError(
            f"Expected {len(a_indices)} and {len(b_indices)} non-empty input values, got {len(a_values)} and {len(b_values)}"
        )
    _check_ranks((a_shape, b_shape), 1, "Input shapes should be a vector but received shapes {} and {}")
    if a_rank != len(a_shape):
        raise InvalidArgumentError(
            f"Second dimension of a_indices and length of a_shape must match, got {a_rank} and {len(a_shape)}"
        )
    if a_rank <= 0:
        raise InvalidArgumentError("Tesors must not be empty")  # TensorFlow's spelling
    _check_same_shape(a_shape, b_shape)


def _check_ranks(tensors: Sequence[Tensor], rank: int, message: str) -> None:
    if not all(tensor.ndim == rank for tensor in tensors):
        raise InvalidArgumentError(message.format(*(format_dims(tensor.shape) for tensor in tensors)))


def _check_same_shape(a_shape: Tensor, b_shape: Tensor) -> None:
    one, two = a_shape.tolist(), b_shape.tolist()
    if len(one) != len(two):
        raise InvalidArgumentError(
            "Operands do not have the same ranks; "
            f"got shapes: {' '.join(map(str, one[:10]))} and {' '.join(map(str, two[:10]))}"
        )
    for axis, (a_dim, b_dim) in enumerate(zip(one, two, strict=True)):
        if a_dim != b_dim:
            raise InvalidArgumentError(f"Operands' shapes do not match: got {a_dim} and {b_dim} for dimension {axis}")


def add_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the parts of `A + B`; the inputs are A's and B's indices, values and shape, and a threshold.

    A coordinate in both A and B is omitted if the sum's magnitude is below the threshold. Raises InvalidArgumentError if inputs
    do not fit.
    """
    a_indices, a_values, a_shape, b_indices, b_values, _, threshold = inputs
    _check_addends(inputs[:6])
    check_rank(threshold, 0, "The magnitude threshold must be a scalar: got shape ")
    # TensorFlow assumes sorted rows: rows out of order can give two entries with one coordinate
    rows, in_a, in_b = merge_rows(a_indices, b_indices)
    sums = gather_or_zero(a_values, in_a) + gather_or_zero(b_values, in_b)
    kept = (in_a < 0) | (in_b < 0) | (threshold <= np.abs(sums))
    return rows[kept], sums[kept], a_shape


def add_sparse_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the gradients of A's and B's values; the inputs are the sum's gradient, and the indices of A, B and the sum.

    The gradient is zero for coordinates omitted from the sum. Raises InvalidArgumentError if the parts do not fit.
    """
    gradient, a_indices, b_indices, sum_indices = inputs
    _check_ranks(inputs[1:], 2, "Input indices should be matrices but received shapes: {} and {} and {}")
    check_rank(gradient, 1, "Input backprop_val_grad should be a vector but received shape: ")
    if not a_indices.shape[1] == b_indices.shape[1] == sum_indices.shape[1]:
        raise InvalidArgumentError(
            "The densified operands should have the same ndims; for A, B, sum got: "
            f"{a_indices.shape[1]}{b_indices.shape[1]}{sum_indices.shape[1]}"
        )
    if len(gradient) != len(sum_indices):
        raise InvalidArgumentError(
            "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got "
            f"{len(gradient)} and {len(sum_indices)}"
        )
    return [gather_or_zero(gradient, where) for where in _find_in_sum(sum_indices, a_indices, b_indices)]


def _find_in_sum(sum_indices: Tensor, *operands: Tensor) -> list[Tensor]:
    """Find each row of A and of B in the sum: return positions, -1 if not found. As in TensorFlow, this needs ordered rows."""
    rows = [operand.tolist() for operand in operands]
    found = [np.full(len(operand), -1) for operand in operands]
    following = [0, 0]
    for position, wanted in enumerate(sum_indices.tolist()):
        passing = True
        while passing:
            passing = False
            for operand, next_row in enumerate(following):
                if next_row < len(rows[operand]) and rows[operand][next_row] <= wanted:
                    if rows[operand][next_row] == wanted:
                        found[operand][next_row] = position
                    else:
                        passing = True
                    following[operand] += 1
    return found


def _build_combine_sparse(function: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    """Return the table row of an elementwise function of two sparse tensors; a missing entry counts as zero."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        a_indices, a_values, a_shape, b_indices, b_values, b_shape = inputs
        check_parts(a_indices, a_values, a_shape)
        check_parts(b_indices, b_values, b_shape)
        if len(a_shape) == 0:
            raise InvalidArgumentError("Tensors must not be empty")
        _check_same_shape(a_shape, b_shape)
        rows, in_a, in_b = merge_rows(a_indices, b_indices)
        return rows, function(gather_or_zero(a_values, in_a), gather_or_zero(b_values, in_b))

    return Kernel(compute, infer_by("[?, ?], [?], [?], [?, ?], [?], [?] -> [?, ?], [?]"), per_element(1))


def add_to_dense(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the dense sum of a sparse and a dense tensor of one shape.

    Raises InvalidArgumentError if parts or shapes do not fit, for an index out of range, and for a rank outside 1 to 5.
    """
    indices, values, dims, dense = inputs
    _check_sparse_and_dense(indices, values, dims, dense)
    outside = (indices < 0) | (indices >= np.array(dense.shape, np.int64))
    if outside.any():
        row, axis = np.argwhere(outside)[0].tolist()
        raise InvalidArgumentError(
            f"Sparse tensor has an invalid index on dimension {axis}: a_indices({row},{axis}) = {indices[row, axis]}, "
            f"dense tensor shape: {' '.join(map(str, dense.shape))}"
        )
    _check_dense_rank(len(dims))
    # a repeated entry is added repeatedly
    output = dense.copy()
    np.add.at(output, tuple(indices.T), values)
    return (output,)


def _check_dense_rank(rank: int) -> None:
    if not 0 < rank <= MAX_DENSE_RANK:
        raise InvalidArgumentError(f"Only tensors with ranks between 1 and 5 are currently supported.  Tensor rank: {rank}")


def _check_part_ranks(indices: Tensor, values: Tensor, dims: Tensor, prefix: str) -> None:
    check_rank(indices, 2, f"Input {prefix}_indices should be a matrix but received shape: ")
    if not values.ndim == dims.ndim == 1:
        raise InvalidArgumentError(
            f"Inputs {prefix}_values and {prefix}_shape should be vectors but received shapes: "
            f"{format_dims(values.shape)} and {format_dims(dims.shape)}"
        )


def _check_sparse_and_dense(indices: Tensor, values: Tensor, dims: Tensor, dense: Tensor) -> None:
    _check_part_ranks(indices, values, dims, "a")
    entries, rank = indices.shape
    if len(values) != entries:
        raise InvalidArgumentError(f"Dimensions {entries} and {len(values)} are not compatible")
    if len(dims) != rank:
        raise InvalidArgumentError(f"Dimensions {rank} and {len(dims)} are not compatible")
    if len(dims) != dense.ndim:
        raise InvalidArgumentError(f"Two operands have different ranks; received: {len(dims)} and {dense.ndim}")
    for axis, (sparse_dim, dense_dim) in enumerate(zip(dims.tolist(), dense.shape, strict=True)):
        if sparse_dim != dense_dim:
            raise InvalidArgumentError(
                f"Dimension {axis} does not equal (no broadcasting is supported): "
                f"sparse side {sparse_dim} vs dense side {dense_dim}"
            )


def multiply_with_dense(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return `A @ B` for a sparse matrix A `[rows, inner]` and a dense matrix B `[inner, columns]`, or for their adjoints.

    Raises InvalidArgumentError if parts or inner dimensions do not fit, and for an index out of range.
    """
    indices, values, dims, b = inputs
    if b.ndim != 2:
        raise InvalidArgumentError("Tensor 'b' is not a matrix")
    if dims.ndim != 1:
        raise InvalidArgumentError("Tensor 'a_shape' is not a vector")
    if dims.size != 2:
        raise InvalidArgumentError("Tensor 'a_shape' must have 2 elements")
    if values.ndim != 1:
        raise InvalidArgumentError("Tensor 'a_values' is not a vector")
    if indices.ndim != 2:
        raise InvalidArgumentError("Tensor 'a_indices' is not a matrix")
    if len(indices) != len(values):
        raise InvalidArgumentError("Number of rows of a_indices does not match number of entries in a_values")
    if indices.shape[1] != 2:
        raise InvalidArgumentError("Number of columns of a_indices does not match number of entries in a_shape")
    left, right = (1, 0) if attrs["adjoint_a"] else (0, 1)
    values = np.conj(values) if attrs["adjoint_a"] else values
    b_shape = b.shape
    b = np.conj(b.T) if attrs["adjoint_b"] else b
    rows, inner = int(dims[left]), int(dims[right])
    if inner != len(b):
        raise InvalidArgumentError(
            f"Cannot multiply A and B because inner dimension does not match: {inner} vs. {len(b)}.  "
            "Did you forget a transpose?  "
            # TensorFlow's text has the parenthesis
            f"Dimensions of A: [{dims[0]}, {dims[1]}).  Dimensions of B: {format_dims(b_shape)}"
        )
    if rows < 0:
        raise InvalidArgumentError(f"Dimension {rows} must be >= 0")
    # if the product has no elements, TensorFlow does not check the indices
    if rows * b.shape[1]:
        _check_matrix_indices(indices[:, left], indices[:, right], left, right, rows, len(b))
    return (_multiply_entries(indices[:, left], indices[:, right], values, b, rows),)


def _check_matrix_indices(m: Tensor, k: Tensor, left: int, right: int, rows: int, inner: int) -> None:
    bad_k, bad_m = (k < 0) | (k >= inner), (m < 0) | (m >= rows)
    wrong = bad_k | bad_m
    if not wrong.any():
        return
    # TensorFlow first checks the index along the inner dimension
    entry = int(np.argmax(wrong))
    if bad_k[entry]:
        raise InvalidArgumentError(f"k ({k[entry]}) from index[{entry},{right}] out of bounds (>={inner})")
    raise InvalidArgumentError(f"m ({m[entry]}) from index[{entry},{left}] out of bounds (>={rows})")


def _multiply_entries(m: Tensor, k: Tensor, values: Tensor, b: Tensor, rows: int) -> Tensor:
    # as TensorFlow, sum bfloat16 in float
    dtype = np.dtype(np.float32) if values.dtype.name == "bfloat16" else values.dtype
    output = np.zeros((rows, b.shape[1]), dtype)
    if output.size:
        np.add.at(output, m, values[:, None].astype(dtype) * b[k].astype(dtype))
    return output.astype(values.dtype, copy=False)


def _build_combine_with_dense(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    """Return the table row of an elementwise function of a sparse tensor's values and a dense tensor, which broadcasts."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        indices, values, dims, dense = inputs
        picked = _pick_broadcast(indices, values, dims, dense)
        # even a zero at which the sparse tensor has no entry is refused
        if name == "SparseDenseCwiseDiv" and np.issubdtype(dense.dtype, np.integer) and not np.all(dense):
            raise InvalidArgumentError(f"{name} cannot divide by zero,but input dense tensor contains zero ")
        return (function(values, picked),)

    return Kernel(compute, infer_by("[n, ?] -> [n]"), per_element(1), memory=combine_with_dense_memory)


def _pick_broadcast(indices: Tensor, values: Tensor, dims: Tensor, dense: Tensor) -> Tensor:
    """Return the elements of a dense tensor, broadcast to the sparse shape, at the sparse tensor's coordinates."""
    _check_part_ranks(indices, values, dims, "sp")
    if len(values) != len(indices):
        raise InvalidArgumentError(
            f"The first dimension of values and indices should match. ({len(values)} vs. {len(indices)})"
        )
    if len(dims) != indices.shape[1]:
        raise InvalidArgumentError(
            "Number of dimensions must match second dimension of indices. "
            f"Got {len(dims)} dimensions, indices shape: {format_dims(indices.shape)}"
        )
    if len(dims) == 0:
        raise InvalidArgumentError("The shape argument requires at least one element.")
    shape = dense_shape(dims.tolist())
    padded = (1,) * (len(shape) - dense.ndim) + dense.shape
    # only the dense side may be broadcast
    if not (
        len(padded) == len(shape) and all(one == two or (two == 1 and one) for one, two in zip(shape, padded, strict=True))
    ):
        raise InvalidArgumentError(
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
            f"[{','.join(map(str, shape))}] vs. [{','.join(map(str, dense.shape))}]"
        )
    _check_dense_rank(len(shape))
    if not np.all((indices >= 0) & (indices < np.array(shape))):
        raise InvalidArgumentError("Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape")
    picked: Tensor = np.broadcast_to(dense, shape)[tuple(indices.T)]
    return picked


def _divide(one: Tensor, two: Tensor) -> Tensor:
    return truncated_quotient(one, two) if np.issubdtype(one.dtype, np.integer) else np.divide(one, two)


def softmax_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return softmax values `[entries]`, sorted by row, each over the entries that differ only in the last coordinate.

    Raises InvalidArgumentError if the parts do not fit or the rank is below 2.
    """
    indices, values, dims = inputs
    _check_part_ranks(indices, values, dims, "sp")
    if len(dims) < 2:
        raise InvalidArgumentError(f"Input should have rank >= 2, but received shape: {' '.join(map(str, dims[:3].tolist()))}")
    make_sparse_tensor(indices, values, dims)
    if not len(values):
        return (values,)
    order = row_order(indices)
    indices, values = indices[order], values[order]
    starts = group_starts(indices[:, :-1])
    lengths = np.diff(np.append(starts, len(values)))
    shifted = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), lengths))
    return (shifted / np.repeat(np.add.reduceat(shifted, starts, dtype=shifted.dtype), lengths),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_multiply_with_dense(context: ShapeContext) -> Sequence[Dims]:
    part_dims(context)
    a = with_rank(context.shape_value(2), 2)
    b = with_rank(context.shapes[3], 2)
    left, a_inner = a[::-1] if context.attrs["adjoint_a"] else a
    b_inner, right = b[::-1] if context.attrs["adjoint_b"] else b
    merge_dim(a_inner, b_inner)
    return ((left, right),)


def _infer_softmax(context: ShapeContext) -> Sequence[Dims]:
    return part_dims(context)[1:2]


# --- costs ----------------------------------------------------------------------------------------------------------


def _multiply_with_dense_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    columns = (outputs[0] or (0, 0))[1]
    return 2 * columns * elements(inputs[1])


def _add_sparse_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return min(elements(inputs[1]), elements(inputs[4]))


# --- memory ---------------------------------------------------------------------------------------------------------


def add_sparse_memory(memory: KernelMemory) -> None:
    """The sum's shape shares the memory of A's shape."""
    memory.allocate(0)
    memory.allocate(1)
    memory.alias(2, 2)


def softmax_sparse_memory(memory: KernelMemory) -> None:
    """A temporary scalar has each group's maximum and sum."""
    memory.allocate()
    memory.temporary(item_size(memory.inputs[1].dtype), (), memory.inputs[1].dtype)


def combine_with_dense_memory(memory: KernelMemory) -> None:
    """A temporary has the dense tensor's values at the entries."""
    memory.allocate()
    memory.temporary_like(memory.inputs[1])


def multiply_with_dense_memory(memory: KernelMemory) -> None:
    """Products of half are summed in a temporary of floats; those of bfloat16 are not."""
    memory.allocate()
    values, dense, product = memory.inputs[1], memory.inputs[3], memory.outputs[0]
    if values.dtype is HALF and values.elements and dense.elements:
        memory.temporary_like(product, FLOAT)


TABLE: Table = {
    "SparseAdd": Kernel(
        add_sparse,
        infer_by("*, *, [rank] -> [?, rank], [?], [rank]"),
        _add_sparse_flops,
        memory=add_sparse_memory,
        guess=as_many_as(1, 4),
    ),
    "SparseAddGrad": Kernel(add_sparse_gradient, infer_by("*, [a, ?], [b, ?] -> [a], [b]")),
    "SparseSoftmax": Kernel(softmax_sparse, _infer_softmax, per_element(1, 3), memory=softmax_sparse_memory),
    "SparseSparseMaximum": _build_combine_sparse(np.maximum),
    "SparseSparseMinimum": _build_combine_sparse(np.minimum),
    "SparseTensorDenseAdd": Kernel(add_to_dense, infer_by("*, *, *, x -> x"), per_element(1)),
    "SparseTensorDenseMatMul": Kernel(
        multiply_with_dense, _infer_multiply_with_dense, _multiply_with_dense_flops, memory=multiply_with_dense_memory
    ),
    "SparseDenseCwiseAdd": _build_combine_with_dense("SparseDenseCwiseAdd", np.add),
    "SparseDenseCwiseDiv": _build_combine_with_dense("SparseDenseCwiseDiv", _divide),
    "SparseDenseCwiseMul": _build_combine_with_dense("SparseDenseCwiseMul", np.multiply),
}
