"""Conv, Conv2D and Conv3D: TensorFlow's checks, static shapes and costs around `correlation`.

The kernels are Eigen's on a CPU: channels last only (see `channels_first`), and no gradients of grouped convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.epilogues import taken
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.nn.correlation import correlate
from placesim.ops.kernels.nn.windows import (
    UNSTRIDED,
    SpatialWindow,
    TensorLayout,
    arrange,
    check_entries,
    check_padding,
    explicit_pairs,
    layout_of,
    remembered,
    static_windows,
    windows_of,
)
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, with_rank

Shape = tuple[int, ...]
Windows = tuple[SpatialWindow, ...]

UNDILATED = "Current implementation does not yet support dilations in the batch and depth dimensions."
UNDILATED_3D = "Current implementation does not yet support dilation rates in the batch and depth dimensions."
EMPTY_FILTER = "filter must not have zero elements (i.e. all dimensions must be non-zero)"


# --- kernels --------------------------------------------------------------------------------------------------------


def convolve(inputs: Sequence[Tensor], attrs: Attrs, spatial: int) -> Sequence[Tensor]:
    """Conv2D, Conv3D: `[batch, spatial..., channels]` by a filter `[taps..., channels of a group, outputs]`.

    Returns `[batch, windows..., outputs]`. Raises InvalidArgumentError if attrs, ranks or channels do not fit. No CPU kernel
    supports channels first, or strides or dilations of batch or channels: Conv2D then raises UnimplementedError, Conv3D
    InvalidArgumentError.
    """
    tensor, filters = inputs
    windows, empty = (_check_2d if spatial == 2 else _check_3d)(tensor.shape, filters.shape, attrs)
    if empty is not None:
        return (np.zeros(empty, tensor.dtype),)
    return (correlate(tensor, filters, windows, taken()),)


def convolve_any(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Conv: `[batch..., spatial..., channels]` with two or three spatial axes and attr `batch_dims` batch axes.

    The filter is `[taps..., channels, outputs]`. Raises InvalidArgumentError if attrs, ranks or channels do not fit.
    Raises UnimplementedError for groups and, with two spatial axes, for channels first.
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
    # an empty `dilations` means a dilation of 1 along each axis
    named = {**attrs, "data_format": data_format, "dilations": attrs["dilations"] or (1,) * (spatial + 2)}
    _check_any(flat.shape, filters.shape, named, layout_of(data_format, spatial))
    (output,) = convolve((flat, filters), named, spatial)
    return (output.reshape(*batch, *output.shape[1:]),)


def _check_any(dims: Shape, filters: Shape, attrs: Attrs, layout: TensorLayout) -> None:
    strides, rates = attrs["strides"], attrs["dilations"]
    unsupported = "Current implementation does not support {} in the batch and depth dimensions."
    check_entries(strides, "strides", layout.rank)
    _check_steps(strides, layout, InvalidArgumentError(unsupported.format("strides")), "Spatial strides")
    if len(rates) != layout.rank:
        # TensorFlow's text has no blanks around the number
        raise InvalidArgumentError(f"Dilation rates field must specify{layout.rank}dimensions")
    _check_steps(rates, layout, InvalidArgumentError(unsupported.format("dilation rates")), "Dilated rates")
    check_padding(attrs, layout)
    if 0 in filters:
        raise InvalidArgumentError(EMPTY_FILTER)
    depth, part = dims[layout.channel], filters[-2]
    if depth != part:
        raise InvalidArgumentError(f"Input depth must be equal to filter depth: {depth} vs {part}")


@remembered
def _check_2d(dims: Shape, filters: Shape, attrs: Attrs) -> tuple[Windows, Shape | None]:
    """(windows, the output's shape if it is empty) for an input and a filter of these shapes; see `convolve`."""
    layout = layout_of(attrs["data_format"])
    _check_forward_attrs(attrs, layout)
    _check_ranks_2d(dims, filters, layout)
    windows, shape = _forward_windows(dims, filters, attrs, layout)
    # TensorFlow returns an empty output before it checks for what the kernel does not support
    if 0 in shape or 0 in dims:
        return windows, shape
    _check_launch_2d(attrs["data_format"], dims, filters)
    return windows, None


@remembered
def _check_3d(dims: Shape, filters: Shape, attrs: Attrs) -> tuple[Windows, Shape | None]:
    """As `_check_2d`, for three spatial axes."""
    layout = layout_of(attrs["data_format"], 3)
    _check_attrs_3d(attrs, layout)
    _check_ranks_3d(dims, filters, layout)
    windows, shape = _forward_windows(dims, filters, attrs, layout)
    if 0 in shape:
        return windows, shape
    _check_launch_3d(dims, filters, attrs, layout)
    return windows, None


def _forward_windows(dims: Shape, filters: Shape, attrs: Attrs, layout: TensorLayout) -> tuple[Windows, Shape]:
    """(windows, the output's shape)."""
    windows = windows_of(
        layout.pick(dims),
        filters[:-2],
        layout.pick(attrs["strides"]),
        layout.pick(attrs["dilations"]),
        attrs["padding"],
        explicit_pairs(attrs, layout) if "explicit_paddings" in attrs else (),
    )
    return windows, arrange(dims[0], [window.outputs for window in windows], filters[-1], layout) or ()


def outer_entries(values: Sequence[int], layout: TensorLayout) -> tuple[int, int]:
    """The entries for batch and channels of an attr that has one entry for each axis."""
    return values[0], values[layout.channel]


def _check_steps(values: Sequence[int], layout: TensorLayout, outer_error: Exception, noun: str) -> None:
    """Check that strides or dilations are 1 for batch and channels (else raise `outer_error`) and positive for other axes."""
    if outer_entries(values, layout) != (1, 1):
        raise outer_error
    if min(layout.pick(values)) <= 0:
        raise InvalidArgumentError(f"{noun} should be larger than 0.")


def _check_forward_attrs(attrs: Attrs, layout: TensorLayout) -> None:
    for name in ("strides", "dilations"):
        if len(attrs[name]) != layout.rank:
            raise InvalidArgumentError(f"Sliding window {name} field must specify {layout.rank} dimensions")
    _check_steps(attrs["strides"], layout, UnimplementedError(UNSTRIDED), "Row and column strides")
    _check_steps(attrs["dilations"], layout, UnimplementedError(UNDILATED), "Dilated rates")
    check_padding(attrs, layout)


def _check_ranks_2d(dims: Shape, filters: Shape, layout: TensorLayout) -> None:
    if len(dims) != 4:
        raise InvalidArgumentError(f"convolution input must be 4-dimensional: {format_dims(dims)}")
    if len(filters) != 4:
        raise InvalidArgumentError(f"convolution filter must be 4-dimensional: {format_dims(filters)}")
    depth, part = dims[layout.channel], filters[2]
    if part <= 0:
        raise InvalidArgumentError(f"filter depth must be stricly positive, got {part}")  # TensorFlow's spelling
    if depth % part != 0:
        raise InvalidArgumentError(f"input depth must be evenly divisible by filter depth: {depth} vs {part}")


def _check_launch_2d(data_format: str, dims: Shape, filters: Shape) -> None:
    if data_format != "NHWC":
        raise UnimplementedError(
            "The Conv2D op currently only supports the NHWC tensor format on the CPU. "
            f"The op was given the format: {data_format}"
        )
    depth, (part, outputs) = dims[-1], filters[-2:]
    if 0 in filters:
        raise InvalidArgumentError(EMPTY_FILTER)
    groups = depth // part
    if outputs % groups != 0 or outputs < groups:
        raise InvalidArgumentError(f"output depth must be evenly divisible by number of groups: {outputs} vs {groups}")


def _check_attrs_3d(attrs: Attrs, layout: TensorLayout) -> None:
    check_entries(attrs["strides"], "strides", 5)
    _check_steps(attrs["strides"], layout, InvalidArgumentError(UNSTRIDED), "Spatial strides")
    if len(attrs["dilations"]) != 5:
        raise InvalidArgumentError("Dilation rates field must specify 5 dimensions")
    _check_steps(attrs["dilations"], layout, InvalidArgumentError(UNDILATED_3D), "Dilated rates")


def _check_ranks_3d(dims: Shape, filters: Shape, layout: TensorLayout) -> None:
    if len(dims) != 5:
        raise InvalidArgumentError("input must be 5-dimensional")
    if len(filters) != 5:
        raise InvalidArgumentError("filter must be 5-dimensional")
    depth, part = dims[layout.channel], filters[-2]
    if part <= 0:
        raise InvalidArgumentError("filter_depth must be non-zero")
    if depth % part != 0:
        raise InvalidArgumentError(f"Input depth must be evenly divisible by filter depth: {depth} vs {part}")
    if 0 in filters:
        raise InvalidArgumentError(EMPTY_FILTER)


def _check_launch_3d(dims: Shape, filters: Shape, attrs: Attrs, layout: TensorLayout) -> None:
    if layout.channel == 1:
        raise InvalidArgumentError("CPU implementation of Conv3D currently only supports the NHWC tensor format.")
    if any(rate != 1 for rate in attrs["dilations"]):
        raise InvalidArgumentError("CPU implementation of Conv3D currently only supports dilated rates of 1.")
    depth, part = dims[-1], filters[-2]
    if depth != part:
        raise InvalidArgumentError(f"Number of channels in filter ({part}) must match last dimension of input ({depth})")


# --- shape functions, costs and memory ------------------------------------------------------------------------------


def infer_convolution(context: ShapeContext, spatial: int) -> Sequence[Dims]:
    """Static shape of Conv2D, Conv3D: batch, windows and the filter's outputs, in the order of attr `data_format`."""
    attrs = context.attrs
    layout, op = layout_of(attrs["data_format"], spatial), f"Conv{spatial}D"
    dims, filters = (with_rank(shape, layout.rank) for shape in context.shapes)
    on_format = f" on data format {attrs['data_format']}" if spatial == 2 else ""
    _check_count(attrs["dilations"], layout.rank, f"{op} requires the dilation attribute to")
    _check_count(attrs["strides"], layout.rank, f"{op}{on_format} requires the stride attribute to")
    _check_static_groups(dims[layout.channel], filters[-2], filters[-1])
    rates = layout.pick(attrs["dilations"])
    # for volumes TensorFlow swaps the dilations of rows and columns
    if spatial == 3:
        rates = (rates[0], rates[2], rates[1])
    return (_infer_layers(dims, filters, attrs, layout, rates),)


def _check_count(values: Sequence[int], count: int, demand: str) -> None:
    if len(values) != count:
        raise ShapeError(f"{demand} contain {count} values, but got: {len(values)}")


def _infer_layers(
    dims: Sequence[int], filters: Sequence[int], attrs: Attrs, layout: TensorLayout, rates: Sequence[int]
) -> tuple[int, ...]:
    check_padding(attrs, layout, ShapeError)
    outputs = static_windows(layout.pick(dims), filters[:-2], layout.pick(attrs["strides"]), rates, attrs, layout)
    return arrange(dims[0], outputs, filters[-1], layout) or ()


def _check_static_groups(depth: int, part: int, outputs: int) -> None:
    groups = _static_groups(depth, part)
    if groups == 0:
        raise ShapeError("Number of groups must not be 0")
    if groups > 0 and outputs >= 0 and outputs % groups:
        raise ShapeError(f"Depth of output ({outputs}) is not a multiple of the number of groups ({groups})")


def _static_groups(depth: int, part: int) -> int:
    """Number of groups of channels, -1 if unknown."""
    if depth < 0 or part < 0:
        return -1
    if part == 0:
        raise ShapeError("Depth of filter must not be 0")
    if depth % part:
        raise ShapeError(f"Depth of input ({depth}) is not a multiple of input depth of filter ({part})")
    return depth // part


def infer_any_convolution(context: ShapeContext) -> Sequence[Dims]:
    """Static shape of Conv. The number of spatial axes follows from the rank of the input or, if unknown, of the filter.

    Raises ShapeError if the ranks do not fit.
    """
    attrs, (dims, filters) = context.attrs, context.shapes
    batch_axes = attrs["batch_dims"]
    if filters is None and dims is None:
        return (None,)
    if batch_axes < 0:
        raise ShapeError("Batch dims must be non-negative.")
    rank = len(filters or ()) if dims is None else len(dims) - batch_axes + 1
    if dims is not None and rank not in (4, 5):
        raise ShapeError(f"Input tensor must be rank 4 or 5, excluding extra batch dimensions, but got: {rank}")
    if filters is not None and len(filters) not in (4, 5):
        # TensorFlow's message names the rank that fits the input, not the filter's rank
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
    """Check the number of channel groups against attr `groups`."""
    if groups < 1:
        raise ShapeError("Groups attribute should be a positive integer")
    for which, count in (("input", depth), ("output", filters[-1])):
        if count >= 0 and count % groups:
            raise ShapeError(f"Number of groups should divide {which} depth")
    if _static_groups(depth, filters[-2]) not in (groups, -1):
        raise ShapeError(f"Input depth divided by filter input depth does not match with groups parameter ({groups})")


def forward_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs, filters: int = 1) -> int:
    """A multiplication and an addition for each element of the output and each element of its filter."""
    return 2 * elements(outputs[0]) * elements((inputs[filters] or ())[:-1])


