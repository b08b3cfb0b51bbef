"""`tf.random.stateless_...`: random tensors from a seed that is a tensor."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from placesim.tf1.array.creation import shape_tensor, zeros
from placesim.tf1.array.shaping import reshape, stack
from placesim.tf1.array.shaping import shape as shape_of
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.constant_values import set_static_shape
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


class Algorithm(enum.Enum):
    """`tf.random.Algorithm`: method that makes random numbers from a key and a counter."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


_ALGORITHMS = {"philox": 1, "threefry": 2, "auto_select": 3}
_PHILOX_KEY = 0x02461E293EC8F720
"""Constant with which Philox derives a key and a counter from a seed; TensorFlow's graphs contain it."""


def _algorithm(alg: object) -> Any:
    """The number of an algorithm.  Raises ValueError in TensorFlow's words."""
    if isinstance(alg, Algorithm):
        return alg.value
    if isinstance(alg, Tensor):
        return alg
    known: dict[Any, int] = _ALGORITHMS if isinstance(alg, str) else {number: number for number in _ALGORITHMS.values()}
    if alg not in known:
        philox, threefry, automatic = known
        raise ValueError(
            f"Argument `alg` got unsupported value {alg}. Supported values are {philox} for the Philox algorithm, "
            f"{threefry} for the ThreeFry algorithm, and {automatic} for auto-selection."
        )
    return known[alg]


def _key_counter(seed: TensorLike, alg: object = "auto_select") -> tuple[Any, Any, Any]:
    """Key and counter of a seed, and the algorithm's number."""
    number = _algorithm(alg)
    if number == Algorithm.PHILOX.value:
        key = constant([_PHILOX_KEY], dtypes.uint64)
        mixed = gen("StatelessRandomUniformFullIntV2")([4], key, cast(seed, dtypes.uint64), number, dtype=dtypes.uint32)
        return reshape(_joined(mixed[:2]), [1]), stack([0, _joined(mixed[2:])], axis=0), number
    if number == Algorithm.THREEFRY.value:
        return reshape(_joined(cast(seed, dtypes.uint32)), [1]), zeros([1], dtypes.uint64), number
    found = gen("StatelessRandomGetKeyCounter")(seed)
    return found[0], found[1], number


def _joined(halves: Any) -> Any:
    """Join two 32-bit numbers to a 64-bit number, the lower half first."""
    low = cast(halves[0], dtypes.uint64)
    high = cast(halves[1], dtypes.uint64)
    return gen("BitwiseOr")(low, gen("LeftShift")(high, constant(32, dtypes.uint64)))


def _normal(op: str, word: str) -> Any:
    def call(
        shape: ShapeLike,
        seed: TensorLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = dtypes.float32,
        name: str | None = None,
        alg: object = "auto_select",
    ) -> Tensor:
        with name_scope(name, word, [shape, seed, mean, stddev]) as scope:
            dims = shape_tensor(shape)
            middle = convert_to_tensor(mean, dtype, name="mean")
            deviation = convert_to_tensor(stddev, dtype, name="stddev")
            drawn = gen(op)(dims, *_key_counter(seed, alg), dtype=dtype)
            found: Tensor = gen("AddV2")(drawn * deviation, middle, name=scope)
            set_static_shape(found, shape)
            return found

    return call


stateless_random_normal = _normal("StatelessRandomNormalV2", "stateless_random_normal")
stateless_truncated_normal = _normal("StatelessTruncatedNormalV2", "stateless_truncated_normal")


def stateless_random_uniform(
    shape: ShapeLike,
    seed: TensorLike,
    minval: Any = 0,
    maxval: Any = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: object = "auto_select",
) -> Tensor:
    """`tf.random.stateless_uniform`."""
    kind = dtypes.as_dtype(dtype)
    if maxval is None and not (kind.is_integer and minval is None):
        if kind.is_integer:
            raise ValueError(f"For non-None `minval` and integer `dtype`, argument `maxval` must be specified. Got {minval}.")
        maxval = 1
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as scope:
        dims = shape_tensor(shape)
        if minval is not None:
            low = convert_to_tensor(minval, kind, name="min")
            high = convert_to_tensor(maxval, kind, name="max")
        if kind.is_integer and minval is None:
            found: Tensor = gen("StatelessRandomUniformFullIntV2")(dims, *_key_counter(seed, alg), dtype=kind, name=scope)
        elif kind.is_integer:
            key, counter, algorithm = _key_counter(seed, alg)
            found = gen("StatelessRandomUniformIntV2")(dims, key, counter, algorithm, low, high, name=scope)
        else:
            drawn = gen("StatelessRandomUniformV2")(dims, *_key_counter(seed, alg), dtype=kind)
            found = gen("AddV2")(drawn * (high - low), low, name=scope)
        set_static_shape(found, shape)
        return found


