"""Gradients of convolutions with respect to their input and their filter, in two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel
from placesim.ops.kernels.kernel import PLAIN, Kernel, Table, Tensor, Trait, elements
from placesim.ops.kernels.memory_rules import KernelMemory, MemoryRule, TensorMemory, item_size
from placesim.ops.kernels.nn.convolution import UNDILATED, UNDILATED_3D, outer_entries
from placesim.ops.kernels.nn.correlation import correlate_back, correlate_filter
from placesim.ops.kernels.nn.windows import (
    UNSTRIDED,
    SpatialWindow,
    TensorLayout,
    arrange,
    check_entries,
    check_padding,
    explicit_pairs,
    layout_of,
    window_of,
)
from placesim.ops.kernels.shape_operands import shape_of_values, shape_of_vector
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, infer_by, infer_from_sizes, merge_dim, with_rank

# --- gradients ------------------------------------------------------------------------------------------------------


def convolve_back(
    inputs: Sequence[Tensor], attrs: Attrs, spatial: int, takes_sizes: bool = True, in_library: bool = False
) -> Sequence[Tensor]:
    """(the input's shape or the input, filter, gradients of the output) -> gradient of the input.

    The input is `[batch, spatial..., channels]`, the output `[batch, windows..., outputs]`; `takes_sizes`: the first tensor is
    a shape; `in_library`: the kernel is cuDNN's or oneDNN's. Raises InvalidArgumentError if attrs or shapes do not fit, and for
    dilations and groups unless `in_library`. With two spatial axes, raises UnimplementedError for strides or dilations of batch
    or channels.
    """
    sizes, filters, grads = inputs
    layout = _check_back_attrs(attrs, spatial, "Input", in_library)
    shape = _input_shape(sizes, filters, grads, layout) if takes_sizes else sizes.shape
    windows = _back_windows("Input", shape, filters.shape, grads.shape, attrs, layout)
    groups = shape[-1] // filters.shape[-2] if in_library else 1
    if groups > 1:
        parts = zip(np.split(grads, groups, axis=-1), np.split(filters, groups, axis=-1), strict=True)
        return (np.concatenate([correlate_back(*part, windows) for part in parts], axis=-1),)
    if shape[-1] != filters.shape[-2]:
        raise InvalidArgumentError(
            "Gradients for grouped convolutions are not supported on CPU. Please file a feature request if you run into this "
            f"issue. Computed input depth {shape[-1]} doesn't match filter input depth {filters.shape[-2]}"
        )
    return (correlate_back(grads, filters, windows),)


def convolve_filter(
    inputs: Sequence[Tensor], attrs: Attrs, spatial: int, takes_sizes: bool = True, in_library: bool = False
) -> Sequence[Tensor]:
    """(input, the filter's shape or the filter, gradients of the output) -> gradient of the filter.

    The filter is `[taps..., channels, outputs]`, the output `[batch, windows..., outputs]`; `takes_sizes`: the second tensor is
    a shape; `in_library`: the kernel is cuDNN's or oneDNN's. Raises InvalidArgumentError if attrs or shapes do not fit, and for
    dilations and groups unless `in_library`.
    """
    tensor, sizes, grads = inputs
    layout = _check_back_attrs(attrs, spatial, "Filter", in_library)
    shape = _filter_shape(sizes, spatial) if takes_sizes else sizes.shape
    windows = _back_windows("Filter", tensor.shape, shape, grads.shape, attrs, layout)
    groups = tensor.shape[-1] // shape[-2] if in_library else 1
    if groups > 1:
        parts = zip(np.split(tensor, groups, axis=-1), np.split(grads, groups, axis=-1), strict=True)
        return (np.concatenate([correlate_filter(*part, windows) for part in parts], axis=-1),)
    # TensorFlow detects groups by the filter's number of elements
    requested, count = prod(shape[:-2]) * tensor.shape[-1] * grads.shape[-1], prod(shape)
    if requested != count:
        raise InvalidArgumentError(f"filter_size does not have enough elements, requested {requested}, got {count}")
    return (correlate_filter(tensor, grads, windows),)


def in_library(kernel: Kernel) -> Kernel:
    """Return the kernel of a gradient as cuDNN and oneDNN have it: also for dilations and, in two dimensions, groups."""
    return kernel._replace(compute=partial(kernel.compute, in_library=True))


def _check_back_attrs(attrs: Attrs, spatial: int, of: str, in_library: bool) -> TensorLayout:
    if spatial == 3:
        return _check_back_attrs_3d(attrs, of, in_library)
    layout = layout_of(attrs["data_format"])
    if layout.channel == 1:
        raise InvalidArgumentError(f"Conv2DCustomBackprop{of}Op only supports NHWC.")
    # for the same problem, the gradient of the input raises Unimplemented, the gradient of the filter InvalidArgument
    refusal = UnimplementedError if of == "Input" else InvalidArgumentError
    check_entries(attrs["strides"], "strides", 4)
    if outer_entries(attrs["strides"], layout) != (1, 1):
        raise refusal(UNSTRIDED)
    if min(layout.pick(attrs["strides"])) <= 0:
        raise InvalidArgumentError("Row and column strides should be larger than 0.")
    check_entries(attrs["dilations"], "dilations", 4)
    if outer_entries(attrs["dilations"], layout) != (1, 1):
        raise refusal(UNDILATED)
    # the gradient of the filter checks the padding before the dilations, the gradient of the input after them
    if of == "Filter":
        check_padding(attrs, layout)
    if any(rate != 1 for rate in attrs["dilations"]) and not in_library:
        raise InvalidArgumentError("Current CPU implementations do not yet support dilation rates larger than 1.")
    check_padding(attrs, layout)
    return layout


def _check_back_attrs_3d(attrs: Attrs, of: str, in_library: bool) -> TensorLayout:
    # the ops' first versions have neither a data format nor dilations
    layout = layout_of(attrs.get("data_format", "NDHWC"), 3)
    if layout.channel == 1:
        raise InvalidArgumentError(f"Conv3DBackprop{of}OpV2 only supports NDHWC on the CPU.")
    rates = attrs.get("dilations", (1,) * 5)
    if len(rates) != 5:
        raise InvalidArgumentError("Dilation rates field must specify 5 dimensions")
    if outer_entries(rates, layout) != (1, 1):
        raise InvalidArgumentError(UNDILATED_3D)
    if any(rate != 1 for rate in rates) and not in_library:
        raise InvalidArgumentError("Current CPU implementation does not yet support dilation rates larger than 1.")
    check_entries(attrs["strides"], "strides", 5)
    if outer_entries(attrs["strides"], layout) != (1, 1):
        raise InvalidArgumentError(UNSTRIDED)
    return layout


def _input_shape(sizes: Tensor, filters: Tensor, grads: Tensor, layout: TensorLayout) -> tuple[int, ...]:
    """The input's shape from `input_sizes`, which may give only rows and columns for a two-dimensional convolution."""
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
    # the batch is taken from the gradients, and the channels from the filter
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
    of: str, inputs: Sequence[int], filters: Sequence[int], grads: Sequence[int], attrs: Attrs, layout: TensorLayout
) -> tuple[SpatialWindow, ...]:
    """Check the three shapes of a gradient, and return its windows along each spatial axis."""
    label = f"Conv2DCustomBackprop{of}" if layout.rank == 4 else f"Conv3DBackprop{of}Op"
    # TensorFlow's 3-d kernel has checks of its own before the checks that both kernels share
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
    rates = layout.pick(attrs.get("dilations", (1,) * layout.rank))
    pairs = ("explicit_paddings" in attrs and explicit_pairs(attrs, layout)) or [(0, 0)] * len(strides)
    windows = []
    for axis, taps, stride, rate, pair in zip(layout.spatial, filters, strides, rates, pairs, strict=False):
        window = window_of(inputs[axis], taps, stride, rate, padding, pair)
        if grads[axis] != window.outputs:
            raise InvalidArgumentError(
                f"{label}: Size of out_backprop doesn't match computed: actual = {grads[axis]}, computed = {window.outputs} "
                f"spatial_dim: {axis} input: {window.input} filter: {taps} output: {grads[axis]} stride: {stride} "
                f"dilation: {rate}"
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


# --- shape functions, costs and memory ------------------------------------------------------------------------------


def infer_input_gradient_2d(context: ShapeContext) -> Sequence[Dims]:
    """Static shape of Conv2DBackpropInput, from `input_sizes`: the whole shape, or only rows and columns.

    Raises ShapeError if the shapes do not fit, or `input_sizes` has neither 4 nor 2 values.
    """
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


def input_gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """A multiplication and an addition for each element of the output's gradient and each element of its filter."""
    return 2 * elements(inputs[2]) * elements((inputs[1] or ())[:-1])


def filter_gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """A multiplication and an addition for each element of the output's gradient and each element of its patch."""
    return 2 * elements(inputs[2]) * elements((outputs[0] or ())[:-1])


_IMAGES_BYTES = 30 << 20
"""TensorFlow's target size for the unrolled images of one matrix product of a 2-d gradient."""
_IMAGE_BYTES = 256 << 10
"""If the matrices of one image have at least this size, images are computed one after the other, each by all threads."""
_CACHE_BYTES = 480 << 20
"""Size of the third-level cache of the simulated machine, which TensorFlow uses as the target size for a 3-d gradient."""
_MOST_OVERHEAD = 25
"""Maximum ratio of the unrolled images to all tensors of a 3-d gradient; above it TensorFlow unrolls nothing."""


def filter_gradient_memory(memory: KernelMemory) -> None:
    """The output, and unrolled images for one matrix product.

    The number of images does not depend on the batch, so even the gradient of an empty batch takes 20 MB.
    """
    memory.allocate(0)
    gradient, filters = memory.inputs[2], memory.outputs[0]
    products = _Products(gradient, filters)
    if products.unrolled and filters.elements:
        products.take(memory, products.at_once(_IMAGES_BYTES))


def input_gradient_memory(memory: KernelMemory) -> None:
    """Like the filter's gradient, but only one unrolled image if the batch has one image or images are large."""
    memory.allocate(0)
    filters, gradient = memory.inputs[1], memory.inputs[2]
    if memory.outputs[0].elements and filters.elements and gradient.elements:
        products = _Products(gradient, filters)
        is_shared = gradient.dims[0] == 1 or products.work >= _IMAGE_BYTES // products.item
        products.take(memory, 1 if is_shared else products.at_once(_IMAGES_BYTES))


def filter_gradient_memory_3d(memory: KernelMemory) -> None:
    """As in two dimensions, but without unrolled images if they are much larger than the tensors (`_MOST_OVERHEAD`)."""
    memory.allocate(0)
    _unroll_volumes(memory, memory.inputs[0], memory.outputs[0], is_shared=False)


def input_gradient_memory_3d(memory: KernelMemory) -> None:
    """Like the filter's gradient in three dimensions, but only one unrolled image for a batch of one image."""
    memory.allocate(0)
    _unroll_volumes(memory, memory.outputs[0], memory.inputs[1], is_shared=memory.inputs[2].dims[0] == 1)


def _unroll_volumes(memory: KernelMemory, volumes: TensorMemory, filters: TensorMemory, is_shared: bool) -> None:
    gradient = memory.inputs[2]
    if volumes.elements and filters.elements and gradient.elements:
        products = _Products(gradient, filters)
        count = 1 if is_shared else products.at_once(_CACHE_BYTES)
        if count * products.unrolled // (volumes.elements + filters.elements + gradient.elements) <= _MOST_OVERHEAD:
            products.take(memory, count)


class _Products:
    """Sizes of the matrix product for one image in a gradient: its unrolled patches (`unrolled`), all its matrices (`work`).

    Both count elements; `item` is the size of an element in bytes.
    """

    def __init__(self, gradient: TensorMemory, filters: TensorMemory) -> None:
        channels = filters.dims[-1]
        self.places = places = prod(gradient.dims[1:]) // max(1, channels)  # in every layout
        self.window = window = prod(filters.dims[:-1])
        self.unrolled = places * window
        self.work = self.unrolled + places * channels + window * channels
        self.dtype = gradient.dtype
        self.item = item_size(gradient.dtype)

    def at_once(self, target: int) -> int:
        """Number of images that are unrolled together, so that their matrices fill `target` bytes."""
        return -(-(target // self.item) // self.work)

    def take(self, memory: KernelMemory, count: int) -> None:
        """Allocate memory for `count` unrolled images."""
        memory.temporary(count * self.unrolled * self.item, (count, self.places, self.window), self.dtype)


def _build_gradient(of: str, spatial: int, takes_sizes: bool) -> Kernel:
    """Kernel of the gradient of the `input` (first tensor) or `filter` (second); `takes_sizes`: that tensor is a shape."""
    if of == "input":
        index, compute, flops, cost = 0, convolve_back, input_gradient_flops, CostModel("convolution input gradient")
        memory: MemoryRule = input_gradient_memory_3d if spatial == 3 else input_gradient_memory
    else:
        index, compute, flops, cost = 1, convolve_filter, filter_gradient_flops, CostModel("convolution filter gradient")
        memory = filter_gradient_memory_3d if spatial == 3 else filter_gradient_memory
    return Kernel(
        partial(compute, spatial=spatial, takes_sizes=takes_sizes),
        partial(infer_from_sizes, index=index, rank=spatial + 2)
        if takes_sizes
        else infer_by(f"{'*, ' * index}x:{spatial + 2} -> x"),
        flops,
        memory=memory,
        traits=Trait.SUMS if of == "filter" else PLAIN,
        cost=cost if takes_sizes else ELEMENTWISE,
    )


TABLE: Table = {
    "Conv2DBackpropInput": _build_gradient("input", 2, takes_sizes=True)._replace(shape=infer_input_gradient_2d),
    "Conv2DBackpropFilter": _build_gradient("filter", 2, takes_sizes=True),
    "Conv2DBackpropInputV2": _build_gradient("input", 2, takes_sizes=False),
    "Conv2DBackpropFilterV2": _build_gradient("filter", 2, takes_sizes=False),
    "Conv3DBackpropInputV2": _build_gradient("input", 3, takes_sizes=True),
    "Conv3DBackpropFilterV2": _build_gradient("filter", 3, takes_sizes=True),
    "Conv3DBackpropInput": _build_gradient("input", 3, takes_sizes=False),
    "Conv3DBackpropFilter": _build_gradient("filter", 3, takes_sizes=False),
}
