"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.arguments import renamed
from placesim.tf1.constant_values import constant_value
from placesim.tf1.conversion import constant, convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.namespaces import namespace
from placesim.tf1.scopes import name_scope
from placesim.tf1.variables.resource import ResourceVariable

tf: Any = namespace("")


def sequence_of(value: Any, count: int, channel_index: int, name: str) -> list[int]:
    """A window's or stride's sizes for all dimensions, of one number, one for each spatial dimension, or all."""
    if value is None:
        return [1] * (count + 2)
    values = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    if len(values) == count + 2:
        return values
    if len(values) == 1:
        values = values * count
    elif len(values) != count:
        raise ValueError(
            f"`{name}` should be of length 1, {count} or {count + 2}. Received: {name}={value} of length {len(values)}"
        )
    return [1, 1, *values] if channel_index == 1 else [1, *values, 1]


def channels_of(data_format: Any, last: int) -> int:
    """Which dimension the channels are."""
    return 1 if data_format is not None and data_format.startswith("NC") else last


def explicit_padding(padding: Any, data_format: str = "NHWC") -> tuple[Any, list[int]]:
    """`padding` as an attr, and the sizes where it is a list."""
    if not isinstance(padding, list | tuple):
        if padding == "EXPLICIT":
            raise ValueError(
                '"EXPLICIT" is not a valid value for `padding`. To use explicit padding, the padding must be a list.'
            )
        return padding, []
    channels = 1 if data_format is not None and data_format.startswith("NC") else 3
    for i, dim in enumerate(padding):
        if not isinstance(dim, list | tuple):
            raise ValueError(
                f"When `padding` is a list, each element of `padding` must be a list/tuple of size 2. Received: "
                f"padding={padding} with element at index {i} of type {type(dim)}"
            )
        if len(dim) != 2:
            raise ValueError(
                f"When `padding` is a list, each element of `padding` must be a list/tuple of size 2. Received: "
                f"padding={padding} with element at index {i} of size {len(dim)}"
            )
        if i in (0, channels) and tuple(dim) != (0, 0):
            raise ValueError("All elements in padding must be [0, 0] in the batch and channel dimensions")
    if len(padding) != 4:
        raise ValueError(f"When padding is a list, it must be of size 4. Got padding of size: {len(padding)}")
    return "EXPLICIT", [size for dim in padding for size in dim]


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """A convolution over images."""
    filter = renamed("filters", filters, "filter", filter)
    padding, sizes = explicit_padding(padding, data_format)
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
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """A convolution's gradient for its filter."""
    padding, sizes = explicit_padding(padding, data_format)
    return gen("Conv2DBackpropFilter")(
        input,
        filter_sizes,
        out_backprop,
        strides,
        padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=sizes,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """A convolution's gradient for its input."""
    filter = renamed("filters", filters, "filter", filter)
    padding, sizes = explicit_padding(padding, data_format)
    return gen("Conv2DBackpropInput")(
        input_sizes,
        filter,
        out_backprop,
        strides,
        padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=sizes,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: Any = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution backwards: images become larger."""
    value = renamed("input", input, "value", value)
    filter = renamed("filters", filters, "filter", filter)
    with name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        if data_format is None:
            data_format = "NHWC"
        channels = channels_of(data_format, 3)
        strides = sequence_of(strides, 2, channels, "strides")
        dilations = sequence_of(dilations, 2, channels, "dilations")
        padding, sizes = explicit_padding(padding, data_format)
        return gen("Conv2DBackpropInput")(
            output_shape,
            filter,
            value,
            strides,
            padding,
            explicit_paddings=sizes,
            data_format=data_format,
            dilations=dilations,
            name=scope,
        )


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """A convolution over volumes."""
    filter = renamed("filters", filters, "filter", filter)
    return gen("Conv3D")(input, filter, strides, padding, data_format=data_format, dilations=list(dilations), name=name)


def conv3d_transpose(
    value: Any,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: Any = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution over volumes backwards."""
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
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: Any = None,
    data_format: Any = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution over sequences, made of one over images of height 1."""
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
        if value.shape.rank in (3, None) if hasattr(value, "shape") else True:
            result = gen("Conv2D")(
                images,
                filters,
                strides,
                padding,
                use_cudnn_on_gpu=use_cudnn_on_gpu if use_cudnn_on_gpu is not None else True,
                data_format=data_format,
                dilations=dilations,
                name=scope,
            )
        else:
            raise NotImplementedError("tf.nn.conv1d of more than one batch dimension: reshape to one, or convert the GraphDef")
        return tf.squeeze(result, [start])


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """A convolution over sequences backwards."""
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


# --- dilated convolutions: the image's pixels are dealt out to batches ------------------------------------------------------


def _same_paddings(filter_sizes: Sequence[int], rates: Sequence[int]) -> list[list[int]]:
    paddings = []
    for size, rate in zip(filter_sizes, rates, strict=True):
        extra = size + (size - 1) * (rate - 1) - 1
        paddings.append([extra // 2, extra - extra // 2])
    return paddings


def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[[Any, str], Any],
    filter_shape: Any = None,
    spatial_dims: Sequence[int] = (1, 2),
) -> Any:
    """`op(input, padding)` where its window has holes; without holes it is the op itself."""
    rates = convert_to_tensor(dilation_rate, dtype="int32", name="dilation_rate")
    known = constant_value(rates)
    if known is None:
        raise NotImplementedError("dilation rates that are not constants: give numbers, or convert the GraphDef")
    rates_list = [int(rate) for rate in known]
    if all(rate == 1 for rate in rates_list):
        return op(input, padding)
    if padding == "SAME":
        shape = convert_to_tensor(filter_shape, name="filter_shape")
        sizes = constant_value(shape)
        if sizes is None:
            raise NotImplementedError("a dilated filter of unknown shape: give it a static shape, or convert the GraphDef")
        base = _same_paddings([int(size) for size in sizes[: len(rates_list)]], rates_list)
        base_tensor = constant(np.array(base, np.int32), name="stack")
    elif padding == "VALID":
        base = [[0, 0]] * len(rates_list)
        base_tensor = None
    else:
        raise ValueError(f'`padding` must be either "SAME" or "VALID". Received: padding={padding}')
    sizes_of = input.shape.as_list() if input.shape.rank is not None else None
    spatial = None if sizes_of is None else [sizes_of[dim] for dim in spatial_dims]
    if spatial is None or None in spatial:
        raise NotImplementedError(
            "a dilated convolution of images of unknown size: give a static size, or convert the GraphDef"
        )
    paddings, crops = _required_paddings(spatial, rates_list, base, base_tensor)
    batched = gen("SpaceToBatchND")(input, np.array(rates_list, np.int32), paddings)
    result = op(batched, "VALID")
    return gen("BatchToSpaceND")(result, np.array(rates_list, np.int32), crops)


def _required_paddings(sizes: Sequence[int], rates: Sequence[int], base: list[list[int]], base_tensor: Any) -> tuple[Any, Any]:
    """The paddings that make the sizes multiples of the rates, and what is cropped of them again."""
    with name_scope(None, "required_space_to_batch_paddings"):
        constant(np.array(sizes, np.int32), name="input_shape")
        if base_tensor is None:
            constant(np.array(base, np.int32), name="base_paddings")
        paddings, crops = [], []
        for size, rate, (before, after) in zip(sizes, rates, base, strict=True):
            extra = (rate - (size + before + after) % rate) % rate
            paddings.append([before, after + extra])
            crops.append([0, extra])
        constant(np.array(paddings, np.int32), name="paddings")
        constant(np.array(crops, np.int32), name="crops")
    return np.array(paddings, np.int32), np.array(crops, np.int32)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Any:
    """A convolution whose filter has holes."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def convolution(
    input: Any,
    filter: Any,
    padding: Any,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution over one, two or three dimensions."""
    filter = renamed("filters", filters, "filter", filter)
    dilation_rate = renamed("dilations", dilations, "dilation_rate", dilation_rate)
    with name_scope(name, "convolution", [input, filter]) as scope:
        images = convert_to_tensor(input, name="input")
        # a variable behind a handle is read by the op that takes it, after what else the convolution needs
        kernel = filter if isinstance(filter, ResourceVariable) else convert_to_tensor(filter, name="filter")
        rank: Any = images.shape.rank if images.shape.rank is not None else kernel.shape.rank
        count = rank - 2
        if count not in (1, 2, 3):
            raise ValueError(f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={images.shape} of rank {rank}")
        first = data_format is not None and data_format.startswith("NC")
        rates = [1] * count if dilation_rate is None else [*_spread(dilation_rate, count)]
        steps = [1] * count if strides is None else [*_spread(strides, count)]
        if any(rate > 1 for rate in rates) and any(step > 1 for step in steps):
            raise ValueError("`strides > 1` not supported in conjunction with `dilation_rate > 1`")
        whole: Any = (lambda sizes: [1, 1, *sizes]) if first else (lambda sizes: [1, *sizes, 1])

        def apply(given: Any, padding: Any) -> Any:
            if count == 1:
                layout = "NCHW" if first else "NHWC"
                axis = -2 if first else -3
                wide = tf.expand_dims(given, axis)
                flat = tf.expand_dims(kernel, 0)
                made = gen("Conv2D")(
                    wide, flat, whole([1, *steps]), padding, data_format=layout, dilations=[1, 1, 1, 1], name=scope
                )
                return tf.squeeze(made, [axis])
            if count == 2:
                layout = "NCHW" if first else "NHWC"
                mode, sizes = explicit_padding(padding, layout)
                return gen("Conv2D")(given, kernel, whole(steps), mode, explicit_paddings=sizes, data_format=layout, name=scope)
            return gen("Conv3D")(given, kernel, whole(steps), padding, data_format="NCDHW" if first else "NDHWC", name=scope)

        if all(rate == 1 for rate in rates):
            return apply(images, padding)
        dims = list(range(2, 2 + count)) if first else list(range(1, 1 + count))
        shape = kernel.shape.as_list() if kernel.shape.is_fully_defined() else tf.shape(kernel)
        return with_space_to_batch(images, rates, padding, apply, shape, dims)


def _spread(value: Any, count: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    return values * count if len(values) == 1 else values


def depthwise_conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    rate: Any = None,
    name: str | None = None,
    data_format: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution of each channel on its own."""
    rate = renamed("dilations", dilations, "rate", rate)
    filter = renamed("filters", filters, "filter", filter)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        images = convert_to_tensor(input, name="tensor_in")
        kernel = convert_to_tensor(filter, name="filter_in")
        rate = [1, 1] if rate is None else rate
        return with_space_to_batch(
            images,
            *_rate_after_shape(kernel, rate),
            padding,
            lambda given, mode: depthwise_conv2d_native(given, kernel, strides, mode, data_format or "NHWC", name=scope),
            kernel.shape.as_list() if kernel.shape.is_fully_defined() else None,
            (2, 3) if data_format is not None and data_format.startswith("NC") else (1, 2),
        )


def _rate_after_shape(kernel: Any, rate: Any) -> tuple[Any]:
    tf.shape(kernel)
    return (rate,)


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """The op itself."""
    padding, sizes = explicit_padding(padding, data_format)
    return gen("DepthwiseConv2dNative")(
        input,
        filter,
        strides,
        padding,
        explicit_paddings=sizes,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution of each channel, then one over the channels."""
    rate = renamed("dilations", dilations, "rate", rate)
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        images = convert_to_tensor(input, name="tensor_in")
        depthwise = convert_to_tensor(depthwise_filter, name="depthwise_filter")
        pointwise = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        of_pointwise = pointwise.shape.with_rank(4)
        of_pointwise[0].assert_is_compatible_with(1)
        of_pointwise[1].assert_is_compatible_with(1)
        rate = [1, 1] if rate is None else rate
        spread = with_space_to_batch(
            images,
            *_rate_after_shape(depthwise, rate),
            padding,
            lambda given, mode: depthwise_conv2d_native(
                given, depthwise, strides, mode, data_format or "NHWC", name="depthwise"
            ),
            depthwise.shape.as_list() if depthwise.shape.is_fully_defined() else None,
            (2, 3) if data_format is not None and data_format.startswith("NC") else (1, 2),
        )
        return conv2d(spread, pointwise, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=scope)


def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Greyscale dilation."""
    filter = renamed("filters", filters, "filter", filter)
    rates = renamed("dilations", dilations, "rates", rates)
    return gen("Dilation2D")(input, filter, strides, rates, padding, name=name)


def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: Any, name: str | None = None) -> Any:
    """Greyscale erosion: the dilation of what is left out."""
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        dilated = gen("Dilation2D")(-value, tf.reverse(kernel, [0, 1]), strides, rates, padding, name=scope)
        return -dilated