# --- samples --------------------------------------------------------------------------------------------------------


def stateless_multinomial(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: TensorLike,
    output_dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """`tf.random.stateless_multinomial`: classes sampled from logits."""
    with name_scope(name, "stateless_multinomial", [logits, seed]):
        return _classes(logits, num_samples, output_dtype, seed)


def stateless_categorical(
    logits: TensorLike, num_samples: object, seed: TensorLike, dtype: DTypeLike = dtypes.int64, name: str | None = None
) -> Tensor:
    """`tf.random.stateless_categorical`: classes sampled from logits."""
    with name_scope(name, "stateless_categorical", [logits, seed]):
        return _classes(logits, num_samples, dtype, seed)


def _classes(logits: TensorLike, num_samples: object, dtype: DTypeLike, seed: TensorLike) -> Tensor:
    logits = convert_to_tensor(logits, name="logits")
    found: Tensor = gen("StatelessMultinomial")(logits, num_samples, seed, output_dtype=dtype)
    return found


def stateless_random_poisson(
    shape: ShapeLike, seed: TensorLike, lam: TensorLike, dtype: DTypeLike = dtypes.int32, name: str | None = None
) -> Tensor:
    """`tf.random.stateless_poisson`."""
    with name_scope(name, "stateless_random_poisson", [shape, seed, lam]):
        dims = shape_tensor(shape)
        found: Tensor = gen("StatelessRandomPoisson")(dims, seed, lam, dtype=dtype)
        set_static_shape(found, shape)
        return found


def stateless_random_binomial(
    shape: ShapeLike,
    seed: TensorLike,
    counts: TensorLike,
    probs: TensorLike,
    output_dtype: object = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """`tf.random.stateless_binomial`."""
    with name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]):
        dims = shape_tensor(shape)
        chances = convert_to_tensor(probs, dtype_hint=dtypes.float32, name="probs")
        trials = convert_to_tensor(counts, dtype_hint=chances.dtype, name="counts")
        found: Tensor = gen("StatelessRandomBinomial")(dims, seed, trials, chances, dtype=output_dtype)
        set_static_shape(found, shape)
        return found


def stateless_parameterized_truncated_normal(
    shape: ShapeLike,
    seed: TensorLike,
    means: TensorLike = 0.0,
    stddevs: TensorLike = 1.0,
    minvals: TensorLike = -2.0,
    maxvals: TensorLike = 2.0,
    name: str | None = None,
) -> Tensor:
    """`tf.random.stateless_parameterized_truncated_normal`."""
    word = "stateless_parameterized_truncated_normal"
    with name_scope(name, word, [shape, seed, means, stddevs, minvals, maxvals]):
        dims = shape_tensor(shape)
        given = {"means": means, "stddevs": stddevs, "minvals": minvals, "maxvals": maxvals}
        parts = [convert_to_tensor(value, dtype_hint=dtypes.float32, name=name) for name, value in given.items()]
        found: Tensor = gen("StatelessParameterizedTruncatedNormal")(dims, seed, *parts)
        set_static_shape(found, shape)
        return found


def stateless_random_gamma(
    shape: ShapeLike,
    seed: TensorLike,
    alpha: Any,
    beta: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Any:
    """`tf.random.stateless_gamma`."""
    with name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]):
        dims = shape_tensor(shape)
        alpha = convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, dtype, name="beta")
        both = gen("BroadcastArgs")(shape_of(alpha), shape_of(beta))
        alpha = gen("BroadcastTo")(alpha, both)
        drawn = gen("StatelessRandomGammaV3")(dims, *_key_counter(seed), alpha)
        least = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        found = gen("Maximum")(least, drawn / beta)
        set_static_shape(found, shape)
        return found


def stateless_shuffle(value: TensorLike, seed: TensorLike, alg: object = "auto_select", name: str | None = None) -> Any:
    """`tf.random.experimental.stateless_shuffle`: along the first dimension."""
    with name_scope(name, "stateless_shuffle", [value, seed]):
        key, counter, algorithm = _key_counter(seed, alg)
        return gen("StatelessShuffle")(value, key, counter, algorithm)


def stateless_fold_in(seed: int, data: TensorLike, alg: object = "auto_select") -> Any:
    """`tf.random.fold_in`: derive a seed from a seed and a number."""
    data = convert_to_tensor(data)
    first = stateless_random_uniform([], seed, None, None, data.dtype, alg=alg)
    return stack([first, data])


def stateless_split(seed: TensorLike, num: int = 2, alg: str | int = "auto_select") -> Any:
    """`tf.random.split`: `num` derived seeds."""
    seed = convert_to_tensor(seed)
    return stateless_random_uniform([num, 2], seed, None, None, seed.dtype, alg=alg)
