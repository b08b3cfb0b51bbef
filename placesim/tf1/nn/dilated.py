"""Dilated convolutions by space-to-batch, and convolutions of any number of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import PerDimension, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.nn.convolutions import conv2d, explicit_padding, refuse_strides_with_holes
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.variables.resource import ResourceVariable

tf = namespace("")


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
    op: Callable[[Any, int, str], Any],
    filter_shape: ShapeLike | None = None,
    spatial_dims: Sequence[int] | None = None,
) -> Any:
    """`op(input, num_spatial_dims, padding)` with dilation by space-to-batch; the op itself for a rate of 1."""
    rates = convert_to_tensor(dilation_rate, dtype="int32", name="dilation_rate")
    known = constant_value(rates)
    if known is None:
        raise NotImplementedError("dilation rates that are not constants: give numbers, or convert the GraphDef")
    count = len(known)
    if np.all(known == 1):
        return op(input, count, padding)
    dims = range(1, 1 + count) if spatial_dims is None else spatial_dims
    if padding == "SAME":
        shape = convert_to_tensor(filter_shape, name="filter_shape")
        sizes = constant_value(shape)
        if sizes is None:
            raise NotImplementedError("a dilated filter of unknown shape: give it a static shape, or convert the GraphDef")
        base = tf.stack(_same_paddings(sizes[:count], known))
    elif padding == "VALID":
        base = np.zeros([count, 2], np.int32)
    else:
        raise ValueError(f'`padding` must be either "SAME" or "VALID". Received: padding={padding}')
    spatial: Any = None if input.shape.rank is None else [input.shape.as_list()[dim] for dim in dims]
    if spatial is None or None in spatial:
        sizes_of = tf.shape(input)
        spatial = tf.stack([sizes_of[dim] for dim in dims])
    paddings, crops = tf.required_space_to_batch_paddings(spatial, rates, base)
    block, paddings, crops = (_for_all_dims(rows, filler, dims) for rows, filler in ((known, 1), (paddings, 0), (crops, 0)))
    result = op(tf.space_to_batch_nd(input, block, paddings), count, "VALID")
    return tf.batch_to_space_nd(result, block, crops)


def _for_all_dims(rows: Any, filler: int, dims: Sequence[int]) -> Any:
    """Rows for the spatial dimensions, after rows of `filler` for the dimensions between the batch and these."""
    value = constant_value(rows) if isinstance(rows, Tensor) else rows
    between = np.full([dims[0] - 1, *rows.shape[1:]], filler, np.int32)
    if value is None:
        return tf.concat([*([between] if len(between) else []), rows[0 : len(dims)]], 0)
    return np.concatenate([between, value])


def atrous_conv2d(value: TensorLike, filters: TensorLike, rate: int, padding: str, name: str | None = None) -> Any:
    """Dilated convolution."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def convolution(
    input: TensorLike,
    filter: TensorLike,
    padding: Any,
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
        # a variable behind a handle is read by the op that takes it, after what else the convolution needs
        kernel = filter if isinstance(filter, ResourceVariable) else convert_to_tensor(filter, name="filter")
        rank: Any = images.shape.rank if images.shape.rank is not None else kernel.shape.rank
        count = rank - 2
        if count not in (1, 2, 3):
            raise ValueError(f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={images.shape} of rank {rank}")
        first = data_format is not None and data_format.startswith("NC")
        rates = [1] * count if dilation_rate is None else [*_spread(dilation_rate, count)]
        steps = [1] * count if strides is None else [*_spread(strides, count)]
        refuse_strides_with_holes(steps, rates)
        whole: Any = (lambda sizes: [1, 1, *sizes]) if first else (lambda sizes: [1, *sizes, 1])

        def apply(given: object, _: int, padding: object) -> Any:
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
            return apply(images, count, padding)
        dims = list(range(2, 2 + count)) if first else list(range(1, 1 + count))
        shape = kernel.shape.as_list() if kernel.shape.is_fully_defined() else tf.shape(kernel)
        return with_space_to_batch(images, rates, padding, apply, shape, dims)


def _spread(value: PerDimension, count: int) -> list[int]:
    values: list[Any] = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    return values * count if len(values) == 1 else values


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
    """A convolution of each channel on its own."""
    rate = renamed("dilations", dilations, "rate", rate)
    filter = renamed("filters", filters, "filter", filter)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        images = convert_to_tensor(input, name="tensor_in")
        kernel = convert_to_tensor(filter, name="filter_in")
        shape = tf.shape(kernel)
        return with_space_to_batch(
            images,
            [1, 1] if rate is None else rate,
            padding,
            lambda given, _, mode: depthwise_conv2d_native(given, kernel, strides, mode, data_format or "NHWC", name=scope),
            shape,
            (2, 3) if data_format is not None and data_format.startswith("NC") else (1, 2),
        )


def depthwise_conv2d_native(
    input: TensorLike,
    filter: object,
    strides: object,
    padding: object,
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
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: PerDimension,
    padding: Any,
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: object = None,
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
        shape = tf.shape(depthwise)
        spread = with_space_to_batch(
            images,
            [1, 1] if rate is None else rate,
            padding,
            lambda given, _, mode: depthwise_conv2d_native(
                given, depthwise, strides, mode, data_format or "NHWC", name="depthwise"
            ),
            shape,
            (2, 3) if data_format is not None and data_format.startswith("NC") else (1, 2),
        )
        return conv2d(spread, pointwise, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=scope)
