"""MatrixDiag, MatrixDiagPart, MatrixSetDiag and MatrixBandPart.

Diagonal 0 is the main diagonal of a matrix; diagonals above it are positive. Several diagonals are packed as rows, the
uppermost first. Shorter diagonals are padded to the longest diagonal's length, on the side opposite to `align`.
Source: TensorFlow's `matrix_diag_op.cc`, `matrix_set_diag_op.cc`, `matrix_band_part_op.cc` and their shape functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.linalg.matrices import build_infer_nothing, smaller
from placesim.ops.kernels.memory_rules import KernelMemory, forwards
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    concatenate,
    format_dims,
    is_fully_defined,
    merge,
    merge_dim,
    subshape,
    unchanged,
    unknown_dims,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
)


class Band(NamedTuple):
    """The diagonals from `lower` to `upper`, both included."""

    lower: int
    upper: int

    @property
    def size(self) -> int:
        """The number of diagonals."""
        return self.upper - self.lower + 1

    def longest(self, rows: int, columns: int) -> int:
        """The length of the longest diagonal of the band."""
        return min(rows + min(self.upper, 0), columns - max(self.lower, 0))


MAIN = Band(0, 0)


# --- checks ---------------------------------------------------------------------------------------------------------


def _read_band(k: Tensor) -> Band:
    """The band of input `k`, one index or the lower and upper index. Raises InvalidArgumentError for another shape."""
    if k.ndim > 1:
        raise InvalidArgumentError(f"diag_index must be a scalar or vector, received shape: {format_dims(k.shape)}")
    if not k.size:
        raise InvalidArgumentError("Expected diag_index to have at least 1 element")
    if k.ndim and k.size not in (1, 2):
        raise InvalidArgumentError(f"diag_index must have only one or two elements, received {k.size} elements.")
    flat = k.reshape(-1)
    return Band(int(flat[0]), int(flat[-1]))


def _read_scalar(name: str, tensor: Any) -> Any:
    if np.ndim(tensor):
        raise InvalidArgumentError(f"{name} must be a scalar")
    return tensor


def _check_matrix(matrix: Tensor) -> None:
    if matrix.ndim < 2:
        raise InvalidArgumentError(f"input must be at least 2-dim, received shape: {format_dims(matrix.shape)}")


def _check_vector(diagonal: Tensor) -> None:
    if not diagonal.ndim:
        raise InvalidArgumentError(f"diagonal must be at least 1-dim, received shape: {format_dims(diagonal.shape)}")


def _check_inside(band: Band, rows: int, columns: int, full_stop: str = "") -> None:
    # diagonal 0 is allowed even in a matrix without elements
    for name, index, stop in (("lower", band.lower, full_stop), ("upper", band.upper, "")):
        if index and not -rows < index < columns:
            raise InvalidArgumentError(
                # TensorFlow's message for DiagPart has a full stop after the lower index, the message for SetDiag has none
                f"{name}_diag_index is out of bound: {index}{stop} It must be between {-rows} and {columns}"
            )
    _check_order(band)


def _check_order(band: Band) -> None:
    if band.lower > band.upper:
        raise InvalidArgumentError(f"lower_diag_index must not be larger than upper_diag_index: {band.lower} > {band.upper}")


# --- positions of diagonals -----------------------------------------------------------------------------------------


class DiagonalPlace(NamedTuple):
    """Position of one diagonal: in the packed form `[..., row, columns]`, and in the matrix `[..., row, column]`."""

    packed: tuple[int, slice]
    rows: Tensor
    columns: Tensor


def _places(band: Band, rows: int, columns: int, longest: int, align: str) -> Iterator[DiagonalPlace]:
    for index in range(band.upper, band.lower - 1, -1):
        length = max(min(rows + min(0, index), columns - max(0, index)), 0)
        start = 0 if _is_left(index, align) else longest - length
        steps = np.arange(length)
        yield DiagonalPlace((band.upper - index, slice(start, start + length)), steps + max(-index, 0), steps + max(index, 0))


def _is_left(index: int, align: str) -> bool:
    """Whether a diagonal is aligned to the left; `align` has the sides of upper and of lower diagonals: `LEFT_RIGHT`."""
    above, below = align.split("_")
    return (index >= 0 and above == "LEFT") or (index <= 0 and below == "LEFT")


def _write(matrix: Tensor, packed: Tensor, band: Band, align: str) -> None:
    """Set the diagonals of `[..., m, n]` in place from their packed form `[..., count, longest]`."""
    rows, columns = matrix.shape[-2:]
    for place in _places(band, rows, columns, packed.shape[-1], align):
        matrix[..., place.rows, place.columns] = packed[(..., *place.packed)]


# --- the ops on batches of matrices ---------------------------------------------------------------------------------


def compute_matrix_diag(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Diagonals `[..., L]` or `[..., count, L]` -> matrices `[..., rows, columns]` with these diagonals and padding elsewhere.

    Raises InvalidArgumentError for a band, scalars or a size that do not fit the diagonals.
    """
    diagonal = inputs[0]
    band = _read_band(inputs[1]) if len(inputs) > 1 else MAIN
    rows, columns, padding = map(_read_scalar, ("num_rows", "num_cols", "padding_value"), inputs[2:] or (-1, -1, 0))
    _check_vector(diagonal)
    _check_order(band)
    packed = diagonal[..., None, :] if band.size == 1 else diagonal
    if packed.ndim < 2 or packed.shape[-2] != band.size:
        raise InvalidArgumentError(
            "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index range."
        )
    rows, columns = _matrix_size(band, packed.shape[-1], int(rows), int(columns))
    matrix = np.full((*packed.shape[:-2], rows, columns), padding, diagonal.dtype)
    # the ops' second versions lack the attr, and align to the left
    _write(matrix, packed, band, attrs.get("align", "LEFT_LEFT"))
    return (matrix,)


