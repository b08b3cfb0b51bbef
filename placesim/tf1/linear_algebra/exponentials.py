"""`tf.linalg.expm`: matrix exponentials by scaling, squaring and Pade approximants (Higham 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor

_SINGLE = ((3, 0.4258730016922831), (5, 1.880152677804762), (7, 3.925724783138660))
_DOUBLE = (
    (3, 0.01495585217958292),
    (5, 0.2539398330063230),
    (7, 0.9504178996162932),
    (9, 2.097847961257068),
    (13, 5.371920351148152),
)
"""Orders of approximants, each with the largest 1-norm of a matrix for which it is accurate."""
_ORDERS = {"float16": _SINGLE, "float32": _SINGLE, "complex64": _SINGLE, "float64": _DOUBLE, "complex128": _DOUBLE}


def expm(input: TensorLike, name: str | None = None) -> Any:
    """Exponential of each matrix, `[..., rows, rows]`.  Raises ValueError for a type that is neither real nor complex."""
    with name_scope(name, "matrix_exponential", [input]):
        given = convert_to_tensor(input, name="input")
        if given.shape[-2:] == [0, 0]:
            return given
        batch: Any = given.shape[:-2]
        if not batch.is_fully_defined():
            batch = tf.shape(given)[:-2]
        matrices = tf.reshape(given, tf.concat(([-1], tf.shape(given)[-2:]), axis=0))
        sums = tf.reduce_sum(tf.abs(matrices), axis=tf.size(tf.shape(matrices)) - 2)
        norms = tf.reduce_max(sums, axis=-1)[..., None, None]
        if matrices.dtype.name not in _ORDERS:
            raise ValueError(f"tf.linalg.expm does not support matrices of type {matrices.dtype}")
        found = _exponentials(matrices, norms, _ORDERS[matrices.dtype.name])
        if not matrices.shape.is_fully_defined():
            return tf.reshape(found, tf.concat((batch, tf.shape(found)[-2:]), axis=0))
        return tf.reshape(found, batch.concatenate(found.shape[-2:]))


def _exponentials(matrices: Tensor, norms: Tensor, orders: Sequence[tuple[int, float]]) -> Any:
    dtype = norms.dtype
    largest = constant(orders[-1][1], dtype)
    squarings = tf.maximum(tf.floor(tf.log(norms / largest) / tf.log(constant(2.0, dtype))), 0)
    pairs = [_approximant(matrices, order) for order, _ in orders[:-1]]
    scaled = matrices / tf.cast(tf.pow(constant(2.0, dtype), squarings), matrices.dtype)
    pairs.append(_approximant(scaled, orders[-1][0]))
    limits = [limit for _, limit in orders[:-1]]
    odd, even = (_chosen(norms, limits, parts) for parts in zip(*pairs, strict=True))
    is_finite = tf.is_finite(tf.reduce_max(norms))
    undefined = constant(float("nan"), matrices.dtype)
    found = tf.cond(is_finite, lambda: tf.matrix_solve(-odd + even, odd + even), lambda: tf.fill(tf.shape(matrices), undefined))
    most = tf.reduce_max(squarings)

    def goes_on(count: Tensor, _: Tensor) -> Any:
        return tf.cond(is_finite, lambda: tf.less(count, most), lambda: constant(False))

    def squared(count: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
        return count + 1, tf.where_v2(tf.less(count, squarings), tf.matmul(result, result), result)

    return tf.while_loop(goes_on, squared, [constant(0.0, dtype), found])[1]


def _chosen(norms: Tensor, limits: Sequence[float], parts: Sequence[Tensor]) -> Any:
    """For each norm, the part of the first order whose limit exceeds the norm; the last part if no limit does."""
    if not limits:
        return parts[0]
    is_below = tf.less(norms, constant(limits[0], norms.dtype))
    return tf.where_v2(is_below, parts[0], _chosen(norms, limits[1:], parts[1:]))


def _approximant(matrix: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Odd and even part of the numerator of a Pade approximant, which is scaled so that its highest coefficient is 1."""
    factors = [factorial(2 * order - k) // (factorial(k) * factorial(order - k)) for k in range(order)]
    b = [constant(float(factor), matrix.dtype) for factor in factors]
    sizes = tf.shape(matrix)
    identity = tf.eye(sizes[-2], batch_shape=tf.shape(matrix)[:-2], dtype=matrix.dtype)
    powers = {0: identity, 2: tf.matmul(matrix, matrix)}
    for power in range(4, 7 if order == 13 else order, 2):
        powers[power] = tf.matmul(powers[power - 2], powers[2])
    if order == 13:
        high = tf.matmul(powers[6], powers[6] + b[11] * powers[4] + b[9] * powers[2])
        odd = tf.matmul(matrix, _sum(high, b, powers, (7, 5, 3, 1)))
        high = b[12] * powers[6] + b[10] * powers[4] + b[8] * powers[2]
        return odd, _sum(tf.matmul(powers[6], high), b, powers, (6, 4, 2, 0))
    odd = tf.matmul(matrix, _sum(powers[order - 1], b, powers, range(order - 2, 0, -2)))
    return odd, _sum(b[order - 1] * powers[order - 1], b, powers, range(order - 3, -1, -2))


def _sum(first: Tensor, b: Sequence[Tensor], powers: dict[int, Tensor], places: Sequence[int]) -> Any:
    """`first` plus `b[k]` times a power of the matrix for each k in `places`: the power k, or k - 1 for an odd k."""
    for k in places:
        first = first + b[k] * powers[k & ~1]
    return first
