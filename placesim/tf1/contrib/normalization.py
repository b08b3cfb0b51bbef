"""`tf.contrib.layers`' normalizing layers, and biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.contrib.layer_scopes import finished, parameter
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike
from placesim.tf1.importing.missing_names import not_there

_ZEROS = tf.zeros_initializer()


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Callable[[Any], Any] | None = None,
    initializer: Any = _ZEROS,
    regularizer: Any = None,
    reuse: object = None,
    variables_collections: Any = None,
    outputs_collections: object = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: object = None,
) -> Any:
    """A bias for each channel.  Raises ValueError."""
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.get_shape().ndims
        if rank is None:
            raise ValueError("Dims of shape must be known but is None")
        if rank != 4 and data_format == "NCHW":
            raise ValueError("Data format NCHW only supports 4D Tensor")
        axis = 1 if data_format == "NCHW" else -1
        channels = inputs.get_shape()[axis].value
        if channels is None:
            raise ValueError("`C` dimension must be known but is None")
        biases = parameter("biases", channels, inputs.dtype, initializer, variables_collections, trainable, regularizer)
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


def _scale_and_offset(
    shape: ShapeLike,
    dtype: DTypeLike,
    center: bool,
    scale: bool,
    collections: Any,
    trainable: bool,
    initializers: Mapping[str, Any] | None = None,
    wide: list[int] | None = None,
) -> tuple[Any, Any]:
    """gamma and beta, None if not used; `wide` is the shape in which they are applied."""
    given = initializers or {}
    made: dict[str, Any] = {"beta": None, "gamma": None}
    for name, is_wanted, start in (("beta", center, tf.zeros_initializer()), ("gamma", scale, tf.ones_initializer())):
        if is_wanted:
            variable = parameter(name, shape, dtype, given.get(name, start), collections, trainable)
            made[name] = variable if wide is None else tf.reshape(variable, wide)
    return made["gamma"], made["beta"]


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Callable[[Any], Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Normalise each example to mean 0 and variance 1.  Raises ValueError."""
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.shape
        rank = shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        first = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or first >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({first}) must be < rank(inputs) ({rank})"
            )
        sizes = shape[begin_params_axis:]
        if not sizes.is_fully_defined():
            raise ValueError(f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {shape}")
        gamma, beta = _scale_and_offset(sizes, inputs.dtype, center, scale, variables_collections, trainable)
        mean, variance = tf.nn.moments(inputs, list(range(first, rank)), keep_dims=True)
        epsilon = 1e-3 if inputs.dtype.base_dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=epsilon)
        outputs.set_shape(shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: object = None,
    variables_collections: Any = None,
    outputs_collections: object = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: object = None,
) -> Any:
    """Normalise each channel of each example to mean 0 and variance 1.  Raises ValueError."""
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as opened:
        at = 1 if data_format == "NCHW" else rank - 1
        channels = inputs.shape[at].value
        if channels is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channels dimension {inputs.shape[at : at + 1]}.")
        wide = [channels if axis == at else 1 for axis in range(rank)] if data_format == "NCHW" else None
        gamma, beta = _scale_and_offset(
            [channels], inputs.dtype, center, scale, variables_collections, trainable, param_initializers, wide
        )
        axes = [axis for axis in range(1, rank) if axis != at]
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon, name="instancenorm")
        outputs.set_shape(inputs.shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: object = None,
    variables_collections: Any = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: object = None,
    mean_close_to_zero: bool = False,
) -> Any:
    """Normalise each group of channels of each example to mean 0 and variance 1.  Raises ValueError."""
    whole = tf.convert_to_tensor(inputs)
    cut = _grouping(whole, groups, channels_axis, reduction_axes)
    inputs = tf.reshape(whole, cut.grouped)
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as opened:
        gamma, beta = _scale_and_offset(
            [cut.channels], inputs.dtype, center, scale, variables_collections, trainable, param_initializers, cut.wide
        )
        if mean_close_to_zero:
            raise not_there("contrib.layers.group_norm with mean_close_to_zero", "without it, it is there")
        mean, variance = tf.nn.moments(inputs, cut.axes, keep_dims=True)
        gain = tf.rsqrt(variance + epsilon)
        offset = -mean * gain
        if gamma is not None:
            gain, offset = gain * gamma, offset * gamma
        if beta is not None:
            offset = offset + beta
        outputs = tf.reshape(inputs * gain + offset, cut.shape)
        outputs.set_shape(whole.shape)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


class _Grouping(NamedTuple):
    """Shapes of a tensor whose channel axis is split into two: the groups, and the channels of a group."""

    channels: int
    shape: list[Any]
    """Original sizes; an unknown one is a tensor."""
    grouped: list[Any]
    wide: list[int]
    """Shape that broadcasts a value per channel over the groups."""
    axes: list[int]
    """Axes of the groups' mean and variance."""


def _grouping(inputs: Tensor, groups: int, channels_axis: int, reduction_axes: Sequence[int]) -> _Grouping:
    """Split of a tensor's channels into groups.  Raises ValueError for axes or numbers of channels that do not fit."""
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    at = channels_axis % rank
    reduced = [axis % rank for axis in reduction_axes]
    sizes = inputs.shape.as_list()
    channels = sizes[at]
    if channels is None:
        raise ValueError(f"Inputs {inputs.name} has undefined channel dimension: {at}.")
    if at in reduced:
        raise ValueError("reduction_axis must be mutually exclusive with channels_axis")
    if groups > channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
    cut = [groups, channels // groups]
    running = tf.shape(inputs)
    shape = [running[axis] if size is None else size for axis, size in enumerate(sizes)]
    moved = [axis + (axis > at) for axis in reduced]
    return _Grouping(
        channels,
        shape,
        grouped=[*shape[:at], *cut, *shape[at + 1 :]],
        wide=[1] * at + cut + [1] * (rank - 1 - at),
        axes=sorted([*moved, at + 1]),
    )
