"""Solvers of linear systems: general, triangular, banded, tridiagonal and least squares; and inverses.

A system is a matrix `[..., m, n]` and right-hand sides `[..., m, k]`.
Source: TensorFlow's `core/kernels/linalg` for rules and error texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.linalg.matmul import adjoint, check_broadcast_batches, check_matrices
from placesim.ops.kernels.linalg.matrices import (
    build_infer_nothing,
    check_batches,
    check_square,
    cubic,
    decomposition_memory,
    infer_square,
    square,
    widen,
)
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    broadcast,
    concatenate,
    format_dims,
    merge,
    merge_dim,
    subshape,
    with_rank,
    with_rank_at_least,
    with_value,
)

# --- general systems ------------------------------------------------------------------------------------------------


def compute_inverse(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Inverses of `[..., n, n]`, or of their adjoints. Raises InvalidArgumentError for other shapes and singular matrices."""
    (matrix,) = inputs
    check_square(matrix)
    wide = widen(matrix)
    try:
        inverse = np.linalg.inv(adjoint(wide) if attrs["adjoint"] else wide)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError("Input is not invertible.") from None
    return (inverse.astype(matrix.dtype, copy=False),)


def compute_solve(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(matrices `[..., n, n]`, right-hand sides `[..., n, k]`) -> solutions `[..., n, k]` for the matrices or their adjoints.

    Raises InvalidArgumentError for shapes that do not fit, and a matrix that is not invertible.
    """
    matrix, rhs = inputs
    check_batches(matrix, rhs)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidArgumentError("First input (lhs) must be a square matrix.")
    _check_rows(matrix, rhs)
    try:
        return (np.linalg.solve(adjoint(matrix) if attrs["adjoint"] else matrix, rhs),)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError("Input matrix is not invertible.") from None


def _check_rows(matrix: Tensor, rhs: Tensor) -> None:
    if matrix.shape[-2] != rhs.shape[-2]:
        raise InvalidArgumentError("Input matrix and rhs are incompatible.")


def compute_least_squares(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(matrices `[..., m, n]`, right-hand sides `[..., m, k]`, regularizer) -> least-squares solutions `[..., n, k]`.

    With attr `fast` they are computed by normal equations, else they have the minimum norm. Raises InvalidArgumentError for
    shapes that do not fit, a regularizer that is not a scalar or is negative, and with `fast` a rank-deficient matrix.
    """
    matrix, rhs, regularizer = inputs
    check_batches(matrix, rhs)
    _check_rows(matrix, rhs)
    batch, columns = matrix.shape[:-2], matrix.shape[-1]
    solution = np.zeros((*batch, columns, rhs.shape[-1]), matrix.dtype)
    for index in np.ndindex(batch):
        # inside of the loop, since TensorFlow does not check it for an empty batch
        _check_regularizer(regularizer)
        if matrix[index].size and rhs[index].size:
            solution[index] = _least_squares(matrix[index], rhs[index], float(regularizer), attrs["fast"])
    return (solution,)


def _check_regularizer(regularizer: Tensor) -> None:
    if regularizer.ndim:
        raise InvalidArgumentError(f"l2_regularizer must be scalar, got shape {format_dims(regularizer.shape)}")
    if not regularizer >= 0:
        raise InvalidArgumentError("l2_regularizer must be >= 0.")


def _least_squares(matrix: Tensor, rhs: Tensor, regularizer: float, fast: bool) -> Tensor:
    if not fast:
        if not np.isfinite(matrix).all():  # TensorFlow's decomposition finds a rank of 0
            return np.zeros((matrix.shape[1], rhs.shape[1]), matrix.dtype)
        return np.linalg.lstsq(matrix, rhs)[0]
    rows, columns = matrix.shape
    transposed = adjoint(matrix)
    # the smaller of the two products, since the larger is singular
    gramian = transposed @ matrix if rows >= columns else matrix @ transposed
    gramian += np.eye(len(gramian), dtype=matrix.dtype) * matrix.dtype.type(regularizer)
    remedy = "a larger l2_regularizer" if rows >= columns else "an l2_regularizer"
    try:
        factor = np.linalg.cholesky(gramian)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError(
            f"Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide {remedy} > 0."
        ) from None
    if rows >= columns:
        return _solve_factored(factor, transposed @ rhs)
    return transposed @ _solve_factored(factor, rhs)


def _solve_factored(factor: Tensor, rhs: Tensor) -> Tensor:
    """Solve a system with a known Cholesky factor."""
    return substitute(adjoint(factor), substitute(factor, rhs, lower=True), lower=False)


# --- triangular systems ---------------------------------------------------------------------------------------------


def substitute(matrix: Tensor, rhs: Tensor, lower: bool) -> Tensor:
    """Solve triangular systems `[..., n, n]` by forward (`lower`) or back substitution; batch dimensions broadcast.

    Only the triangle is read. A zero on the diagonal gives an infinity, not an error.
    """
    size = matrix.shape[-1]
    batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    solution = np.empty((*batch, *rhs.shape[-2:]), np.result_type(matrix, rhs))
    for row in range(size) if lower else reversed(range(size)):
        known = slice(0, row) if lower else slice(row + 1, size)
        done = matrix[..., row : row + 1, known] @ solution[..., known, :]
        solution[..., row, :] = (rhs[..., row, :] - done[..., 0, :]) / matrix[..., row, row, None]
    return solution


def compute_triangular_solve(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(triangular matrices `[..., n, n]`, right-hand sides `[..., n, k]`) -> the solutions `[..., n, k]`.

    Batch dimensions broadcast. Raises InvalidArgumentError for shapes that do not fit, but not for a zero on the diagonal.
    """
    matrix, rhs = inputs
    check_matrices(matrix, rhs)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidArgumentError(
            f"In[0] matrices in the last dimensions must be square ({matrix.shape[-1]} =/= {matrix.shape[-2]})"
        )
    _check_same_size(matrix, rhs, attrs)
    # the adjoint of a lower triangular matrix is upper triangular
    wide = adjoint(widen(matrix)) if attrs["adjoint"] else widen(matrix)
    solution = substitute(wide, widen(rhs), attrs["lower"] != attrs["adjoint"])
    return (solution.astype(matrix.dtype, copy=False),)


def _check_same_size(matrix: Tensor, rhs: Tensor, attrs: Attrs) -> None:
    check_broadcast_batches(matrix, rhs)
    if matrix.shape[-1] != rhs.shape[-2]:
        raise InvalidArgumentError(
            f"In[0] mismatch In[1] shape: {matrix.shape[-1]} vs. {rhs.shape[-2]}: "
            f"{format_dims(matrix.shape)} {format_dims(rhs.shape)} {int(attrs['lower'])} {int(attrs['adjoint'])}"
        )


def compute_banded_solve(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Like `compute_triangular_solve`, with bands `[..., bands, n]`; the diagonal is first, or last for upper triangles.

    Raises InvalidArgumentError for shapes that do not fit, inputs without elements, and a zero on the first matrix's diagonal.
    """
    bands, rhs = inputs
    check_matrices(bands, rhs)
    for index, tensor in enumerate(inputs):
        if not tensor.size:
            shown = f"Tensor<type: {attrs['T'].name} shape: {format_dims(tensor.shape)} values: >"
            raise InvalidArgumentError(f"In[{index}] must not be an empty tensor: {shown}")
    _check_same_size(bands, rhs, attrs)
    diagonal = bands.reshape(-1, *bands.shape[-2:])[0, 0 if attrs["lower"] else -1]
    if (diagonal == 0).any():  # TensorFlow checks only the first matrix
        raise InvalidArgumentError("Input matrix is not invertible.")
    matrix = _from_bands(bands, attrs["lower"])
    wide = adjoint(matrix) if attrs["adjoint"] else matrix
    return (substitute(wide, rhs, attrs["lower"] != attrs["adjoint"]),)


def _from_bands(bands: Tensor, lower: bool) -> Tensor:
    """Bands -> matrices `[..., n, n]`; the padding of lower bands is on the left, of upper bands on the right."""
    count, size = bands.shape[-2:]
    matrix = np.zeros((*bands.shape[:-2], size, size), bands.dtype)
    for band in range(min(count, size)):
        near, far = np.arange(size - band), np.arange(band, size)
        if lower:
            matrix[..., far, near] = bands[..., band, band:]
        else:
            matrix[..., near, far] = bands[..., count - 1 - band, : size - band]
    return matrix


# --- tridiagonal systems --------------------------------------------------------------------------------------------


def compute_tridiagonal_solve(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(diagonals `[..., 3, n]`: super-, main and subdiagonal; right-hand sides `[..., n, k]`) -> solutions `[..., n, k]`.

    A singular system gives NaN. Raises InvalidArgumentError for shapes that do not fit, and `perturb_singular` without
    pivoting.
    """
    diagonals, rhs = inputs
    pivoting, perturbing = attrs["partial_pivoting"], attrs["perturb_singular"]
    if perturbing and not pivoting:
        raise InvalidArgumentError("Setting perturb_singular requires also setting partial_pivoting.")
    check_batches(diagonals, rhs)
    if diagonals.shape[-2] != 3:
        raise InvalidArgumentError(
            f"Expected diagonals to be provided as a matrix with 3 rows, got {diagonals.shape[-2]} rows."
        )
    if diagonals.shape[-1] != rhs.shape[-2]:
        raise InvalidArgumentError(
            f"Expected the same number of left-hand sides and right-hand sides, got {diagonals.shape[-1]} and {rhs.shape[-2]}."
        )
    if not rhs.size:
        return (rhs,)
    upper, solution = _triangularize(diagonals, rhs, pivoting)
    singular = (upper[0] == 0).any(axis=-1)
    if perturbing:
        _perturb(upper)
    _substitute_back(upper, solution)
    if not perturbing:
        solution[singular] = np.nan
    return (solution,)


def _triangularize(diagonals: Tensor, rhs: Tensor, pivoting: bool) -> tuple[Tensor, Tensor]:
    """Eliminate the subdiagonal; with `pivoting`, neighbouring rows are exchanged if this gives a larger pivot.

    Returns (the upper factor's main diagonal and the two diagonals above it, `[3, ..., n]`; the right-hand sides).
    """
    above, main, below = (diagonals[..., row, :] for row in range(3))
    upper: Any = np.stack([main, above, np.zeros_like(main)])
    solution = rhs.copy()
    # the last element of the superdiagonal and the first of the subdiagonal are outside of the matrix
    upper[1, ..., -1] = 0
    for row in range(rhs.shape[-2] - 1):
        here, following = upper[..., row].copy(), upper[..., row + 1].copy()
        lower = below[..., row + 1]
        swap = pivoting & (np.abs(here[0]) < np.abs(lower))
        pivot = np.where(swap, lower, here[0])
        eliminated = np.where(swap, here[0], lower)
        # a zero needs no elimination, even under a pivot of zero
        factor = np.where(eliminated == 0, 0, eliminated / pivot)
        beside = np.where(swap, following[:2], np.stack([here[1], np.zeros_like(lower)]))
        other = np.where(swap, np.stack([here[1], np.zeros_like(lower)]), following[:2])
        upper[..., row] = np.stack([pivot, beside[0], beside[1]])
        upper[:2, ..., row + 1] = other - factor * beside
        one, two = solution[..., row, :].copy(), solution[..., row + 1, :].copy()
        solution[..., row, :] = np.where(swap[..., None], two, one)
        solution[..., row + 1, :] = np.where(swap[..., None], one, two) - factor[..., None] * solution[..., row, :]
    return upper, solution


def _perturb(upper: Tensor) -> None:
    """Add the rounding error of a matrix's largest element to each pivot that is smaller than this error."""
    limits = np.finfo(upper.dtype)
    tolerance = np.maximum(limits.eps * np.abs(upper).max(axis=(0, -1)), limits.tiny)[..., None]
    pivots = upper[0]
    tiny = np.abs(pivots) < tolerance
    pivots[tiny] += np.broadcast_to(np.copysign(tolerance, pivots.real), pivots.shape)[tiny]


def _substitute_back(upper: Tensor, solution: Tensor) -> None:
    size = solution.shape[-2]
    for row in reversed(range(size)):
        value = solution[..., row, :]
        for distance in range(1, min(3, size - row)):
            value = value - upper[distance, ..., row, None] * solution[..., row + distance, :]
        solution[..., row, :] = value / upper[0, ..., row, None]


def compute_tridiagonal_matmul(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Three diagonals `[..., 1, m]` times `[..., m, k]` -> `[..., m, k]`. Raises InvalidArgumentError for other shapes."""
    check_batches(*inputs)
    above, main, below, rhs = inputs
    for name, diagonal in (("superdiagonal", above), ("main diagonal", main), ("subdiagonal", below)):
        if diagonal.shape[-2:] != (1, rhs.shape[-2]):
            raise InvalidArgumentError(f"Invalid {name} shape.")
    product = main.swapaxes(-1, -2) * rhs
    product[..., 1:, :] += below.swapaxes(-1, -2)[..., 1:, :] * rhs[..., :-1, :]
    product[..., :-1, :] += above.swapaxes(-1, -2)[..., :-1, :] * rhs[..., 1:, :]
    return (product,)


# --- shape functions and costs --------------------------------------------------------------------------------------


def _dim(dims: Dims, axis: int) -> int:
    return -1 if dims is None else dims[axis]


def infer_solve(context: ShapeContext) -> tuple[Dims]:
    """Static shape: matrices `[..., n, n]` and right-hand sides `[..., n, k]` -> `[..., n, k]`."""
    return (_infer_system(square(context.shapes[0]), context.shapes[1], is_square=True),)


def infer_least_squares(context: ShapeContext) -> tuple[Dims]:
    """`[..., m, n]` and `[..., m, k]` -> `[..., n, k]`."""
    with_rank(context.shapes[2], 0)
    return (_infer_system(with_rank_at_least(context.shapes[0], 2), context.shapes[1], is_square=False),)


def _infer_system(matrix: Dims, rhs: Dims, is_square: bool) -> Dims:
    rhs = with_rank_at_least(rhs, 2)
    batch = merge(subshape(matrix, 0, -2), subshape(rhs, 0, -2))
    rows = merge_dim(_dim(matrix, -2), _dim(rhs, -2))
    columns = merge_dim(rows, _dim(matrix, -1)) if is_square else _dim(matrix, -1)
    return concatenate(batch, (columns, _dim(rhs, -1)))


def infer_triangular_solve(context: ShapeContext) -> tuple[Dims]:
    """`[..., n, n]` and `[..., n, k]` -> `[..., n, k]`, with batch dimensions broadcast."""
    return (_infer_broadcast_system(square(context.shapes[0]), with_rank_at_least(context.shapes[1], 2)),)


def infer_banded_solve(context: ShapeContext) -> tuple[Dims]:
    """`[..., bands, n]` and `[..., n, k]` -> `[..., n, k]`, with batch dimensions broadcast.

    Raises ShapeError for no bands, or more bands than rows.
    """
    bands, rhs = (with_rank_at_least(dims, 2) for dims in context.shapes)
    count, size = _dim(bands, -2), _dim(bands, -1)
    if count == 0:
        raise ShapeError("Number of bands must be positive, but is 0")
    if 0 <= size < count:
        raise ShapeError(f"Number of bands {count} cannot exceed the size of the matrix {size}")
    return (_infer_broadcast_system(bands, rhs),)


def _infer_broadcast_system(matrix: Dims, rhs: Dims) -> Dims:
    batch = broadcast(subshape(matrix, 0, -2), subshape(rhs, 0, -2))
    return concatenate(batch, (merge_dim(_dim(matrix, -1), _dim(rhs, -2)), _dim(rhs, -1)))


def infer_tridiagonal_solve(context: ShapeContext) -> tuple[Dims]:
    """`[..., 3, n]` and `[..., n, k]` -> `[..., n, k]`."""
    diagonals, rhs = (with_rank_at_least(dims, 2) for dims in context.shapes)
    merge(subshape(diagonals, 0, -2), subshape(rhs, 0, -2))
    merge_dim(_dim(diagonals, -1), _dim(rhs, -2))
    with_value(_dim(diagonals, -2), 3)
    return (rhs,)


def infer_tridiagonal_matmul(context: ShapeContext) -> tuple[Dims]:
    """Three diagonals `[..., 1, m]` and `[..., m, k]` -> `[..., m, k]`."""
    above, main, below, rhs = (with_rank_at_least(dims, 2) for dims in context.shapes)
    diagonals = merge(above, main)
    for diagonal in (above, main, below):
        merge(subshape(diagonal, 0, -2), subshape(rhs, 0, -2))
    diagonals = merge(below, diagonals)
    merge_dim(_dim(diagonals, -1), _dim(rhs, -2))
    with_value(_dim(diagonals, -2), 1)
    return (rhs,)


def _general_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """A decomposition, and two substitutions for each right-hand side."""
    size = _dim(inputs[0], -1)
    return 2 * elements(inputs[0]) * size // 3 + 2 * elements(outputs[0]) * size


def _triangular_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return elements(outputs[0]) * _dim(inputs[0], -2)


def _tridiagonal_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return 5 * elements(outputs[0])


_INVERSE = Kernel(compute_inverse, infer_square, cubic(2), memory=decomposition_memory)
_SOLVE = Kernel(compute_solve, infer_solve, _general_flops)
_LEAST_SQUARES = Kernel(compute_least_squares, infer_least_squares, _general_flops)
_TRIANGULAR_SOLVE = Kernel(compute_triangular_solve, infer_triangular_solve, _triangular_flops)


TABLE: Table = {
    "MatrixInverse": _INVERSE,
    "MatrixSolve": _SOLVE,
    "MatrixSolveLs": _LEAST_SQUARES,
    "MatrixTriangularSolve": _TRIANGULAR_SOLVE,
    "BandedTriangularSolve": Kernel(compute_banded_solve, infer_banded_solve, _triangular_flops),
    "TridiagonalSolve": Kernel(compute_tridiagonal_solve, infer_tridiagonal_solve, _tridiagonal_flops),
    "TridiagonalMatMul": Kernel(compute_tridiagonal_matmul, infer_tridiagonal_matmul, _tridiagonal_flops),
    # the same ops under the names that graphs before version 13 use
    "BatchMatrixInverse": _INVERSE._replace(shape=build_infer_nothing(1)),
    "BatchMatrixSolve": _SOLVE._replace(shape=build_infer_nothing(1)),
    "BatchMatrixSolveLs": _LEAST_SQUARES._replace(shape=build_infer_nothing(1)),
    "BatchMatrixTriangularSolve": _TRIANGULAR_SOLVE._replace(shape=build_infer_nothing(1)),
}
