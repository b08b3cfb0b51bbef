"""Checks of random ops' inputs at run time and in shape functions: the requested shape, seeds, keys and bounds.

Run-time checks raise InvalidArgumentError, shape functions ShapeError, with TensorFlow's messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.philox import Philox, scrambled_philox
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    ShapeFunction,
    concatenate,
    format_dims,
    vector_shape_value,
    with_rank,
    with_value,
)

PHILOX, THREEFRY, AUTOMATIC = 1, 2, 3
"""The numbers of TensorFlow's generator algorithms."""
KEY_SIZE, COUNTER_SIZE = 1, 2
MAX_INT64 = (1 << 63) - 1


# --- run time -------------------------------------------------------------------------------------------------------


def requested_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape in an integer vector `[rank]`.

    Raises InvalidArgumentError for another rank, a negative dimension, and more elements than an int64 counts.
    """
    if np.ndim(tensor) != 1 or np.asarray(tensor).dtype.kind not in "iu":
        raise InvalidArgumentError(f"shape must be a vector of {{int32,int64}}, got shape {shape_text(tensor)}")
    count = 1
    for dim in tensor.tolist():
        if dim < 0:
            raise InvalidArgumentError(f"Dimension {dim} must be >= 0")
        # unlike the message of `shape_of_vector`, this one has the factors
        if count * dim > MAX_INT64:
            raise InvalidArgumentError(f"Encountered overflow when multiplying {count} with {dim}, result: -1")
        count *= dim
    return tuple(tensor.tolist())


def check_shape_vector(tensor: Tensor) -> None:
    """Raise InvalidArgumentError unless a requested shape is a vector, with the message of the samplers."""
    if np.ndim(tensor) != 1:
        raise InvalidArgumentError(f"Input shape should be a vector, got shape: {shape_text(tensor)}")


def dims_before(shape: tuple[int, ...], tail: tuple[int, ...]) -> tuple[int, ...]:
    """Return a requested shape without its parameters' shape. Raises InvalidArgumentError unless it ends with the latter."""
    before = len(shape) - len(tail)
    if before < 0 or shape[before:] != tail:
        raise InvalidArgumentError("Shape passed in must end with broadcasted shape.")
    return shape[:before]


def check_scalar_bounds(low: Tensor, high: Tensor) -> None:
    """Raise InvalidArgumentError unless `minval` and `maxval` are scalars."""
    for name, bound in (("minval", low), ("maxval", high)):
        if np.ndim(bound):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(bound)}")


def integer_bounds(low: Tensor, high: Tensor) -> tuple[int, int]:
    """Return `minval` and `maxval`. Raises InvalidArgumentError unless they are scalars and the first is less."""
    check_scalar_bounds(low, high)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")
    return int(low), int(high)


def check_seed_pair(seed: Tensor) -> None:
    """Raise InvalidArgumentError unless the seed is `[2]`."""
    if np.shape(seed) != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {shape_text(seed)}")


def philox_of_seeds(seed: Tensor) -> Philox:
    """Return the generator of seeds `[2]`. Raises InvalidArgumentError for unsigned seeds, although the op declares them."""
    if seed.dtype not in (np.int32, np.int64):
        raise InvalidArgumentError(f"Invalid seed type: {seed.dtype}")
    return scrambled_philox(int(seed[0]), int(seed[1]))


def scalar_input(tensor: Tensor, index: int) -> int:
    """Return input `index` of an op, a scalar integer. Raises InvalidArgumentError for another shape."""
    if np.ndim(tensor):
        raise InvalidArgumentError(f"input {index} (0-based) must have shape [], not {shape_text(tensor)}")
    return int(tensor)


def algorithm_of_key(key: Tensor, counter: Tensor, algorithm: Tensor) -> int:
    """Return the algorithm; inputs 1 to 3 are key `[1]`, counter, algorithm. Raises InvalidArgumentError for other shapes."""
    number = scalar_input(algorithm, 3)
    number = PHILOX if number == AUTOMATIC else number
    if np.shape(key) != (KEY_SIZE,):
        raise InvalidArgumentError(
            f"key must have shape [{KEY_SIZE}], not {shape_text(key)}. (Note that batched keys are not supported yet.)"
        )
    # TensorFlow compares with the algorithm's number instead of the counter's minimum length
    if np.ndim(counter) != 1 or len(counter) < number:
        raise InvalidArgumentError(
            f"counter must be a vector with length at least {number}; got shape: {shape_text(counter)}. "
            "(Note that batched counters are not supported yet.)"
        )
    return number


def check_philox(algorithm: int) -> None:
    """Raise InvalidArgumentError for another algorithm than Philox, the only one of the CPU."""
    if algorithm != PHILOX:
        raise InvalidArgumentError(f"Unsupported algorithm id: {algorithm}")


def philox_of_key(key: Tensor, counter: Tensor) -> Philox:
    """Return the generator of a uint64 key `[1]` and counter `[2]`, lower half first; a missing upper half is 0."""
    low, high = (*counter.tolist()[:2], 0)[:2]
    return Philox(int(key[0]), high << 64 | low)


# --- shape functions ------------------------------------------------------------------------------------------------


def build_infer_spelled(index: int) -> ShapeFunction:
    """Return a shape function for one output, whose shape is the value of input `index`."""
    return lambda context: (vector_shape_value(context, index),)


def infer_spelled_then(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of one output: the value of input 0, followed by the shape of input 1."""
    return (concatenate(vector_shape_value(context, 0), context.shapes[1]),)


def check_seed_dims(context: ShapeContext, index: int = 1) -> None:
    """Raise ShapeError unless an input is a vector of two numbers."""
    (size,) = with_rank(context.shapes[index], 1)
    with_value(size, 2)


def check_key_dims(context: ShapeContext) -> None:
    """Raise ShapeError unless inputs 1 to 3 are a key `[1]`, a counter vector and a scalar algorithm."""
    (size,) = with_rank(context.shapes[1], 1)
    with_rank(context.shapes[2], 1)
    with_rank(context.shapes[3], 0)
    with_value(size, KEY_SIZE)


def check_bounds_dims(context: ShapeContext, index: int) -> None:
    """Raise ShapeError unless `minval` and `maxval`, inputs `index` and `index + 1`, are scalars."""
    for name, dims in zip(("minval", "maxval"), context.shapes[index : index + 2], strict=True):
        if dims:
            raise ShapeError(f"{name} must be a scalar; got a tensor of shape {format_dims(dims)}")
