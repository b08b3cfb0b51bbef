"""Batch normalization (FusedBatchNorm*), local response normalization over neighbouring channels (LRN), and biases.

Half precision is computed in float32, except for BiasAdd.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.work_parts import parts
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, one_per_output, per_element
from placesim.ops.kernels.memory_rules import KernelMemory, TensorMemory, forwards
from placesim.ops.kernels.nn.windows import check_image, layout_of
from placesim.ops.kernels.precision import is_floating, is_narrow
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    format_dims,
    infer_by,
    merge,
    merge_dim,
    replace_dim,
    with_rank,
    with_rank_at_least,
)
from placesim.ops.process.intra_op_threads import spread


def widened(tensor: Tensor) -> Tensor:
    """Convert half precision to float32; other tensors are unchanged."""
    return tensor.astype(np.float32) if is_narrow(tensor.dtype) else tensor


# --- biases ---------------------------------------------------------------------------------------------------------


def _channel_axis(tensor: Tensor, attrs: Attrs) -> int:
    return 1 if attrs.get("data_format") == "NCHW" else tensor.ndim - 1


def add_bias(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """BiasAdd: `[..., channels]` (NCHW: `[batch, channels, ...]`) plus `[channels]`.

    Raises InvalidArgumentError for a tensor of rank 0 or 1, and for biases that are not one per channel.
    """
    tensor, bias = inputs
    if tensor.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {format_dims(tensor.shape)}")
    if bias.ndim != 1:
        raise InvalidArgumentError(f"Biases must be 1D: {format_dims(bias.shape)}")
    axis = _channel_axis(tensor, attrs)
    if len(bias) != tensor.shape[axis]:
        raise InvalidArgumentError(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{format_dims(bias.shape)} vs. {format_dims(tensor.shape)}"
        )
    return (tensor + bias.reshape(-1, *(1,) * (tensor.ndim - 1 - axis)),)


def sum_over_batch(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """BiasAddGrad: sums over all axes but the channels, `[channels]`. Raises InvalidArgumentError for rank 0 or 1."""
    (grads,) = inputs
    if grads.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {format_dims(grads.shape)}")
    axis = _channel_axis(grads, attrs)
    others = tuple(other for other in range(grads.ndim) if other != axis)
    wide = widened(grads)
    # only floats may be summed by a matrix product: integers are added in their own type, and wrap around
    if is_floating(grads.dtype) and axis == grads.ndim - 1:
        return (sums(wide.reshape(prod(grads.shape[:-1]), grads.shape[-1])).astype(grads.dtype),)
    return (np.sum(wide, axis=others, dtype=wide.dtype).astype(grads.dtype),)


# --- batch normalization --------------------------------------------------------------------------------------------


def sums(matrix: Tensor) -> Tensor:
    """The sum of each column, `[columns]`, as a matrix product: faster than adding row after row, with less rounding."""
    return np.ones(len(matrix), matrix.dtype) @ matrix


def inverse_root(variance: Tensor, epsilon: float) -> Tensor:
    """1 / sqrt(variance + epsilon), `[channels]`."""
    return np.float32(1) / np.sqrt(variance + np.float32(epsilon))


def normalize_batch(inputs: Sequence[Tensor], attrs: Attrs, has_reserve: bool = False) -> Sequence[Tensor]:
    """FusedBatchNorm: (x, scale, offset, mean, variance) -> (y, mean, variance, mean and variance for the gradient).

    x and y are `[batch, spatial..., channels]`, or `[batch, channels, spatial...]` if attr `data_format` says so. The others
    are `[channels]`. In training the third output is the unbiased variance, the fifth the biased variance of the batch. V3
    (`has_reserve`) adds a scalar. Raises InvalidArgumentError unless x has rank 4 or 5, and for vectors of another length.
    """
    tensor, scale, offset, mean, variance = inputs
    channel = _check_normalized(inputs, attrs)
    reserve = (np.zeros((), np.float32),) if has_reserve else ()
    channels = tensor.shape[channel]
    if tensor.size == 0:
        # TensorFlow returns NaN as mean and variance of an empty batch
        unknown = np.full(channels, np.nan, np.float32)
        return tensor, unknown, unknown, np.zeros(channels, np.float32), np.zeros(channels, np.float32), *reserve
    rows = _as_rows(tensor, channel)
    if not attrs["is_training"]:
        centered = rows - mean
        found: Sequence[Tensor] = mean, variance, mean, variance
        factor = inverse_root(variance, attrs["epsilon"])
    else:
        count = np.float32(len(rows))
        batch_mean = sums(rows) / count
        centered = rows - batch_mean
        batch_variance = sums(np.square(centered)) / count
        factor = inverse_root(batch_variance, attrs["epsilon"])
        # Bessel's correction, except for a batch of one element
        adjusted = batch_variance * (count / max(count - 1, np.float32(1)))
        found = *_averaged((batch_mean, adjusted), (mean, variance), attrs), batch_mean, batch_variance
    centered *= factor * scale
    centered += offset
    return _as_tensor(centered, tensor, channel), *found, *reserve


def _averaged(batch: Sequence[Tensor], running: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """The running moments moved towards the batch's moments by the attr `exponential_avg_factor`."""
    factor = np.float32(attrs.get("exponential_avg_factor", 1.0))
    # with a factor of 1 the running moments are not read, and may be empty
    if factor == 1:
        return batch
    return [(1 - factor) * before + factor * now for before, now in zip(running, batch, strict=True)]