def convolution_memory(memory: KernelMemory) -> None:
    """The output; on a CPU a grouped convolution also has transposed copies of all three tensors.

    Eigen packs its operands in memory that does not come from TensorFlow's allocator.
    """
    memory.allocate(0)
    images, filters, output = memory.inputs[0], memory.inputs[1], memory.outputs[0]
    if memory.is_on_gpu or not output.elements or not filters.elements:
        return
    layout = layout_of(memory.attrs["data_format"], len(filters.dims) - 2)
    channel = layout.channel - layout.rank  # from the end, as images may have several batch axes
    groups = images.dims[channel] // filters.dims[-2]
    for tensor, axis in ((images, channel), (filters, -1), (output, channel)) if groups > 1 else ():
        parts = list(tensor.dims)
        parts[axis] //= groups
        memory.temporary(tensor.size, (groups, *parts), tensor.dtype)


_CONVOLUTION = Kernel(
    partial(convolve, spatial=2),
    partial(infer_convolution, spatial=2),
    forward_flops,
    memory=convolution_memory,
    traits=Trait.NEW_MEMORY,
    cost=CostModel("convolution"),
)

TABLE: Table = {
    "Conv": Kernel(convolve_any, infer_any_convolution, forward_flops, memory=convolution_memory),
    "Conv2D": _CONVOLUTION,
    "Conv3D": _CONVOLUTION._replace(
        compute=partial(convolve, spatial=3), shape=partial(infer_convolution, spatial=3), memory=None
    ),
}
