"""Random tensors from seeds of the graph and the op."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.array.creation import shape_tensor
from placesim.tf1.array.shaping import broadcast_dynamic_shape
from placesim.tf1.array.shaping import shape as array_shape
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.constant_values import set_static_shape
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.random.seeds import op_seeds
from placesim.tf1.types import dtypes


def _normal(op: str, word: str) -> Any:
    def call(
        shape: ShapeLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = dtypes.float32,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        with name_scope(name, word, [shape, mean, stddev]) as scope:
            dims = shape_tensor(shape)
            middle = convert_to_tensor(mean, dtype, name="mean")
            deviation = convert_to_tensor(stddev, dtype, name="stddev")
            drawn = gen(op)(dims, dtype, **op_seeds(seed))
            found: Tensor = gen("AddV2")(drawn * deviation, middle, name=scope)
            set_static_shape(found, shape)
            return found

    return call


random_normal = _normal("RandomStandardNormal", "random_normal")
truncated_normal = _normal("TruncatedNormal", "truncated_normal")

_UNIFORM_TYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")


def random_uniform(
    shape: ShapeLike,
    minval: Any = 0,
    maxval: Any = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`tf.random_uniform`; between 0 and 1, floats are returned as drawn."""
    kind = dtypes.as_dtype(dtype)
    if kind.name not in _UNIFORM_TYPES:
        allowed = ", ".join(repr(dtypes.as_dtype(known)) for known in _UNIFORM_TYPES)
        raise ValueError(f"Argument `dtype` got invalid value {kind}. Accepted dtypes are ({allowed}).")
    if maxval is None:
        if kind.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {kind!r}")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        dims = shape_tensor(shape)
        # only for integer bounds: TensorFlow scales even by the floats 0.0 and 1.0
        is_from_0 = isinstance(minval, int) and minval == 0
        is_to_1 = isinstance(maxval, int) and maxval == 1
        if not is_from_0 or not is_to_1 or kind.is_integer:
            minval = convert_to_tensor(minval, kind, name="min")
            maxval = convert_to_tensor(maxval, kind, name="max")
        if kind.is_integer:
            found: Tensor = gen("RandomUniformInt")(dims, minval, maxval, **op_seeds(seed), name=scope)
        else:
            found = gen("RandomUniform")(dims, kind, **op_seeds(seed))
            if not is_from_0:
                found = gen("AddV2")(found * (maxval - minval), minval, name=scope)
            elif not is_to_1:
                found = gen("Mul")(found, maxval)
        set_static_shape(found, shape)
        return found


def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """`tf.random_shuffle`."""
    return gen("RandomShuffle")(value, **op_seeds(seed), name=name)  # type: ignore[no-any-return]


def random_crop(value: TensorLike, size: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """`tf.random_crop`."""
    from placesim.tf1.control_flow.conditionals import Assert
    from placesim.tf1.graphs.grouping import with_dependencies
    from placesim.tf1.math.reductions import reduce_all

    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        shape: Any = array_shape(value)
        check = Assert(reduce_all(shape >= size), ["Need value.shape >= size, got ", shape, size], summarize=1000)
        limit = with_dependencies([check], shape) - size + 1
        # the op has one limit for all dimensions, so each dimension takes the remainder by its own limit
        offset = random_uniform(array_shape(limit), dtype=size.dtype, maxval=size.dtype.max, seed=seed) % limit
        return gen("Slice")(value, offset, size, name=scope)  # type: ignore[no-any-return]


def _categorical(
    word: str, logits: TensorLike, num_samples: object, dtype: DTypeLike | None, seed: int | None, name: str | None
) -> Tensor:
    with name_scope(name, word, [logits]):
        logits = convert_to_tensor(logits, name="logits")
        kind = dtypes.as_dtype(dtype) if dtype else dtypes.int64
        return gen("Multinomial")(logits, num_samples, output_dtype=kind, **op_seeds(seed))  # type: ignore[no-any-return]


def multinomial(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: DTypeLike | None = None,
) -> Tensor:
    """`tf.multinomial`."""
    return _categorical("multinomial", logits, num_samples, output_dtype, seed, name)


def categorical(
    logits: TensorLike,
    num_samples: TensorLike,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`tf.random.categorical`."""
    return _categorical("categorical", logits, num_samples, dtype, seed, name)


def random_gamma(
    shape: ShapeLike,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`tf.random_gamma`."""
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        dims = convert_to_tensor(shape, dtypes.int32, name="shape")
        alpha = convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, dtype, name="beta")
        both = broadcast_dynamic_shape(array_shape(alpha), array_shape(beta))
        wide = gen("BroadcastTo")(alpha, both)
        tiny = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        drawn = gen("RandomGamma")(dims, wide, **op_seeds(seed))
        found: Tensor = gen("Maximum")(tiny, drawn / beta)
        return found


def random_poisson(
    lam: TensorLike, shape: ShapeLike, dtype: DTypeLike = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """`tf.random_poisson`."""
    with name_scope(name, "random_poisson", [lam, shape]):
        dims = convert_to_tensor(shape, dtypes.int32, name="shape")
        return gen("RandomPoissonV2")(dims, lam, dtype=dtype, **op_seeds(seed))  # type: ignore[no-any-return]
