"""Distributions: functions from blocks of four random words to numbers, bit for bit as in TensorFlow.

A distribution takes a generator, a count and an element type, and returns a flat array. `half`, `bfloat16`, `float` and 32-bit
integers take one word each, `double` and 64-bit integers two. Normals come in pairs (Box and Muller), sine first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT, HALF, INT64, UINT64, DataType
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.philox import RESERVED_SAMPLES, Philox

Distribution = Callable[[Philox, int, DataType], Tensor]

SMALLEST_UNIFORM = 1e-7
"""Smaller uniforms are raised to this number before their logarithm is taken."""
TRUNCATION = 2.0
"""Truncated normals are within this many standard deviations."""


def values_per_block(dtype: DataType) -> int:
    """Return the number of values from a block of four words."""
    return 2 if dtype in (DOUBLE, INT64, UINT64) else 4


def _blocks_for(count: int, dtype: DataType) -> int:
    return -(-count // values_per_block(dtype))


# --- words to values ------------------------------------------------------------------------------------------------


def uniform_values(words: Tensor, dtype: DataType) -> Tensor:
    """Return uniforms in [0, 1), `[..., values per block]`, from uint32 words `[..., 4]` as random mantissas."""
    if dtype is DOUBLE:
        upper = (words[..., 0::2] & np.uint32(0xFFFFF)).astype(np.uint64) << np.uint64(32)
        bits = upper | words[..., 1::2] | np.uint64(0x3FF << 52)
        return np.asarray(bits.view(np.float64) - 1)
    if dtype.size == 4:
        return np.asarray((words & np.uint32(0x7FFFFF) | np.uint32(0x7F << 23)).view(np.float32) - np.float32(1))
    # a 16-bit type uses the low bits of a whole word
    mantissa, one = (0x3FF, 0xF << 10) if dtype is HALF else (0x7F, 0x7F << 7)
    bits16 = words.astype(np.uint16) & np.uint16(mantissa) | np.uint16(one)
    return np.asarray(bits16.view(dtype.numpy) - dtype.numpy.type(1))


def normal_values(words: Tensor, dtype: DataType) -> Tensor:
    """Return standard normals, `[..., values per block]`, from uint32 words `[..., 4]`; 16-bit types are rounded from float."""
    single = dtype is not DOUBLE
    uniforms = uniform_values(words, FLOAT if single else DOUBLE)
    kind = np.float32 if single else np.float64
    logarithm = _rounded(np.log, np.maximum(uniforms[..., 0::2], kind(SMALLEST_UNIFORM)))
    radius = np.sqrt(kind(-2) * logarithm)
    angle = (2 * np.pi * uniforms[..., 1::2].astype(np.float64)).astype(kind)
    values = np.empty_like(uniforms)
    np.multiply(_rounded(np.sin, angle), radius, out=values[..., 0::2])
    np.multiply(_rounded(np.cos, angle), radius, out=values[..., 1::2])
    return values.astype(dtype.numpy, copy=False)


def _rounded(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the function's values as the C library rounds them; numpy's float32 values often differ in the last digit."""
    return np.asarray(function(x.astype(np.float64)).astype(x.dtype))


def integer_words(words: Tensor, dtype: DataType) -> Tensor:
    """Return unsigned integers as wide as `dtype` from uint32 words `[..., 4]`; the lower half comes first."""
    if dtype.size == 4:
        return words
    return np.asarray(words[..., 0::2] | words[..., 1::2].astype(np.uint64) << np.uint64(32))


# --- distributions --------------------------------------------------------------------------------------------------


def uniform(generator: Philox, count: int, dtype: DataType) -> Tensor:
    """Draw uniform numbers in [0, 1), `[count]`."""
    return uniform_values(generator.take(_blocks_for(count, dtype)), dtype).reshape(-1)[:count]


def normal(generator: Philox, count: int, dtype: DataType) -> Tensor:
    """Draw standard normals, `[count]`."""
    return normal_values(generator.take(_blocks_for(count, dtype)), dtype).reshape(-1)[:count]


def full_integers(generator: Philox, count: int, dtype: DataType) -> Tensor:
    """Draw integers over the whole range of their type, `[count]`."""
    return integer_words(generator.take(_blocks_for(count, dtype)), dtype).reshape(-1)[:count].view(dtype.numpy)


def integers_between(low: int, high: int) -> Distribution:
    """Return the distribution of integers in [low, high), as remainders; small ones are slightly more likely."""

    def draw(generator: Philox, count: int, dtype: DataType) -> Tensor:
        words = integer_words(generator.take(_blocks_for(count, dtype)), dtype).reshape(-1)[:count]
        span = words.dtype.type(high - low)
        # an unsigned sum with the lower bound wraps to the right signed number
        return np.asarray(words % span + words.dtype.type(low % (1 << 8 * dtype.size))).view(dtype.numpy)

    return draw


def truncated_normal(generator: Philox, count: int, dtype: DataType) -> Tensor:
    """Draw standard normals, `[count]`, each redrawn until it is within two standard deviations.

    Every block of outputs has its own range of the generator's counter, so rejections do not affect other blocks.
    """
    width = values_per_block(dtype)
    groups = -(-count // width)
    result = np.zeros((groups, width), dtype.numpy)
    filled = np.zeros(groups, np.int64)
    open_groups = np.arange(groups)
    stride, depth = width * RESERVED_SAMPLES // 4, 0
    while len(open_groups):
        words = generator.blocks_at(open_groups.astype(np.uint64) * np.uint64(stride) + np.uint64(depth))
        # TensorFlow tests values before it rounds them to 16 bits
        values = normal_values(words, DOUBLE if dtype is DOUBLE else FLOAT)
        accepted = np.abs(values) < TRUNCATION
        places = filled[open_groups, None] + np.cumsum(accepted, 1) - 1
        rows, columns = np.nonzero(accepted & (places < width))
        result[open_groups[rows], places[rows, columns]] = values[rows, columns]
        filled[open_groups] += accepted.sum(1)
        open_groups = open_groups[filled[open_groups] < width]
        depth += 1
    return result.reshape(-1)[:count]
