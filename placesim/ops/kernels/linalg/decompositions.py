"""Decompositions and functions of matrices: Cholesky, Qr, Svd, eigenvalues, Lu, determinants, exponential, logarithm, root.

Each takes `[..., m, n]` and works on the last two dimensions.
Source: TensorFlow's `core/kernels/linalg` for rules and error texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from math import factorial, prod

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.linalg.matrices import (
    build_infer_nothing,
    check_batches,
    check_square,
    cubic,
    decomposition_memory,
    infer_batch,
    infer_square,
    one_by_one,
    smaller,
    square,
    widen,
)
from placesim.ops.kernels.linalg.solvers import substitute
from placesim.ops.kernels.shapes import Dims, ShapeContext, subshape, with_rank_at_least

# --- Cholesky -------------------------------------------------------------------------------------------------------


def compute_cholesky(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """`[..., n, n]` -> the lower triangular factors; a lower triangle of NaN for a matrix that is not positive definite.

    Raises InvalidArgumentError for matrices that are not square.
    """
    (matrix,) = inputs
    check_square(matrix)
    try:
        return (np.linalg.cholesky(matrix),)
    except np.linalg.LinAlgError:
        # numpy rejects a batch if it rejects one of the matrices, so each is tried separately
        return (one_by_one(_factor_or_nan, matrix),)


def _factor_or_nan(matrix: Tensor) -> Tensor:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.tril(np.full_like(matrix, np.nan))


def compute_cholesky_grad(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(factor, its gradient) -> the gradient of Cholesky's input, all `[..., n, n]`; only lower triangles are read.

    A zero on the factor's diagonal gives infinities, not an error. Raises InvalidArgumentError for shapes that differ or are
    not square. Source: the closed form of Murray, "Differentiation of the Cholesky decomposition" (2016).
    """
    factor, grad = inputs
    check_batches(factor, grad)
    if factor.shape != grad.shape:
        raise InvalidArgumentError("Inputs (L and grad) must have the same shape.")
    if factor.shape[-1] != factor.shape[-2]:
        raise InvalidArgumentError("Inputs must be a square matrices.")
    lower = np.tril(widen(factor))
    middle = np.tril(lower.swapaxes(-1, -2) @ np.tril(widen(grad)))
    middle *= 1 - 0.5 * np.eye(lower.shape[-1], dtype=lower.dtype)
    upper = lower.swapaxes(-1, -2)
    half = substitute(upper, middle, lower=False)
    full = substitute(upper, half.swapaxes(-1, -2), lower=False)
    return ((0.5 * (full + full.swapaxes(-1, -2))).astype(factor.dtype, copy=False),)


# --- Qr and Svd -----------------------------------------------------------------------------------------------------


def compute_qr(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, Tensor]:
    """`[..., m, n]` -> (q `[..., m, p]`, r `[..., p, n]`); p is m for attr `full_matrices`, else the smaller of m and n.

    Raises InvalidArgumentError for a rank below 2.
    """
    (matrix,) = inputs
    check_batches(matrix)
    q, r = np.linalg.qr(widen(matrix), "complete" if attrs["full_matrices"] else "reduced")
    return q.astype(matrix.dtype, copy=False), r.astype(matrix.dtype, copy=False)


def compute_svd(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, Tensor, Tensor]:
    """`[..., m, n]` -> (singular values `[..., p]`, u `[..., m, p or m]`, v `[..., n, p or n]`); p is the smaller of m and n.

    v itself is returned, not its adjoint. A matrix that is not finite gives NaN.
    Raises InvalidArgumentError for a rank below 2.
    """
    (matrix,) = inputs
    check_batches(matrix)
    wide = widen(matrix)
    broken: Tensor = ~np.asarray(np.isfinite(wide).all(axis=(-2, -1)))
    sound: Tensor = np.where(broken[..., None, None], 0, wide)
    if not attrs["compute_uv"]:
        unwritten = np.zeros((), matrix.dtype)
        s = np.asarray(np.linalg.svd(sound, compute_uv=False))
        s[broken] = np.nan
        return s.astype(matrix.dtype, copy=False), unwritten, unwritten
    u, s, vh = np.linalg.svd(sound, full_matrices=bool(attrs["full_matrices"]))
    v = vh.conj().swapaxes(-1, -2)
    # LAPACK rejects NaN, while TensorFlow's decomposition returns NaN
    for part in (s, u, v):
        part[broken] = np.nan
    return s.astype(matrix.dtype, copy=False), u.astype(matrix.dtype, copy=False), v.astype(matrix.dtype, order="C")


