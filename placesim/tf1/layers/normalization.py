"""Batch normalization."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import PerDimension, ShapeLike, TensorLike, TypedTensor
from placesim.tf1.layers.layer import InputSpec, Layer, smart_cond, smart_constant
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


class BatchNormalization(Layer):
    """Normalizes each channel to mean 0 and deviation 1: in training over the batch, else with moving averages."""

    def __init__(
        self,
        axis: PerDimension = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: object = None,
        gamma_initializer: object = None,
        moving_mean_initializer: object = None,
        moving_variance_initializer: object = None,
        beta_regularizer: object = None,
        gamma_regularizer: object = None,
        beta_constraint: object = None,
        gamma_constraint: object = None,
        renorm: bool = False,
        renorm_clipping: object = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: object = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, **kwargs)
        if renorm or virtual_batch_size is not None or adjustment is not None:
            instead = "Without them it is there, and `convert` takes the GraphDef"
            raise NotImplementedError(
                f"tf.layers.batch_normalization with renorm, virtual_batch_size or adjustment. {instead}."
            )
        if not isinstance(axis, int | list | tuple):
            raise TypeError(f"Expected an int or a list/tuple of ints for the argument 'axis', but received: {axis!r}")
        self.axis: Any = axis
        self.momentum, self.epsilon = momentum, epsilon
        self.center, self.scale, self.fused = center, scale, fused
        zeros, ones = tf.zeros_initializer, tf.ones_initializer
        self._beta = (beta_initializer or zeros(), beta_regularizer, beta_constraint)
        self._gamma = (gamma_initializer or ones(), gamma_regularizer, gamma_constraint)
        self._moving = (moving_mean_initializer or zeros(), moving_variance_initializer or ones())
        self.beta: Any = None
        self.gamma: Any = None

    def build(self, input_shape: ShapeLike) -> None:
        shape = TensorShape(input_shape)
        if shape.ndims is None:
            raise ValueError(f"Input has undefined rank. Received: input_shape={shape}")
        axes = self.axis if isinstance(self.axis, (list, tuple)) else [self.axis]
        for axis in axes:
            if not -shape.ndims <= axis < shape.ndims:
                raise ValueError(
                    "Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank (with inputs.rank="
                    f"{shape.ndims}). Received: axis={tuple(axes)}"
                )
        self.axis = [axis % shape.ndims for axis in axes]
        known = {axis: shape.as_list()[axis] for axis in self.axis}
        if None in known.values():
            received = f"Received input with shape {tuple(shape)} and axis={tuple(self.axis)}"
            raise ValueError(f"Input has undefined `axis` dimension. {received}")
        self.input_spec = InputSpec(ndim=shape.ndims, axes=known)
        dtype = self._given_dtype or tf.float32
        is_half = dtypes.is_half(dtype)
        param_dtype = tf.float32 if is_half else dtype
        # the fused kernel only takes images and volumes of half or single precision, even if `fused` is true
        has_kernel = shape.ndims in (4, 5) and self.axis in ([1], [shape.ndims - 1]) and (is_half or dtype == tf.float32)
        self.fused = self.fused is not False and has_kernel
        sizes = [known[axis] for axis in self.axis]
        if len(self.axis) > 1:
            sizes = [known.get(i, 1) for i in range(shape.ndims)]

        def add(name: str, given: tuple[Any, Any, Any], trainable: bool) -> Any:
            initializer, regularizer, constraint = given
            return self.add_weight(name, sizes, param_dtype, initializer, regularizer, trainable, constraint)

        if self.scale:
            self.gamma = add("gamma", self._gamma, True)
        if self.center:
            self.beta = add("beta", self._beta, True)
        self.moving_mean = add("moving_mean", (self._moving[0], None, None), False)
        self.moving_variance = add("moving_variance", (self._moving[1], None, None), False)

    def call(self, inputs: TensorLike, training: Any = False, mask: Any = None, *args: object, **kwargs: object) -> Any:
        # the fused kernel ignores masks
        return self._fused(inputs, training) if self.fused else self._plain(inputs, training, mask)

    def _fused(self, inputs: Any, training: TensorLike) -> Any:
        sides = "HW" if inputs.shape.ndims == 4 else "DHW"
        layout = f"NC{sides}" if self.axis == [1] else f"N{sides}C"
        of = self.moving_mean
        beta = self.beta if self.center else tf.constant(0.0, dtype=of.dtype.base_dtype, shape=of.get_shape())
        gamma = self.gamma if self.scale else tf.constant(1.0, dtype=of.dtype.base_dtype, shape=of.get_shape())

        def normalized(is_training: bool) -> tuple[Any, Any, Any]:
            result = tf.nn.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                is_training=is_training,
                data_format=layout,
            )
            return tuple(result)

        output, mean, variance = smart_cond(training, lambda: normalized(True), lambda: normalized(False))
        known = smart_constant(training)
        if known is None:
            momentum = smart_cond(training, lambda: self.momentum, lambda: 1.0)
        elif known:
            momentum = tf.convert_to_tensor(self.momentum)
        if known is not False:
            self.add_update(_moved(self.moving_mean, mean, momentum))
            self.add_update(_moved(self.moving_variance, variance, momentum))
        return output

    def _plain(self, inputs: Any, training: TensorLike, mask: Any) -> Any:
        dtype = inputs.dtype.base_dtype
        if dtypes.is_half(dtype):
            # the variance of half floats can overflow
            return tf.cast(self._normalized(tf.cast(inputs, tf.float32), training, mask), dtype)
        return self._normalized(inputs, training, mask)

    def _normalized(self, inputs: Any, training: TensorLike, mask: Any) -> Any:
        rank = inputs.shape.ndims
        reduced = [axis for axis in range(rank) if axis not in self.axis]
        shape = [inputs.shape.as_list()[axis] if axis in self.axis else 1 for axis in range(rank)]

        def broadcast(value: TypedTensor | None) -> Any:
            wide = value is not None and value.get_shape().ndims != rank and reduced != list(range(rank - 1))
            return tf.reshape(value, shape) if wide else value

        scale, offset = broadcast(self.gamma), broadcast(self.beta)
        mean, variance = self.moving_mean, self.moving_variance
        if smart_constant(training) is not False:
            keep = len(self.axis) > 1
            now = _moments(inputs, reduced, keep, mask)
            mean = _chosen(training, now[0], self.moving_mean)
            variance = _chosen(training, now[1], self.moving_variance)
            for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                self.add_update(self._average_update(training, average, value))
        mean, variance = tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)
        offset = tf.cast(offset, inputs.dtype) if offset is not None else None
        scale = tf.cast(scale, inputs.dtype) if scale is not None else None
        outputs = tf.nn.batch_normalization(inputs, broadcast(mean), broadcast(variance), offset, scale, self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def _average_update(self, training: TensorLike, average: Tensor, value: Tensor) -> Any:
        return smart_cond(training, lambda: _moved(average, value, self.momentum), lambda: tf.convert_to_tensor(average))


def _moments(inputs: Tensor, axes: list[int], keep: bool, mask: TensorLike | None) -> tuple[Any, Any]:
    """Mean and variance over these axes, of the elements that are in the mask."""
    if mask is None:
        return tuple(tf.nn.moments(inputs, axes, keep_dims=keep))
    weights = tf.expand_dims(tf.cast(mask, tf.float32, name="mask_weights"), axis=-1, name="mask_weights_broadcasted")
    return tuple(tf.nn.weighted_moments(inputs, axes, weights, keep_dims=keep))


def _chosen(training: TensorLike, now: Tensor, average: Tensor) -> Any:
    return smart_cond(training, lambda: now, lambda: tf.convert_to_tensor(average))


def _moved(average: Tensor, value: Tensor, momentum: Tensor | float) -> Any:
    """Update a moving average with a value."""
    with tf.name_scope("AssignMovingAvg", values=[average, value, momentum]) as scope, tf.colocate_with(average):
        share = tf.convert_to_tensor(1.0 - momentum, name="decay")
        if share.dtype.base_dtype != average.dtype.base_dtype:
            share = tf.cast(share, average.dtype.base_dtype)
        change = (average - tf.cast(value, average.dtype.base_dtype)) * share
        return tf.assign_sub(average, change, name=scope)


def batch_normalization(
    inputs: TensorLike,
    axis: TensorLike = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: object = None,
    gamma_initializer: object = None,
    moving_mean_initializer: object = None,
    moving_variance_initializer: object = None,
    beta_regularizer: object = None,
    gamma_regularizer: object = None,
    beta_constraint: object = None,
    gamma_constraint: object = None,
    training: object = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
    renorm: bool = False,
    renorm_clipping: object = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: object = None,
) -> Any:
    """Make a `BatchNormalization` layer and apply it.  Its updates are in the collection `update_ops`."""
    options = {key: value for key, value in locals().items() if key not in ("inputs", "training", "reuse")}
    return BatchNormalization(**options, _scope=name, _reuse=reuse)(inputs, training=training)
