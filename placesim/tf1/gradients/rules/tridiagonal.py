"""Gradients of ops on matrices of three diagonals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")


def _product(op: Operation, grad: Tensor) -> list[Any]:
    above, middle, below = (tf.matrix_transpose(diagonal, conjugate=True) for diagonal in op.inputs[:3])
    rhs = tf.conj(op.inputs[3])
    of_above = tf.reduce_sum(_up(rhs) * grad, axis=-1)
    of_middle = tf.reduce_sum(rhs * grad, axis=-1)
    of_below = tf.reduce_sum(_down(rhs) * grad, axis=-1)
    of_rhs = _down(above * grad) + middle * grad + _up(below * grad)
    return [*(tf.expand_dims(part, -2) for part in (of_above, of_middle, of_below)), of_rhs]


def _up(x: Any) -> Any:
    """`x [..., rows, columns]` with its rows shifted up by one, and zeros in the last row."""
    return _padded(lambda: x[..., 1:, :], [[0, 1], [0, 0]], _no_margins(x))


def _down(x: Any) -> Any:
    """`x [..., rows, columns]` with its rows shifted down by one, and zeros in the first row."""
    return _padded(lambda: x[..., :-1, :], [[1, 0], [0, 0]], _no_margins(x))


def _no_margins(x: TensorLike) -> Any:
    """Paddings of zero for the batch dimensions of matrices x."""
    return tf.zeros((tf.rank(x) - 2, 2), dtype=tf.int32)


def _padded(part: Callable[[], Any], margins: list[list[int]], no_margins: Any) -> Any:
    """`part()` with `margins` around its last dimensions.  The part's nodes follow those of the paddings."""
    paddings = tf.concat([no_margins, tf.constant(margins)], axis=0)
    return tf.pad(part(), paddings)


def _solution(op: Operation, grad: Tensor) -> list[Any]:
    """The gradient of the right side solves the transposed system.

    Its product with the solution gives the gradient of the diagonals.
    """
    attrs = {name: op.get_attr(name) for name in ("partial_pivoting", "perturb_singular")}
    of_rhs = tf.linalg.tridiagonal_solve(_transposed(op.inputs[0]), grad, **attrs)
    return [-_product_diagonals(of_rhs, op.outputs[0]), of_rhs]


def _transposed(diagonals: Any) -> Any:
    middle = diagonals[..., 1, :]
    if diagonals.shape.is_fully_defined():
        zero = tf.zeros([*diagonals.shape.as_list()[:-2], 1], dtype=diagonals.dtype)
        above = tf.concat((diagonals[..., 2, 1:], zero), axis=-1)
        below = tf.concat((zero, diagonals[..., 0, :-1]), axis=-1)
    else:
        zeros = _no_margins(diagonals)
        above = _padded(lambda: diagonals[..., 2, 1:], [[0, 1]], zeros)
        below = _padded(lambda: diagonals[..., 0, :-1], [[1, 0]], zeros)
    return tf.stack([above, middle, below], axis=-2)


def _product_diagonals(x: Any, other: Any) -> Any:
    """The three diagonals `[..., 3, rows]` of the product of x and the transposed `other`."""
    middle = tf.reduce_sum(x * other, axis=-1)
    if other.shape.is_fully_defined():
        dims = x.shape.as_list()
        row = tf.zeros([*dims[:-2], 1, dims[-1]], dtype=x.dtype)
        above = tf.reduce_sum(x * tf.concat((other[..., 1:, :], row), axis=-2), axis=-1)
        below = tf.reduce_sum(x * tf.concat((row, other[..., :-1, :]), axis=-2), axis=-1)
    else:
        zeros = _no_margins(other)
        above = tf.reduce_sum(x * _padded(lambda: other[..., 1:, :], [[0, 1], [0, 0]], zeros), axis=-1)
        below = tf.reduce_sum(x * _padded(lambda: other[..., :-1, :], [[1, 0], [0, 0]], zeros), axis=-1)
    return tf.stack([above, middle, below], axis=-2)


GRADIENTS: dict[str, GradientFunction] = {"TridiagonalMatMul": _product, "TridiagonalSolve": _solution}
