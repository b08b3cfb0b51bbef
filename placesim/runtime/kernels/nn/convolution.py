"""Conv, Conv2D, Conv3D and their gradients: TensorFlow's checks, static shapes and costs around `correlation`.

On the CPU TensorFlow convolves channels-last tensors only; grouped convolutions go forward but have no gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.dimensions import shape_of_values, shape_of_vector
from placesim.runtime.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.runtime.kernels.nn.correlation import correlate, correlate_back, correlate_filter
from placesim.runtime.kernels.nn.windows import (
    UNSTRIDED,
    Layout,
    Window,
    arrange,
    check_entries,
    check_padding,
    check_static_padding,
    explicit_pairs,
    layout_of,
    static_windows,
    window_of,
    windows_of,
)
from placesim.runtime.shapes import Dims, ShapeContext, ShapeError, ShapeFunction, format_dims, merge_dim, with_rank

UNDILATED = "Current implementation does not yet support dilations in the batch and depth dimensions."
UNDILATED_3D = "Current implementation does not yet support dilation rates in the batch and depth dimensions."
EMPTY_FILTER = "filter must not have zero elements (i.e. all dimensions must be non-zero)"


# --- kernels ----------------------------------------------------------------------------------------------------------


def convolve(inputs: Sequence[Tensor], attrs: Attrs, spatial: int) -> Sequence[Tensor]:
    """Conv2D, Conv3D: `[batch, spatial..., channels]` by a filter `[taps..., channels of a group, outputs]`.

    Gives `[batch, windows..., outputs]`.  InvalidArgumentError where attrs, ranks or channels do not fit; what no CPU kernel
    does (strides or dilations of batch or channels, channels first) is an UnimplementedError in two dimensions only.
    """
    tensor, filters = inputs
    layout = layout_of(attrs["data_format"], spatial)
    if spatial == 2:
        _check_forward_attrs(attrs, layout)
        _check_ranks_2d(tensor, filters, layout)
    else:
        _check_attrs_3d(attrs, layout)
        _check_ranks_3d(tensor, filters, layout)
    windows = _forward_windows(tensor, filters, attrs, layout)
    shape = arrange(len(tensor), [window.outputs for window in windows], filters.shape[-1], layout) or ()
    # an output without elements is given before the kernel looks at what it can't compute
    if 0 in shape or (tensor.size == 0 and spatial == 2):
        return (np.zeros(shape, tensor.dtype),)
    if spatial == 2:
        _check_launch_2d(attrs["data_format"], tensor, filters)
    else:
        _check_launch_3d(tensor, filters, attrs, layout)
    return (correlate(tensor, filters, windows),)


def convolve_any(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Conv: `[batch..., spatial..., channels]` with two or three spatial axes and attr `batch_dims` batch axes.

    The filter is `[taps..., channels, outputs]`.  InvalidArgumentError where attrs, ranks or channels do not fit;
    UnimplementedError for groups and, with two spatial axes, for channels first.
    """
    tensor, filters = inputs
    batch_axes = attrs["batch_dims"]
    spatial = tensor.ndim - batch_axes - 1
    if attrs["groups"] != 1:
        raise UnimplementedError("Grouped/Depthwise Convolutions are not supported yet.")
    if spatial not in (2, 3):
        raise InvalidArgumentError(f"The input must have 2 or 3 spatial dimensions but got {spatial}")
    if filters.ndim not in (4, 5):
        raise InvalidArgumentError(f"The filter must be rank 4 or 5 but got {filters.ndim}")
    batch = tensor.shape[:batch_axes]
    data_format = ("NHWC", "NDHWC")[spatial - 2] if attrs["data_format"] == "CHANNELS_LAST" else ("NCHW", "NCDHW")[spatial - 2]
    flat = tensor.reshape(prod(batch), *tensor.shape[batch_axes:])
    # no dilations at all stand for those of 1
    named = {**attrs, "data_format": data_format, "dilations": attrs["dilations"] or (1,) * (spatial + 2)}
    _check_any(flat, filters, named, layout_of(data_format, spatial))
    (output,) = convolve((flat, filters), named, spatial)
    return (output.reshape(*batch, *output.shape[1:]),)