def _matrix_size(band: Band, longest: int, rows: int, columns: int) -> tuple[int, int]:
    """(rows, columns) of the matrix; a size of -1 means the smallest size that fits, or if both are -1 a square matrix.

    Raises InvalidArgumentError for sizes that do not fit the band.
    """
    least_rows, least_columns = longest - min(band.upper, 0), longest + max(band.lower, 0)
    if rows != -1 and rows < least_rows:
        raise InvalidArgumentError("The number of rows is too small.")
    if columns != -1 and columns < least_columns:
        raise InvalidArgumentError("The number of columns is too small.")
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows != least_rows and columns != least_columns:
        raise InvalidArgumentError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal."
        )
    return rows, columns


def compute_matrix_diag_part(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Matrices `[..., m, n]` -> their diagonals `[..., L]` or `[..., count, L]`, padded to the longest.

    Raises InvalidArgumentError for a rank below 2, a band outside of the matrix, and a padding that is not a scalar.
    """
    matrix = inputs[0]
    band = _read_band(inputs[1]) if len(inputs) > 1 else MAIN
    padding = inputs[2] if len(inputs) > 2 else np.zeros(1, matrix.dtype)
    if padding.size != 1:
        raise InvalidArgumentError("Padding must be scalar.")
    _check_matrix(matrix)
    rows, columns = matrix.shape[-2:]
    _check_inside(band, rows, columns, full_stop=".")
    longest = band.longest(rows, columns)
    packed = np.full((*matrix.shape[:-2], band.size, longest), padding.flat[0], matrix.dtype)
    for place in _places(band, rows, columns, longest, attrs.get("align", "LEFT_LEFT")):
        packed[(..., *place.packed)] = matrix[..., place.rows, place.columns]
    return (packed[..., 0, :] if band.size == 1 else packed,)


def compute_matrix_set_diag(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(matrices `[..., m, n]`, diagonals `[..., L]` or `[..., count, L]`) -> the matrices with these diagonals.

    Raises InvalidArgumentError for a rank below 2, a band outside of the matrix, and diagonals that do not fit.
    """
    matrix, diagonal = inputs[:2]
    if len(inputs) > 2 and inputs[2].ndim < 2 and not inputs[2].size:
        raise InvalidArgumentError("diag_index must have at least one element")
    band = _read_band(inputs[2]) if len(inputs) > 2 else MAIN
    _check_matrix(matrix)
    _check_vector(diagonal)
    rows, columns = matrix.shape[-2:]
    _check_inside(band, rows, columns)
    _check_diagonal(matrix, diagonal, band)
    output = matrix.copy()
    _write(output, diagonal[..., None, :] if band.size == 1 else diagonal, band, attrs.get("align", "LEFT_LEFT"))
    return (output,)


def _check_diagonal(matrix: Tensor, diagonal: Tensor, band: Band) -> None:
    count = (band.size,) if band.size > 1 else ()
    # several diagonals have an additional dimension
    least = matrix.ndim - 1
    if count and diagonal.ndim < least:
        raise InvalidArgumentError(
            "Diagonal tensor rank must be large enough to contain a diagonal-count dimension. "
            f"Input rank: {matrix.ndim}, Expected diagonal rank >= {least}, Received diagonal rank: {diagonal.ndim}"
        )
    if count and diagonal.shape[least - 1] != band.size:
        raise InvalidArgumentError(
            "The number of diagonals provided in `diag` is not consistent with `lower_diag_index` and `upper_diag_index`"
        )
    expected = (*matrix.shape[:-2], *count, band.longest(*matrix.shape[-2:]))
    if diagonal.shape != expected:
        raise InvalidArgumentError(
            "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to "
            "the longests diagonal in range [lower_diag_index:upper_diag_index].\n"
            f"Input shape: {format_dims(matrix.shape)}\nDiagonal shape: {format_dims(diagonal.shape)}\n"
            f"Expected diagonal shape: {format_dims(expected)}"
        )


def compute_band_part(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Matrices `[..., m, n]` with zeros outside of `num_lower` diagonals below the main one and `num_upper` above it.

    A negative number keeps all diagonals.
    Raises InvalidArgumentError for a rank below 2, and limits that are not scalars or are larger than the matrix.
    """
    matrix, *limits = inputs
    _check_matrix(matrix)
    sides = (("lower", "rows", matrix.shape[-2]), ("upper", "columns", matrix.shape[-1]))
    for (name, axis, size), limit in zip(sides, limits, strict=True):
        if limit.ndim:
            raise InvalidArgumentError(f"num_{name} must be scalar, got shape {format_dims(limit.shape)}")
        if limit > size:
            raise InvalidArgumentError(
                f"num_{name} must be negative or less or equal to number of {axis} ({size}) got: {int(limit)}"
            )
    lower, upper = (int(limit) for limit in limits)
    above = np.arange(matrix.shape[-1]) - np.arange(matrix.shape[-2])[:, None]
    inside = ((lower < 0) | (-above <= lower)) & ((upper < 0) | (above <= upper))
    return (np.where(inside, matrix, matrix.dtype.type(0)),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_band(context: ShapeContext, index: int) -> Band | None:
    """The band in input `index`, None if unknown. Raises ShapeError for an invalid band."""
    dims = with_rank_at_most(context.shapes[index], 1)
    k = context.value(index) if is_fully_defined(dims) else None
    if k is None:
        return None
    if k.ndim and k.size not in (1, 2):
        raise ShapeError(f"diag_index must be a vector with one or two elements. It has {k.size} elements.")
    band = Band(int(k.reshape(-1)[0]), int(k.reshape(-1)[-1]))
    if band.lower > band.upper:
        raise ShapeError("lower_diag_index is greater than upper_diag_index")
    return band


def _check_inside_static(band: Band, rows: int, columns: int) -> None:
    if rows < 0 or columns < 0:
        return
    for name, index in (("lower", band.lower), ("upper", band.upper)):
        if index and not -rows < index < columns:
            raise ShapeError(f"{name}_diag_index is out of bound.")


def infer_matrix_diag(context: ShapeContext) -> tuple[Dims]:
    """Static shape of MatrixDiag: `[..., n]` -> `[..., n, n]`."""
    dims = with_rank_at_least(context.shapes[0], 1)
    return (None if dims is None else (*dims, dims[-1]),)


def infer_matrix_diag_of_band(context: ShapeContext) -> tuple[Dims]:
    """Static shape of MatrixDiagV2: diagonals `[..., L]` or `[..., count, L]` -> `[..., rows, columns]`.

    TensorFlow computes with an unknown length as -1, which gives wrong but known sizes. Raises ShapeError for sizes that do not
    fit.
    """
    dims = with_rank_at_least(context.shapes[0], 1)
    with_rank_at_most(context.shapes[1], 1)
    for index in (2, 3, 4):
        with_rank(context.shapes[index], 0)
    if dims is None or (band := _infer_band(context, 1)) is None:
        return (None,)
    if band.size > 1:
        count = dims[-2:][0]  # for a vector TensorFlow takes its only dimension
        if count != band.size:
            raise ShapeError(
                "The number of rows of `diagonal` doesn't match the number of diagonals implied from `d_lower` and "
                f"`d_upper`.\nnum_diags = {count}, d_lower = {band.lower}, d_upper = {band.upper} {len(dims)} {dims[-1]}"
            )
    batch = dims[:-1] if band.size == 1 else dims[:-2]
    return ((*batch, *_infer_size(context, band, dims[-1])),)


def _infer_size(context: ShapeContext, band: Band, longest: int) -> tuple[int, int]:
    rows, columns = (-1 if size is None else size for size in (context.scalar_value(2), context.scalar_value(3)))
    least_rows, least_columns = longest - min(band.upper, 0), longest + max(band.lower, 0)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    if rows < least_rows:
        raise ShapeError("num_rows is too small")
    columns = least_columns if columns == -1 else columns
    if columns < least_columns:
        raise ShapeError("num_cols is too small.")
    if rows != least_rows and columns != least_columns:
        raise ShapeError(
            "num_rows and num_cols are not consistent with lower_diag_index, upper_diag_index, and the length of the "
            f"given diagonals.\nnum_rows = {rows} != min_num_rows = {least_rows}, "
            f"num_cols = {columns} != min_num_cols = {least_columns}"
        )
    return rows, columns


def infer_matrix_diag_part(context: ShapeContext) -> tuple[Dims]:
    """Static shape of MatrixDiagPart: `[..., m, n]` -> `[..., min(m, n)]`."""
    dims = with_rank_at_least(context.shapes[0], 2)
    return (None if dims is None else (*dims[:-2], smaller(*dims[-2:])),)


def _infer_matrix_diag_part_of_band(context: ShapeContext) -> tuple[Dims]:
    dims = with_rank_at_least(context.shapes[0], 2)
    with_rank_at_most(context.shapes[1], 1)
    with_rank(context.shapes[2], 0)
    if dims is None or (band := _infer_band(context, 1)) is None:
        return (None,)
    rows, columns = dims[-2:]
    _check_inside_static(band, rows, columns)
    longest = -1 if rows < 0 or columns < 0 else band.longest(rows, columns)
    return ((*dims[:-2], *((band.size,) if band.size > 1 else ()), longest),)


def infer_matrix_set_diag(context: ShapeContext) -> tuple[Dims]:
    """Static shape of MatrixSetDiag: the shape of the matrices. The smaller of rows and columns is the diagonal's length."""
    dims = with_rank_at_least(context.shapes[0], 2)
    diagonal = with_rank_at_least(context.shapes[1], 1)
    if dims is not None:
        diagonal = with_rank(diagonal, len(dims) - 1)
        merge_dim(smaller(*dims[-2:]), diagonal[-1])
    return (_complete_from_diagonal(dims, diagonal, 1),)


def infer_matrix_set_diag_of_band(context: ShapeContext) -> tuple[Dims]:
    """Static shape of MatrixSetDiagV2: the shape of the matrices. Raises ShapeError if band and diagonals do not fit.

    TensorFlow first infers without `k`, as for the main diagonal, and this must succeed too.
    """
    without = _infer_set_diag(context, None)
    band = _infer_band(context, 2)
    return (without if band is None else _infer_set_diag(context, band),)


def _infer_set_diag(context: ShapeContext, band: Band | None) -> Dims:
    dims = with_rank_at_least(context.shapes[0], 2)
    diagonal = with_rank_at_least(context.shapes[1], 1)
    with_rank_at_most(context.shapes[2], 1)
    if dims is not None:
        if band is None:
            diagonal = with_rank_at_most(with_rank_at_least(diagonal, len(dims) - 1), len(dims))
        else:
            diagonal = with_rank(diagonal, len(dims) - (band.size == 1))
        _check_inside_static(band or MAIN, *dims[-2:])
    return _complete_from_diagonal(dims, diagonal, 1 if (band or MAIN).size == 1 else 2)


def _complete_from_diagonal(dims: Dims, diagonal: Dims, own: int) -> Dims:
    """Complete the matrices' batch dimensions from `diagonal`; all its dimensions but the last `own` are batch dimensions."""
    if diagonal is None or is_fully_defined(dims):
        return dims
    return merge(dims, concatenate(subshape(diagonal, 0, -own), unknown_dims(2)))


def band_part_memory(memory: KernelMemory) -> None:
    """If the band is the whole matrix, the output shares the input's buffer; else it reuses the buffer if possible.

    `num_lower` or `num_upper` covers the whole side of the matrix if it is negative, or equal to the number of rows or columns.
    """
    matrices = memory.inputs[0]
    lower, upper = int(memory.value(1)), int(memory.value(2))
    rows, columns = matrices.dims[-2:]
    if (lower < 0 or lower == rows) and (upper < 0 or upper == columns):
        memory.alias(0, 0)
    else:
        memory.forward(0, 0)


_BAND_PART = Kernel(compute_band_part, unchanged, memory=band_part_memory)
_DIAG = Kernel(compute_matrix_diag, infer_matrix_diag)
_DIAG_PART = Kernel(compute_matrix_diag_part, infer_matrix_diag_part)
_SET_DIAG = Kernel(compute_matrix_set_diag, infer_matrix_set_diag, memory=forwards(0))


TABLE: Table = {
    "MatrixBandPart": _BAND_PART,
    "MatrixDiag": _DIAG,
    "MatrixDiagPart": _DIAG_PART,
    "MatrixSetDiag": _SET_DIAG,
    **dict.fromkeys(("MatrixDiagV2", "MatrixDiagV3"), Kernel(compute_matrix_diag, infer_matrix_diag_of_band)),
    **dict.fromkeys(
        ("MatrixDiagPartV2", "MatrixDiagPartV3"), Kernel(compute_matrix_diag_part, _infer_matrix_diag_part_of_band)
    ),
    **dict.fromkeys(
        ("MatrixSetDiagV2", "MatrixSetDiagV3"),
        _SET_DIAG._replace(shape=infer_matrix_set_diag_of_band),
    ),
    # the same ops under the names that graphs before version 14 use
    "BatchMatrixBandPart": _BAND_PART._replace(shape=build_infer_nothing(1)),
    "BatchMatrixDiag": _DIAG._replace(shape=build_infer_nothing(1)),
    "BatchMatrixDiagPart": _DIAG_PART._replace(shape=build_infer_nothing(1)),
    "BatchMatrixSetDiag": _SET_DIAG._replace(shape=build_infer_nothing(1)),
}
