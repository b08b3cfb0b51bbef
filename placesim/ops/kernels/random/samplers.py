"""Rejection samplers of gamma, Poisson and binomial numbers, with seeds from attrs or from inputs.

Every output has its own range of the generator's counter. So all outputs are drawn in parallel, although their numbers of
rejections differ. Sources: Marsaglia and Tsang (2000) for gamma, Knuth and Hormann (1993) for Poisson and binomial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DOUBLE, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, TensorValue, format_tensor
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table, Tensor, elements, one_per_output
from placesim.ops.kernels.philox import RESERVED_SAMPLES, Philox, reserve
from placesim.ops.kernels.random.distributions import normal_values, uniform_values
from placesim.ops.kernels.random.shapes import (
    algorithm_of_key,
    check_philox,
    check_seed_pair,
    check_shape_vector,
    dims_before,
    infer_spelled_then,
    philox_of_key,
    philox_of_seeds,
    requested_shape,
)
from placesim.ops.kernels.random.stateless import infer_keyed, infer_seeded
from placesim.ops.kernels.shape_operands import broadcast_dims, shape_text

Converter = Callable[[Tensor, DataType], Tensor]
"""A function from words to values of an element type."""
Sample = Callable[[Philox, Tensor, int], Tensor]
"""A function `(generator, parameters [n], samples) -> float64 [samples * n]`."""
INVERSION_SAMPLES = 42
"""Number of blocks reserved for a binomial number with a small mean."""
STIRLING_TAILS = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)
"""Error of Stirling's formula for log(k!), for k up to 9 (Hormann's table)."""


class Streams:
    """Parallel streams of doubles, uniform or normal. Each stream starts at its own block.

    A block gives two doubles, of which TensorFlow uses the second first.
    """

    def __init__(self, generator: Philox, starts: Tensor) -> None:
        self._generator = generator
        self._next = starts.astype(np.uint64)
        kinds: tuple[Converter, ...] = (uniform_values, normal_values)
        self._pairs = {kind: np.empty((len(starts), 2)) for kind in kinds}
        self._left = {kind: np.zeros(len(starts), np.int64) for kind in kinds}

    def uniforms(self, which: Tensor) -> Tensor:
        """Return the next uniform of each stream in `which`."""
        return self._draw(uniform_values, which)

    def normals(self, which: Tensor) -> Tensor:
        """Return the next normal of each stream in `which`."""
        return self._draw(normal_values, which)

    def _draw(self, kind: Converter, which: Tensor) -> Tensor:
        pairs, left = self._pairs[kind], self._left[kind]
        empty = which[left[which] == 0]
        if len(empty):
            pairs[empty] = kind(self._generator.blocks_at(self._next[empty]), DOUBLE)
            self._next[empty] += np.uint64(1)
            left[empty] = 2
        left[which] -= 1
        return np.asarray(pairs[which, left[which]])


def _per_output(parameters: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Return each output's parameter and stream number, for outputs `[samples, parameters]`."""
    numbers = np.arange(samples) + samples * np.arange(len(parameters))[:, None]
    return np.tile(parameters, samples), numbers.T.reshape(-1).astype(np.uint64)


# --- gamma and Poisson ----------------------------------------------------------------------------------------------


def _sampled(
    sample: Sample, generator: Philox, parameters: Tensor, samples: int, shape: Sequence[int], dtype: DataType
) -> Sequence[Tensor]:
    found = sample(generator, np.reshape(parameters, -1).astype(np.float64), samples)
    return (found.astype(dtype.numpy).reshape(tuple(shape)),)


def _samples_of(shape: tuple[int, ...], parameters: Tensor, name: str) -> int:
    """Return the number of samples of each parameter; the requested shape must end with the parameters' shape."""
    before = dims_before(shape, np.shape(parameters))
    if not np.size(parameters):
        raise InvalidArgumentError(f"Input {name} should have non-zero element count, got: 0")
    return elements(before)