def _check_any(tensor: Tensor, filters: Tensor, attrs: Attrs, layout: Layout) -> None:
    strides, rates = attrs["strides"], attrs["dilations"]
    unsupported = "Current implementation does not support {} in the batch and depth dimensions."
    check_entries(strides, "strides", layout.rank)
    if _outer(strides, layout) != (1, 1):
        raise InvalidArgumentError(unsupported.format("strides"))
    if min(layout.pick(strides)) <= 0:
        raise InvalidArgumentError("Spatial strides should be larger than 0.")
    if len(rates) != layout.rank:
        # TensorFlow's text has no blanks around the number
        raise InvalidArgumentError(f"Dilation rates field must specify{layout.rank}dimensions")
    if _outer(rates, layout) != (1, 1):
        raise InvalidArgumentError(unsupported.format("dilation rates"))
    if min(layout.pick(rates)) <= 0:
        raise InvalidArgumentError("Dilated rates should be larger than 0.")
    check_padding(attrs, layout)
    if filters.size == 0:
        raise InvalidArgumentError(EMPTY_FILTER)
    depth, part = tensor.shape[layout.channel], filters.shape[-2]
    if depth != part:
        raise InvalidArgumentError(f"Input depth must be equal to filter depth: {depth} vs {part}")


def _forward_windows(tensor: Tensor, filters: Tensor, attrs: Attrs, layout: Layout) -> tuple[Window, ...]:
    return windows_of(
        layout.pick(tensor.shape),
        filters.shape[:-2],
        layout.pick(attrs["strides"]),
        layout.pick(attrs["dilations"]),
        attrs["padding"],
        explicit_pairs(attrs, layout) if "explicit_paddings" in attrs else (),
    )


def _outer(values: Sequence[int], layout: Layout) -> tuple[int, int]:
    """The batch's and the channels' entry of an attr with one for each axis."""
    return values[0], values[layout.channel]


def _check_forward_attrs(attrs: Attrs, layout: Layout) -> None:
    if _outer(attrs["strides"], layout) != (1, 1):
        raise UnimplementedError(UNSTRIDED)
    if min(layout.pick(attrs["strides"])) <= 0:
        raise InvalidArgumentError("Row and column strides should be larger than 0.")
    if _outer(attrs["dilations"], layout) != (1, 1):
        raise UnimplementedError(UNDILATED)
    if min(layout.pick(attrs["dilations"])) <= 0:
        raise InvalidArgumentError("Dilated rates should be larger than 0.")
    check_padding(attrs, layout)


def _check_ranks_2d(tensor: Tensor, filters: Tensor, layout: Layout) -> None:
    if tensor.ndim != 4:
        raise InvalidArgumentError(f"convolution input must be 4-dimensional: {format_dims(tensor.shape)}")
    if filters.ndim != 4:
        raise InvalidArgumentError(f"convolution filter must be 4-dimensional: {format_dims(filters.shape)}")
    depth, part = tensor.shape[layout.channel], filters.shape[2]
    if part <= 0:
        raise InvalidArgumentError(f"filter depth must be stricly positive, got {part}")  # TensorFlow's spelling
    if depth % part != 0:
        raise InvalidArgumentError(f"input depth must be evenly divisible by filter depth: {depth} vs {part}")


def _check_launch_2d(data_format: str, tensor: Tensor, filters: Tensor) -> None:
    if data_format != "NHWC":
        raise UnimplementedError(
            "The Conv2D op currently only supports the NHWC tensor format on the CPU. "
            f"The op was given the format: {data_format}"
        )
    depth, (part, outputs) = tensor.shape[-1], filters.shape[-2:]
    if filters.size == 0:
        raise InvalidArgumentError(EMPTY_FILTER)
    groups = depth // part
    if outputs % groups != 0 or outputs < groups:
        raise InvalidArgumentError(f"output depth must be evenly divisible by number of groups: {outputs} vs {groups}")


