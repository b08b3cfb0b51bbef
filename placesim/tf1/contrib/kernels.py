"""`tf.contrib.layers`' layers with weights: convolutions and fully connected layers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.contrib.initializers import xavier_initializer
from placesim.tf1.contrib.layer_scopes import finished, layer_scope, parameter
from placesim.tf1.contrib.outputs import (
    channel_dimension,
    collect_variable,
    last_dimension,
    two_element_tuple,
)
from placesim.tf1.graphs.tensor_likes import InitializerLike, PerDimension, TensorLike
from placesim.tf1.layers import convolutional, core

_NAMES = {"bias": "biases", "kernel": "weights"}
_SEPARABLE_NAMES = {"bias": "biases", "depthwise_kernel": "depthwise_weights", "pointwise_kernel": "pointwise_weights"}
_FORMATS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_KINDS: dict[int, Any] = {1: convolutional.Conv1D, 2: convolutional.Conv2D, 3: convolutional.Conv3D}
_XAVIER = xavier_initializer()
_ZEROS = tf.zeros_initializer()


def _layout(data_format: str | None, rank: int) -> str:
    if data_format not in (None, *_FORMATS[rank]):
        raise ValueError(f"Invalid data_format: {data_format!r}")
    return "channels_first" if data_format and data_format.startswith("NC") else "channels_last"


def _settings(
    opened: Any, inputs: Any, normalizer: object, initializer: object, regularizer: object, trainable: bool, reuse: object
) -> dict[str, Any]:
    """Arguments of a layer of `tf.layers`: its scope, and its biases, which it has only without a normalizer."""
    return {
        "activation": None,
        "use_bias": bool(not normalizer and initializer),
        "bias_initializer": initializer,
        "bias_regularizer": regularizer,
        "activity_regularizer": None,
        "trainable": trainable,
        "name": opened.name,
        "dtype": inputs.dtype.base_dtype,
        "_scope": opened,
        "_reuse": reuse,
    }


def _collect(layer: Any, variables_collections: Any, kernels: tuple[str, ...] = ("kernel",)) -> None:
    """Add a layer's variables to the collections of its weights and biases."""
    for kernel in kernels:
        collect_variable(getattr(layer, kernel), variables_collections, "weights")
    if layer.use_bias:
        collect_variable(layer.bias, variables_collections, "biases")


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: object,
    stride: object = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: TensorLike = 1,
    activation_fn: Callable[[Any], Any] = tf.nn.relu,
    normalizer_fn: object = None,
    normalizer_params: object = None,
    weights_initializer: object = _XAVIER,
    weights_regularizer: object = None,
    biases_initializer: object = _ZEROS,
    biases_regularizer: object = None,
    reuse: object = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: object = None,
    conv_dims: int | None = None,
) -> Any:
    """A convolution over 1, 2 or 3 dimensions, by the rank of the inputs; biases only without a normalizer.

    Raises ValueError for another rank, or a data format of another rank.
    """
    with layer_scope(scope, "Conv", inputs, reuse, _NAMES) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.get_shape().ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        if rank is None or rank - 2 not in _KINDS:
            raise ValueError("Convolution not supported for input with rank", rank)
        layer = _KINDS[rank - 2](
            filters=num_outputs,
            kernel_size=kernel_size,
            strides=stride,
            padding=padding,
            data_format=_layout(data_format, rank - 2),
            dilation_rate=rate,
            kernel_initializer=weights_initializer,
            kernel_regularizer=weights_regularizer,
            **_settings(opened, inputs, normalizer_fn, biases_initializer, biases_regularizer, trainable, reuse),
        )
        outputs = layer(inputs)
        _collect(layer, variables_collections)
        return finished(outputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


def _convolution_over(rank: int) -> Callable[..., Any]:
    @functools.wraps(convolution.__wrapped__)  # type: ignore[attr-defined]
    def over(inputs: TensorLike, num_outputs: int, kernel_size: object, *args: object, **kwargs: object) -> Any:
        return convolution(inputs, num_outputs, kernel_size, *args, **kwargs, conv_dims=rank)

    over.__name__ = over.__qualname__ = f"convolution{rank}d"
    over.__doc__ = f"A `convolution` over {rank} dimension{'s' * (rank > 1)}."
    return add_arg_scope(over)


conv1d = convolution1d = _convolution_over(1)
conv2d = convolution2d = _convolution_over(2)
conv3d = convolution3d = _convolution_over(3)


def _transposed(kind: Any, name: str, rank: int) -> Callable[..., Any]:
    def transposed(
        inputs: Any,
        num_outputs: int,
        kernel_size: object,
        stride: object = 1,
        padding: str = "SAME",
        data_format: str = _FORMATS[rank][1],
        activation_fn: Callable[[Any], Any] = tf.nn.relu,
        normalizer_fn: object = None,
        normalizer_params: object = None,
        weights_initializer: object = _XAVIER,
        weights_regularizer: object = None,
        biases_initializer: object = _ZEROS,
        biases_regularizer: object = None,
        reuse: object = None,
        variables_collections: object = None,
        outputs_collections: object = None,
        trainable: bool = True,
        scope: object = None,
    ) -> Any:
        with layer_scope(scope, name, inputs, reuse, _NAMES) as opened:
            if data_format not in _FORMATS[rank]:
                raise ValueError(f"data_format has to be either {' or '.join(_FORMATS[rank])}.")
            inputs = tf.convert_to_tensor(inputs)
            layer = kind(
                filters=num_outputs,
                kernel_size=kernel_size,
                strides=stride,
                padding=padding,
                data_format=_layout(data_format, rank),
                kernel_initializer=weights_initializer,
                kernel_regularizer=weights_regularizer,
                **_settings(opened, inputs, normalizer_fn, biases_initializer, biases_regularizer, trainable, reuse),
            )
            outputs = layer(inputs)
            _collect(layer, variables_collections)
            return finished(outputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)

    transposed.__name__ = transposed.__qualname__ = f"convolution{rank}d_transpose"
    transposed.__doc__ = f"A transposed convolution over {rank} dimensions.  Raises ValueError."
    return add_arg_scope(transposed)


conv2d_transpose = convolution2d_transpose = _transposed(convolutional.Conv2DTranspose, "Conv2d_transpose", 2)
conv3d_transpose = convolution3d_transpose = _transposed(convolutional.Conv3DTranspose, "Conv3d_transpose", 3)


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: PerDimension,
    depth_multiplier: int = 1,
    stride: PerDimension = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: TensorLike = 1,
    activation_fn: Callable[[Any], Any] = tf.nn.relu,
    normalizer_fn: object = None,
    normalizer_params: object = None,
    weights_initializer: object = _XAVIER,
    pointwise_initializer: object = None,
    weights_regularizer: object = None,
    biases_initializer: object = _ZEROS,
    biases_regularizer: object = None,
    reuse: object = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: object = None,
) -> Any:
    """A depthwise convolution, then a 1 x 1 convolution; without `num_outputs` only the first.

    Raises ValueError for a data format that images do not have.
    """
    layout = _layout(data_format, 2)
    with layer_scope(scope, "SeparableConv2d", inputs, reuse, _SEPARABLE_NAMES) as opened:
        inputs = tf.convert_to_tensor(inputs)
        if num_outputs is not None:
            layer = convolutional.SeparableConv2D(
                filters=num_outputs,
                kernel_size=kernel_size,
                strides=stride,
                padding=padding,
                data_format=layout,
                dilation_rate=two_element_tuple(rate),
                depth_multiplier=depth_multiplier,
                depthwise_initializer=weights_initializer,
                pointwise_initializer=weights_initializer if pointwise_initializer is None else pointwise_initializer,
                depthwise_regularizer=weights_regularizer,
                pointwise_regularizer=weights_regularizer,
                **_settings(opened, inputs, normalizer_fn, biases_initializer, biases_regularizer, trainable, reuse),
            )
            outputs = layer(inputs)
            _collect(layer, variables_collections, ("depthwise_kernel", "pointwise_kernel"))
        else:
            channels = channel_dimension(inputs.get_shape(), data_format, min_rank=4)
            shape = [*two_element_tuple(kernel_size), channels, depth_multiplier]
            common = (variables_collections, trainable)
            weights = parameter(
                "depthwise_weights", shape, inputs.dtype, weights_initializer, *common, weights_regularizer, "weights"
            )
            outputs = _depthwise(inputs, weights, stride, padding, rate, data_format)
            if normalizer_fn is None and biases_initializer is not None:
                size = depth_multiplier * channels
                biases = parameter("biases", size, inputs.dtype, biases_initializer, *common, biases_regularizer)
                outputs = tf.nn.bias_add(outputs, biases, data_format=data_format)
        return finished(outputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


def _depthwise(inputs: Any, weights: TensorLike, stride: PerDimension, padding: str, rate: TensorLike, data_format: str) -> Any:
    height, width = two_element_tuple(stride)
    strides = [1, 1, height, width] if data_format == "NCHW" else [1, height, width, 1]
    return tf.nn.depthwise_conv2d(inputs, weights, strides, padding, rate=two_element_tuple(rate), data_format=data_format)


separable_conv2d = separable_convolution2d


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: object,
    stride: object = 1,
    padding: str = "SAME",
    activation_fn: Callable[[Any], Any] = tf.nn.relu,
    normalizer_fn: object = None,
    normalizer_params: object = None,
    weights_initializer: object = _XAVIER,
    weights_regularizer: object = None,
    biases_initializer: object = _ZEROS,
    biases_regularizer: object = None,
    reuse: object = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: object = None,
) -> Any:
    """Convolution of each channel with the same kernel."""
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as opened:
        channels = last_dimension(inputs.get_shape(), min_rank=4)
        shape, common = [*two_element_tuple(kernel_size), 1, 1], (variables_collections, trainable)
        weights = parameter("weights", shape, inputs.dtype, weights_initializer, *common, weights_regularizer)
        strides = [1, *two_element_tuple(stride), 1]
        outputs = tf.nn.depthwise_conv2d(inputs, tf.tile(weights, [1, 1, channels, 1]), strides, padding)
        if normalizer_fn is None and biases_initializer is not None:
            biases = parameter("biases", channels, inputs.dtype, biases_initializer, *common, biases_regularizer)
            outputs = tf.nn.bias_add(outputs, biases)
        return finished(outputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


conv2d_in_plane = convolution2d_in_plane


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Callable[[Any], Any] = tf.nn.relu,
    normalizer_fn: object = None,
    normalizer_params: object = None,
    weights_initializer: InitializerLike | None = _XAVIER,
    weights_regularizer: object = None,
    biases_initializer: InitializerLike | None = _ZEROS,
    biases_regularizer: object = None,
    reuse: object = None,
    variables_collections: object = None,
    outputs_collections: object = None,
    trainable: bool = True,
    scope: object = None,
) -> Any:
    """`activation_fn(inputs . weights + biases)` over the last dimension; biases only without a normalizer."""
    if not isinstance(num_outputs, int):
        raise ValueError(f"num_outputs type should be one of [<class 'int'>], got {type(num_outputs)}.")
    with layer_scope(scope, "fully_connected", inputs, reuse, _NAMES) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = core.Dense(
            units=num_outputs,
            kernel_initializer=weights_initializer,
            kernel_regularizer=weights_regularizer,
            **_settings(opened, inputs, normalizer_fn, biases_initializer, biases_regularizer, trainable, reuse),
        )
        outputs = layer(inputs)
        _collect(layer, variables_collections)
        return finished(outputs, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)