def _as_rows(tensor: Tensor, channel: int) -> Tensor:
    """Move the channels to the last axis and flatten the others: `[rows, channels]`, in float32."""
    return np.moveaxis(tensor, channel, -1).reshape(-1, tensor.shape[channel]).astype(np.float32, copy=False)


def _as_tensor(rows: Tensor, like: Tensor, channel: int) -> Tensor:
    shape = (*like.shape[:channel], *like.shape[channel + 1 :], like.shape[channel])
    return np.ascontiguousarray(np.moveaxis(rows.reshape(shape), -1, channel)).astype(like.dtype, copy=False)


def _check_normalized(inputs: Sequence[Tensor], attrs: Attrs) -> int:
    """Return the channels' axis of the first input. Raises InvalidArgumentError if the other inputs do not fit."""
    tensor, scale, offset, mean, variance = inputs
    if tensor.ndim not in (4, 5):
        raise InvalidArgumentError(f"input must be 4 or 5-dimensional{format_dims(tensor.shape)}")
    _check_vectors(zip(("scale", "offset", "estimated_mean", "estimated_variance"), inputs[1:], strict=True))
    channel = layout_of(attrs["data_format"], tensor.ndim - 2).channel
    lengths = [("scale", scale), ("offset", offset)]
    # only running moments that are used must fit
    if not attrs["is_training"] or attrs.get("exponential_avg_factor", 1.0) != 1:
        when = "When exponential_avg_factor != 1" if attrs["is_training"] else "When is_training=false"
        lengths += [(f"{when}, mean", mean), (f"{when}, variance", variance)]
    _check_lengths(lengths, tensor.shape[channel])
    return channel


def _check_vectors(named: Iterable[tuple[str, Tensor]]) -> None:
    for name, vector in named:
        if vector.ndim != 1:
            raise InvalidArgumentError(f"{name} must be 1-dimensional{format_dims(vector.shape)}")


def _check_lengths(named: Iterable[tuple[str, Tensor]], channels: int) -> None:
    for name, vector in named:
        if len(vector) != channels:
            raise InvalidArgumentError(
                f"{name} must have the same number of elements as the channels of x, got {len(vector)} and {channels}"
            )