def _check_attrs_3d(attrs: Attrs, layout: Layout) -> None:
    check_entries(attrs["strides"], "strides", 5)
    if _outer(attrs["strides"], layout) != (1, 1):
        raise InvalidArgumentError(UNSTRIDED)
    if min(layout.pick(attrs["strides"])) <= 0:
        raise InvalidArgumentError("Spatial strides should be larger than 0.")
    if len(attrs["dilations"]) != 5:
        raise InvalidArgumentError("Dilation rates field must specify 5 dimensions")
    if _outer(attrs["dilations"], layout) != (1, 1):
        raise InvalidArgumentError(UNDILATED_3D)
    if min(layout.pick(attrs["dilations"])) <= 0:
        raise InvalidArgumentError("Dilated rates should be larger than 0.")


def _check_ranks_3d(tensor: Tensor, filters: Tensor, layout: Layout) -> None:
    if tensor.ndim != 5:
        raise InvalidArgumentError("input must be 5-dimensional")
    if filters.ndim != 5:
        raise InvalidArgumentError("filter must be 5-dimensional")
    depth, part = tensor.shape[layout.channel], filters.shape[-2]
    if part <= 0:
        raise InvalidArgumentError("filter_depth must be non-zero")
    if depth % part != 0:
        raise InvalidArgumentError(f"Input depth must be evenly divisible by filter depth: {depth} vs {part}")
    if filters.size == 0:
        raise InvalidArgumentError(EMPTY_FILTER)


def _check_launch_3d(tensor: Tensor, filters: Tensor, attrs: Attrs, layout: Layout) -> None:
    if layout.channel == 1:
        raise InvalidArgumentError("CPU implementation of Conv3D currently only supports the NHWC tensor format.")
    if any(rate != 1 for rate in attrs["dilations"]):
        raise InvalidArgumentError("CPU implementation of Conv3D currently only supports dilated rates of 1.")
    depth, part = tensor.shape[-1], filters.shape[-2]
    if depth != part:
        raise InvalidArgumentError(f"Number of channels in filter ({part}) must match last dimension of input ({depth})")


# --- gradients --------------------------------------------------------------------------------------------------------


def convolve_back(inputs: Sequence[Tensor], attrs: Attrs, spatial: int, takes_sizes: bool = True) -> Sequence[Tensor]:
    """The gradient of the input `[batch, spatial..., channels]`, from (its shape or the input itself, filter, gradients).

    The gradients are the output's, `[batch, windows..., outputs]`.  InvalidArgumentError where attrs or shapes do not fit, for
    dilations and for groups; UnimplementedError in two dimensions for strides or dilations of batch or channels.
    """
    sizes, filters, grads = inputs
    layout = _check_back_attrs(attrs, spatial, "Input")
    shape = _input_shape(sizes, filters, grads, layout) if takes_sizes else sizes.shape
    windows = _back_windows("Input", shape, filters.shape, grads.shape, attrs, layout)
    if shape[-1] != filters.shape[-2]:
        raise InvalidArgumentError(
            "Gradients for grouped convolutions are not supported on CPU. Please file a feature request if you run into this "
            f"issue. Computed input depth {shape[-1]} doesn't match filter input depth {filters.shape[-2]}"
        )
    return (correlate_back(grads, filters, windows),)


def convolve_filter(inputs: Sequence[Tensor], attrs: Attrs, spatial: int, takes_sizes: bool = True) -> Sequence[Tensor]:
    """The gradient of the filter `[taps..., channels, outputs]`, from (the input, its shape or the filter itself, gradients).

    The gradients are the output's, `[batch, windows..., outputs]`.  InvalidArgumentError where attrs or shapes do not fit, and
    for dilations and groups.
    """
    tensor, sizes, grads = inputs
    layout = _check_back_attrs(attrs, spatial, "Filter")
    shape = _filter_shape(sizes, spatial) if takes_sizes else sizes.shape
    windows = _back_windows("Filter", tensor.shape, shape, grads.shape, attrs, layout)
    # TensorFlow refuses groups here by the number of the filter's elements
    requested, count = prod(shape[:-2]) * tensor.shape[-1] * grads.shape[-1], prod(shape)
    if requested != count:
        raise InvalidArgumentError(f"filter_size does not have enough elements, requested {requested}, got {count}")
    return (correlate_filter(tensor, grads, windows),)


