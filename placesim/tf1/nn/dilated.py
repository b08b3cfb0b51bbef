"""Dilated convolutions by space-to-batch, and convolutions of any number of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import Padding, PerDimension, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.nn.convolutions import channels_of, conv2d, convolve, is_channels_first, sequence_of
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.variables.resource import ResourceVariable

tf = namespace("")


def with_space_to_batch(
    input: TensorLike,
    dilation_rate: TensorLike,
    padding: Padding,
    op: Callable[[Any, int, Any], Any],
    filter_shape: ShapeLike | None = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Any:
    """Apply `op(input, number of spatial dimensions, padding)` with dilation, to blocks from SpaceToBatchND.

    If all rates are 1, only `op` is applied.
    """
    input = convert_to_tensor(input, name="input")
    rates = convert_to_tensor(dilation_rate, dtype="int32", name="dilation_rate")
    known = _known_rates(rates)
    count = rates.shape[0].value
    dims = _checked_dims(input, count, spatial_dims, data_format)
    if known is not None and (known == 1).all():
        return op(input, count, padding)
    if isinstance(padding, str):
        base = _base_paddings(padding, filter_shape, count, rates if known is None else known)
    else:
        margins = np.array(padding).reshape([count + 2, 2])
        base = margins[2:] if is_channels_first(data_format) else margins[1:-1]
    sizes: Tensor | list[int | None] | None = None if input.shape.rank is None else [input.shape.as_list()[dim] for dim in dims]
    if sizes is None or None in sizes:
        shape = tf.shape(input)
        sizes = tf.stack([shape[dim] for dim in dims])
    paddings, crops = tf.required_space_to_batch_paddings(sizes, rates, base)
    blocks, paddings, crops = _over_dims(rates, 1, dims), _over_dims(paddings, 0, dims), _over_dims(crops, 0, dims)
    result = op(gen("SpaceToBatchND")(input, blocks, paddings), count, "VALID")
    return gen("BatchToSpaceND")(result, blocks, crops)


def steps_and_rates(count: int, strides: Any, dilation_rate: Any) -> tuple[Any, Any]:
    """Strides and dilation rates of `count` dimensions as arrays, by default 1.  Raises ValueError for invalid ones."""

    def checked(name: str, given: Any) -> Any:
        if given is not None and len(given) != count:
            raise ValueError(f"`len({name})` should be {count}. Received: {name}={given} of length {len(given)}")
        values = np.array([1] * count if given is None else given, np.int32)
        if (values < 1).any():
            raise ValueError(f"all values of `{name}` must be positive. Received: {name}={values}")
        return values

    rates, steps = checked("dilation_rate", dilation_rate), checked("strides", strides)
    if (steps > 1).any() and (rates > 1).any():
        refused = "`strides > 1` not supported in conjunction with `dilation_rate > 1`"
        raise ValueError(f"{refused}. Received: strides={steps} and dilation_rate={rates}")
    return steps, rates


def _known_rates(rates: Tensor) -> Any:
    """The rates if they are constants, else None.  Raises ValueError for invalid rates."""
    if rates.shape.rank not in (None, 1):
        received = f"Received: dilation_rate={rates} of rank {rates.shape.rank}"
        raise ValueError(f"`dilation_rate.shape.rank` must be 1. {received}")
    if not rates.shape.is_fully_defined():
        received = f"Received: dilation_rate={rates} with shape {rates.shape}"
        raise ValueError(f"`dilation_rate.shape` must be fully defined. {received}")
    known = constant_value(rates)
    if known is not None and (known < 1).any():
        raise ValueError(f"`dilation_rate` must be positive. Received: dilation_rate={known}")
    return known


def _checked_dims(input: Tensor, count: int, spatial_dims: Sequence[int] | None, data_format: str | None) -> list[int]:
    first = 2 if is_channels_first(data_format) else 1
    dims = list(range(first, first + count) if spatial_dims is None else spatial_dims)
    if dims != sorted(set(dims)) or min(dims) < 1:
        wanted = "a monotonically increasing sequence of positive integers"
        raise ValueError(f"`spatial_dims` must be {wanted}. Received: spatial_dims={dims}")
    least = dims[-1] if is_channels_first(data_format) else dims[-1] + 1
    if input.shape.rank is not None and input.shape.rank < least:
        received = f"Received: input.shape={input.shape} with rank {input.shape.rank}"
        raise ValueError(f"`input.shape.rank` must be at least {least}. {received}")
    return dims


def _base_paddings(padding: str, filter_shape: ShapeLike | None, count: int, rates: TensorLike) -> Any:
    """Paddings `[count, 2]` with which a dilated window gives the output size of `padding`."""
    if padding == "VALID":
        return np.zeros([count, 2], np.int32)
    if padding != "SAME":
        raise ValueError(f"`padding` must be one of 'SAME' or 'VALID'. Received: padding={padding}")
    if filter_shape is None:
        received = f"Received: filter_shape={filter_shape} and padding={padding}"
        raise ValueError(f"`filter_shape` must be specified for `padding='SAME'`. {received}")
    shape = convert_to_tensor(filter_shape, name="filter_shape")
    known = constant_value(shape)
    extra = ((shape if known is None else known)[:count] - 1) * rates
    before = extra // 2
    after = extra - before
    return tf.stack([[before[i], after[i]] for i in range(count)])


def _over_dims(values: Any, filler: int, dims: Sequence[int]) -> Any:
    """Extend `values`, one for each of the ascending `dims`, to all dimensions from 1 to `dims[-1]`; others get `filler`.

    The result is an array if the values are known, else a tensor.
    """
    known = constant_value(values)
    given = values if known is None else known
    rest = values.shape.as_list()[1:]
    parts: list[Any] = []
    begin = 0
    for end in range(1, len(dims) + 1):
        if end < len(dims) and dims[end] == dims[end - 1] + 1:
            continue
        gap = dims[begin] - (dims[begin - 1] if begin else 0) - 1
        if dims[begin] > 1:
            parts.append(np.full([gap, *rest], filler, np.int32))
        parts.append(given[begin:end])
        begin = end
    return tf.concat(parts, 0) if known is None else np.concatenate(parts)


def atrous_conv2d(value: TensorLike, filters: TensorLike, rate: int, padding: str, name: str | None = None) -> Any:
    """Dilated convolution."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def convolution(
    input: TensorLike,
    filter: TensorLike,
    padding: Padding,
    strides: PerDimension | None = None,
    dilation_rate: PerDimension | None = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: object = None,
    dilations: object = None,
) -> Any:
    """A convolution over one, two or three dimensions."""
    filter = renamed("filters", filters, "filter", filter)
    dilation_rate = renamed("dilations", dilations, "dilation_rate", dilation_rate)
    with name_scope(name, "convolution", [input, filter]) as scope:
        images = convert_to_tensor(input, name="input")
        # As in TensorFlow, a resource variable is not read here but by the op that takes it.
        kernel = filter if isinstance(filter, ResourceVariable) else convert_to_tensor(filter, name="filter")
        rank: Any = images.shape.rank if images.shape.rank is not None else kernel.shape.rank
        count = rank - 2
        if count not in (1, 2, 3):
            raise ValueError(f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={images.shape} of rank {rank}")
        first = is_channels_first(data_format)
        steps, rates = steps_and_rates(count, strides, dilation_rate)
        sizes = sequence_of(steps.tolist(), count, channels_of(data_format, count + 1), "strides")
        layout = "NCHW" if first else "NHWC"

        def apply(given: object, _: int, padding: object) -> Any:
            if count == 1:
                axis = -2 if first else -3
                wide = tf.expand_dims(given, axis)
                flat = tf.expand_dims(kernel, 0)
                made = gen("Conv2D")(wide, flat, [1, *sizes], padding, data_format=layout, dilations=[1, 1, 1, 1], name=scope)
                return tf.squeeze(made, [axis])
            if count == 2:
                return gen("Conv2D")(given, kernel, sizes, padding, data_format=layout, name=scope)
            return gen("Conv3D")(given, kernel, sizes, padding, data_format="NCDHW" if first else "NDHWC", name=scope)

        if (rates == 1).all():
            return apply(images, count, padding)
        shape = kernel.shape.as_list() if kernel.shape.is_fully_defined() else tf.shape(kernel)
        return with_space_to_batch(images, rates, padding, apply, shape, data_format=data_format)


def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: PerDimension | None = None,
    padding: Any = None,
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: object = None,
    dilations: object = None,
) -> Any:
    """A convolution of each channel separately."""
    rate = renamed("dilations", dilations, "rate", rate)
    filter = renamed("filters", filters, "filter", filter)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        images = convert_to_tensor(input, name="tensor_in")
        kernel = convert_to_tensor(filter, name="filter_in")
        return _depthwise(images, kernel, strides, padding, rate, data_format, scope)


