"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import Padding, PerDimension, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def sequence_of(value: PerDimension | None, count: int, channel_index: int, name: str) -> list[int]:
    """A size for each dimension.  `value` is one number, or has one for each spatial dimension, or one for each dimension."""
    if value is None:
        return [1] * (count + 2)
    values: list[Any] = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if len(values) == count + 2:
        return values
    if len(values) == 1:
        values = values * count
    elif len(values) != count:
        raise ValueError(
            f"{name} should be of length 1, {count} or {count + 2}. Received: {name}={value} of length {len(values)}"
        )
    return [1, 1, *values] if channel_index == 1 else [1, *values, 1]


def is_channels_first(data_format: str | None) -> bool:
    """Whether the channels come right after the batch; they come last by default."""
    return data_format is not None and data_format.startswith("NC")


def channels_of(data_format: str | None, last: int) -> int:
    """Dimension of the channels."""
    return 1 if is_channels_first(data_format) else last


def explicit_padding(padding: object) -> tuple[Any, list[int]]:
    """`padding` as an attr, and the explicit sizes if it is a list."""
    if not isinstance(padding, list | tuple):
        if padding == "EXPLICIT":
            raise ValueError(
                "'EXPLICIT' is not a valid value for `padding`. To use explicit padding, `padding` must be a list."
            )
        return padding, []
    for i, dim in enumerate(padding):
        if not isinstance(dim, list | tuple) or len(dim) != 2:
            found = f"size {len(dim)}" if isinstance(dim, list | tuple) else f"type {type(dim)}"
            raise ValueError(
                f"When `padding` is a list, each element of `padding` must be a list/tuple of size 2. Received: "
                f"padding={padding} with element at index {i} of {found}"
            )
    if len(padding) != 4:
        raise ValueError(f"When padding is a list, it must be of size 4. Received: padding={padding} of size {len(padding)}")
    return "EXPLICIT", [size for dim in padding for size in dim]


def convolve(
    op: str, inputs: Sequence[Any], strides: Any, padding: object, data_format: str, dilations: Any, name: Any, **attrs: object
) -> Any:
    """Make an op of a two-dimensional convolution, whose padding may be a list."""
    padding, sizes = explicit_padding(padding)
    settings = {"explicit_paddings": sizes, "data_format": data_format, "dilations": list(dilations), **attrs}
    return gen(op)(*inputs, strides, padding, **settings, name=name)