def _check_back_attrs(attrs: Attrs, spatial: int, of: str) -> Layout:
    if spatial == 3:
        return _check_back_attrs_3d(attrs, of)
    layout = layout_of(attrs["data_format"])
    if layout.channel == 1:
        raise InvalidArgumentError(f"Conv2DCustomBackprop{of}Op only supports NHWC.")
    # the gradient of the input says Unimplemented where that of the filter says InvalidArgument
    refusal = UnimplementedError if of == "Input" else InvalidArgumentError
    check_entries(attrs["strides"], "strides", 4)
    if _outer(attrs["strides"], layout) != (1, 1):
        raise refusal(UNSTRIDED)
    if min(layout.pick(attrs["strides"])) <= 0:
        raise InvalidArgumentError("Row and column strides should be larger than 0.")
    check_entries(attrs["dilations"], "dilations", 4)
    if _outer(attrs["dilations"], layout) != (1, 1):
        raise refusal(UNDILATED)
    # the gradient of the filter looks at the padding before the dilations, that of the input after them
    if of == "Filter":
        check_padding(attrs, layout)
    if any(rate != 1 for rate in attrs["dilations"]):
        raise InvalidArgumentError("Current CPU implementations do not yet support dilation rates larger than 1.")
    check_padding(attrs, layout)
    return layout


def _check_back_attrs_3d(attrs: Attrs, of: str) -> Layout:
    # the ops' first versions have neither a data format nor dilations
    layout = layout_of(attrs.get("data_format", "NDHWC"), 3)
    if layout.channel == 1:
        raise InvalidArgumentError(f"Conv3DBackprop{of}OpV2 only supports NDHWC on the CPU.")
    rates = attrs.get("dilations", (1,) * 5)
    if len(rates) != 5:
        raise InvalidArgumentError("Dilation rates field must specify 5 dimensions")
    if _outer(rates, layout) != (1, 1):
        raise InvalidArgumentError(UNDILATED_3D)
    if any(rate != 1 for rate in rates):
        raise InvalidArgumentError("Current CPU implementation does not yet support dilation rates larger than 1.")
    check_entries(attrs["strides"], "strides", 5)
    if _outer(attrs["strides"], layout) != (1, 1):
        raise InvalidArgumentError(UNSTRIDED)
    return layout


def _input_shape(sizes: Tensor, filters: Tensor, grads: Tensor, layout: Layout) -> tuple[int, ...]:
    """The input's shape from `input_sizes`: all of it, or of a two-dimensional convolution rows and columns only."""
    if layout.rank == 5:
        return shape_of_vector(sizes)
    if grads.ndim != 4:
        raise InvalidArgumentError(f"input_sizes must be 4-dimensional, got: {grads.ndim}")
    if sizes.ndim != 1:
        raise InvalidArgumentError(f"Conv2DBackpropInput: input_sizes input must be 1-dim, not {sizes.ndim}")
    count = len(sizes)
    if count not in (2, 4):
        raise InvalidArgumentError(
            f"Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: {count}"
        )
    shape = shape_of_values(sizes)
    if count == 4:
        return shape
    # with rows and columns alone, the batch is that of the gradients, the channels are those of the filter
    if filters.ndim != 4:
        raise InvalidArgumentError("Conv2DCustomBackpropInput: filter must be 4-dimensional")
    return (len(grads), *shape, filters.shape[2])


