"""Dense layers, dropout and flattening."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import InitializerLike, ShapeLike, TensorLike
from placesim.tf1.layers.layer import InputSpec, Layer, data_format_of, smart_cond
from placesim.tf1.types.shapes import TensorShape


class Dense(Layer):
    """`activation(inputs . kernel + bias)` over the last dimension."""

    def __init__(
        self,
        units: int,
        activation: Callable[[Any], Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike | None = None,
        bias_initializer: InitializerLike | None = None,
        kernel_regularizer: object = None,
        bias_regularizer: object = None,
        activity_regularizer: Callable[[Any], Any] | None = None,
        kernel_constraint: object = None,
        bias_constraint: object = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        if self.units < 0:
            wanted = "Received an invalid value for `units`, expected a positive integer."
            raise ValueError(f"{wanted} Received: units={units}")
        self.activation, self.use_bias = activation, use_bias
        bias_initializer = tf.zeros_initializer() if bias_initializer is None else bias_initializer
        self._kernel_options: dict[str, Any] = {
            "initializer": kernel_initializer,
            "regularizer": kernel_regularizer,
            "constraint": kernel_constraint,
        }
        self._bias_options: dict[str, Any] = {
            "initializer": bias_initializer,
            "regularizer": bias_regularizer,
            "constraint": bias_constraint,
        }
        self.kernel: Any = None
        self.bias: Any = None
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: ShapeLike) -> None:
        dtype = self._given_dtype or tf.float32
        if not (dtype.is_floating or dtype.is_complex):
            wanted = "A Dense layer can only be built with a floating-point dtype."
            raise TypeError(f"{wanted} Received: dtype={dtype}")
        shape = TensorShape(input_shape)
        last = shape.dims[-1].value if shape.dims else None
        if last is None:
            wanted = "The last dimension of the inputs to a Dense layer should be defined. Found None."
            raise ValueError(f"{wanted} Full input shape received: {shape}")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: last})
        self.kernel = self.add_weight("kernel", [last, self.units], dtype, **self._kernel_options)
        if self.use_bias:
            self.bias = self.add_weight("bias", [self.units], dtype, **self._bias_options)

    def call(self, inputs: Any, *args: object, **kwargs: object) -> Any:
        rank = inputs.shape.ndims
        if rank in (2, None):
            outputs = tf.matmul(inputs, self.kernel)
        else:
            outputs = tf.tensordot(inputs, self.kernel, [[rank - 1], [0]])
            outputs.set_shape([*inputs.shape.as_list()[:-1], self.units])
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)


class Dropout(Layer):
    """Sets a fraction of the inputs to zero in training."""

    def __init__(
        self,
        rate: TensorLike = 0.5,
        noise_shape: ShapeLike | None = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
            raise ValueError(f"Invalid value {rate} received for `rate`, expected a value between 0 and 1.")
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed
        self._calls = 0

    def call(self, inputs: TensorLike, training: Any = False, *args: object, **kwargs: object) -> Any:
        return smart_cond(
            training,
            lambda: tf.nn.dropout(inputs, noise_shape=self.noise_shape, seed=self._next_seed(), rate=self.rate),
            lambda: tf.identity(inputs),
        )

    def _next_seed(self) -> int | None:
        """The seed, plus the number of calls before this one."""
        self._calls += 1
        return None if self.seed is None else self.seed + self._calls - 1


class Flatten(Layer):
    """Joins all dimensions but the first."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format_of(data_format or "channels_last")
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any, *args: object, **kwargs: object) -> Any:
        rank = inputs.shape.ndims
        if self.data_format == "channels_first" and rank is not None and rank > 1:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        if rank == 1:
            return tf.expand_dims(inputs, axis=1)
        batch, *rest = inputs.shape.as_list()
        if None not in rest:
            outputs = tf.reshape(inputs, tf.constant([-1, math.prod(rest)]))
        elif batch is not None:
            outputs = tf.reshape(inputs, tf.constant([batch, -1]))
        else:
            outputs = tf.reshape(inputs, (tf.shape(inputs)[0], -1))
        outputs.set_shape([batch, None if None in rest else math.prod(rest)])
        return outputs


def dense(
    inputs: TensorLike,
    units: int,
    activation: Callable[[Any], Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: InitializerLike | None = None,
    bias_initializer: InitializerLike | None = None,
    kernel_regularizer: object = None,
    bias_regularizer: object = None,
    activity_regularizer: Callable[[Any], Any] | None = None,
    kernel_constraint: object = None,
    bias_constraint: object = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
) -> Any:
    """Make a `Dense` layer and apply it."""
    options = {key: value for key, value in locals().items() if key not in ("inputs", "reuse")}
    return Dense(**options, _scope=name, _reuse=reuse)(inputs)


def dropout(
    inputs: TensorLike,
    rate: TensorLike = 0.5,
    noise_shape: ShapeLike | None = None,
    seed: int | None = None,
    training: object = False,
    name: str | None = None,
) -> Any:
    """Make a `Dropout` layer and apply it."""
    return Dropout(rate, noise_shape, seed, name)(inputs, training=training)


def flatten(inputs: TensorLike, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Make a `Flatten` layer and apply it."""
    return Flatten(data_format=data_format, name=name)(inputs)