def _depthwise(
    images: TensorLike,
    kernel: Tensor,
    strides: object,
    padding: Padding,
    rate: TensorLike | None,
    data_format: str | None,
    name: str,
) -> Any:
    def apply(given: Tensor, _: int, mode: object) -> Any:
        return depthwise_conv2d_native(given, kernel, strides, mode, data_format or "NHWC", name=name)

    rates = [1, 1] if rate is None else rate
    return with_space_to_batch(images, rates, padding, apply, tf.shape(kernel), data_format=data_format)


def depthwise_conv2d_native(
    input: TensorLike,
    filter: object,
    strides: object,
    padding: object,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """The op DepthwiseConv2dNative."""
    return convolve("DepthwiseConv2dNative", (input, filter), strides, padding, data_format, dilations, name)


def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: PerDimension,
    padding: Padding,
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: object = None,
) -> Any:
    """A convolution of each channel, then a 1 x 1 convolution of all channels."""
    rate = renamed("dilations", dilations, "rate", rate)
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        images = convert_to_tensor(input, name="tensor_in")
        depthwise = convert_to_tensor(depthwise_filter, name="depthwise_filter")
        pointwise = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        of_pointwise = pointwise.shape.with_rank(4)
        of_pointwise[0].assert_is_compatible_with(1)
        of_pointwise[1].assert_is_compatible_with(1)
        spread = _depthwise(images, depthwise, strides, padding, rate, data_format, "depthwise")
        return conv2d(spread, pointwise, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=scope)