def _filter_shape(sizes: Tensor, spatial: int) -> tuple[int, ...]:
    if spatial == 3 and sizes.ndim != 1:
        raise InvalidArgumentError(f"filter_sizes shape must be rank 1 but is rank {sizes.ndim}")
    if sizes.ndim != 1:
        raise InvalidArgumentError(f"Conv2DCustomBackpropFilter: filter_sizes input must be 1-dim, not {sizes.ndim}")
    return shape_of_values(sizes)


def _back_windows(
    of: str, inputs: Sequence[int], filters: Sequence[int], grads: Sequence[int], attrs: Attrs, layout: Layout
) -> tuple[Window, ...]:
    """The windows of a gradient whose three shapes agree."""
    label = f"Conv2DCustomBackprop{of}" if layout.rank == 4 else f"Conv3DBackprop{of}Op"
    # volumes are checked once by their own kernel, and once more by what both kernels share
    if layout.rank == 5:
        _check_back_shapes_3d(inputs, filters, grads)
    for name, shape in (("input", inputs), ("filter", filters), ("out_backprop", grads)):
        if len(shape) != layout.rank:
            raise InvalidArgumentError(f"{label}: {name} must be {layout.rank}-dimensional")
    if inputs[0] != grads[0]:
        raise InvalidArgumentError(
            f"{label}: input and out_backprop must have the same batch size. "
            f"Input batch: {inputs[0]}, outbackprop batch: {grads[0]}, batch_dim: 0"
        )
    if filters[-2] <= 0:
        raise InvalidArgumentError(f"{label}: filter depth must be strictly greated than zero")  # TensorFlow's spelling
    if inputs[-1] % filters[-2] != 0:
        raise InvalidArgumentError(f"{label}: input depth must be evenly divisible by filter depth")
    if filters[-1] != grads[-1]:
        raise InvalidArgumentError(f"{label}: filter and out_backprop must have the same out_depth")
    strides, padding = layout.pick(attrs["strides"]), attrs["padding"]
    pairs = ("explicit_paddings" in attrs and explicit_pairs(attrs, layout)) or [(0, 0)] * len(strides)
    windows = []
    for axis, taps, stride, pair in zip(layout.spatial, filters, strides, pairs, strict=False):
        window = window_of(inputs[axis], taps, stride, 1, padding, pair)
        if grads[axis] != window.outputs:
            raise InvalidArgumentError(
                f"{label}: Size of out_backprop doesn't match computed: actual = {grads[axis]}, computed = {window.outputs} "
                f"spatial_dim: {axis} input: {window.input} filter: {taps} output: {grads[axis]} stride: {stride} dilation: 1"
            )
        windows.append(window)
    return tuple(windows)


def _check_back_shapes_3d(inputs: Sequence[int], filters: Sequence[int], grads: Sequence[int]) -> None:
    for name, shape in (("input", inputs), ("filter_sizes", filters), ("out_backprop", grads)):
        if len(shape) != 5:
            raise InvalidArgumentError(f"{name} tensor must have 5 dimensions")
    for name, given, wanted in (("input", inputs[-1], filters[-2]), ("out_backprop", grads[-1], filters[-1])):
        if given != wanted:
            raise InvalidArgumentError(
                f"{name} and filter_sizes must have the same number of channels. "
                f"Got {given} for {name} and {wanted} for filter_sizes"
            )


# --- shape functions --------------------------------------------------------------------------------------------------


def infer_convolution(context: ShapeContext, spatial: int) -> Sequence[Dims]:
    """Conv2D, Conv3D: the batch, the windows and the filter's outputs, in the order of attr `data_format`."""
    attrs = context.attrs
    layout, op = layout_of(attrs["data_format"], spatial), f"Conv{spatial}D"
    dims, filters = (with_rank(shape, layout.rank) for shape in context.shapes)
    on_format = f" on data format {attrs['data_format']}" if spatial == 2 else ""
    _check_count(attrs["dilations"], layout.rank, f"{op} requires the dilation attribute to")
    _check_count(attrs["strides"], layout.rank, f"{op}{on_format} requires the stride attribute to")
    _check_static_groups(dims[layout.channel], filters[-2], filters[-1])
    rates = layout.pick(attrs["dilations"])
    # for volumes TensorFlow takes the rates of rows and of columns for each other
    if spatial == 3:
        rates = (rates[0], rates[2], rates[1])
    return (_infer_layers(dims, filters, attrs, layout, rates),)


