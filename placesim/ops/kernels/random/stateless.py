"""Stateless random ops: the same seeds, or the same key and counter, always give the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor, Trait, elements, one_per_output
from placesim.ops.kernels.philox import MASK_32, MASK_64, Philox, seeded_philox
from placesim.ops.kernels.random.distributions import (
    Distribution,
    full_integers,
    normal,
    truncated_normal,
    uniform,
    uniform_values,
)
from placesim.ops.kernels.random.numbers import (
    NORMAL,
    UNIFORM,
    check_multinomial,
    draw_classes,
    infer_multinomial,
    integers_within,
    multinomial_memory,
    shuffle_memory,
    shuffled_rows,
)
from placesim.ops.kernels.random.shapes import (
    COUNTER_SIZE,
    KEY_SIZE,
    PHILOX,
    algorithm_of_key,
    check_bounds_dims,
    check_key_dims,
    check_philox,
    check_seed_dims,
    check_seed_pair,
    philox_of_key,
    philox_of_seeds,
    requested_shape,
)
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    scalar,
    unchanged,
    vector_shape_value,
    with_rank_at_least,
    with_rank_at_most,
)

Chooser = Callable[[Sequence[Any]], Distribution]
"""A function from the inputs after shape and generator to a distribution."""


def _fixed(distribution: Distribution) -> Chooser:
    return lambda parameters: distribution


# --- seed pairs -----------------------------------------------------------------------------------------------------


def seeded(choose: Chooser) -> Compute:
    """Return the kernel of a distribution; its inputs are shape, seed and parameters.

    It raises InvalidArgumentError for an invalid shape or seed, and for invalid parameters if the shape has elements.
    """

    def compute(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
        shape = requested_shape(inputs[0])
        check_seed_pair(inputs[1])
        dtype, count = attrs["dtype"], elements(shape)
        if not count:
            return (np.empty(shape, dtype.numpy),)
        generator = philox_of_seeds(inputs[1])
        return (choose(inputs[2:])(generator, count, dtype).reshape(shape),)

    return compute


def seeded_multinomial(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Draw classes `[batch, samples]` from `logits [batch, classes]` with seeds. Raises the errors of `check_multinomial`."""
    logits, samples, seed = inputs
    check_seed_pair(seed)
    generator = philox_of_seeds(seed)
    _, _, count = check_multinomial(logits, samples)
    return (draw_classes(logits, count, generator).astype(attrs["output_dtype"].numpy),)


# --- keys and counters ----------------------------------------------------------------------------------------------


