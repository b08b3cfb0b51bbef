"""`tf.contrib.layers`' normalizing layers, and biases."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope
from placesim.tf1.contrib.outputs import collect_named_outputs, get_variable_collections
from placesim.tf1.contrib.variables import model_variable

_ZEROS = tf.zeros_initializer()


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = _ZEROS,
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
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
        biases = _parameter("biases", channels, inputs.dtype, initializer, variables_collections, trainable, regularizer)
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect_named_outputs(outputs_collections, opened.name, outputs)


def _parameter(
    name: str, size: Any, dtype: Any, initializer: Any, collections: Any, trainable: bool, regularizer: Any = None
) -> Any:
    return model_variable(
        name,
        shape=size if isinstance(size, (list, tuple, tf.TensorShape)) else [size],
        dtype=dtype.base_dtype,
        initializer=initializer,
        regularizer=regularizer,
        collections=get_variable_collections(collections, name),
        trainable=trainable,
    )


def _scale_and_offset(
    shape: Any, dtype: Any, center: bool, scale: bool, collections: Any, trainable: bool, initializers: Any = None
) -> tuple[Any, Any]:
    """gamma and beta, None where they are not wanted."""
    given = initializers or {}
    beta = gamma = None
    if center:
        start = given.get("beta", tf.zeros_initializer())
        beta = _parameter("beta", shape, dtype, start, collections, trainable)
    if scale:
        start = given.get("gamma", tf.ones_initializer())
        gamma = _parameter("gamma", shape, dtype, start, collections, trainable)
    return gamma, beta


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Brings each example to mean zero and deviation one.  Raises ValueError."""
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
            raise ValueError(
                f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {shape}"
            )
        gamma, beta = _scale_and_offset(sizes, inputs.dtype, center, scale, variables_collections, trainable)
        mean, variance = tf.nn.moments(inputs, list(range(first, rank)), keep_dims=True)
        epsilon = 1e-3 if inputs.dtype.base_dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=epsilon)
        outputs.set_shape(shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect_named_outputs(outputs_collections, opened.name, outputs)