def _check_count(values: Sequence[int], count: int, demand: str) -> None:
    if len(values) != count:
        raise ShapeError(f"{demand} contain {count} values, but got: {len(values)}")


def _infer_layers(
    dims: Sequence[int], filters: Sequence[int], attrs: Attrs, layout: Layout, rates: Sequence[int]
) -> tuple[int, ...]:
    check_static_padding(attrs, layout)
    outputs = static_windows(layout.pick(dims), filters[:-2], layout.pick(attrs["strides"]), rates, attrs, layout)
    return arrange(dims[0], outputs, filters[-1], layout) or ()


def _check_static_groups(depth: int, part: int, outputs: int) -> None:
    groups = _static_groups(depth, part)
    if groups == 0:
        raise ShapeError("Number of groups must not be 0")
    if groups > 0 and outputs >= 0 and outputs % groups:
        raise ShapeError(f"Depth of output ({outputs}) is not a multiple of the number of groups ({groups})")


def _static_groups(depth: int, part: int) -> int:
    """How many groups of channels there are, -1 where it is not known."""
    if depth < 0 or part < 0:
        return -1
    if part == 0:
        raise ShapeError("Depth of filter must not be 0")
    if depth % part:
        raise ShapeError(f"Depth of input ({depth}) is not a multiple of input depth of filter ({part})")
    return depth // part


def infer_any_convolution(context: ShapeContext) -> Sequence[Dims]:
    """Conv: the rank of the input or of the filter tells how many spatial axes there are."""
    attrs, (dims, filters) = context.attrs, context.shapes
    batch_axes = attrs["batch_dims"]
    if batch_axes < 0:
        raise ShapeError("Batch dims must be non-negative.")
    if filters is None and dims is None:
        return (None,)
    rank = len(filters or ()) if dims is None else len(dims) - batch_axes + 1
    if dims is not None and rank not in (4, 5):
        raise ShapeError(f"Input tensor must be rank 4 or 5, excluding extra batch dimensions, but got: {rank}")
    if filters is not None and len(filters) not in (4, 5):
        # TensorFlow tells the rank that the input asks for, not the filter's
        raise ShapeError(f"Filter tensor must be rank 4 or 5, but got: {rank}")
    if filters is not None and len(filters) != rank:
        raise ShapeError("Input tensor rank must be the same as filter rank.")
    layout = layout_of(attrs["data_format"], rank - 2)
    whole, taps = with_rank(dims, rank + batch_axes - 1), with_rank(filters, rank)
    inner, rates = (-1, *whole[batch_axes:]), attrs["dilations"] or (1,) * rank
    _check_count(rates, rank, "Conv requires the dilation attribute to")
    _check_count(attrs["strides"], rank, "Stride attribute should")
    _check_named_groups(inner[layout.channel], taps, attrs["groups"])
    return ((*whole[:batch_axes], *_infer_layers(inner, taps, attrs, layout, layout.pick(rates))[1:]),)


def _check_named_groups(depth: int, filters: Sequence[int], groups: int) -> None:
    """The channels are as many groups as attr `groups` says."""
    if groups < 1:
        raise ShapeError("Groups attribute should be a positive integer")
    for which, count in (("input", depth), ("output", filters[-1])):
        if count >= 0 and count % groups:
            raise ShapeError(f"Number of groups should divide {which} depth")
    if _static_groups(depth, filters[-2]) not in (groups, -1):
        raise ShapeError(f"Input depth divided by filter input depth does not match with groups parameter ({groups})")


