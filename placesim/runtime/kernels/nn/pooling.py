"""AvgPool and MaxPool, over two or three spatial axes, and their gradients: checks, static shapes and costs around `pools`.

On the CPU TensorFlow pools channels-last tensors only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Compute, Kernel, Table, Tensor, elements
from placesim.runtime.kernels.nn.convolution import infer_as_input, infer_from_sizes
from placesim.runtime.kernels.nn.pools import (
    Pool,
    flat_places,
    largest_taps,
    pool_max,
    pool_mean,
    spread_max,
    spread_max_to_equals,
    spread_mean,
    take_at_max,
)
from placesim.runtime.kernels.nn.windows import (
    Layout,
    Window,
    arrange,
    check_entries,
    check_padding,
    check_static_padding,
    explicit_pairs,
    layout_of,
    static_outputs,
    static_windows,
    windows_of,
)
from placesim.runtime.kernels.precision import wide_dtype
from placesim.runtime.shapes import Dims, ShapeContext, ShapeError, format_dims, merge, multiply_dims, with_rank, with_value

NO_BATCH = "Pooling is not yet supported on the batch dimension."

# --- checks -----------------------------------------------------------------------------------------------------------


def _check_layout(attrs: Attrs, spatial: int, name: str) -> None:
    data_format = "NHWC" if spatial == 2 else "NDHWC"
    if layout_of(attrs.get("data_format", data_format), spatial).channel == 1:
        raise InvalidArgumentError(f"Default {name} only supports {data_format} on device type CPU")


def _check_sizes(attrs: Attrs, spatial: int, strides_field: str = "stride") -> None:
    check_entries(attrs["ksize"], "ksize", spatial + 2)
    check_entries(attrs["strides"], strides_field, spatial + 2)


def check_batch(attrs: Attrs) -> None:
    """UnimplementedError where the attrs `ksize` or `strides` pool the batch."""
    if attrs["ksize"][0] != 1 or attrs["strides"][0] != 1:
        raise UnimplementedError(NO_BATCH)


def _check_no_depth(attrs: Attrs, message: str) -> None:
    if attrs["ksize"][-1] != 1 or attrs["strides"][-1] != 1:
        raise UnimplementedError(message)


def pool_2d(dims: Sequence[int], attrs: Attrs) -> Pool:
    """The windows over an input `[batch, rows, columns, channels]` of this shape, or the pooling of channels.

    InvalidArgumentError for another rank and for windows that do not fit; UnimplementedError for windows over channels that are
    also over rows or columns, do not divide the channels, or overlap.
    """
    # the 0 is what the data format NHWC prints as
    if len(dims) != 4:
        raise InvalidArgumentError(f"tensor_in_shape must have 2 spatial dimensions. {len(dims)} 0")
    layout, depth = layout_of("NHWC"), attrs["ksize"][3]
    kernels, strides = layout.pick(attrs["ksize"]), layout.pick(attrs["strides"])
    # windows are over the image or over channels, and those over channels lie side by side
    if depth != 1 and kernels != (1, 1):
        raise UnimplementedError("MaxPooling supports exactly one of pooling across depth or pooling across width/height.")
    if depth == 1:
        pairs = explicit_pairs(attrs, layout) if "explicit_paddings" in attrs else ()
        return Pool(windows_of(layout.pick(dims), kernels, strides, (1, 1), attrs["padding"], pairs))
    if depth <= 0:
        raise InvalidArgumentError(f"ksize must be a positive int32 value, got:{depth}")
    if dims[3] % depth != 0:
        raise UnimplementedError("Depthwise max pooling requires the depth window to evenly divide the input depth")
    if attrs["strides"][3] != depth:
        raise UnimplementedError("Depthwise max pooling requires the depth window to equal the depth stride")
    return Pool(windows_of(dims[1:3], (1, 1), (1, 1), (1, 1), "VALID"), depth)


def _pool_3d(dims: Sequence[int], attrs: Attrs) -> Pool:
    layout = layout_of("NDHWC", 3)
    sizes, strides = layout.pick(attrs["ksize"]), layout.pick(attrs["strides"])
    return Pool(windows_of(layout.pick(dims), sizes, strides, (1, 1, 1), attrs["padding"]))


def _check_shapes(pool: Pool, inputs: Sequence[int], output: Sequence[int], grads: Sequence[int]) -> None:
    expected = pool.shape(inputs)
    for name, shape in (("orig_output", output), ("grad", grads)):
        if shape != expected:
            raise InvalidArgumentError(
                f"Expected {name} shape to be {format_dims(expected)}, but got {format_dims(tuple(shape))}"
            )


def _sized(inputs: Sequence[Tensor], attrs: Attrs, first: int) -> tuple[Sequence[Tensor], Attrs]:
    """The inputs without window sizes and strides, and the attrs with them: the V2 ops take these as tensors."""
    if len(inputs) == first:
        return inputs, attrs
    sizes, strides = (tuple(map(int, tensor.reshape(-1))) for tensor in inputs[first:])
    return inputs[:first], {**attrs, "ksize": sizes, "strides": strides}


# --- kernels ----------------------------------------------------------------------------------------------------------


def average(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """AvgPool: `[batch, rows, columns, channels]` -> `[batch, windows, windows, channels]`.

    InvalidArgumentError for attrs or an input that do not fit; UnimplementedError for pooling of batch or channels.
    """
    _check_layout(attrs, 2, "AvgPoolingOp")
    _check_sizes(attrs, 2)
    check_batch(attrs)
    for size in attrs["ksize"]:
        if size <= 0:
            raise InvalidArgumentError(f"ksize must be a positive int32 value, got:{size}")
    pool = pool_2d(inputs[0].shape, attrs)
    if pool.depth != 1:
        raise UnimplementedError("Non-spatial pooling is not yet supported. Volunteers? :)")
    return (pool_mean(inputs[0], pool),)


def average_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """AvgPoolGrad: (the input's shape, gradients of the output) -> gradients of the input `[batch, rows, columns, channels]`.

    InvalidArgumentError for attrs or inputs that do not fit; UnimplementedError for pooling of batch or channels.
    """
    sizes, grads = inputs
    _check_layout(attrs, 2, "AvgPoolingGradOp")
    _check_sizes(attrs, 2, "strides")
    check_batch(attrs)
    # TensorFlow's text names the other input
    if sizes.shape != (4,):
        raise InvalidArgumentError("out_backprop must be 1-dimensional and 4 elements")
    if grads.ndim != 4:
        raise InvalidArgumentError("out_backprop must be 4-dimensional")
    shape = _size_values(sizes)
    if prod(shape) == 0:
        return (np.zeros(shape, grads.dtype),)
    if attrs["ksize"][3] != 1:
        raise UnimplementedError("Non-spatial pooling is not yet supported. Volunteers? :)")
    pool = pool_2d(shape, attrs)
    # TensorFlow does not compare the gradients' shape with that of the output
    if grads.shape == pool.shape(shape):
        return (spread_mean(grads, pool),)
    return (_spread_mean_of_any(grads, pool, shape),)


def _size_values(sizes: Tensor) -> tuple[int, ...]:
    for size in sizes.tolist():
        if size < 0:
            raise InvalidArgumentError(f"Expected a non-negative size, got {size}")
    return tuple(sizes.tolist())


def _spread_mean_of_any(grads: Tensor, pool: Pool, shape: Sequence[int]) -> Tensor:
    """`spread_mean` for gradients of another shape: by their images, windows and channels, in the memory of the input."""
    # a window's number in the gradients, not in the output, says where it lies: there may be more or fewer of them
    output = np.zeros(prod(shape), wide_dtype(grads.dtype))
    covered = [
        [_covered_cells(window, index) for index in range(count)]
        for window, count in zip(pool.windows, grads.shape[1:3], strict=True)
    ]
    cells = np.arange(len(grads) * prod(shape[1:3]) * grads.shape[3]).reshape(len(grads), *shape[1:3], grads.shape[3])
    for row, rows in enumerate(covered[0]):
        for column, columns in enumerate(covered[1]):
            places = cells[:, rows.start : rows.stop, columns.start : columns.stop]
            last = places.max(initial=-1)
            if last >= output.size:
                raise InvalidArgumentError(
                    f"Output only has {output.size} elements but computation requested would use element with index={last}"
                )
            output[places] += (grads[:, row, column] / max(len(rows) * len(columns), 1))[:, None, None]
    return output.reshape(shape).astype(grads.dtype)


def _covered_cells(window: Window, index: int) -> range:
    """The cells of the input that lie in a window, which may be one too many."""
    if index * window.stride > window.input:
        raise InvalidArgumentError("index * stride must be less than or equal to input size")
    start = index * window.stride - window.before
    return range(max(start, 0), max(min(start + window.kernel, window.input), start, 0))


def maximum(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPool, MaxPoolV2: `[batch, rows, columns, channels]` -> `[batch, windows, windows, groups of channels]`.

    InvalidArgumentError for attrs or an input that do not fit; UnimplementedError for pooling of the batch, or of both rows or
    columns and channels.
    """
    # the second version has sizes as inputs, looks at no layout first, and does not show its sizes
    (tensor,), sized = _sized(inputs, attrs, 1)
    shown = ""
    if sized is attrs:
        _check_layout(attrs, 2, "MaxPoolingOp")
        shown = f" The specified or inferred ksize is: {','.join(map(str, attrs['ksize']))}"
    data_format = attrs["data_format"]
    if data_format not in ("NHWC", "NCHW_VECT_C"):
        raise InvalidArgumentError(f"MaxPoolingV2Op only supports NHWC or NCHW_VECT_C. Got: {data_format}")
    _check_sizes(sized, 2)
    if min(sized["ksize"]) <= 0:
        raise InvalidArgumentError("Sliding window ksize must be positive." + shown)
    check_batch(sized)
    check_padding(attrs, layout_of("NHWC"))
    return (pool_max(tensor, pool_2d(tensor.shape, sized)),)


def maximum_with_places(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolWithArgmax: the maxima, and where in the flattened image (or batch of images) they lie.

    Both are `[batch, windows, windows, channels]`, -1 where a window lies on padding only.  InvalidArgumentError for attrs that
    do not fit, another rank or no elements; UnimplementedError for pooling of batch or channels.
    """
    (tensor,) = inputs
    _check_sizes(attrs, 2)
    check_batch(attrs)
    if tensor.ndim != 4:
        raise InvalidArgumentError("tensor_in must be 4-dimensional (2)")
    if tensor.size == 0:
        raise InvalidArgumentError("tensor_in must not be empty (2)")
    pool = pool_2d(tensor.shape, attrs)
    if pool.depth != 1:
        raise UnimplementedError("MaxPoolingWithArgmax is not yet supported on the depth dimension.")
    values, taps = largest_taps(tensor, pool)
    # places are counted in each image, or with the attr in the whole batch
    places = flat_places(taps, pool, tensor.shape[-1])
    if attrs["include_batch_in_index"]:
        places += np.arange(len(tensor)).reshape(-1, 1, 1, 1) * prod(tensor.shape[1:])
    return values, np.where(taps < 0, -1, places).astype(attrs["Targmax"].numpy)


def maximum_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolGrad, MaxPoolGradV2: (input, output, gradients of the output, ...) -> gradients of the input, shaped as it.

    InvalidArgumentError for attrs or shapes that do not fit; UnimplementedError for pooling of batch or channels.
    """
    (tensor, output, grads), sized = _sized(inputs, attrs, 3)
    _check_gradient(tensor, output, grads, attrs, sized, ("MaxPoolingGradOp", "MaxPoolingGrad", "out_backprop"))
    pool = pool_2d(tensor.shape, sized)
    _check_shapes(pool, tensor.shape, output.shape, grads.shape)
    # TensorFlow looks for the maxima again: of the output that is given only the shape counts
    return (spread_max(tensor, grads, pool),)


def maximum_back_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolGradGrad, MaxPoolGradGradV2: (input, output, gradients of the input's gradient) -> of the output's gradient.

    The gradients that are given are shaped as the input, those that are found as the output.  Raises as `maximum_back`.
    """
    (tensor, output, grads), sized = _sized(inputs, attrs, 3)
    _check_gradient(tensor, output, grads, attrs, sized, ("MaxPoolingGradGradOp", "MaxPoolingGradGrad", "out_grad_backprop"))
    pool = pool_2d(tensor.shape, sized)
    expected = pool.shape(tensor.shape)
    if output.shape != expected:
        raise InvalidArgumentError(
            f"Expected orig_output shape to be {format_dims(expected)}, but got {format_dims(output.shape)}"
        )
    if grads.shape != tensor.shape:
        raise InvalidArgumentError(f"Expected grad shape to be {format_dims(tensor.shape)}, but got {format_dims(grads.shape)}")
    return (take_at_max(tensor, output, grads, pool),)


def _check_gradient(
    tensor: Tensor, output: Tensor, grads: Tensor, attrs: Attrs, sized: Attrs, names: tuple[str, str, str]
) -> None:
    """The attrs, then the ranks of the inputs; sizes that are inputs come last."""
    kernel, op, grads_name = names
    _check_layout(attrs, 2, kernel)
    if sized is attrs:
        _check_gradient_sizes(sized, op)
        check_padding(attrs, layout_of("NHWC"))
    for name, given in (("tensor_in", tensor), ("tensor_out", output), (grads_name, grads)):
        if given.ndim != 4:
            raise InvalidArgumentError(f"{name} must be 4-dimensional")
    if sized is not attrs:
        _check_gradient_sizes(sized, "MaxPoolingGrad")


def _check_gradient_sizes(sized: Attrs, op: str) -> None:
    _check_sizes(sized, 2, "strides")
    check_batch(sized)
    _check_no_depth(sized, f"{op} is not yet supported on the depth dimension.")


def _check_3d(attrs: Attrs, name: str) -> None:
    _check_layout(attrs, 3, name)
    _check_sizes(attrs, 3)
    if min(attrs["ksize"]) <= 0:
        # 0 is refused with this text too
        raise InvalidArgumentError("Sliding window ksize field must have non-negative dimensions")
    check_batch(attrs)
    _check_no_depth(attrs, "Pooling is not yet supported on the depth dimension.")


def pool_3d(inputs: Sequence[Tensor], attrs: Attrs, function: Callable[[Tensor, Pool], Tensor]) -> Sequence[Tensor]:
    """AvgPool3D, MaxPool3D: `[batch, planes, rows, columns, channels]`, pooled over the three in the middle.

    InvalidArgumentError for attrs or an input that do not fit; UnimplementedError for pooling of batch or channels.
    """
    (tensor,) = inputs
    _check_3d(attrs, "Pooling3DOp")
    if tensor.ndim != 5:
        raise InvalidArgumentError("tensor_in must be 5-dimensional")
    return (function(tensor, _pool_3d(tensor.shape, attrs)),)


def average_back_3d(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """AvgPool3DGrad: (the input's shape, gradients of the output) -> gradients of the input `[batch, planes, ..., channels]`.

    InvalidArgumentError for attrs or shapes that do not fit; UnimplementedError for pooling of batch or channels.
    """
    sizes, grads = inputs
    _check_3d(attrs, "AvgPooling3dGradOp")
    if sizes.shape != (5,):
        raise InvalidArgumentError("tensor_in must be 1-dimensional and 5 elements")
    if grads.ndim != 5:
        raise InvalidArgumentError("out_backprop must be 5-dimensional")
    shape = _size_values(sizes)
    for which, axis in (("first", 0), ("last", 4)):
        if shape[axis] != grads.shape[axis]:
            raise InvalidArgumentError(
                f"Expected {which} dimension of tensor_in_shape and out_backprop to match, "
                f"got {shape[axis]} and {grads.shape[axis]}"
            )
    pool = _pool_3d(shape, attrs)
    expected = pool.shape(shape)
    if grads.shape != expected:
        raise InvalidArgumentError(f"Expected grad shape to be {format_dims(expected)}, but got {format_dims(grads.shape)}")
    return (spread_mean(grads, pool),)


def maximum_back_3d(inputs: Sequence[Tensor], attrs: Attrs, is_second: bool) -> Sequence[Tensor]:
    """MaxPool3DGrad, MaxPool3DGradGrad: (input, output, gradients) -> gradients of the input, or of the output's gradient.

    The gradients are shaped as the output and give one shaped as the input, or the reverse.  InvalidArgumentError for attrs or
    shapes that do not fit; UnimplementedError for pooling of batch or channels.
    """
    tensor, output, grads = inputs
    _check_3d(attrs, "MaxPooling3dGradGradOp" if is_second else "MaxPooling3dGradOp")
    names = ("tensor_in", "tensor_out", "out_grad_backprop" if is_second else "out_backprop")
    for name, given in zip(names, inputs, strict=True):
        if given.ndim != 5:
            raise InvalidArgumentError(f"{name} must be 5-dimensional")
    pool = _pool_3d(tensor.shape, attrs)
    expected = pool.shape(tensor.shape)
    if output.shape != expected:
        raise InvalidArgumentError(
            f"Expected orig_output shape to be {format_dims(expected)}, but got {format_dims(output.shape)}"
        )
    wanted = tensor.shape if is_second else expected
    if grads.shape != wanted:
        raise InvalidArgumentError(f"Expected grad shape to be {format_dims(wanted)}, but got {format_dims(grads.shape)}")
    return ((take_at_max if is_second else spread_max_to_equals)(tensor, output, grads, pool),)


def maximum_back_with_places(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolGradWithArgmax: (input, gradients of the output, where the maxima lie) -> gradients of the input, shaped as it.

    InvalidArgumentError for attrs or shapes that do not fit, and for a place outside of the input; UnimplementedError for
    pooling of the batch.
    """
    tensor, grads, places = inputs
    _check_sizes(attrs, 2)
    check_batch(attrs)
    expected = pool_2d(tensor.shape, attrs).shape(tensor.shape)
    for name, given in (("grad", grads), ("argmax", places)):
        if given.shape != expected:
            raise InvalidArgumentError(
                f"Expected {name} shape to be {format_dims(expected)}, but got {format_dims(given.shape)}"
            )
    flat = places.astype(np.int64)
    if not attrs["include_batch_in_index"]:
        flat = flat + np.arange(len(tensor)).reshape(-1, 1, 1, 1) * prod(tensor.shape[1:])
    if flat.size and (flat.min() < 0 or flat.max() >= tensor.size):
        # TensorFlow prints the smallest place also where it is the largest that is wrong
        raise InvalidArgumentError(f"Invalid input_backprop_index: {flat.min()}, {tensor.size}")
    output = np.zeros(tensor.size, tensor.dtype)
    np.add.at(output, flat.reshape(-1), grads.reshape(-1))
    return (output.reshape(tensor.shape),)


# --- shape functions --------------------------------------------------------------------------------------------------


def infer_pool(context: ShapeContext, op: str, spatial: int = 2, outputs: int = 1, is_second: bool = False) -> Sequence[Dims]:
    """The shape of the windows over the first input, in the order of attr `data_format`.

    A gradient's gradient has the other inputs' shapes to agree with.
    """
    attrs = context.attrs
    layout = layout_of(attrs.get("data_format", "NHWC"), spatial)
    dims = with_rank(context.shapes[0], layout.rank)
    found = _static_pool(dims, attrs, layout, op)
    if is_second:
        _merge_second(context, found)
    return (found,) * outputs


def _merge_second(context: ShapeContext, found: Dims) -> None:
    """A gradient's gradient: its third input is shaped as the first, its second as the output."""
    merge(context.shapes[0], context.shapes[2])
    merge(context.shapes[1], found)


def infer_pool_with_places(context: ShapeContext) -> Sequence[Dims]:
    """The shape of the windows, twice: for the maxima and for their places."""
    for size in context.attrs["ksize"]:
        if size <= 0:
            raise ShapeError(f"ksize must be a positive int32 value, got:{size}")
    return infer_pool(context, "MaxPool", outputs=2)


def infer_sized_pool(context: ShapeContext, first: int, is_second: bool = False) -> Sequence[Dims]:
    """The same where sizes and strides are inputs: nothing is known as long as they are not."""
    layout = layout_of(context.attrs.get("data_format", "NHWC"))
    dims = with_rank(context.shapes[0], layout.rank)
    for vector in context.shapes[first : first + 2]:
        with_value(with_rank(vector, 1)[0], 4)
    sizes, strides = context.value(first), context.value(first + 1)
    found: Dims = None
    if sizes is not None and strides is not None:
        sized = {**context.attrs, "ksize": tuple(sizes.tolist()), "strides": tuple(strides.tolist())}
        found = _static_pool(dims, sized, layout, "MaxPool")
    if is_second:
        _merge_second(context, found)
    return (found,)


def _static_pool(dims: Sequence[int], attrs: Attrs, layout: Layout, op: str) -> Dims:
    axes = len(layout.spatial) + 2
    requires = "Pool3D ops require" if axes == 5 else f"{op} requires"
    for what, name in (("stride", "strides"), ("ksize", "ksize")):
        if len(attrs[name]) != axes:
            raise ShapeError(f"{requires} the {what} attribute to contain {axes} values, but got: {len(attrs[name])}")
    if layout.vector > 1 and dims[-1] not in (4, 32):
        raise ShapeError(f"VECT_C dimension must be 4 or 32, but is {dims[-1]}")
    check_static_padding(attrs, layout)
    sizes, strides = attrs["ksize"], attrs["strides"]
    outputs = static_windows(layout.pick(dims), layout.pick(sizes), layout.pick(strides), (1,) * (axes - 2), attrs, layout)
    channels = multiply_dims(dims[layout.channel], layout.vector)
    # a mean's shape function takes the channels as they are, although attrs may ask to pool them
    if op == "MaxPool" and axes == 4:
        channels = static_outputs(channels, sizes[layout.channel], strides[layout.channel], 1, attrs["padding"])
    return arrange(dims[0], outputs, channels, layout)


# --- costs ------------------------------------------------------------------------------------------------------------


def window_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """One operation for each output and each cell of a window."""
    return elements(outputs[0]) * prod(attrs.get("ksize", ()))


def gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs, index: int) -> int:
    """One operation for each gradient and each cell of a window."""
    return elements(inputs[index]) * prod(attrs.get("ksize", ()))


# --- rows -------------------------------------------------------------------------------------------------------------


def _build_shaped_as(compute: Compute, index: int, rank: int, grads: int = 2) -> Kernel:
    """The row of a gradient that is shaped as one of its inputs."""
    return Kernel(compute, partial(infer_as_input, index=index, rank=rank), partial(gradient_flops, index=grads))


def _build_sized_by(compute: Compute, rank: int) -> Kernel:
    """The row of a gradient whose shape is the value of its first input."""
    return Kernel(compute, partial(infer_from_sizes, index=0, rank=rank), partial(gradient_flops, index=1))


TABLE: Table = {
    "AvgPool": Kernel(average, partial(infer_pool, op="AvgPool"), window_flops),
    "AvgPoolGrad": _build_sized_by(average_back, 4),
    "AvgPool3D": Kernel(partial(pool_3d, function=pool_mean), partial(infer_pool, op="AvgPool", spatial=3), window_flops),
    "AvgPool3DGrad": _build_sized_by(average_back_3d, 5),
    "MaxPool": Kernel(maximum, partial(infer_pool, op="MaxPool"), window_flops),
    "MaxPoolV2": Kernel(maximum, partial(infer_sized_pool, first=1), window_flops),
    "MaxPoolWithArgmax": Kernel(maximum_with_places, infer_pool_with_places, window_flops),
    "MaxPoolGrad": _build_shaped_as(maximum_back, 0, 4),
    "MaxPoolGradV2": _build_shaped_as(maximum_back, 0, 4),
    "MaxPoolGradWithArgmax": _build_shaped_as(maximum_back_with_places, 0, 4, grads=1),
    "MaxPoolGradGrad": Kernel(maximum_back_back, partial(infer_pool, op="MaxPool", is_second=True), window_flops),
    "MaxPoolGradGradV2": Kernel(maximum_back_back, partial(infer_sized_pool, first=3, is_second=True), window_flops),
    "MaxPool3D": Kernel(partial(pool_3d, function=pool_max), partial(infer_pool, op="MaxPool", spatial=3), window_flops),
    "MaxPool3DGrad": _build_shaped_as(partial(maximum_back_3d, is_second=False), 0, 5),
    "MaxPool3DGradGrad": Kernel(
        partial(maximum_back_3d, is_second=True), partial(infer_pool, op="MaxPool", spatial=3, is_second=True), window_flops
    ),
}