def conv2d(
    input: TensorLike,
    filter: object = None,
    strides: PerDimension | None = None,
    padding: object = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: PerDimension = (1, 1, 1, 1),
    name: str | None = None,
    filters: object = None,
) -> Any:
    """A convolution over images."""
    filter = renamed("filters", filters, "filter", filter)
    padding, sizes = explicit_padding(padding)
    if data_format is None:
        data_format = "NHWC"
    channels = channels_of(data_format, 3)
    strides = sequence_of(strides, 2, channels, "strides")
    dilations = sequence_of(list(dilations) if isinstance(dilations, tuple) else dilations, 2, channels, "dilations")
    return gen("Conv2D")(
        input,
        filter,
        strides,
        padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=sizes,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


def conv2d_backprop_filter(
    input: TensorLike,
    filter_sizes: object,
    out_backprop: object,
    strides: object,
    padding: object,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """Gradient of a convolution with respect to its filter."""
    inputs = (input, filter_sizes, out_backprop)
    return convolve(
        "Conv2DBackpropFilter", inputs, strides, padding, data_format, dilations, name, use_cudnn_on_gpu=use_cudnn_on_gpu
    )


def conv2d_backprop_input(
    input_sizes: object,
    filter: object = None,
    out_backprop: object = None,
    strides: object = None,
    padding: object = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: object = None,
) -> Any:
    """Gradient of a convolution with respect to its input."""
    filter = renamed("filters", filters, "filter", filter)
    inputs = (input_sizes, filter, out_backprop)
    return convolve(
        "Conv2DBackpropInput", inputs, strides, padding, data_format, dilations, name, use_cudnn_on_gpu=use_cudnn_on_gpu
    )


def conv2d_transpose(
    value: TensorLike | None = None,
    filter: TensorLike | None = None,
    output_shape: ShapeLike | None = None,
    strides: PerDimension | None = None,
    padding: Padding = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
    filters: object = None,
    dilations: PerDimension | None = None,
) -> Any:
    """A transposed convolution over images."""
    value = renamed("input", input, "value", value)
    filter = renamed("filters", filters, "filter", filter)
    with name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        if data_format is None:
            data_format = "NHWC"
        channels = channels_of(data_format, 3)
        strides = sequence_of(strides, 2, channels, "strides")
        dilations = sequence_of(dilations, 2, channels, "dilations")
        inputs = (output_shape, filter, value)
        return convolve("Conv2DBackpropInput", inputs, strides, padding, data_format, dilations, scope)


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: object = None,
) -> Any:
    """A convolution over volumes."""
    filter = renamed("filters", filters, "filter", filter)
    return gen("Conv3D")(input, filter, strides, padding, data_format=data_format, dilations=list(dilations), name=name)


def conv3d_transpose(
    value: TensorLike,
    filter: TensorLike | None = None,
    output_shape: ShapeLike | None = None,
    strides: PerDimension | None = None,
    padding: str = "SAME",
    data_format: str | None = "NDHWC",
    name: str | None = None,
    input: TensorLike | None = None,
    filters: object = None,
    dilations: PerDimension | None = None,
) -> Any:
    """A transposed convolution over volumes."""
    filter = renamed("filters", filters, "filter", filter)
    value = renamed("input", input, "value", value)
    with name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        channels = channels_of(data_format, 4)
        strides = sequence_of(strides, 3, channels, "strides")
        dilations = sequence_of(dilations, 3, channels, "dilations")
        return gen("Conv3DBackpropInputV2")(
            output_shape, filter, value, strides, padding, data_format=data_format, dilations=dilations, name=scope
        )


def conv1d(
    value: Any = None,
    filters: TensorLike | None = None,
    stride: PerDimension | None = None,
    padding: object = None,
    use_cudnn_on_gpu: object = None,
    data_format: object = None,
    name: str | None = None,
    input: TensorLike | None = None,
    dilations: PerDimension | None = None,
) -> Any:
    """A convolution over sequences, as a Conv2D over images of height 1."""
    value = renamed("input", input, "value", value)
    with name_scope(name, "conv1d", [value, filters]) as scope:
        if data_format is None or data_format in ("NHWC", "NWC"):
            data_format, start, channels = "NHWC", -3, 2
        elif data_format in ("NCHW", "NCW"):
            data_format, start, channels = "NCHW", -2, 1
        else:
            raise ValueError(f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}")
        strides = [1, *sequence_of(stride, 1, channels, "stride")]
        dilations = [1, *sequence_of(dilations, 1, channels, "dilations")]
        images = tf.expand_dims(value, start)
        filters = tf.expand_dims(filters, 0)
        if hasattr(value, "shape") and value.shape.rank not in (3, None):
            raise NotImplementedError("tf.nn.conv1d of more than one batch dimension: reshape to one, or convert the GraphDef")
        result = gen("Conv2D")(
            images,
            filters,
            strides,
            padding,
            use_cudnn_on_gpu=True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
            data_format=data_format,
            dilations=dilations,
            name=scope,
        )
        return tf.squeeze(result, [start])


def conv1d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: PerDimension,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: PerDimension | None = None,
    name: str | None = None,
) -> Any:
    """A transposed convolution over sequences."""
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        if data_format == "NWC":
            data_format, axis, channels = "NHWC", 1, 2
        elif data_format == "NCW":
            data_format, axis, channels = "NCHW", 2, 1
        else:
            raise ValueError(f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}")
        strides = [1, *sequence_of(strides, 1, channels, "stride")]
        dilations = [1, *sequence_of(dilations, 1, channels, "dilations")]
        images = tf.expand_dims(input, axis)
        filters = tf.expand_dims(filters, 0)
        sizes = list(output_shape) if isinstance(output_shape, list | tuple) else output_shape
        shape = tf.concat([sizes[:axis], [1], sizes[axis:]], axis=0)
        result = gen("Conv2DBackpropInput")(
            shape, filters, images, strides, padding, data_format=data_format, dilations=dilations, name=scope
        )
        return tf.squeeze(result, axis)


def dilation2d(
    input: TensorLike,
    filter: object = None,
    strides: object = None,
    rates: object = None,
    padding: object = None,
    name: str | None = None,
    filters: object = None,
    dilations: object = None,
) -> Any:
    """Greyscale dilation."""
    filter = renamed("filters", filters, "filter", filter)
    rates = renamed("dilations", dilations, "rates", rates)
    return gen("Dilation2D")(input, filter, strides, rates, padding, name=name)


def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: Any, name: str | None = None) -> Any:
    """Greyscale erosion: the negated dilation of the negated image."""
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        return -gen("Dilation2D")(-value, tf.reverse(kernel, [0, 1]), strides, rates, padding, name=scope)