def infer_input_gradient_2d(context: ShapeContext) -> Sequence[Dims]:
    """Conv2DBackpropInput: what `input_sizes` says, all of the shape or its rows and columns, and the gradient's batch."""
    layout = layout_of(context.attrs["data_format"])
    grads, filters = with_rank(context.shapes[2], 4), with_rank(context.shapes[1], 4)
    batch = grads[0]
    merge_dim(grads[layout.channel], filters[3])
    with_rank(context.shapes[0], 1)
    sizes = context.shape_value(0)
    sizes = (-1,) * 4 if sizes is None else sizes
    if len(sizes) == 4:
        merge_dim(sizes[0], batch)
        return (arrange(batch, layout.pick(sizes), sizes[layout.channel], layout),)
    if len(sizes) == 2:
        return (arrange(batch, sizes, filters[2], layout),)
    raise ShapeError(f"Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: {len(sizes)}")


def infer_from_sizes(context: ShapeContext, index: int, rank: int) -> Sequence[Dims]:
    """A gradient whose shape is the value of an input."""
    with_rank(context.shapes[index], 1)
    return (with_rank(context.shape_value(index), rank),)


def infer_as_input(context: ShapeContext, index: int, rank: int) -> Sequence[Dims]:
    """A gradient that is shaped as the input that it belongs to."""
    return (with_rank(context.shapes[index], rank),)


def _build_infer_from_sizes(index: int, rank: int) -> ShapeFunction:
    return partial(infer_from_sizes, index=index, rank=rank)


def _build_infer_as_input(index: int, rank: int) -> ShapeFunction:
    return partial(infer_as_input, index=index, rank=rank)


# --- costs ------------------------------------------------------------------------------------------------------------


def forward_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """A multiplication and an addition for each output and each cell of a filter."""
    return 2 * elements(outputs[0]) * elements((inputs[1] or ())[:-1])


def input_gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """As many as forward: each gradient times a whole filter."""
    return 2 * elements(inputs[2]) * elements((inputs[1] or ())[:-1])


def filter_gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """As many again: each gradient times the whole patch under it."""
    return 2 * elements(inputs[2]) * elements((outputs[0] or ())[:-1])


# --- rows -------------------------------------------------------------------------------------------------------------


def _build_input_gradient(spatial: int, infer: ShapeFunction, takes_sizes: bool) -> Kernel:
    return Kernel(partial(convolve_back, spatial=spatial, takes_sizes=takes_sizes), infer, input_gradient_flops)


def _build_filter_gradient(spatial: int, infer: ShapeFunction, takes_sizes: bool) -> Kernel:
    return Kernel(partial(convolve_filter, spatial=spatial, takes_sizes=takes_sizes), infer, filter_gradient_flops)


TABLE: Table = {
    "Conv": Kernel(convolve_any, infer_any_convolution, forward_flops),
    "Conv2D": Kernel(partial(convolve, spatial=2), partial(infer_convolution, spatial=2), forward_flops),
    "Conv3D": Kernel(partial(convolve, spatial=3), partial(infer_convolution, spatial=3), forward_flops),
    "Conv2DBackpropInput": _build_input_gradient(2, infer_input_gradient_2d, takes_sizes=True),
    "Conv2DBackpropFilter": _build_filter_gradient(2, _build_infer_from_sizes(1, 4), takes_sizes=True),
    "Conv2DBackpropInputV2": _build_input_gradient(2, _build_infer_as_input(0, 4), takes_sizes=False),
    "Conv2DBackpropFilterV2": _build_filter_gradient(2, _build_infer_as_input(1, 4), takes_sizes=False),
    "Conv3DBackpropInputV2": _build_input_gradient(3, _build_infer_from_sizes(0, 5), takes_sizes=True),
    "Conv3DBackpropFilterV2": _build_filter_gradient(3, _build_infer_from_sizes(1, 5), takes_sizes=True),
    "Conv3DBackpropInput": _build_input_gradient(3, _build_infer_as_input(0, 5), takes_sizes=False),
    "Conv3DBackpropFilter": _build_filter_gradient(3, _build_infer_as_input(1, 5), takes_sizes=False),
}