def normalize_batch_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """FusedBatchNormGrad: (gradients of y, x, scale, mean, variance) -> gradients of (x, scale, offset), two empty tensors.

    The shapes are those of `normalize_batch`. Raises InvalidArgumentError if they do not fit, and outside training for channels
    in the second axis.
    """
    grads, tensor, scale, mean, variance = inputs[:5]
    channel = _check_normalized_back(inputs, attrs)
    nothing = np.zeros(0, np.float32)
    if tensor.size == 0:
        zeros = np.zeros(tensor.shape[channel], np.float32)
        return tensor, zeros, zeros, nothing, nothing
    rows, centered = _as_rows(grads, channel), _as_rows(tensor, channel) - mean
    factor = inverse_root(variance, attrs["epsilon"])
    offset_grads, products = sums(rows), sums(rows * centered)
    if attrs["is_training"]:
        count = np.float32(len(rows))
        centered *= products / count * np.square(factor)
        x_grads = (rows - offset_grads / count - centered) * (factor * scale)
    else:
        x_grads = rows * (factor * scale)
    return _as_tensor(x_grads, tensor, channel), products * factor, offset_grads, nothing, nothing


def _check_normalized_back(inputs: Sequence[Tensor], attrs: Attrs) -> int:
    grads, tensor, scale, mean, variance = inputs[:5]
    for given in (grads, tensor):
        if given.ndim not in (4, 5):
            raise InvalidArgumentError(f"input must be 4 or 5-dimensional{format_dims(given.shape)}")
    _check_vectors((("scale", scale), ("saved mean", mean), ("saved variance", variance)))
    if tensor.shape != grads.shape:
        raise InvalidArgumentError(
            "x and y_backprop must have same shape, but "
            f"x has shape {format_dims(tensor.shape)} and y_backprop has shape {format_dims(grads.shape)}"
        )
    channel = layout_of(attrs["data_format"], tensor.ndim - 2).channel
    _check_lengths((("scale", scale), ("reserve_space_1", mean), ("reserve_space_2", variance)), tensor.shape[channel])
    # TensorFlow's CPU kernel transposes channels to the end only in training
    if not attrs["is_training"] and channel != tensor.ndim - 1:
        raise InvalidArgumentError(
            "The implementation of FusedBatchNormGrad with is_training=False only support NHWC tensor format for now."
        )
    return channel


# --- the removed BatchNormWithGlobalNormalization -------------------------------------------------------------------


