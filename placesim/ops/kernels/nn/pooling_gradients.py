"""Gradients of AvgPool and MaxPool, over two or three spatial axes, and of MaxPool's gradient: checks around `pools`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from placesim.core.dtypes import INT64
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor, elements
from placesim.ops.kernels.memory_rules import KernelMemory, MemoryRule, forwards
from placesim.ops.kernels.nn.pooling import (
    check_3d,
    check_batch,
    check_layout,
    check_no_depth,
    check_window_sizes,
    infer_pool,
    infer_sized_pool,
    pool_2d,
    pool_3d,
    take_sizes,
    window_flops,
)
from placesim.ops.kernels.nn.pools import PoolWindows, spread_max, spread_max_to_equals, spread_mean, take_at_max
from placesim.ops.kernels.nn.windows import SpatialWindow, check_padding, layout_of
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import Dims, format_dims, infer_by, infer_from_sizes

# --- average pooling ------------------------------------------------------------------------------------------------


def average_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """AvgPoolGrad: (the input's shape, gradients of the output) -> gradients of the input `[batch, rows, columns, channels]`.

    Raises InvalidArgumentError for attrs or inputs that do not fit, and UnimplementedError for pooling of batch or channels.
    """
    sizes, grads = inputs
    check_layout(attrs, 2, "AvgPoolingGradOp")
    check_window_sizes(attrs, 2, "strides")
    check_batch(attrs)
    # TensorFlow's message names the other input
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


def _spread_mean_of_any(grads: Tensor, pool: PoolWindows, shape: Sequence[int]) -> Tensor:
    """`spread_mean` for gradients that lack the output's shape; TensorFlow reads them as if they had the output's shape."""
    # like TensorFlow, take images, windows and channels from the gradients' shape, and index the input's memory by them
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


def _covered_cells(window: SpatialWindow, index: int) -> range:
    """Input cells in window number `index`. Raises InvalidArgumentError if it begins beyond the input."""
    if index * window.stride > window.input:
        raise InvalidArgumentError("index * stride must be less than or equal to input size")
    start = index * window.stride - window.before
    return range(max(start, 0), max(min(start + window.kernel, window.input), start, 0))


def average_back_3d(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """AvgPool3DGrad: (the input's shape, gradients of the output) -> gradients of the input `[batch, planes, ..., channels]`.

    Raises InvalidArgumentError for attrs or shapes that do not fit, and UnimplementedError for pooling of batch or channels.
    """
    sizes, grads = inputs
    check_3d(attrs, "AvgPooling3dGradOp", too_small="ksize must be positive, got: {}")
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
    pool = pool_3d(shape, attrs)
    _check_shape("grad", grads, pool.shape(shape))
    return (spread_mean(grads, pool),)


def _check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tensor.shape != expected:
        raise InvalidArgumentError(f"Expected {name} shape to be {format_dims(expected)}, but got {format_dims(tensor.shape)}")


# --- max pooling ----------------------------------------------------------------------------------------------------


def maximum_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolGrad, MaxPoolGradV2: (input, output, gradients of the output, ...) -> gradients of the input.

    Raises InvalidArgumentError for attrs or shapes that do not fit, and UnimplementedError for pooling of batch or channels.
    """
    (tensor, output, grads), sized = take_sizes(inputs, attrs, 3)
    _check_gradient(tensor, output, grads, attrs, sized, ("MaxPoolingGradOp", "MaxPoolingGrad", "out_backprop"))
    pool = pool_2d(tensor.shape, sized)
    expected = pool.shape(tensor.shape)
    _check_shape("orig_output", output, expected)
    _check_shape("grad", grads, expected)
    # TensorFlow computes the maxima again, and ignores the output's values
    return (spread_max(tensor, grads, pool),)


def maximum_back_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolGradGrad, MaxPoolGradGradV2: (input, output, gradients shaped as the input) -> gradients shaped as the output.

    Raises the errors of `maximum_back`.
    """
    (tensor, output, grads), sized = take_sizes(inputs, attrs, 3)
    _check_gradient(tensor, output, grads, attrs, sized, ("MaxPoolingGradGradOp", "MaxPoolingGradGrad", "out_grad_backprop"))
    pool = pool_2d(tensor.shape, sized)
    _check_shape("orig_output", output, pool.shape(tensor.shape))
    _check_shape("grad", grads, tensor.shape)
    return (take_at_max(tensor, output, grads, pool),)


def _check_gradient(
    tensor: Tensor, output: Tensor, grads: Tensor, attrs: Attrs, sized: Attrs, names: tuple[str, str, str]
) -> None:
    """Check the attrs, then the inputs' ranks, then window sizes that are inputs; `names` are (kernel, op, gradients)."""
    kernel, op, grads_name = names
    check_layout(attrs, 2, kernel)
    if sized is attrs:
        _check_gradient_sizes(sized, op)
        check_padding(attrs, layout_of("NHWC"))
    for name, given in (("tensor_in", tensor), ("tensor_out", output), (grads_name, grads)):
        if given.ndim != 4:
            raise InvalidArgumentError(f"{name} must be 4-dimensional")
    if sized is not attrs:
        _check_gradient_sizes(sized, "MaxPoolingGrad")


def _check_gradient_sizes(sized: Attrs, op: str) -> None:
    check_window_sizes(sized, 2, "strides")
    check_batch(sized)
    check_no_depth(sized, f"{op} is not yet supported on the depth dimension.")


def maximum_back_3d(inputs: Sequence[Tensor], attrs: Attrs, is_second: bool) -> Sequence[Tensor]:
    """MaxPool3DGrad: (input, output, gradients shaped as the output) -> gradients shaped as the input.

    MaxPool3DGradGrad (`is_second`) takes gradients shaped as the input, and returns gradients shaped as the output. Raises
    InvalidArgumentError for attrs or shapes that do not fit, and UnimplementedError for pooling of batch or channels.
    """
    tensor, output, grads = inputs
    if is_second:
        check_3d(attrs, "MaxPooling3dGradGradOp", "MaxPooling3dGradGrad")
    else:
        check_3d(attrs, "MaxPooling3dGradOp")
    names = ("tensor_in", "tensor_out", "out_grad_backprop" if is_second else "out_backprop")
    for name, given in zip(names, inputs, strict=True):
        if given.ndim != 5:
            raise InvalidArgumentError(f"{name} must be 5-dimensional")
    pool = pool_3d(tensor.shape, attrs)
    expected = pool.shape(tensor.shape)
    _check_shape("orig_output", output, expected)
    _check_shape("grad", grads, tensor.shape if is_second else expected)
    return ((take_at_max if is_second else spread_max_to_equals)(tensor, output, grads, pool),)


def maximum_back_with_places(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MaxPoolGradWithArgmax: (input, gradients of the output, positions of the maxima) -> gradients of the input.

    Raises InvalidArgumentError for attrs or shapes that do not fit and for a position outside of the input, and
    UnimplementedError for pooling of the batch.
    """
    tensor, grads, places = inputs
    check_window_sizes(attrs, 2)
    check_batch(attrs)
    expected = pool_2d(tensor.shape, attrs).shape(tensor.shape)
    _check_shape("grad", grads, expected)
    _check_shape("argmax", places, expected)
    flat = places.astype(np.int64)
    if not attrs["include_batch_in_index"]:
        flat = flat + np.arange(len(tensor)).reshape(-1, 1, 1, 1) * prod(tensor.shape[1:])
    if flat.size and (flat.min() < 0 or flat.max() >= tensor.size):
        # TensorFlow prints the smallest position, even if only the largest is outside
        raise InvalidArgumentError(f"Invalid input_backprop_index: {flat.min()}, {tensor.size}")
    output = np.zeros(tensor.size, tensor.dtype)
    np.add.at(output, flat.reshape(-1), grads.reshape(-1))
    return (output.reshape(tensor.shape),)


# --- costs and memory -----------------------------------------------------------------------------------------------


def gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs, index: int) -> int:
    """One operation for each element of the gradients, which are input `index`, and each cell of a window."""
    return elements(inputs[index]) * prod(attrs.get("ksize", ()))


def max_pool_gradient_memory(memory: KernelMemory) -> None:
    """A CPU repeats the forward pass, with the positions of the maxima; the result reuses the output's buffer if possible."""
    if memory.is_on_gpu:
        return
    memory.forward_temporary(1)
    memory.temporary_like(memory.inputs[1], INT64)
    memory.forward(0, 0)


def _build_shaped_as_input(compute: Compute, rank: int, grads: int = 2, memory: MemoryRule | None = None) -> Kernel:
    """Kernel of a gradient that is shaped as input 0; input `grads` has the output's gradients."""
    return Kernel(compute, infer_by(f"x:{rank} -> x"), partial(gradient_flops, index=grads), memory=memory)


def _build_sized_by(compute: Compute, rank: int) -> Kernel:
    """Kernel of a gradient whose shape is the value of its first input."""
    return Kernel(compute, partial(infer_from_sizes, index=0, rank=rank), partial(gradient_flops, index=1))


TABLE: Table = {
    "AvgPoolGrad": _build_sized_by(average_back, 4)._replace(cost=CostModel("average pooling gradient")),
    "AvgPool3DGrad": _build_sized_by(average_back_3d, 5),
    "MaxPoolGrad": _build_shaped_as_input(maximum_back, 4, memory=max_pool_gradient_memory)._replace(
        cost=CostModel("max pooling gradient")
    ),
    "MaxPoolGradV2": _build_shaped_as_input(maximum_back, 4, memory=max_pool_gradient_memory),
    "MaxPoolGradWithArgmax": _build_shaped_as_input(maximum_back_with_places, 4, grads=1, memory=forwards(0)),
    "MaxPoolGradGrad": Kernel(
        maximum_back_back, partial(infer_pool, op="MaxPool", is_second=True), window_flops, memory=forwards(2)
    ),
    "MaxPoolGradGradV2": Kernel(
        maximum_back_back, partial(infer_sized_pool, first=3, is_second=True), window_flops, memory=forwards(2)
    ),
    "MaxPool3DGrad": _build_shaped_as_input(partial(maximum_back_3d, is_second=False), 5),
    "MaxPool3DGradGrad": Kernel(
        partial(maximum_back_3d, is_second=True),
        partial(infer_pool, op="MaxPool", spatial=3, is_second=True),
        window_flops,
        memory=forwards(2),
    ),
}
