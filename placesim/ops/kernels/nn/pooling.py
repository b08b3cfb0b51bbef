"""AvgPool and MaxPool, over two or three spatial axes: checks, static shapes and costs around `pools`.

The kernels are Eigen's on a CPU, which pool channels-last tensors only; see `channels_first` for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.nn.pools import PoolWindows, flat_places, largest_taps, pool_max, pool_mean
from placesim.ops.kernels.nn.windows import (
    TensorLayout,
    arrange,
    check_entries,
    check_padding,
    explicit_pairs,
    layout_of,
    static_outputs,
    static_windows,
    windows_of,
)
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, merge, multiply_dims, with_rank, with_value

NO_BATCH = "Pooling is not yet supported on the batch dimension."


# --- windows --------------------------------------------------------------------------------------------------------


def check_batch(attrs: Attrs) -> None:
    """Raises UnimplementedError if the attrs `ksize` or `strides` pool the batch, InvalidArgumentError if one is empty."""
    for name in ("ksize", "strides"):
        if not attrs[name]:
            raise InvalidArgumentError(f"Sliding window {name} field must specify 4 dimensions")
    if attrs["ksize"][0] != 1 or attrs["strides"][0] != 1:
        raise UnimplementedError(NO_BATCH)


def check_layout(attrs: Attrs, spatial: int, name: str) -> None:
    """Raises InvalidArgumentError for channels first; `name` is the kernel's name in the message."""
    data_format = "NHWC" if spatial == 2 else "NDHWC"
    if layout_of(attrs.get("data_format", data_format), spatial).channel == 1:
        raise InvalidArgumentError(f"Default {name} only supports {data_format} on device type CPU")


def check_window_sizes(attrs: Attrs, spatial: int, strides_field: str = "stride") -> None:
    """Raises InvalidArgumentError unless attrs `ksize` and `strides` have an entry for each axis."""
    check_entries(attrs["ksize"], "ksize", spatial + 2)
    check_entries(attrs["strides"], strides_field, spatial + 2)


def check_no_depth(attrs: Attrs, message: str) -> None:
    """Raises UnimplementedError with this message if the attrs `ksize` or `strides` pool the channels."""
    if attrs["ksize"][-1] != 1 or attrs["strides"][-1] != 1:
        raise UnimplementedError(message)


def check_3d(
    attrs: Attrs,
    name: str,
    pooling: str = "Pooling",
    too_small: str = "Sliding window ksize field must have non-negative dimensions",
) -> None:
    """Check the attrs of an op with three spatial axes, in TensorFlow's order.

    Raises InvalidArgumentError for channels first and for window sizes below 1, and UnimplementedError for pooling of batch or
    channels.
    """
    check_layout(attrs, 3, name)
    check_window_sizes(attrs, 3)
    for size in attrs["ksize"]:
        if size <= 0:
            raise InvalidArgumentError(too_small.format(size))
    check_batch(attrs)
    check_no_depth(attrs, f"{pooling} is not yet supported on the depth dimension.")


def pool_2d(dims: Sequence[int], attrs: Attrs) -> PoolWindows:
    """The windows over an input of shape `dims`, `[batch, rows, columns, channels]`: spatial windows, or groups of channels.

    Raises InvalidArgumentError for another rank and for windows that do not fit. Raises UnimplementedError for windows over
    channels that also cover rows or columns, do not divide the channels, or overlap.
    """
    # TensorFlow prints the data format NHWC as 0
    if len(dims) != 4:
        raise InvalidArgumentError(f"tensor_in_shape must have 2 spatial dimensions. {len(dims)} 0")
    layout, depth = layout_of("NHWC"), attrs["ksize"][3]
    kernels, strides = layout.pick(attrs["ksize"]), layout.pick(attrs["strides"])
    # windows cover either rows and columns or channels
    if depth != 1 and kernels != (1, 1):
        raise UnimplementedError("MaxPooling supports exactly one of pooling across depth or pooling across width/height.")
    if depth == 1:
        pairs = explicit_pairs(attrs, layout) if "explicit_paddings" in attrs else ()
        return PoolWindows(windows_of(layout.pick(dims), kernels, strides, (1, 1), attrs["padding"], pairs))
    if depth <= 0:
        raise InvalidArgumentError(f"ksize must be a positive int32 value, got:{depth}")
    if dims[3] % depth != 0:
        raise UnimplementedError("Depthwise max pooling requires the depth window to evenly divide the input depth")
    if attrs["strides"][3] != depth:
        raise UnimplementedError("Depthwise max pooling requires the depth window to equal the depth stride")
    return PoolWindows(windows_of(dims[1:3], (1, 1), (1, 1), (1, 1), "VALID"), depth)


