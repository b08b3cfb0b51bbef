"""Tridiagonal matrices, given as rows of one tensor (`compact`), as three tensors (`sequence`) or whole (`matrix`)."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Any:
    """Solve `A x = rhs` for a tridiagonal matrix A.  Raises ValueError for incompatible shapes."""
    if perturb_singular and not partial_pivoting:
        raise ValueError("partial_pivoting must be True if perturb_singular is.")
    if diagonals_format == "sequence":
        diagonals = tf.stack(_padded(diagonals), axis=-2)
    elif diagonals_format == "matrix":
        diagonals = _compact(diagonals)
    elif diagonals_format != "compact":
        raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")
    _check_ranks(diagonals, rhs)
    is_vector = rhs.shape.rank and diagonals.shape.rank and rhs.shape.rank == diagonals.shape.rank - 1
    if transpose_rhs and not is_vector:
        rhs = tf.matrix_transpose(rhs, conjugate=conjugate_rhs)
    elif conjugate_rhs:
        rhs = tf.conj(rhs)
    if is_vector:
        rhs = tf.expand_dims(rhs, -1)
    left, right = diagonals.shape[-1], rhs.shape[-2]
    if left and right and left != right:
        raise ValueError(f"Expected number of left-hand sided and right-hand sides to be equal, got {left} and {right}")
    found = gen("TridiagonalSolve")(diagonals, rhs, partial_pivoting, perturb_singular, name=name)
    return tf.squeeze(found, -1) if is_vector else found


def _check_ranks(diagonals: Any, rhs: Any) -> None:
    """Raise ValueError for incompatible shapes of compact diagonals and a right side."""
    rank, rhs_rank = diagonals.shape.rank, rhs.shape.rank
    if rank:
        if rank < 2:
            raise ValueError(f"Expected diagonals to have rank at least 2, got {rank}")
        if rhs_rank and rhs_rank not in (rank, rank - 1):
            raise ValueError(f"Expected the rank of rhs to be {rank - 1} or {rank}, got {rhs_rank}")
        batch, rhs_batch = diagonals.shape[:-2], rhs.shape[: rank - 2]
        if rhs_rank and not batch.is_compatible_with(rhs_batch):
            raise ValueError(f"Batch shapes {batch} and {rhs_batch} are incompatible")
    if diagonals.shape[-2] and diagonals.shape[-2] != 3:
        raise ValueError(f"Expected 3 diagonals got {diagonals.shape[-2]}")


def _padded(diagonals: Any) -> tuple[Any, Any, Any]:
    """Three diagonals of equal length; shorter outer ones are padded by a zero."""
    if not isinstance(diagonals, tuple | list) or len(diagonals) != 3:
        raise ValueError("Expected diagonals to be a sequence of length 3.")
    above, middle, below = diagonals
    if not all(outer.shape[:-1].is_compatible_with(middle.shape[:-1]) for outer in (below, above)):
        shapes = f"{below.shape}, {middle.shape}, {above.shape}"
        raise ValueError(
            f"Tensors representing the three diagonals must have the same shape,except for the last dimension, got {shapes}"
        )
    size = middle.shape[-1].value

    def padded(diagonal: Any, name: str, margins: list[int]) -> Any:
        length = diagonal.shape[-1].value
        if not length or length == size:
            return diagonal
        if length != size - 1:
            raise ValueError(f"Expected {name} to be have length {size} or {size - 1}, got {length}.")
        return tf.pad(diagonal, [*([0, 0] for _ in range(diagonal.shape.rank - 1)), margins])

    below = padded(below, "subdiagonal", [1, 0])
    return padded(above, "superdiagonal", [0, 1]), middle, below


def _compact(matrix: Any) -> Any:
    """The three diagonals of whole matrices `[..., n, n]` as `[..., 3, n]`."""
    columns, rows = matrix.shape[-1].value, matrix.shape[-2].value
    if columns and rows and columns != rows:
        raise ValueError(f"Expected last two dimensions of diagonals to be same, got {columns} and {rows}")
    return tf.matrix_diag_part(matrix, k=(-1, 1), padding_value=0.0, align="LEFT_RIGHT")


def tridiagonal_matmul(diagonals: Any, rhs: TensorLike, diagonals_format: str = "compact", name: str | None = None) -> Any:
    """Multiply a tridiagonal matrix by a matrix."""
    if diagonals_format not in ("compact", "sequence", "matrix"):
        raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")
    if diagonals_format == "matrix":
        diagonals = _compact(diagonals)
    is_sequence = diagonals_format == "sequence"
    above, middle, below = diagonals if is_sequence else [diagonals[..., i, :] for i in (0, 1, 2)]
    rows = [tf.expand_dims(part, -2) for part in (above, middle, below)]
    return gen("TridiagonalMatMul")(*rows, rhs, name=name)