def normalize_globally(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(t - mean) / sqrt(variance + epsilon) + beta; the quotient is scaled by gamma if attr `scale_after_normalization`.

    t is `[batch, rows, columns, channels]`, the others are `[channels]`. Raises InvalidArgumentError for other shapes.
    """
    tensor, mean, variance, beta, gamma = inputs
    check_image(tensor.shape)
    _check_vectors((("mean", mean), ("var", variance), ("beta", beta), ("gamma", gamma)))
    for name, vector in (("means", mean), ("variance values", variance), ("beta values", beta), ("gamma values", gamma)):
        if len(vector) != tensor.shape[3]:
            raise InvalidArgumentError(
                f"Must provide as many {name} as the last dimension of the input tensor: "
                f"{format_dims(vector.shape)} vs. {format_dims(tensor.shape)}"
            )
    dtype = tensor.dtype
    factor = _global_factor(widened(variance), widened(gamma), attrs)
    return (((widened(tensor) - widened(mean)) * factor + widened(beta)).astype(dtype),)


def _global_factor(variance: Tensor, gamma: Tensor, attrs: Attrs) -> Tensor:
    factor = 1 / np.sqrt(variance + variance.dtype.type(attrs["variance_epsilon"]))
    found: Tensor = factor * gamma if attrs["scale_after_normalization"] else factor
    return found


def normalize_globally_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(t, mean, variance, gamma, gradients of the output) -> gradients of (t, mean, variance, beta, gamma).

    Raises InvalidArgumentError unless t and the gradients have four axes, and the others one.
    """
    tensor, mean, variance, gamma, grads = inputs
    check_image(tensor.shape)
    _check_vectors((("mean", mean), ("var", variance), ("gamma", gamma)))
    if grads.ndim != 4:
        raise InvalidArgumentError(f"out_backprop must be 4-dimensional{format_dims(grads.shape)}")
    dtype, wide = tensor.dtype, [widened(value) for value in inputs]
    factor = _global_factor(wide[2], wide[3], attrs)
    root = 1 / np.sqrt(wide[2] + wide[2].dtype.type(attrs["variance_epsilon"]))
    products = np.sum(wide[4] * (wide[0] - wide[1]), axis=(0, 1, 2))
    beta = np.sum(wide[4], axis=(0, 1, 2))
    gamma_grads = products * root if attrs["scale_after_normalization"] else np.zeros_like(products)
    found = wide[4] * factor, -beta * factor, products * factor * np.square(root) / -2, beta, gamma_grads
    return [value.astype(dtype) for value in found]


# --- local response normalization -----------------------------------------------------------------------------------


PIXEL_BYTES = 1 << 18
"""Size of the pixels that are normalized together: their squares, sums and powers stay in a core's cache."""


def _pixels(tensor: Tensor) -> Tensor:
    """`[pixels of all images, channels]`."""
    return tensor.reshape(prod(tensor.shape[:-1]), tensor.shape[-1])


def _pixel_parts(pixels: Tensor) -> list[slice]:
    return list(parts(len(pixels), pixels.shape[-1] * pixels.itemsize, PIXEL_BYTES))


def _band(depth: int, radius: int, dtype: np.dtype[Any]) -> Tensor:
    """Matrix `[depth, depth]` whose product with channels sums each channel and its neighbours within `radius`."""
    place = np.arange(depth)
    found: Tensor = (np.abs(place[:, None] - place) <= radius).astype(dtype)
    return found


def _neighbour_sums(tensor: Tensor, radius: int) -> Tensor:
    """The sum of each channel and its neighbours within `radius`; non-finite values affect only their neighbours."""
    found = tensor.copy()
    for distance in range(1, min(radius, tensor.shape[-1] - 1) + 1):
        found[..., distance:] += tensor[..., :-distance]
        found[..., :-distance] += tensor[..., distance:]
    return found


def _norms(sums_of_squares: Tensor, attrs: Attrs) -> Tensor:
    found: Tensor = sums_of_squares * np.float32(attrs["alpha"]) + np.float32(attrs["bias"])
    return found


def _check_radius(attrs: Attrs) -> None:
    # TensorFlow's message is the same for a radius that is too large and for a negative radius
    radius = attrs["depth_radius"]
    if not 0 <= radius < 1 << 31:
        raise InvalidArgumentError(f"depth_radius = {radius} larger than int max")


def normalize_local(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """LRN: `[batch, rows, columns, channels]`, divided by (bias + alpha * sum of squares of the neighbouring channels) ** beta.

    Raises InvalidArgumentError for another rank, and for an attr `depth_radius` that is negative or larger than an int.
    """
    (tensor,) = inputs
    _check_radius(attrs)
    if tensor.ndim != 4:
        raise InvalidArgumentError("in must be 4-dimensional")
    pixels = _pixels(widened(tensor))
    band, output = _band(pixels.shape[-1], attrs["depth_radius"], pixels.dtype), np.empty_like(pixels)

    def fill(part: slice) -> None:
        found = _norms(np.square(pixels[part]) @ band, attrs)
        found **= np.float32(-attrs["beta"])
        np.multiply(found, pixels[part], out=output[part])

    spread(fill, _pixel_parts(pixels))
    return (output.reshape(tensor.shape).astype(tensor.dtype, copy=False),)


def normalize_local_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """LRNGrad: (gradients of the output, input, output) -> gradients of the input, all `[batch, rows, columns, channels]`.

    Raises InvalidArgumentError if the shapes differ or have another rank, and for the attr `depth_radius` as LRN does.
    """
    grads, tensor, output = inputs
    _check_radius(attrs)
    if grads.ndim != 4 or tensor.ndim != 4:
        raise InvalidArgumentError("inputs must be 4-dimensional")
    if not grads.shape == tensor.shape == output.shape:
        raise InvalidArgumentError("input_grads, input_image, and out_image should have the same shape")
    wide_grads, pixels, wide_output = (_pixels(widened(value)) for value in inputs)
    factor, found = np.float32(-2 * attrs["alpha"] * attrs["beta"]), np.empty_like(pixels)

    def fill(part: slice) -> None:
        change, pixel = wide_grads[part], pixels[part]
        norms = _norms(_neighbour_sums(np.square(pixel), attrs["depth_radius"]), attrs)
        shared = _neighbour_sums(change * wide_output[part] / norms, attrs["depth_radius"])
        np.add(change * norms ** np.float32(-attrs["beta"]), factor * pixel * shared, out=found[part])

    spread(fill, _pixel_parts(pixels))
    return (found.reshape(grads.shape).astype(grads.dtype),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_bias(context: ShapeContext) -> Sequence[Dims]:
    is_first = context.attrs.get("data_format") == "NCHW"
    dims = with_rank_at_least(context.shapes[0], 3 if is_first else 2)
    (bias,) = with_rank(context.shapes[1], 1)
    if dims is None:
        return (None,)
    axis = 1 if is_first else len(dims) - 1
    return (replace_dim(dims, axis, merge_dim(dims[axis], bias)),)


def _infer_bias_gradient(context: ShapeContext) -> Sequence[Dims]:
    is_first = context.attrs["data_format"] == "NCHW"
    dims = with_rank_at_least(context.shapes[0], 3 if is_first else 2)
    return ((-1,) if dims is None else (dims[1 if is_first else -1],),)


def _infer_batch_normalization(context: ShapeContext, has_reserve: bool = False) -> Sequence[Dims]:
    attrs = context.attrs
    tensor, channel = _ranked(context.shapes[0], attrs)
    # with a factor of 1 the running moments are not used, and TensorFlow does not check their shapes
    is_first_batch = attrs["is_training"] and attrs.get("exponential_avg_factor", 1.0) == 1
    channels = tensor[channel]
    for vector in context.shapes[1 : 3 if is_first_batch else 5]:
        channels = merge_dim(channels, with_rank(vector, 1)[0])
    reserve: Sequence[Dims] = (None,) if has_reserve else ()
    return replace_dim(tensor, channel, channels), *((channels,),) * 4, *reserve


def _infer_batch_normalization_gradient(context: ShapeContext) -> Sequence[Dims]:
    grads, channel = _ranked(context.shapes[0], context.attrs)
    tensor, _ = _ranked(context.shapes[1], context.attrs)
    channels = merge_dim(grads[channel], tensor[channel])
    for vector in context.shapes[2:5]:
        channels = merge_dim(channels, with_rank(vector, 1)[0])
    return replace_dim(grads, channel, channels), (channels,), (channels,), (0,), (0,)


def _ranked(dims: Dims, attrs: Attrs) -> tuple[tuple[int, ...], int]:
    """(the shape with the rank of attr `data_format`, the channels' axis)."""
    layout = layout_of(attrs["data_format"], len(attrs["data_format"]) - 2)
    return with_rank(dims, layout.rank), layout.channel


def _infer_global_normalization(context: ShapeContext, is_gradient: bool = False) -> Sequence[Dims]:
    dims: Dims = with_rank(context.shapes[0], 4)
    if is_gradient:
        dims = merge(dims, context.shapes[4])
    channels = (dims or (-1,))[-1]
    for vector in context.shapes[1 : 4 if is_gradient else 5]:
        channels = merge_dim(channels, with_rank(vector, 1)[0])
    found = replace_dim(dims, 3, channels)
    return (found, *((channels,),) * 4) if is_gradient else (found,)


def normalization_memory(memory: KernelMemory) -> None:
    """Mean and variance reuse the inputs' buffers; on a CPU, NCHW has transposed copies of input and output."""
    memory.allocate(0)
    memory.forward(1, 3)
    memory.forward(2, 4)
    for output in range(3, len(memory.outputs)):
        memory.allocate(output)
    if _is_channels_first(memory):
        for _ in range(2):
            _transposed(memory, memory.inputs[0])


def normalization_gradient_memory(memory: KernelMemory) -> None:
    """The outputs; temporaries are vectors of channels (one in training, else two), and the input in the type of `scale`."""
    for output in range(len(memory.outputs)):
        memory.allocate(output)
    images, scale = memory.inputs[0], memory.inputs[2]
    if not images.elements:
        return
    if _is_channels_first(memory):
        for _ in range(3):
            _transposed(memory, images)
    memory.temporary_like(scale)
    if not memory.attrs["is_training"]:
        memory.temporary_like(scale)
    if images.dtype is not scale.dtype:
        memory.temporary_like(images, scale.dtype)


def _transposed(memory: KernelMemory, images: TensorMemory) -> None:
    """Allocate a copy of images `[batch, channels, ...]` with the channels last."""
    batch, channels, *places = images.dims
    memory.temporary(images.size, (batch, *places, channels), images.dtype)


def _is_channels_first(memory: KernelMemory) -> bool:
    return str(memory.attrs["data_format"]).startswith("NC")


def global_gradient_memory(memory: KernelMemory) -> None:
    """The gradients reuse the inputs' buffers; two vectors of channels are temporaries."""
    memory.forward(0, 0, 4)
    for output in range(1, 4):
        memory.forward(output, output)
    memory.allocate(4)
    memory.temporary_like(memory.inputs[1])
    memory.temporary_like(memory.inputs[1])


_NORMALIZATION = Kernel(
    normalize_batch,
    _infer_batch_normalization,
    per_element(0, 6),
    memory=normalization_memory,
    traits=Trait.AVERAGES,
    cost=CostModel("batch normalization"),
)
_GRADIENT = Kernel(
    normalize_batch_back,
    _infer_batch_normalization_gradient,
    per_element(0, 8),
    memory=normalization_gradient_memory,
    cost=CostModel("batch normalization gradient"),
)

TABLE: Table = {
    "BiasAdd": Kernel(add_bias, _infer_bias, one_per_output, memory=forwards(0), in_place=np.add),
    "BiasAddV1": Kernel(add_bias, _infer_bias, one_per_output, memory=forwards(0)),
    "BiasAddGrad": Kernel(
        sum_over_batch, _infer_bias_gradient, per_element(0), traits=Trait.SUMS, cost=CostModel("bias gradient")
    ),
    "FusedBatchNorm": _NORMALIZATION,
    "FusedBatchNormV2": _NORMALIZATION,
    "FusedBatchNormV3": _NORMALIZATION._replace(
        compute=partial(normalize_batch, has_reserve=True),
        shape=partial(_infer_batch_normalization, has_reserve=True),
        last_outputs=((),),
    ),
    "FusedBatchNormGrad": _GRADIENT,
    "FusedBatchNormGradV2": _GRADIENT,
    "FusedBatchNormGradV3": _GRADIENT,
    "BatchNormWithGlobalNormalization": Kernel(normalize_globally, _infer_global_normalization, per_element(0, 3)),
    "BatchNormWithGlobalNormalizationGrad": Kernel(
        normalize_globally_back,
        partial(_infer_global_normalization, is_gradient=True),
        per_element(0, 6),
        memory=global_gradient_memory,
    ),
    "LRN": Kernel(normalize_local, infer_by("x:4, x, x -> x"), per_element(0, 5), cost=CostModel("local normalization")),
    "LRNGrad": Kernel(
        normalize_local_back,
        infer_by("x:4, x, x -> x"),
        per_element(0, 8),
        cost=CostModel("local normalization gradient"),
    ),
}