# --- eigenvalues ----------------------------------------------------------------------------------------------------


def compute_self_adjoint_eig(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, Tensor]:
    """(ascending eigenvalues `[..., n]`, their vectors as columns `[..., n, n]`); only the lower triangle is read.

    Raises InvalidArgumentError for matrices that are not square or not finite.
    """
    (matrix,) = inputs
    check_square(matrix)
    values, vectors = _decompose_self_adjoint(matrix)
    return values, vectors if attrs["compute_v"] else np.zeros((), matrix.dtype)


def _decompose_self_adjoint(matrix: Tensor) -> tuple[Tensor, Tensor]:
    wide = widen(matrix)
    try:
        # a matrix of one element is its own eigenvalue, finite or not
        if matrix.shape[-1] > 1 and not np.isfinite(np.tril(wide)).all():
            raise np.linalg.LinAlgError
        values, vectors = np.linalg.eigh(wide)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError(
            "Self-adjoint eigen decomposition was not successful. The input might not be valid."
        ) from None
    return values.astype(matrix.dtype, copy=False), vectors.astype(matrix.dtype, copy=False)


def compute_stacked_self_adjoint_eig(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """The op's first version: one output `[..., n + 1, n]`, a row of eigenvalues above the vectors.

    Raises the errors of `compute_self_adjoint_eig`.
    """
    (matrix,) = inputs
    check_square(matrix)
    values, vectors = _decompose_self_adjoint(matrix)
    return (np.concatenate([values[..., None, :], vectors], axis=-2),)


def compute_eig(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, Tensor]:
    """(eigenvalues `[..., n]`, vectors `[..., n, n]`), both complex; for complex matrices they are sorted by absolute value.

    Raises InvalidArgumentError for matrices that are not square or not finite.
    """
    (matrix,) = inputs
    check_square(matrix)
    dtype = attrs["Tout"].numpy
    try:
        values, vectors = np.linalg.eig(matrix)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError("Eigen decomposition was not successful. The input might not be valid.") from None
    if matrix.dtype.kind == "c":
        # TensorFlow does not sort the eigenvalues of a real matrix
        order = np.argsort(np.abs(values), axis=-1, kind="stable")
        values = np.take_along_axis(values, order, -1)
        vectors = np.take_along_axis(vectors, order[..., None, :], -1)
    return values.astype(dtype), vectors.astype(dtype) if attrs["compute_v"] else np.zeros((), dtype)


# --- Lu and determinants --------------------------------------------------------------------------------------------


def compute_lu(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, Tensor]:
    """(L and U in one matrix `[..., n, n]`; the permutation `[..., n]`, which has the input row of each row of that matrix).

    The pivot is the first number with the largest absolute value; LAPACK chooses complex pivots differently. Raises
    InvalidArgumentError for a rank below 2, and matrices that are not square or not invertible.
    """
    (matrix,) = inputs
    if matrix.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must have rank >= 2, got {matrix.ndim}")
    check_square(matrix)
    packed = matrix.reshape(prod(matrix.shape[:-2]), *matrix.shape[-2:]).copy()
    rows = np.tile(np.arange(matrix.shape[-1]), (len(packed), 1))
    for column in range(matrix.shape[-1]):
        _eliminate(packed, rows, column)
    if (np.diagonal(packed, axis1=1, axis2=2) == 0).any():
        raise InvalidArgumentError("Input is not invertible.")
    return packed.reshape(matrix.shape), rows.reshape(matrix.shape[:-1]).astype(attrs["output_idx_type"].numpy)


def _eliminate(packed: Tensor, rows: Tensor, column: int) -> None:
    """Eliminate one column of each matrix of the batch, in place."""
    each = np.arange(len(packed))
    pivots = column + np.abs(packed[:, column:, column]).argmax(1)
    for array in (packed, rows):
        array[each, column], array[each, pivots] = array[each, pivots], array[each, column]
    below = packed[:, column + 1 :]
    pivot = packed[:, column, column, None]
    # a column without a pivot is unchanged; the matrix is rejected at the end
    below[:, :, column] /= np.where(pivot == 0, 1, pivot)
    below[:, :, column + 1 :] -= below[:, :, column, None] * packed[:, column, None, column + 1 :]


def compute_log_determinant(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, Tensor]:
    """(signs or complex phases of the determinants, logarithms of their absolute values), both `[...]`; 0 and -inf if singular.

    Raises InvalidArgumentError for matrices that are not square.
    """
    (matrix,) = inputs
    check_square(matrix)
    sign, logarithm = np.linalg.slogdet(matrix)
    # a NaN anywhere makes the whole determinant NaN
    broken = np.isnan(matrix).any(axis=(-2, -1))
    sign = np.where(broken, np.nan, np.where(np.isinf(logarithm), 0, sign))
    logarithm = np.where(broken, np.nan, logarithm)
    return np.asarray(sign, matrix.dtype), np.asarray(logarithm, matrix.dtype)


def compute_determinant(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """`[..., n, n]` -> determinants `[...]`. Raises InvalidArgumentError for matrices that are not square."""
    sign, logarithm = compute_log_determinant([widen(inputs[0])], attrs)
    return (np.asarray(sign * np.exp(logarithm.real), inputs[0].dtype),)


# --- functions of matrices ------------------------------------------------------------------------------------------


def _apply(function: Callable[[Tensor], Tensor]) -> Callable[[Sequence[Tensor], Attrs], tuple[Tensor]]:
    """Build a kernel that applies a function to each matrix of `[..., n, n]`. It raises InvalidArgumentError if not square."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
        (matrix,) = inputs
        check_square(matrix)
        wide = matrix.astype(np.complex128 if matrix.dtype.kind == "c" else np.float64)
        return (one_by_one(function, wide).astype(matrix.dtype) if wide.size else matrix,)

    return compute


_PADE = {
    "f": ((3, 0.4258730016922831), (5, 1.880152677804762), (7, 3.92572478313866)),
    "d": (
        (3, 0.01495585217958292),
        (5, 0.253939833006323),
        (7, 0.9504178996162932),
        (9, 2.097847961257068),
        (13, 5.371920351148152),
    ),
}
"""Degrees of Padé approximants of exp, with the 1-norm below which each is precise, in float and double (Higham, 2005)."""


def compute_exponential(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """The exponential of each matrix of `[..., n, n]`. Raises InvalidArgumentError for matrices that are not square."""
    (matrix,) = inputs
    check_square(matrix)
    with np.errstate(all="ignore"):
        return (one_by_one(_exponential, matrix) if matrix.size else matrix,)


def _exponential(matrix: Tensor) -> Tensor:
    """Scaling and squaring in the matrix's own precision, as in Eigen: an infinity that meets a zero becomes NaN."""
    norm = np.abs(matrix).sum(0).max()
    if not np.isfinite(norm):
        return _undefined(matrix)
    rows = _PADE[norm.dtype.char]
    degree, bound = next((row for row in rows if norm < row[1]), rows[-1])
    squarings = max(0, int(np.frexp(norm / bound)[1]))
    scaled = matrix / matrix.dtype.type(2.0**squarings)
    squared, identity = scaled @ scaled, np.eye(len(matrix), dtype=matrix.dtype)
    odd = even = np.zeros_like(matrix)
    for power in range(degree, 0, -2):
        odd = odd @ squared + _pade_coefficient(degree, power) * identity
        even = even @ squared + _pade_coefficient(degree, power - 1) * identity
    odd = scaled @ odd
    found = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        found = found @ found
    return np.asarray(found, matrix.dtype)


def _pade_coefficient(degree: int, power: int) -> float:
    return float(factorial(2 * degree - power) // (factorial(degree - power) * factorial(power)))


def _logarithm(matrix: Tensor) -> Tensor:
    from scipy.linalg import logm

    if not np.isfinite(matrix).all():
        return _undefined(matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(logm(matrix))


def compute_logarithm(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """The principal logarithm of each complex matrix of `[..., n, n]`. Raises InvalidArgumentError for other shapes."""
    (matrix,) = inputs
    if matrix.shape[-2:] != (1, 1):
        return _logarithm_of_matrices(inputs, attrs)
    with np.errstate(all="ignore"):
        found = np.log(matrix.astype(np.complex128)).astype(matrix.dtype)
    # TensorFlow multiplies by 1 from both sides; of an infinity, this keeps only the real part, and only in complex64
    real = np.where(np.isfinite(found), found.real, found.real if matrix.dtype == np.complex64 else np.nan)
    imaginary = np.where(np.isfinite(found), found.imag, np.nan)
    result = np.empty_like(matrix)
    result.real, result.imag = real, imaginary
    return (result,)


_logarithm_of_matrices = _apply(_logarithm)


def _undefined(matrix: Tensor) -> Tensor:
    """The result for a matrix with an infinity or NaN: only NaN."""
    return np.full_like(matrix, complex(np.nan, np.nan) if matrix.dtype.kind == "c" else np.nan)


def _square_root(matrix: Tensor) -> Tensor:
    """The principal square root; NaN if it is complex for a real matrix, or if an element is not finite."""
    from scipy.linalg import sqrtm

    if not np.isfinite(matrix).all():
        return _undefined(matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = np.asarray(sqrtm(matrix))
    return root if root.dtype.kind == matrix.dtype.kind else np.full_like(matrix, np.nan)


# --- shape functions and costs --------------------------------------------------------------------------------------


def _infer_qr(context: ShapeContext) -> tuple[Dims, Dims]:
    dims = with_rank_at_least(context.shapes[0], 2)
    if dims is None:
        return None, None
    batch, (rows, columns) = dims[:-2], dims[-2:]
    inner = rows if context.attrs["full_matrices"] else smaller(rows, columns)
    return (*batch, rows, inner), (*batch, inner, columns)


def _infer_svd(context: ShapeContext) -> tuple[Dims, Dims, Dims]:
    dims = with_rank_at_least(context.shapes[0], 2)
    if not context.attrs["compute_uv"]:
        values = None if dims is None else (*dims[:-2], smaller(*dims[-2:]))
        return values, (0,), (0,)
    if dims is None:
        return None, None, None
    batch, (rows, columns) = dims[:-2], dims[-2:]
    inner = smaller(rows, columns)
    wide = (rows, columns) if context.attrs["full_matrices"] else (inner, inner)
    return (*batch, inner), (*batch, rows, wide[0]), (*batch, columns, wide[1])


def _infer_eig(context: ShapeContext) -> tuple[Dims, Dims]:
    dims = square(context.shapes[0])
    values = subshape(dims, 0, -1)
    return values, dims if context.attrs["compute_v"] else (0,)


def _infer_lu(context: ShapeContext) -> tuple[Dims, Dims]:
    dims = square(context.shapes[0])
    return dims, subshape(dims, 0, -1)


def _thin_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs, factor: int = 2) -> int:
    (dims,) = inputs[:1]
    return factor * elements(dims) * min((dims or (0, 0))[-2:])


_CHOLESKY = Kernel(compute_cholesky, infer_square, cubic(1 / 3), memory=decomposition_memory)
_CHOLESKY_GRAD = Kernel(compute_cholesky_grad, infer_square, cubic(4), memory=decomposition_memory)
_DETERMINANT = Kernel(compute_determinant, infer_batch, cubic(2 / 3), memory=decomposition_memory)
_STACKED_EIGH = Kernel(compute_stacked_self_adjoint_eig, build_infer_nothing(1), cubic(9), memory=decomposition_memory)
_EIGH = Kernel(compute_self_adjoint_eig, _infer_eig, cubic(9), memory=decomposition_memory)
_SVD = Kernel(compute_svd, _infer_svd, partial(_thin_flops, factor=12), memory=decomposition_memory)


TABLE: Table = {
    "Cholesky": _CHOLESKY,
    "CholeskyGrad": _CHOLESKY_GRAD,
    "Qr": Kernel(compute_qr, _infer_qr, _thin_flops, memory=decomposition_memory),
    "Svd": _SVD,
    "SelfAdjointEigV2": _EIGH,
    "SelfAdjointEig": _STACKED_EIGH,
    "Eig": Kernel(compute_eig, _infer_eig, cubic(25), memory=decomposition_memory),
    "Lu": Kernel(compute_lu, _infer_lu, cubic(2 / 3), memory=decomposition_memory),
    "MatrixDeterminant": _DETERMINANT,
    "LogMatrixDeterminant": Kernel(
        compute_log_determinant, partial(infer_batch, outputs=2), cubic(2 / 3), memory=decomposition_memory
    ),
    "MatrixExponential": Kernel(compute_exponential, infer_square, cubic(20), memory=decomposition_memory),
    "MatrixLogarithm": Kernel(compute_logarithm, infer_square, cubic(25), memory=decomposition_memory),
    "MatrixSquareRoot": Kernel(_apply(_square_root), infer_square, cubic(25), memory=decomposition_memory),
    # the same ops under the names that graphs before version 13 use
    "BatchCholesky": _CHOLESKY._replace(shape=build_infer_nothing(1)),
    "BatchCholeskyGrad": _CHOLESKY_GRAD._replace(shape=build_infer_nothing(1)),
    "BatchMatrixDeterminant": _DETERMINANT._replace(shape=build_infer_nothing(1)),
    "BatchSelfAdjointEig": _STACKED_EIGH,
    "BatchSelfAdjointEigV2": _EIGH._replace(shape=build_infer_nothing(2)),
    "BatchSvd": _SVD._replace(shape=build_infer_nothing(3)),
}