def pool_3d(dims: Sequence[int], attrs: Attrs) -> PoolWindows:
    """The windows over an input of shape `dims`, `[batch, planes, rows, columns, channels]`.

    Raises the same errors as `windows_of`.
    """
    layout = layout_of("NDHWC", 3)
    sizes, strides = layout.pick(attrs["ksize"]), layout.pick(attrs["strides"])
    return PoolWindows(windows_of(layout.pick(dims), sizes, strides, (1, 1, 1), attrs["padding"]))


def take_sizes(inputs: Sequence[Tensor], attrs: Attrs, first: int) -> tuple[Sequence[Tensor], Attrs]:
    """Return the first `first` inputs, and attrs with window sizes and strides, which V2 ops have as further inputs."""
    if len(inputs) == first:
        return inputs, attrs
    sizes, strides = (tuple(map(int, tensor.reshape(-1))) for tensor in inputs[first:])
    return inputs[:first], {**attrs, "ksize": sizes, "strides": strides}


# --- kernels --------------------------------------------------------------------------------------------------------


def average(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """AvgPool: `[batch, rows, columns, channels]` -> `[batch, windows, windows, channels]`.

    Raises InvalidArgumentError for attrs or an input that do not fit, and UnimplementedError for pooling of batch or channels.
    """
    check_layout(attrs, 2, "AvgPoolingOp")
    check_window_sizes(attrs, 2)
    check_batch(attrs)
    for size in attrs["ksize"]:
        if size <= 0:
            raise InvalidArgumentError(f"ksize must be a positive int32 value, got:{size}")
    pool = pool_2d(inputs[0].shape, attrs)
    if pool.depth != 1:
        raise UnimplementedError("Non-spatial pooling is not yet supported. Volunteers? :)")
    return (pool_mean(inputs[0], pool),)


def maximum(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPool, MaxPoolV2: `[batch, rows, columns, channels]` -> `[batch, windows, windows, groups of channels]`.

    Raises InvalidArgumentError for attrs or an input that do not fit. Raises UnimplementedError for pooling of the batch, or of
    channels together with rows or columns.
    """
    # MaxPoolV2 has sizes as inputs, does not check the layout first, and does not show its sizes in messages
    (tensor,), sized = take_sizes(inputs, attrs, 1)
    shown = ""
    if sized is attrs:
        check_layout(attrs, 2, "MaxPoolingOp")
        shown = f" The specified or inferred ksize is: {','.join(map(str, attrs['ksize']))}"
    data_format = attrs["data_format"]
    if data_format not in ("NHWC", "NCHW_VECT_C"):
        raise InvalidArgumentError(f"MaxPoolingV2Op only supports NHWC or NCHW_VECT_C. Got: {data_format}")
    check_window_sizes(sized, 2)
    if min(sized["ksize"]) <= 0:
        raise InvalidArgumentError("Sliding window ksize must be positive." + shown)
    check_batch(sized)
    check_padding(attrs, layout_of("NHWC"))
    return (pool_max(tensor, pool_2d(tensor.shape, sized)),)


def maximum_with_places(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolWithArgmax: (maxima, their positions in the flattened image or batch), both `[batch, windows, windows, channels]`.

    The position is -1 for a window that covers only padding. Raises InvalidArgumentError for attrs that do not fit, another
    rank or no elements, and UnimplementedError for pooling of batch or channels.
    """
    (tensor,) = inputs
    check_window_sizes(attrs, 2)
    check_batch(attrs)
    if tensor.ndim != 4:
        raise InvalidArgumentError("tensor_in must be 4-dimensional (2)")
    if tensor.size == 0:
        raise InvalidArgumentError("tensor_in must not be empty (2)")
    pool = pool_2d(tensor.shape, attrs)
    if pool.depth != 1:
        raise UnimplementedError("MaxPoolingWithArgmax is not yet supported on the depth dimension.")
    values, taps = largest_taps(tensor, pool)
    # positions count within each image, or with the attr within the whole batch
    places = flat_places(taps, pool, tensor.shape[-1])
    if attrs["include_batch_in_index"]:
        places += np.arange(len(tensor)).reshape(-1, 1, 1, 1) * prod(tensor.shape[1:])
    return values, np.where(taps < 0, -1, places).astype(attrs["Targmax"].numpy)


def pool_volumes(inputs: Sequence[Tensor], attrs: Attrs, function: Callable[[Tensor, PoolWindows], Tensor]) -> Sequence[Tensor]:
    """AvgPool3D, MaxPool3D: `[batch, planes, rows, columns, channels]`, pooled over planes, rows and columns.

    Raises InvalidArgumentError for attrs or an input that do not fit, and UnimplementedError for pooling of batch or channels.
    """
    (tensor,) = inputs
    check_3d(attrs, "Pooling3DOp")
    if tensor.ndim != 5:
        raise InvalidArgumentError("tensor_in must be 5-dimensional")
    return (function(tensor, pool_3d(tensor.shape, attrs)),)


# --- shape functions and costs --------------------------------------------------------------------------------------


def infer_pool(context: ShapeContext, op: str, spatial: int = 2, outputs: int = 1, is_second: bool = False) -> Sequence[Dims]:
    """Static shape of each of the `outputs`: one element for each window over the first input, in the order of `data_format`.

    `is_second` is for a gradient's gradient, whose other inputs' shapes must fit (`_merge_second`).
    """
    attrs = context.attrs
    layout = layout_of(attrs.get("data_format", "NHWC"), spatial)
    dims = with_rank(context.shapes[0], layout.rank)
    found = _static_pool(dims, attrs, layout, op)
    if is_second:
        _merge_second(context, found)
    return (found,) * outputs


def _merge_second(context: ShapeContext, found: Dims) -> None:
    """Check the shapes of a gradient's gradient: its third input is shaped as the first, its second as the output."""
    merge(context.shapes[0], context.shapes[2])
    merge(context.shapes[1], found)


def infer_pool_with_places(context: ShapeContext) -> Sequence[Dims]:
    """Static shapes of the maxima and of their positions. Raises ShapeError for windows that do not fit."""
    for size in context.attrs["ksize"]:
        if size <= 0:
            raise ShapeError(f"ksize must be a positive int32 value, got:{size}")
    return infer_pool(context, "MaxPool", outputs=2)


def infer_sized_pool(context: ShapeContext, first: int, is_second: bool = False) -> Sequence[Dims]:
    """Like `infer_pool`, with sizes and strides as inputs `first` and `first + 1`; the shape is unknown if these are."""
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


def _static_pool(dims: Sequence[int], attrs: Attrs, layout: TensorLayout, op: str) -> Dims:
    axes = len(layout.spatial) + 2
    requires = "Pool3D ops require" if axes == 5 else f"{op} requires"
    for what, name in (("stride", "strides"), ("ksize", "ksize")):
        if len(attrs[name]) != axes:
            raise ShapeError(f"{requires} the {what} attribute to contain {axes} values, but got: {len(attrs[name])}")
    if layout.vector > 1 and dims[-1] not in (4, 32):
        raise ShapeError(f"VECT_C dimension must be 4 or 32, but is {dims[-1]}")
    check_padding(attrs, layout, ShapeError)
    sizes, strides = attrs["ksize"], attrs["strides"]
    outputs = static_windows(layout.pick(dims), layout.pick(sizes), layout.pick(strides), (1,) * (axes - 2), attrs, layout)
    channels = multiply_dims(dims[layout.channel], layout.vector)
    # the shape function of AvgPool ignores pooling of channels, which the kernel rejects
    if op == "MaxPool" and axes == 4:
        channels = static_outputs(channels, sizes[layout.channel], strides[layout.channel], 1, attrs["padding"])
    return arrange(dims[0], outputs, channels, layout)


def window_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """One operation for each element of the output and each cell of a window."""
    return elements(outputs[0]) * prod(attrs.get("ksize", ()))


def _build_volume_pool(op: str, function: Callable[[Tensor, PoolWindows], Tensor]) -> Kernel:
    compute, infer = partial(pool_volumes, function=function), partial(infer_pool, op=op, spatial=3)
    return Kernel(compute, infer, window_flops, cost=CostModel("volume pooling"))


TABLE: Table = {
    "AvgPool": Kernel(average, partial(infer_pool, op="AvgPool"), window_flops, cost=CostModel("pooling")),
    "AvgPool3D": _build_volume_pool("AvgPool", pool_mean),
    "MaxPool": Kernel(maximum, partial(infer_pool, op="MaxPool"), window_flops, cost=CostModel("pooling")),
    "MaxPoolV2": Kernel(maximum, partial(infer_sized_pool, first=1), window_flops),
    "MaxPoolWithArgmax": Kernel(maximum_with_places, infer_pool_with_places, window_flops),
    "MaxPool3D": _build_volume_pool("MaxPool", pool_max),
}