def seeded_sampler(sample: Sample, name: str) -> Compute:
    """Return the kernel of a distribution; its inputs are shape, seed and parameters, which messages call `name`.

    It raises InvalidArgumentError for an invalid shape, seed or parameters; the shape must end with the parameters' shape.
    """

    def compute(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
        shape = requested_shape(inputs[0])
        check_seed_pair(inputs[1])
        if not elements(shape):
            return (np.empty(shape, attrs["dtype"].numpy),)
        generator = philox_of_seeds(inputs[1])
        return _sampled(sample, generator, inputs[2], _samples_of(shape, inputs[2], name), shape, attrs["dtype"])

    return compute


# --- gamma ----------------------------------------------------------------------------------------------------------


def sample_gammas(generator: Philox, alphas: Tensor, samples: int) -> Tensor:
    """Draw gamma numbers in float64, `[samples * alphas]`, with float64 shape parameters `alphas`."""
    alpha, numbers = _per_output(alphas, samples)
    streams = Streams(generator, numbers * np.uint64(RESERVED_SAMPLES))
    result = np.empty(len(alpha))
    is_one = np.flatnonzero(alpha == 1)
    result[is_one] = -np.log1p(-streams.uniforms(is_one))
    below_one = alpha < 1
    # for alpha below 1, draw with alpha + 1, and multiply by a power of a uniform
    d = alpha + np.where(below_one, 2 / 3, -1 / 3)
    c = 1 / 3 / np.sqrt(d)
    is_open = (alpha != 1) & ~np.isnan(alpha)
    todo = np.flatnonzero(is_open)
    result[np.isnan(alpha)] = np.nan
    while len(todo):
        x = streams.normals(todo)
        v = 1 + c[todo] * x
        tried = ~(v <= 0)  # true for NaN too
        drawn, x, v = todo[tried], x[tried], v[tried] ** 3
        u = streams.uniforms(drawn)
        # TensorFlow tries this cheap bound first
        squeezed = u < 1 - 0.0331 * (x * x) * (x * x)
        accepted = squeezed | (np.log(u) < 0.5 * x * x + d[drawn] * (1 - v + np.log(v)))
        done = drawn[accepted]
        result[done] = d[done] * v[accepted]
        small = done[below_one[done]]
        result[small] *= streams.uniforms(small) ** (1 / alpha[small])
        is_open[done] = False
        todo = todo[is_open[todo]]
    return result


def random_gamma(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw gamma numbers `[shape..., alpha...]`. Raises InvalidArgumentError for an invalid shape."""
    shape, alpha = inputs
    if np.ndim(shape) != 1:
        text = format_tensor(TensorValue(attrs["S"], shape))
        raise InvalidArgumentError(f"shape must be a vector of {{int32,int64}}, got shape: {text}")
    dims = requested_shape(shape)
    samples, outputs = elements(dims), dims + np.shape(alpha)
    if not samples or not np.size(alpha):
        return (np.empty(outputs, attrs["T"].numpy),)
    generator = reserve(context, attrs, samples * np.size(alpha) * RESERVED_SAMPLES)
    return _sampled(sample_gammas, generator, alpha, samples, outputs, attrs["T"])


def keyed_gamma(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Draw gamma numbers of the requested shape; the inputs are shape, key, counter, algorithm and alpha.

    Raises InvalidArgumentError for an invalid input, and a shape that does not end with alpha's shape.
    """
    algorithm = algorithm_of_key(*inputs[1:4])
    shape, alpha = requested_shape(inputs[0]), inputs[4]
    if not elements(shape):
        return (np.empty(shape, attrs["dtype"].numpy),)
    samples = _samples_of(shape, alpha, "alpha")
    check_philox(algorithm)
    return _sampled(sample_gammas, philox_of_key(*inputs[1:3]), alpha, samples, shape, attrs["dtype"])


# --- Poisson --------------------------------------------------------------------------------------------------------


def sample_poissons(generator: Philox, rates: Tensor, samples: int) -> Tensor:
    """Draw Poisson counts in float64, `[samples * rates]`, with float64 `rates`."""
    rate, numbers = _per_output(rates, samples)
    streams = Streams(generator, numbers * np.uint64(RESERVED_SAMPLES))
    result = np.where(rate < 10, 0.0, rate)  # infinity and NaN stay
    _multiply_uniforms(streams, rate, np.flatnonzero(rate < 10), result)
    _transform_poissons(streams, rate, np.flatnonzero((rate >= 10) & np.isfinite(rate)), result)
    return result


def _multiply_uniforms(streams: Streams, rate: Tensor, todo: Tensor, result: Tensor) -> None:
    """Knuth's method: count the uniforms whose product stays above exp(-rate)."""
    product, limit = np.ones(len(rate)), np.exp(-rate)
    while len(todo):
        product[todo] *= streams.uniforms(todo)
        todo = todo[product[todo] > limit[todo]]
        result[todo] += 1


def _transform_poissons(streams: Streams, rate: Tensor, todo: Tensor, result: Tensor) -> None:
    """Hormann's transformed rejection, for rates of 10 and more."""
    from scipy.special import gammaln

    while len(todo):
        mean = rate[todo]
        b = 0.931 + 2.53 * np.sqrt(mean)
        a = -0.059 + 0.02483 * b
        u, v = streams.uniforms(todo) - 0.5, streams.uniforms(todo)
        edge = 0.5 - np.abs(u)
        k = np.floor((2 * a / edge + b) * u + mean + 0.43)
        inside = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        hopeless = (k < 0) | ((edge < 0.013) & (v > edge))
        ratio = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (edge * edge) + b))
        accepted = inside | ~hopeless & (ratio <= -mean + k * np.log(mean) - gammaln(k + 1))
        result[todo[accepted]] = k[accepted]
        todo = todo[~accepted]


