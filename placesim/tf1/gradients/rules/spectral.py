"""Gradients of Fourier transforms."""

from __future__ import annotations

from functools import partial
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _size(grad: Tensor, rank: int, dtype: DTypeLike) -> Any:
    """Number of elements in a transform."""
    return tf.cast(tf.reduce_prod(tf.shape(grad)[-rank:]), dtype)


def _forward(rank: int, inverse: str, op: Operation, grad: Tensor) -> Any:
    size = _size(grad, rank, grad.dtype)
    return gen(inverse)(grad) * size


def _inverse(rank: int, forward: str, op: Operation, grad: Tensor) -> Any:
    share = tf.cast(1.0 / _size(grad, rank, grad.dtype.real_dtype), grad.dtype)
    return gen(forward)(grad) * share


def _real_inverse(rank: int, name: str, op: Operation, grad: Tensor) -> list[Any]:
    """Gradient of an inverse real transform: each column except the first and a middle one counts twice.

    The last column is the middle one if the length is even.
    """
    length = op.inputs[1]
    last = _last(length)
    odd = gen("FloorMod")(last, 2, name="mod")
    inner = tf.shape(op.inputs[0])[-1] - 2 + odd
    real = grad.dtype
    mask = tf.concat([[1.0], 2.0 * tf.ones([inner], real), tf.ones([1 - odd], real)], 0)
    share = tf.math.reciprocal(_size(grad, rank, real))
    known = constant_value(length)
    found = getattr(tf.signal, name)(grad, length if known is None else known.tolist())
    return [found * tf.cast(share * mask, op.inputs[0].dtype), None]


def _last(length: Any) -> Any:
    value = constant_value(length)
    return length[-1] if value is None else int(value[-1])


def _ranked(rank: int) -> str:
    return "" if rank == 1 else f"{rank}D"


def _real_forward(op: Operation, grad: Tensor) -> list[Any]:
    """Gradient of RFFT.  The first column counts once, and the last one too if the length is even; all others count twice."""
    x, length = op.inputs
    sizes = tf.shape(x)
    is_even = tf.cast(1 - length[-1] % 2, grad.dtype)
    first = grad[..., 0:1]
    last = is_even * grad[..., -1:]
    signs = tf.cast(1 - 2 * (tf.range(sizes[-1]) % 2), grad.dtype)
    alone = first + last * signs
    count = _size(x, 1, x.dtype)
    return [0.5 * (tf.signal.irfft(grad, length) * count + tf.real(alone)), None]


GRADIENTS: dict[str, GradientFunction] = {
    **{f"FFT{_ranked(rank)}": partial(_forward, rank, f"IFFT{_ranked(rank)}") for rank in (1, 2, 3)},
    **{f"IFFT{_ranked(rank)}": partial(_inverse, rank, f"FFT{_ranked(rank)}") for rank in (1, 2, 3)},
    "RFFT": _real_forward,
    "IRFFT": partial(_real_inverse, 1, "rfft"),
    "IRFFT2D": partial(_real_inverse, 2, "rfft2d"),
}
