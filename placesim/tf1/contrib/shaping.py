"""`tf.contrib.layers`' layers without weights: pooling, dropout, reshaping, and repeated layers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.contrib.layer_scopes import layer_scope
from placesim.tf1.contrib.outputs import collect_named_outputs
from placesim.tf1.graphs.tensor_likes import PerDimension, TensorLike
from placesim.tf1.layers import core, pooling


def _pool(kind: Any, name: str, formats: tuple[str, str]) -> Callable[..., Any]:
    def pool(
        inputs: TensorLike,
        kernel_size: PerDimension,
        stride: PerDimension = 2,
        padding: str = "VALID",
        data_format: str = formats[1],
        outputs_collections: object = None,
        scope: str | None = None,
    ) -> Any:
        if data_format not in formats:
            raise ValueError(f"data_format has to be either {formats[0]} or {formats[1]}.")
        with tf.name_scope(scope, name, [inputs]) as opened:
            inputs = tf.convert_to_tensor(inputs)
            layout = "channels_first" if data_format == formats[0] else "channels_last"
            outputs = kind(kernel_size, stride, padding, layout, _scope=opened)(inputs)
            return collect_named_outputs(outputs_collections, opened, outputs)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"A `tf.layers.{kind.__name__}`.  Raises ValueError for another data format."
    return add_arg_scope(pool)


_IMAGES, _VOLUMES = ("NCHW", "NHWC"), ("NCDHW", "NDHWC")
max_pool2d = _pool(pooling.MaxPooling2D, "MaxPool2D", _IMAGES)
avg_pool2d = _pool(pooling.AveragePooling2D, "AvgPool2D", _IMAGES)
max_pool3d = _pool(pooling.MaxPooling3D, "MaxPool3D", _VOLUMES)
avg_pool3d = _pool(pooling.AveragePooling3D, "AvgPool3D", _VOLUMES)


@add_arg_scope
def dropout(
    inputs: TensorLike,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: bool = True,
    outputs_collections: object = None,
    scope: object = None,
    seed: int | None = None,
) -> Any:
    """Dropout with a keep probability, in training only."""
    with layer_scope(scope, "Dropout", inputs, None) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = core.Dropout(1 - keep_prob, noise_shape, seed, opened.name, _scope=opened)
        outputs = layer(inputs, training=is_training)
        return collect_named_outputs(outputs_collections, opened.name, outputs)


@add_arg_scope
def flatten(inputs: TensorLike, outputs_collections: object = None, scope: str | None = None) -> Any:
    """Merge all dimensions except the first."""
    with tf.name_scope(scope, "Flatten", [inputs]) as opened:
        inputs = tf.convert_to_tensor(inputs)
        return collect_named_outputs(outputs_collections, opened, core.flatten(inputs))


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: object = None,
    scope: str | None = None,
) -> Any:
    """One-hot rows of class numbers."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as opened:
        labels = tf.convert_to_tensor(labels)
        if labels.dtype == tf.int32:
            labels = tf.to_int64(labels)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, opened, outputs)


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: str | None = None) -> Any:
    """Maximum of each group of features along an axis.  Raises ValueError if `num_units` does not divide the features."""
    with tf.name_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.get_shape().as_list()
        channels = shape[axis]
        if channels % num_units:
            raise ValueError(f"number of features({channels}) is not a multiple of num_units({num_units})")
        shape[axis] = num_units
        shape += [channels // num_units]
        for at, size in enumerate(shape):
            if size is None:
                shape[at] = tf.shape(inputs)[at]
        return tf.reduce_max(tf.reshape(inputs, shape), -1, keepdims=False)


@add_arg_scope
def softmax(logits: Any, scope: str | None = None) -> Any:
    """Softmax over the last dimension of a tensor of any rank."""
    with tf.variable_scope(scope, "softmax", [logits]):
        count = tf.convert_to_tensor(logits).get_shape().as_list()[-1]
        predictions = tf.nn.softmax(tf.reshape(logits, [-1, count]))
        predictions = tf.reshape(predictions, tf.shape(logits))
        predictions.set_shape(logits.get_shape())
        return predictions


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: str | None = None) -> Any:
    """Divide by the L2 norm along a dimension.  Raises ValueError for a dimension out of range."""
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        rank = inputs.get_shape().ndims
        if rank is None:
            raise ValueError("The input rank must be known.")
        if dim < 0 or dim >= rank:
            raise ValueError("dim must be positive but smaller than the input rank.")
        lengths = tf.sqrt(epsilon + tf.reduce_sum(tf.square(inputs), dim, keepdims=True))
        repeated = [tf.ones([dim], tf.int32)] if dim > 0 else []
        repeated.append(tf.strided_slice(tf.shape(inputs), [dim], [dim + 1]))
        if dim < rank - 1:
            repeated.append(tf.ones([rank - 1 - dim], tf.int32))
        return tf.div(inputs, tf.tile(lengths, tf.concat(repeated, 0)))


# --- repeated layers ---


def _name_of(layer: object, otherwise: str) -> str:
    layer = layer.func if isinstance(layer, functools.partial) else layer
    return getattr(layer, "__name__", otherwise)


def repeat(inputs: TensorLike, repetitions: int, layer: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """A layer repeated on its own output: `SCOPE/SCOPE_1`, `SCOPE/SCOPE_2`, ..."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        name = scope if scope is not None else _name_of(layer, "repeat")
        for turn in range(repetitions):
            inputs = layer(inputs, *args, **kwargs | {"scope": f"{name}_{turn + 1}"})
        return inputs


def stack(inputs: TensorLike, layer: Callable[..., Any], stack_args: object, **kwargs: object) -> Any:
    """A layer applied repeatedly with different arguments.  Raises ValueError."""
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with tf.variable_scope(scope, "Stack", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        name = scope if scope is not None else _name_of(layer, "stack")
        for turn, given in enumerate(stack_args):
            given = given if isinstance(given, (list, tuple)) else [given]
            inputs = layer(inputs, *given, **kwargs | {"scope": f"{name}_{turn + 1}"})
        return inputs
