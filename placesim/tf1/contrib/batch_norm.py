"""`tf.contrib.layers.batch_norm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.contrib.layer_scopes import finished, layer_scope, parameter
from placesim.tf1.contrib.outputs import collect_variable
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.layers.layer import smart_cond, smart_constant
from placesim.tf1.layers.normalization import BatchNormalization
from placesim.tf1.optimizers.averages import assign_moving_average
from placesim.tf1.types.dtypes import is_half

_UPDATE_OPS = GraphKeys.UPDATE_OPS
_LAYOUTS = ("NCHW", "NHWC")


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: object = _UPDATE_OPS,
    is_training: bool = True,
    reuse: object = None,
    variables_collections: Any = None,
    outputs_collections: object = None,
    trainable: bool = True,
    batch_weights: object = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: object = None,
    renorm: bool = False,
    renorm_clipping: object = None,
    renorm_decay: float = 0.99,
    adjustment: object = None,
) -> Any:
    """Normalise each channel to mean 0 and variance 1.  Raises ValueError.

    If `updates_collections` is None, the output waits for the update of the moving averages.
    """
    if renorm or adjustment is not None:
        raise not_there("contrib.layers.batch_norm with renorm or adjustment", "without them it is there")
    if data_format not in _LAYOUTS:
        raise ValueError("data_format has to be either NCHW or NHWC.")
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.get_shape().ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    is_fused = fused is not False and batch_weights is None and rank in (2, 4)
    is_usual = updates_collections == _UPDATE_OPS and not zero_debias_moving_mean and batch_weights is None
    is_layer = is_usual and not (is_fused and rank == 2)
    with layer_scope(scope, "BatchNorm", inputs, reuse) if is_layer else _scope(scope, inputs, reuse) as opened:
        if is_layer:
            outputs = _by_layer(
                BatchNormalization(
                    axis=1 if data_format == "NCHW" else -1,
                    momentum=decay,
                    epsilon=epsilon,
                    center=center,
                    scale=scale,
                    trainable=trainable,
                    fused=is_fused,
                    name=opened.name,
                    _scope=opened,
                    _reuse=reuse,
                    **_settings(param_initializers, param_regularizers),
                ),
                inputs,
                is_training,
                variables_collections,
            )
        else:
            norm = _Norm(
                inputs,
                "NHWC" if rank == 2 else data_format,
                is_training,
                decay,
                epsilon,
                updates_collections,
                zero_debias_moving_mean,
            )
            made = _Parameters(norm.channels, inputs.dtype, variables_collections, param_initializers, param_regularizers)
            if is_fused:
                outputs = norm.fused(made, center, scale, trainable)
            else:
                outputs = norm.plain(made, center, scale, trainable, batch_weights)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


def _scope(scope: object, inputs: TensorLike, reuse: object) -> Any:
    return tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse)


def _settings(initializers: Mapping[str, Any] | None, regularizers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments of `tf.layers.BatchNormalization` for the parameters' initializers and regularizers."""
    found = {f"{name}_initializer": value for name, value in (initializers or {}).items()}
    return found | {f"{name}_regularizer": value for name, value in (regularizers or {}).items()}


def _by_layer(layer: BatchNormalization, inputs: TensorLike, is_training: bool, variables_collections: object) -> Any:
    outputs = layer(inputs, training=is_training)
    for name in ("moving_mean", "moving_variance", "beta", "gamma"):
        variable = getattr(layer, name)
        if variable is not None and not isinstance(variable, tf.Tensor):
            collect_variable(variable, variables_collections, name)
    return outputs


class _Parameters:
    """Makes the variables of a batch norm that is not a layer of `tf.layers`."""

    def __init__(self, size: int, dtype: Any, collections: Any, initializers: Any, regularizers: Any) -> None:
        # Half precision is too imprecise for averages, and the fused kernels take no such parameters.
        self._dtype = tf.float32 if is_half(dtype.base_dtype) else dtype.base_dtype
        self._size, self._collections = size, collections
        self._initializers, self._regularizers = initializers or {}, regularizers or {}

    def variable(self, name: str, start: float, trainable: bool) -> Any:
        """A variable with a constant initial value by default."""
        initializer = self._initializers.get(name, tf.ones_initializer() if start else tf.zeros_initializer())
        return parameter(name, self._size, self._dtype, initializer, self._collections, trainable, self._regularizers.get(name))

    def constant(self, value: float) -> Any:
        """Constant that replaces an unwanted parameter in kernels that require it."""
        return tf.constant(value, dtype=self._dtype, shape=[self._size])

    def averages(self) -> _Averages:
        """The moving averages, unpartitioned even in a scope with a partitioner."""
        with tf.variable_scope(tf.get_variable_scope()) as inside:
            inside.set_partitioner(None)
            return _Averages(self.variable("moving_mean", 0.0, False), self.variable("moving_variance", 1.0, False))


class _Averages(NamedTuple):
    mean: Any
    variance: Any