def keyed(choose: Chooser) -> Compute:
    """Return the kernel of a distribution; its inputs are shape, key, counter, algorithm and parameters.

    It raises InvalidArgumentError for an invalid shape, key, counter or algorithm, and invalid parameters.
    """

    def compute(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
        algorithm = algorithm_of_key(*inputs[1:4])
        shape = requested_shape(inputs[0])
        dtype, count = attrs["dtype"], elements(shape)
        if not count:
            return (np.empty(shape, dtype.numpy),)
        # for an empty shape, neither parameters nor the algorithm are checked
        distribution = choose(inputs[4:])
        check_philox(algorithm)
        return (distribution(philox_of_key(*inputs[1:3]), count, dtype).reshape(shape),)

    return compute


def key_and_counter(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the key uint64 `[1]` and counter uint64 `[2]` of two seeds. Raises InvalidArgumentError for other seeds."""
    check_seed_pair(inputs[0])
    generator = philox_of_seeds(inputs[0])
    counter = (generator.counter & MASK_64, generator.counter >> 64)
    return np.array([generator.key], np.uint64), np.array(counter, np.uint64)


def key_counter_algorithm(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the key `[1]`, the counter `[2]` and the algorithm's number. Raises the errors of `key_and_counter`."""
    return *key_and_counter(inputs, attrs), np.array(PHILOX, np.int32)


def name_algorithm(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the number of the CPU's algorithm, Philox, as an int32 scalar."""
    return (np.array(PHILOX, np.int32),)


def keyed_shuffle(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return `[rows, ...]` with its rows in random order. Raises the errors of `keyed`."""
    check_philox(algorithm_of_key(*inputs[1:4]))
    value = inputs[0]
    if np.size(value) <= 1 or len(value) <= 1:
        return (value,)
    return (shuffled_rows(value, philox_of_key(*inputs[1:3])),)


def stochastic_cast(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Round each number up or down at random, more likely to the nearer integer; limit results to the type. NaN becomes 0.

    Raises InvalidArgumentError for a key, counter or algorithm of another shape, and an unknown algorithm.
    """
    check_philox(algorithm_of_key(*inputs[1:4]))
    value, limits = np.asarray(inputs[0]), np.iinfo(attrs["Tout"].numpy)
    flat = value.reshape(-1)
    # TensorFlow uses the counter's lower half as the key, and the key as the upper half of the counter
    chances = _rounding_chances(flat, attrs, seeded_philox(int(inputs[2][0]), int(inputs[1][0])))
    one = flat.dtype.type(1)
    rounded = np.where(flat < 0, np.floor(flat + chances), np.floor(flat + one - chances))
    rounded = np.where(np.floor(flat) == flat, flat, rounded).astype(np.float64)
    result = np.where(flat >= limits.max, limits.max, np.where(flat <= limits.min, limits.min, rounded))
    return (np.where(np.isnan(flat), 0, result).astype(limits.dtype).reshape(value.shape),)


def _rounding_chances(flat: Tensor, attrs: Attrs, generator: Philox) -> Tensor:
    """Return a uniform for each number, drawn as TensorFlow's CPU kernel does."""
    source, target = attrs["Tin"], attrs["Tout"]
    chances = np.zeros(len(flat), flat.dtype)
    # casts with vector instructions take a block for 32 bytes, and repeat its values
    whole = len(flat) // 8 * 8 if source.size >= 4 and target.size == 4 else 0
    if whole:
        width = 32 // source.size
        blocks = uniform_values(generator.take(whole // width), source)
        chances[:whole] = np.tile(blocks, (1, width // blocks.shape[1])).reshape(-1)
    limits, rest = np.iinfo(target.numpy), flat[whole:]
    # every other number takes its own block if it must be rounded
    drawn = whole + np.flatnonzero((rest < limits.max) & (rest > limits.min) & (np.floor(rest) != rest))
    chances[drawn] = uniform_values(generator.take(len(drawn)), source)[:, 0]
    return chances


# --- permutations of an index ---------------------------------------------------------------------------------------


def index_shuffle(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return the new place of an index in a random permutation of [0, max_index]; scalars, or `[n]` with seeds `[n, 3]`.

    Raises InvalidArgumentError for other shapes, and for an index that is negative or above the maximum.
    """
    index, seed, limit = inputs
    count = max(np.size(index), np.size(limit), np.size(seed) // 3)
    _check_index_shuffle(index, seed, limit, count)
    indices, limits = (np.broadcast_to(np.reshape(part, -1), count).tolist() for part in (index, limit))
    seeds = np.broadcast_to(np.reshape(seed, (-1, 3)), (count, 3)).tolist()
    for one, most in zip(indices, limits, strict=True):
        _check_index(one, most)
    found = [_permuted(*case, attrs["rounds"]) for case in zip(indices, seeds, limits, strict=True)]
    scalar = not np.ndim(index) and np.ndim(seed) == 1 and not np.ndim(limit)
    return (np.array(found, np.uint64).astype(attrs["dtype"].numpy).reshape(() if scalar else (count,)),)


def _check_index_shuffle(index: Tensor, seed: Tensor, limit: Tensor, count: int) -> None:
    if np.shape(index) not in ((), (count,)):
        raise InvalidArgumentError("Index bust be a scalar or vector.")
    if np.shape(seed) not in ((3,), (count, 3)):
        raise InvalidArgumentError(
            f"Seed must be a vector of size [3] or a matrix of size [{count}, 3] but got {shape_text(seed)}."
        )
    if np.shape(limit) not in ((), (count,)):
        raise InvalidArgumentError(f"Maxval must be a scalar or a vector of the same size as index but got {shape_text(limit)}")


def _check_index(index: int, limit: int) -> None:
    for name, number in (("index", index), ("max_index", limit)):
        if number < 0:
            raise InvalidArgumentError(f"{name} must be >= 0 but was {number}")
    if limit < index:
        raise InvalidArgumentError(f"max_index must be >= index, but {limit} < {index}")


def _permuted(index: int, seed: Sequence[int], limit: int, rounds: int) -> int:
    """Encrypt an index with the block cipher Simon, in the narrowest block, until the result is in range."""
    if not limit:
        return 0
    index, limit = index & MASK_64, limit & MASK_64
    # Simon needs blocks with an even number of bits, at least 16
    size = int(np.ceil(np.log2(float(limit))))
    bits = min(max(size + size % 2, 16), 64) // 2
    keys = _round_keys([word & MASK_32 for word in seed], rounds, bits)
    index = _simon(index, keys, bits)
    # a result out of range is encrypted again, which is still a permutation
    while index > limit:
        index = _simon(index, keys, bits)
    return index


def _round_keys(seed: Sequence[int], rounds: int, bits: int) -> list[int]:
    mask, constant, pattern = (1 << bits) - 1, 0xFFFFFFFC, 0x7369F885192C0EF5 & ((1 << bits) - 1)
    keys = [word & mask for word in seed]
    for number in range(3, rounds):
        turned = _rotated(keys[-1], bits - 3, bits) ^ _rotated(keys[-1], bits - 4, bits)
        keys.append((constant ^ (pattern >> (number - 3) & 1) ^ keys[number - 3] ^ turned) & mask)
    return keys


def _rotated(word: int, count: int, bits: int) -> int:
    return (word << count | word >> (bits - count)) & ((1 << bits) - 1)


def _mixed(word: int, bits: int) -> int:
    return _rotated(word, 1, bits) & _rotated(word, 8 % bits, bits) ^ _rotated(word, 2, bits)


def _simon(value: int, keys: Sequence[int], bits: int) -> int:
    mask = (1 << bits) - 1
    left, right = value >> bits & mask, value & mask
    for first, second in zip(keys[0::2], keys[1::2], strict=False):
        left ^= _mixed(right, bits) ^ first
        right ^= _mixed(left, bits) ^ second
    return left << bits | right


def _seeded_row(distribution: Distribution) -> Kernel:
    return Kernel(seeded(_fixed(distribution)), infer_seeded, one_per_output, traits=Trait.TAKES_SHAPE)


def _keyed_row(distribution: Distribution) -> Kernel:
    return Kernel(keyed(_fixed(distribution)), infer_keyed, one_per_output, traits=Trait.TAKES_SHAPE)


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_seeded(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape that input 0 gives; input 1 must be a pair of seeds."""
    check_seed_dims(context)
    return (vector_shape_value(context, 0),)


def _infer_seeded_integers(context: ShapeContext) -> Sequence[Dims]:
    check_bounds_dims(context, 2)
    return infer_seeded(context)


def _infer_seeded_multinomial(context: ShapeContext) -> Sequence[Dims]:
    check_seed_dims(context, 2)
    return infer_multinomial(context)


def infer_keyed(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape that input 0 gives; inputs 1 to 3 must be a key, a counter and an algorithm."""
    check_key_dims(context)
    return (vector_shape_value(context, 0),)


def _infer_keyed_integers(context: ShapeContext) -> Sequence[Dims]:
    check_bounds_dims(context, 4)
    return infer_keyed(context)


def infer_keyed_unchanged(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape of input 0; inputs 1 to 3 must be a key, a counter and an algorithm."""
    check_key_dims(context)
    return unchanged(context)


def _infer_key_and_counter(context: ShapeContext) -> Sequence[Dims]:
    check_seed_dims(context, 0)
    return (KEY_SIZE,), (COUNTER_SIZE,)


def _infer_key_counter_algorithm(context: ShapeContext) -> Sequence[Dims]:
    return *_infer_key_and_counter(context), ()


def infer_index_shuffle(context: ShapeContext) -> Sequence[Dims]:
    """Return a vector's shape if any input is given per index, else a scalar's. Raises ShapeError for seeds not of size 3."""
    index, seed, limit = context.shapes
    with_rank_at_most(index, 1)
    with_rank_at_least(seed, 1)
    with_rank_at_most(seed, 2)
    with_rank_at_most(limit, 1)
    if seed is not None and seed[-1] != 3:
        raise ShapeError(f"Seed must have shape [3] or [n, 3] but got [{', '.join(map(str, seed))}].")
    vectors = [dims[0] for dims, rank in ((index, 1), (seed, 2), (limit, 1)) if dims is not None and len(dims) == rank]
    if vectors:
        return ((_common_length(index, seed, limit),),)
    return (None if None in context.shapes else (),)


def _common_length(index: Dims, seed: Dims, limit: Dims) -> int:
    count = index[0] if index else -1
    if seed is not None and len(seed) == 2:
        if count < 0:
            count = seed[0]
        elif count > 1 and seed[0] > 1 and seed[0] != count:
            raise ShapeError(
                f"Seed has shape [{seed[0]}, 3] but must have shape [{count}, 3]. since index had shape [{count}]."
            )
    if limit:
        if count < 0:
            count = limit[0]
        elif count > 1 and limit[0] > 1 and limit[0] != count:
            raise ShapeError(f"Max index has shape [{limit[0]}] but must have shape [{count}].")
    return count


TABLE: Table = {
    "StatelessRandomUniform": _seeded_row(uniform)._replace(cost=UNIFORM),
    "StatelessRandomUniformV2": _keyed_row(uniform),
    "StatelessRandomNormal": _seeded_row(normal)._replace(cost=NORMAL),
    "StatelessRandomNormalV2": _keyed_row(normal),
    "StatelessTruncatedNormal": _seeded_row(truncated_normal),
    "StatelessTruncatedNormalV2": _keyed_row(truncated_normal),
    "StatelessRandomUniformFullInt": _seeded_row(full_integers),
    "StatelessRandomUniformFullIntV2": _keyed_row(full_integers),
    "StatelessRandomUniformInt": Kernel(
        seeded(integers_within), _infer_seeded_integers, one_per_output, traits=Trait.TAKES_SHAPE
    ),
    "StatelessRandomUniformIntV2": Kernel(
        keyed(integers_within), _infer_keyed_integers, one_per_output, traits=Trait.TAKES_SHAPE
    ),
    "StatelessMultinomial": Kernel(seeded_multinomial, _infer_seeded_multinomial, one_per_output, memory=multinomial_memory),
    "StatelessRandomGetKeyCounter": Kernel(key_and_counter, _infer_key_and_counter),
    "StatelessRandomGetKeyCounterAlg": Kernel(key_counter_algorithm, _infer_key_counter_algorithm),
    "StatelessRandomGetAlg": Kernel(name_algorithm, scalar),
    "StatelessShuffle": Kernel(keyed_shuffle, infer_keyed_unchanged, memory=shuffle_memory),
    "StochasticCastToInt": Kernel(stochastic_cast, infer_keyed_unchanged, one_per_output),
    "RandomIndexShuffle": Kernel(index_shuffle, infer_index_shuffle),
}