def random_poisson(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw Poisson counts `[shape..., rate...]`. Raises InvalidArgumentError for an invalid shape."""
    shape, rate = requested_shape(inputs[0]), inputs[1]
    samples, outputs = elements(shape), shape + np.shape(rate)
    if not samples or not np.size(rate):
        return (np.empty(outputs, attrs["dtype"].numpy),)
    generator = reserve(context, attrs, samples * np.size(rate) * RESERVED_SAMPLES)
    return _sampled(sample_poissons, generator, rate, samples, outputs, attrs["dtype"])


# --- binomial -------------------------------------------------------------------------------------------------------


def binomial_shape_of(shape: Tensor, counts: Tensor, probabilities: Tensor) -> tuple[tuple[int, ...], int, int]:
    """Return the requested shape, the number of parameters, and the number of samples for each parameter.

    Raises InvalidArgumentError unless the parameters broadcast, and the shape is valid and ends with their shape.
    """
    tail = broadcast_dims(np.shape(counts), np.shape(probabilities))
    if tail is None:
        raise InvalidArgumentError(
            f"counts and probs must have compatible batch dimensions: {shape_text(counts)} vs. {shape_text(probabilities)}"
        )
    check_shape_vector(shape)
    dims = requested_shape(shape)
    return dims, elements(tail), elements(dims_before(dims, tail))


def sample_binomials(
    generator: Philox, shape: tuple[int, ...], counts: Tensor, probabilities: Tensor, dtype: DataType
) -> Tensor:
    """Draw binomial counts; the shape must end with the broadcast shape of counts and probabilities."""
    pairs = np.broadcast_arrays(counts, probabilities)
    batches = pairs[0].size
    samples = elements(shape) // batches if batches else 0
    count, numbers = _per_output(pairs[0].reshape(-1), samples)
    chance, _ = _per_output(pairs[1].reshape(-1), samples)
    flipped = chance > 0.5  # then draw the number of failures
    rare = np.where(flipped, chance.dtype.type(1) - chance, chance).astype(chance.dtype)
    found = _sample_rare(generator, numbers, count, rare)
    wide = count.astype(np.float64)
    found = np.where(flipped, wide - found, found)
    found = np.where((wide <= 0) | (chance <= 0), 0.0, np.where(chance >= 1, wide, found))
    return np.where(np.isnan(chance), np.nan, found).astype(dtype.numpy).reshape(shape)


def _sample_rare(generator: Philox, numbers: Tensor, count: Tensor, chance: Tensor) -> Tensor:
    """Draw binomial counts for probabilities up to 1/2, by gaps between successes if few successes are expected."""
    # TensorFlow's kernel changes its method at this mean
    few = count * chance < 10
    drawn = (count > 0) & (chance > 0) & np.isfinite(count)
    strides = np.where(few, INVERSION_SAMPLES, RESERVED_SAMPLES).astype(np.uint64)
    streams = Streams(generator, numbers * strides)
    wide, odds = count.astype(np.float64), chance.astype(np.float64)
    result = np.where(np.isfinite(wide), 0.0, wide)
    _add_gaps(streams, wide, odds, np.flatnonzero(drawn & few), result)
    _transform_binomials(streams, wide, odds, np.flatnonzero(drawn & ~few), result)
    return result


def _add_gaps(streams: Streams, count: Tensor, chance: Tensor, todo: Tensor, result: Tensor) -> None:
    """Add geometric numbers until the sum exceeds the count; the number of terms, less one, is binomial."""
    total = np.zeros(len(count))
    while len(todo):
        total[todo] += np.ceil(np.log(streams.uniforms(todo)) / np.log1p(-chance[todo]))
        todo = todo[total[todo] <= count[todo]]
        result[todo] += 1


def _transform_binomials(streams: Streams, counts: Tensor, chances: Tensor, todo: Tensor, result: Tensor) -> None:
    """Hormann's transformed rejection, for means of 10 and more."""
    while len(todo):
        count, chance = counts[todo], chances[todo]
        spread = np.sqrt(count * chance * (1 - chance))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * chance
        u, v = streams.uniforms(todo), streams.uniforms(todo)
        u = u - 0.5
        edge = 0.5 - np.abs(u)
        k = np.floor((2 * a / edge + b) * u + count * chance + 0.5)
        inside = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
        possible = (k >= 0) & (k <= count)
        ratio = np.log(v * (2.83 + 5.1 / b) * spread / (a / (edge * edge) + b))
        accepted = inside | possible & (ratio <= _binomial_bound(np.where(possible, k, 0), count, chance))
        result[todo[accepted]] = k[accepted]
        todo = todo[~accepted]


def _binomial_bound(k: Tensor, count: Tensor, chance: Tensor) -> Tensor:
    """Return the log-probability of `k` relative to the most likely count."""
    odds = chance / (1 - chance)
    m = np.floor((count + 1) * chance)
    return np.asarray(
        (m + 0.5) * np.log((m + 1) / (odds * (count - m + 1)))
        + (count + 1) * np.log((count - m + 1) / (count - k + 1))
        + (k + 0.5) * np.log(odds * (count - k + 1) / (k + 1))
        + _stirling_tail(m)
        + _stirling_tail(count - m)
        - _stirling_tail(k)
        - _stirling_tail(count - k)
    )


def _stirling_tail(k: Tensor) -> Tensor:
    table = np.take(STIRLING_TAILS, np.clip(k, 0, 9).astype(np.int64))
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return np.where(k <= 9, table, series)


def seeded_binomial(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Draw binomial counts of the requested shape; the inputs are shape, seed, counts and probabilities.

    Raises the errors of `binomial_shape_of`, and InvalidArgumentError for a seed that is not `[2]`.
    """
    check_seed_pair(inputs[1])
    shape, _, _ = binomial_shape_of(inputs[0], inputs[2], inputs[3])
    if not elements(shape):
        return (np.empty(shape, attrs["dtype"].numpy),)
    return (sample_binomials(philox_of_seeds(inputs[1]), shape, inputs[2], inputs[3], attrs["dtype"]),)


TABLE: Table = {
    "RandomGamma": Kernel(random_gamma, infer_spelled_then, one_per_output, needs_context=True),
    "StatelessRandomGammaV2": Kernel(seeded_sampler(sample_gammas, name="alpha"), infer_seeded, one_per_output),
    "StatelessRandomGammaV3": Kernel(keyed_gamma, infer_keyed, one_per_output),
    "RandomPoisson": Kernel(random_poisson, infer_spelled_then, one_per_output, needs_context=True),
    "RandomPoissonV2": Kernel(random_poisson, infer_spelled_then, one_per_output, needs_context=True),
    "StatelessRandomPoisson": Kernel(seeded_sampler(sample_poissons, name="rate"), infer_seeded, one_per_output),
    "StatelessRandomBinomial": Kernel(seeded_binomial, infer_seeded, one_per_output),
}
