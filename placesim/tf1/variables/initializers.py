"""Initializers of variables, under TensorFlow's and Keras' names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import placesim.tf1 as tf
from placesim.graph.variables import fan_in_and_out
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.types.dtypes import as_dtype

TRUNCATED_STDDEV = 0.87962566103423978
"""Standard deviation of the standard normal distribution truncated at 2, for which variance scaling compensates."""
_MODES = ("fan_in", "fan_out", "fan_avg")


class Initializer:
    """Function from a shape, dtype and `PartitionInfo` (of a shard) to the tensor of an initial value.

    `fields` are the constructor's arguments that `get_config` returns, in its order.
    """

    fields: tuple[str, ...] = ("dtype",)
    dtype: Any = None

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        raise NotImplementedError("Initializer subclasses must implement the `__call__()` method.")

    def get_config(self) -> dict[str, Any]:
        """Arguments that construct an equal initializer."""
        config = {field: getattr(self, field) for field in self.fields}
        if "dtype" in config:
            config["dtype"] = config["dtype"].name
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """Initializer from the result of `get_config`."""
        return cls(**config)

    def _dtype(self, dtype: DTypeLike | None) -> Any:
        return self.dtype if dtype is None else as_dtype(dtype)


class _FillInitializer(Initializer):
    """Initializer with equal elements."""

    function = ""

    def __init__(self, dtype: DTypeLike = "float32") -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        return getattr(tf, self.function)(shape, self._dtype(dtype))


class Zeros(_FillInitializer):
    """`zeros_initializer`."""

    function = "zeros"


class Ones(_FillInitializer):
    """`ones_initializer`."""

    function = "ones"


class Constant(Initializer):
    """`constant_initializer`: a value or list, with the last element repeated as needed."""

    fields = ("value", "dtype")

    def __init__(self, value: Any = 0, dtype: DTypeLike = "float32", verify_shape: bool = False) -> None:
        import numpy as np

        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            kinds = "Python scalar, list or tuple of values, or numpy.ndarray"
            raise TypeError(f"Invalid type for initial value={value} of type: {type(value).__name__}. Expected {kinds}.")
        self.value, self.dtype, self.verify_shape = value, as_dtype(dtype), verify_shape

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None, verify_shape: bool | None = None
    ) -> Any:
        verify = self.verify_shape if verify_shape is None else verify_shape
        return tf.constant(self.value, self._dtype(dtype), shape=shape, verify_shape=verify)


class RandomUniform(Initializer):
    """`random_uniform_initializer`, from `minval` to `maxval`."""

    fields = ("minval", "maxval", "seed", "dtype")

    def __init__(
        self, minval: TensorLike = 0.0, maxval: TensorLike | None = None, seed: int | None = None, dtype: DTypeLike = "float32"
    ) -> None:
        self.minval, self.maxval, self.seed, self.dtype = minval, maxval, seed, as_dtype(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        return tf.random_uniform(shape, self.minval, self.maxval, self._dtype(dtype), seed=self.seed)


class RandomNormal(Initializer):
    """`random_normal_initializer`."""

    fields = ("mean", "stddev", "seed", "dtype")
    function = "random_normal"

    def __init__(
        self, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, seed: int | None = None, dtype: DTypeLike = "float32"
    ) -> None:
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, _floating(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        return getattr(tf, self.function)(shape, self.mean, self.stddev, self._dtype(dtype), seed=self.seed)


class TruncatedNormal(RandomNormal):
    """`truncated_normal_initializer`."""

    function = "truncated_normal"


class UniformUnitScaling(Initializer):
    """`uniform_unit_scaling_initializer`: uniform within `factor * sqrt(3 / inputs)`."""

    fields = ("factor", "seed", "dtype")

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: DTypeLike = "float32") -> None:
        self.factor, self.seed, self.dtype = factor, seed, _floating(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        inputs = float(math.prod(_sizes(_whole(shape, partition_info))[:-1]))
        limit = math.sqrt(3 / max(inputs, 1.0)) * self.factor
        return tf.random_uniform(shape, -limit, limit, self._dtype(dtype), seed=self.seed)


class VarianceScaling(Initializer):
    """`variance_scaling_initializer`: variance `scale / fan`; a shard has the fan of the whole variable."""

    fields: tuple[str, ...] = ("scale", "mode", "distribution", "seed", "dtype")

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in _MODES:
            raise ValueError(f"Argument `mode` should be one of {_MODES}. Received: {mode}")
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            kinds = "('normal', uniform', 'truncated_normal', 'untruncated_normal')"
            raise ValueError(f"Argument `distribution` should be one of {kinds}. Received: {distribution}")
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        fan_in, fan_out = fan_in_and_out(_sizes(_whole(shape, partition_info)))
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, fan)
        dtype = self._dtype(dtype)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return tf.random_normal(shape, 0.0, math.sqrt(variance), dtype, seed=self.seed)
        return tf.truncated_normal(shape, 0.0, math.sqrt(variance) / TRUNCATED_STDDEV, dtype, seed=self.seed)


class GlorotUniform(VarianceScaling):
    """`glorot_uniform_initializer` (Xavier), the default of `get_variable`."""

    fields = ("seed", "dtype")

    def __init__(self, seed: int | None = None, dtype: DTypeLike = "float32") -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """`glorot_normal_initializer`."""

    fields = ("seed", "dtype")

    def __init__(self, seed: int | None = None, dtype: DTypeLike = "float32") -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


class Orthogonal(Initializer):
    """`orthogonal_initializer`: `gain` times the Q of a random matrix, with signs that make R's diagonal positive."""

    fields = ("gain", "seed", "dtype")

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: DTypeLike = "float32") -> None:
        self.gain, self.seed, self.dtype = gain, seed, _floating(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
        sizes = _sizes(shape)
        if len(sizes) < 2:
            _refuse_vector(shape)
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        drawn = tf.random_normal([max(rows, columns), min(rows, columns)], dtype=self._dtype(dtype), seed=self.seed)
        q, r = tf.qr(drawn, full_matrices=False)
        q = q * tf.sign(tf.diag_part(r))
        if rows < columns:
            q = tf.matrix_transpose(q)
        return self.gain * tf.reshape(q, shape)


class Identity(Initializer):
    """`identity_initializer`: `gain` times the identity matrix; a shard gets its part of the whole matrix."""

    fields = ("gain", "dtype")

    def __init__(self, gain: float = 1.0, dtype: DTypeLike = "float32") -> None:
        self.gain, self.dtype = gain, _floating(dtype)

    def __call__(self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: Any = None) -> Any:
        whole = _sizes(_whole(shape, partition_info))
        if len(whole) != 2:
            _refuse_vector(shape)
        value = tf.eye(*whole, dtype=self._dtype(dtype))
        if partition_info is not None:
            value = tf.slice(value, partition_info.var_offset, shape)
        return self.gain * value


def _scaled(scale: float, mode: str, distribution: str) -> Any:
    def initializer(seed: int | None = None) -> VarianceScaling:
        return VarianceScaling(scale, mode, distribution, seed)

    return initializer


he_normal = _scaled(2.0, "fan_in", "truncated_normal")
he_uniform = _scaled(2.0, "fan_in", "uniform")
lecun_normal = _scaled(1.0, "fan_in", "truncated_normal")
lecun_uniform = _scaled(1.0, "fan_in", "uniform")


# --- Keras' v1 initializers: the same with other defaults ------------------------------------------------------------


class KerasRandomNormal(RandomNormal):
    """`tf.keras.initializers.RandomNormal`."""

    def __init__(
        self, mean: TensorLike = 0.0, stddev: TensorLike = 0.05, seed: int | None = None, dtype: DTypeLike = "float32"
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


class KerasRandomUniform(RandomUniform):
    """`tf.keras.initializers.RandomUniform`."""

    def __init__(
        self, minval: TensorLike = -0.05, maxval: TensorLike = 0.05, seed: int | None = None, dtype: DTypeLike = "float32"
    ) -> None:
        super().__init__(minval, maxval, seed, dtype)


class KerasTruncatedNormal(TruncatedNormal):
    """`tf.keras.initializers.TruncatedNormal`."""

    def __init__(
        self, mean: TensorLike = 0.0, stddev: TensorLike = 0.05, seed: int | None = None, dtype: DTypeLike = "float32"
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


class _KerasVarianceScaling(VarianceScaling):
    scaling: tuple[float, str, str] = (1.0, "fan_in", "truncated_normal")
    fields = ("seed",)

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(*self.scaling, seed)


class HeNormal(_KerasVarianceScaling):
    """`tf.keras.initializers.he_normal`."""

    scaling = (2.0, "fan_in", "truncated_normal")


class HeUniform(_KerasVarianceScaling):
    """`tf.keras.initializers.he_uniform`."""

    scaling = (2.0, "fan_in", "uniform")


class LecunNormal(_KerasVarianceScaling):
    """`tf.keras.initializers.lecun_normal`."""


class LecunUniform(_KerasVarianceScaling):
    """`tf.keras.initializers.lecun_uniform`."""

    scaling = (1.0, "fan_in", "uniform")


# --- shared ---------------------------------------------------------------------------------------------------------


def _floating(dtype: DTypeLike) -> Any:
    dtype = as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"Argument `dtype` is expected to be floating point. Received: {dtype}.")
    return dtype


def _sizes(shape: ShapeLike) -> Sequence[int]:
    """Fully defined shape as ints."""
    return tf.TensorShape(shape).as_list()  # type: ignore[no-any-return]


def _whole(shape: ShapeLike, partition_info: Any) -> Any:
    return shape if partition_info is None else partition_info.full_shape


def _refuse_vector(shape: ShapeLike) -> NoReturn:
    wanted = "The tensor to initialize, specified by argument `shape` must be at least two-dimensional"
    raise ValueError(f"{wanted}. Received shape={shape}")


def keras_get(identifier: object) -> Any:
    """`tf.keras.initializers.get`: None, a name, a config or a callable.  Raises ValueError."""
    if identifier is None or (callable(identifier) and not isinstance(identifier, type)):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    name, config = identifier, {}
    if isinstance(identifier, dict):
        name, config = identifier["class_name"], identifier.get("config", {})
    if not isinstance(name, str):
        raise ValueError(f"Could not interpret initializer identifier: {identifier}")
    if name not in KERAS:
        raise ValueError(
            f"Unknown initializer: '{name}'. Please ensure you are using a `keras.utils.custom_object_scope` and that this "
            "object is included in the scope. See https://www.tensorflow.org/guide/keras/save_and_serialize"
            "#registering_the_custom_object for details."
        )
    return KERAS[name](**config)


KERAS: dict[str, Any] = {
    "Initializer": Initializer,
    **dict.fromkeys(("Constant", "constant"), Constant),
    **dict.fromkeys(("Identity", "identity"), Identity),
    **dict.fromkeys(("Ones", "ones", "one"), Ones),
    **dict.fromkeys(("Zeros", "zeros", "zero"), Zeros),
    **dict.fromkeys(("Orthogonal", "orthogonal"), Orthogonal),
    **dict.fromkeys(("RandomNormal", "random_normal", "normal"), KerasRandomNormal),
    **dict.fromkeys(("RandomUniform", "random_uniform", "uniform"), KerasRandomUniform),
    **dict.fromkeys(("TruncatedNormal", "truncated_normal"), KerasTruncatedNormal),
    "VarianceScaling": VarianceScaling,
    "glorot_normal": GlorotNormal,
    "glorot_uniform": GlorotUniform,
    "he_normal": HeNormal,
    "he_uniform": HeUniform,
    "lecun_normal": LecunNormal,
    "lecun_uniform": LecunUniform,
}
"""Names in `tf.keras.initializers`."""