class _Norm(NamedTuple):
    """A batch norm whose averages are updated differently from `tf.layers`."""

    inputs: Any
    data_format: str
    is_training: Any
    decay: Any
    epsilon: float
    updates_collections: Any
    zero_debias: bool

    @property
    def channels(self) -> int:
        """Number of channels. Raises ValueError if it is unknown."""
        found = self.inputs.get_shape()[1 if self.data_format == "NCHW" else -1]
        if found.value is None:
            raise ValueError(f"Inputs {self.inputs.name} has undefined channels dimension ({found},).")
        return int(found)

    def _moved(self, averages: _Averages, mean: TensorLike, variance: TensorLike) -> tuple[Any, Any]:
        return (
            assign_moving_average(averages.mean, mean, self.decay, zero_debias=self.zero_debias),
            assign_moving_average(averages.variance, variance, self.decay, zero_debias=False),
        )

    def fused(self, made: _Parameters, center: bool, scale: bool, trainable: bool) -> Any:
        """Output of the fused kernel, for which the rows of a matrix are images of one pixel."""
        shape = self.inputs.get_shape()
        images = tf.reshape(self.inputs, [-1, 1, 1, self.channels]) if shape.ndims == 2 else self.inputs
        beta = made.variable("beta", 0.0, trainable) if center else made.constant(0.0)
        gamma = made.variable("gamma", 1.0, trainable) if scale else made.constant(1.0)
        averages = made.averages()
        attrs = {"epsilon": self.epsilon, "data_format": self.data_format}
        outputs, mean, variance = smart_cond(
            self.is_training,
            lambda: tf.nn.fused_batch_norm(images, gamma, beta, **attrs),
            lambda: tf.nn.fused_batch_norm(images, gamma, beta, *averages, **attrs, is_training=False),
        )
        if smart_constant(self.is_training) is not False:
            if self.updates_collections is None:
                outputs = smart_cond(
                    self.is_training, lambda: self._after_moving(averages, mean, variance, outputs)[0], lambda: outputs
                )
            else:
                moved = smart_cond(self.is_training, lambda: self._moved(averages, mean, variance), lambda: tuple(averages))
                self._collect(moved)
        outputs.set_shape(images.get_shape())
        if shape.ndims == 2:
            outputs = tf.reshape(outputs, tf.shape(self.inputs))
        return outputs

    def plain(self, made: _Parameters, center: bool, scale: bool, trainable: bool, batch_weights: object) -> Any:
        """Output of separate ops; `batch_weights` weight the examples in the mean and variance."""
        rank = self.inputs.get_shape().ndims
        if batch_weights is not None:
            weights = tf.cast(tf.convert_to_tensor(batch_weights), self.inputs.dtype)
            batch_weights = tf.reshape(weights, [-1] + [1] * (rank - 1))
        beta = made.variable("beta", 0.0, trainable) if center else None
        gamma = made.variable("gamma", 1.0, trainable) if scale else None
        averages = made.averages()
        mean, variance = averages
        known = smart_constant(self.is_training)
        if known is not False:
            batch = self._moments(batch_weights)
            if self.updates_collections is None:
                mean, variance = smart_cond(
                    self.is_training, lambda: self._after_moving(averages, *batch, *batch), lambda: tuple(averages)
                )
            else:
                moved = smart_cond(self.is_training, lambda: self._moved(averages, *batch), lambda: tuple(averages))
                self._collect(moved)
                mean, variance = smart_cond(self.is_training, lambda: batch, lambda: tuple(averages))
        parameters = [mean, variance, beta, gamma]
        if self.data_format == "NCHW":
            shape = [1, self.channels, *[1] * (rank - 2)]
            parameters = [None if one is None else tf.reshape(one, shape) for one in parameters]
        outputs = tf.nn.batch_normalization(self.inputs, *parameters, self.epsilon)
        outputs.set_shape(self.inputs.get_shape())
        return outputs

    def _moments(self, batch_weights: object) -> tuple[Any, Any]:
        rank = self.inputs.get_shape().ndims
        is_first = self.data_format == "NCHW"
        axes = [axis for axis in range(rank) if axis != (1 if is_first else rank - 1)]
        if batch_weights is None:
            mean, variance = tf.nn.moments(self.inputs, axes, keep_dims=is_first)
        else:
            mean, variance = tf.nn.weighted_moments(self.inputs, axes, batch_weights, keep_dims=is_first)
        if is_first:
            return tf.reshape(mean, [-1]), tf.reshape(variance, [-1])
        return mean, variance

    def _after_moving(self, averages: _Averages, mean: TensorLike, variance: TensorLike, *values: object) -> tuple[Any, ...]:
        """Values that wait for the update of the averages."""
        with tf.control_dependencies(list(self._moved(averages, mean, variance))):
            return tuple(tf.identity(value) for value in values)

    def _collect(self, moved: Any) -> None:
        names = self.updates_collections
        for update in moved:
            tf.add_to_collections([names] if isinstance(names, str) else names, update)
