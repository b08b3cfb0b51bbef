"""Resizing of images `[batch, height, width, channels]`: each output row or column is a weighted sum of input rows or columns.

`Samples` are these rows or columns and their weights; the ops differ in how they choose them.  An op gathers by the samples,
and its gradient spreads by them.  Source: TensorFlow's `image_resizer_state.h`, `resize_*_op.cc`, `scale_and_translate_op.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import BFLOAT16, HALF
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.sampling import find_sampling_kernel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, infer_by, with_rank, with_value

FLOAT = np.float32
LARGEST_NEAREST = 1 << 24
"""Size from which integers are no longer distinct floats, so that nearest neighbours cannot be determined."""
CUBIC_STEPS = 1 << 10
"""Steps between two inputs in TensorFlow's table of the cubic's values."""


class Samples(NamedTuple):
    """Input positions and weights of each position along an output axis, both `[size, taps]`."""

    indices: Tensor
    weights: Tensor


Sampler = Callable[[int, int, Attrs], Samples]
"""`(input size, output size, attrs) -> samples`."""


def gather(images: Tensor, rows: Samples, columns: Samples) -> Tensor:
    """Resize images by these samples, first the rows: float `[batch, rows, columns, channels]`."""
    return _gather_axis(_gather_axis(images.astype(FLOAT, copy=False), rows, 1), columns, 2)


def _gather_axis(images: Tensor, samples: Samples, axis: int) -> Tensor:
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    taps = zip(samples.indices.T, samples.weights.T, strict=True)
    pieces = (images.take(indices, axis) * weights.reshape(shape) for indices, weights in taps)
    # tap after tap, in TensorFlow's order of additions
    total: Tensor = next(pieces)
    for piece in pieces:
        total += piece
    return total


def spread(grads: Tensor, rows: Samples, columns: Samples, height: int, width: int, dtype: Any = None) -> Tensor:
    """The transpose of `gather`: add each gradient, times its weights, to the inputs of its samples.

    Gradients `[batch, rows, columns, channels]` -> `[batch, height, width, channels]`. The products have the type of `grads`,
    the sums the type `dtype`, by default the same.
    """
    images = np.zeros((grads.shape[0], height, width, grads.shape[3]), dtype or grads.dtype)
    for y, y_weights in zip(rows.indices.T, rows.weights.T, strict=True):
        by_row = grads * y_weights[:, None, None]
        for x, x_weights in zip(columns.indices.T, columns.weights.T, strict=True):
            _add_at(images, y, x, by_row * x_weights[:, None])
    return images


def _add_at(images: Tensor, y: Tensor, x: Tensor, values: Tensor) -> None:
    place: Any = (slice(None), y[:, None], x[None, :])
    np.add.at(images, place, values.astype(images.dtype, copy=False))


# --- samples --------------------------------------------------------------------------------------------------------


def _scale(in_size: int, out_size: int, align_corners: bool) -> np.float32:
    """Distance of neighbouring outputs, in input pixels."""
    if align_corners and out_size > 1:
        return FLOAT(FLOAT(in_size - 1) / FLOAT(out_size - 1))
    return FLOAT(FLOAT(in_size) / FLOAT(out_size))


def _locations(in_size: int, out_size: int, attrs: Attrs) -> Tensor:
    """Position of each output in the input, in float `[out_size]`."""
    scale = _scale(in_size, out_size, attrs["align_corners"])
    positions = np.arange(out_size, dtype=FLOAT)
    if attrs["half_pixel_centers"]:
        return (positions + FLOAT(0.5)) * scale - FLOAT(0.5)
    return positions * scale


def sample_linear(in_size: int, out_size: int, attrs: Attrs) -> Samples:
    """The two nearest inputs of each output, `[out_size, 2]`, with linear weights."""
    locations = _locations(in_size, out_size, attrs)
    lower = np.floor(locations)
    # with half pixel centers the first outputs are before the first input; both of their taps are this input
    fractions = locations - lower
    indices = np.stack([np.maximum(lower, 0), np.minimum(np.ceil(locations), in_size - 1)], 1)
    return Samples(np.minimum(indices, in_size - 1).astype(np.int64), np.stack([1 - fractions, fractions], 1))


def nearest_indices(in_size: int, out_size: int, attrs: Attrs) -> Tensor:
    """The input at or before each output, or with aligned corners the nearest input, `[out_size]`."""
    positions = np.arange(out_size, dtype=FLOAT) + FLOAT(0.5 if attrs["half_pixel_centers"] else 0)
    locations = positions * _scale(in_size, out_size, attrs["align_corners"])
    whole: Tensor = np.floor(locations)
    if attrs["align_corners"]:
        # C's `roundf`, halves away from zero
        whole += locations - whole >= 0.5
    return np.clip(whole.astype(np.int64), 0, in_size - 1)


@lru_cache(maxsize=2)
def _cubic_table(sharpness: float) -> tuple[Tensor, Tensor]:
    """For each step, the weight of an input at a distance of up to 1, and of an input at a distance between 1 and 2."""
    x = (np.arange(CUBIC_STEPS + 1) / CUBIC_STEPS).astype(FLOAT).astype(np.float64)
    near = ((sharpness + 2) * x - (sharpness + 3)) * x * x + 1
    x += 1
    far = ((sharpness * x - 5 * sharpness) * x + 8 * sharpness) * x - 4 * sharpness
    return near.astype(FLOAT), far.astype(FLOAT)


def sample_cubic(in_size: int, out_size: int, attrs: Attrs) -> Samples:
    """The four nearest inputs of each output, `[out_size, 4]`, with cubic weights.

    An input outside of the image counts as the input at the edge; with half pixel centers its weight is 0.
    """
    # TensorFlow uses Keys's cubic (1981) with half pixel centers, and another sharpness for older graphs without them
    keys = attrs["half_pixel_centers"]
    near, far = _cubic_table(-0.5 if keys else -0.75)
    locations = _locations(in_size, out_size, attrs)
    start = np.floor(locations)
    # C's `lrintf`, halves to even
    step = np.rint((locations - start) * FLOAT(CUBIC_STEPS)).astype(np.int64)
    weights = np.stack([far[step], near[step], near[CUBIC_STEPS - step], far[CUBIC_STEPS - step]], 1)
    wanted = start.astype(np.int64)[:, None] + np.arange(-1, 3)
    indices = np.clip(wanted, 0, in_size - 1)
    return Samples(indices, _normalize(np.where(indices == wanted, weights, 0)) if keys else weights)


def _normalize(weights: Tensor) -> Tensor:
    """Scale weights to a sum of 1 over the taps, unless the sum is nearly 0."""
    total = weights.sum(1, keepdims=True, dtype=FLOAT)
    enough = np.abs(total) >= 1000 * np.finfo(FLOAT).tiny
    scaled: Tensor = np.where(enough, weights * (1 / np.where(enough, total, 1)), weights).astype(FLOAT)
    return scaled


def sample_area(in_size: int, out_size: int, attrs: Attrs) -> Samples:
    """The inputs that each output covers, with the covered share as weight; all outputs have the largest number of taps."""
    # TensorFlow does not align the corners of a single input
    scale = _scale(in_size, out_size, attrs["align_corners"] and in_size > 1)
    edges = np.arange(out_size + 1).astype(FLOAT) * scale
    start, end = edges[:-1, None], edges[1:, None]
    first = np.floor(start)
    inputs = first + np.arange(int((np.ceil(end) - first).max()))
    after = inputs + 1
    covered = np.where(
        inputs < start,
        np.where(after > end, scale, after - start),
        np.where(after > end, end - inputs, FLOAT(1)),
    )
    weights = np.where(inputs < np.ceil(end), covered, 0) / scale
    return Samples(np.clip(inputs, 0, in_size - 1).astype(np.int64), weights.astype(FLOAT))


def _invert_scale(scale: float, attrs: Attrs) -> tuple[np.float32, np.float32]:
    """(1 / scale, the factor by which the sampling kernel is widened)."""
    inverse = FLOAT(1.0 / float(FLOAT(scale)))
    # antialiasing widens the kernel of an image that shrinks
    return inverse, max(inverse, FLOAT(1)) if attrs["antialias"] else FLOAT(1)


def sample_translated(in_size: int, out_size: int, attrs: Attrs, scale: float, translation: float) -> Samples:
    """For each output, the inputs within the radius of the sampling kernel (attr `kernel_type`), which the scale widens.

    Outputs outside of the image have weights of 0. Raises InvalidArgumentError for an unknown kernel.
    """
    kernel, radius = find_sampling_kernel(attrs["kernel_type"])
    if not in_size or not out_size:
        return Samples(np.zeros((out_size, 0), np.int64), np.zeros((out_size, 0), FLOAT))
    inverse, width = _invert_scale(scale, attrs)
    locations = (np.arange(out_size, dtype=FLOAT) + FLOAT(0.5)) * inverse + -inverse * FLOAT(translation)
    # with a translation of NaN, all outputs are outside of the image
    locations = np.nan_to_num(locations, nan=-1)
    reach = FLOAT(radius) * width
    first = np.clip(np.ceil(locations - reach - FLOAT(0.5)), 0, in_size - 1).astype(np.int64)
    last = np.clip(np.floor(locations + reach - FLOAT(0.5)), 0, in_size - 1).astype(np.int64)
    inputs = first[:, None] + np.arange(int((last - first).max()) + 1)
    distances = (inputs.astype(FLOAT) + FLOAT(0.5) - locations[:, None]) * (1 / width)
    weights = np.where(inputs <= last[:, None], kernel(np.abs(distances)), 0).astype(FLOAT)
    total = weights.sum(1, keepdims=True, dtype=FLOAT)
    inside = (locations >= 0) & (locations <= in_size)
    # an output outside of the image is zero, even if its kernel reaches the image
    used = inside[:, None] & (np.abs(total) >= 1000 * np.finfo(FLOAT).tiny)
    return Samples(np.minimum(inputs, in_size - 1), np.where(used, _normalize(weights), FLOAT(0)))


# --- checks ---------------------------------------------------------------------------------------------------------


def _check_centers(attrs: Attrs) -> None:
    if attrs.get("half_pixel_centers") and attrs["align_corners"]:
        raise InvalidArgumentError("If half_pixel_centers is True, align_corners must be False.")


def _check_rank_4(tensor: Tensor, name: str) -> None:
    if tensor.ndim != 4:
        raise InvalidArgumentError(f"{name} must be 4-dimensional{format_dims(tensor.shape)}")


def _check_pixels(images: Tensor) -> None:
    if not images.shape[3]:
        raise InvalidArgumentError("image must have at least one channel")
    if not images.shape[1] or not images.shape[2]:
        raise InvalidArgumentError("input image must be of non-zero size")


def read_pair(tensor: Tensor, name: str) -> Tensor:
    """Return a tensor `[2]`. Raises InvalidArgumentError for another shape; `name` is its name in the message."""
    if tensor.ndim != 1:
        raise InvalidArgumentError(f"{name} must be 1-dimensional{format_dims(tensor.shape)}")
    if tensor.size != 2:
        raise InvalidArgumentError(f"{name} must have two elements{format_dims(tensor.shape)}")
    return tensor


def read_size(size: Tensor, name: str = "shape_t", problem: str = "output dimensions must be positive") -> tuple[int, int]:
    """Height and width from a tensor `[2]`. Raises InvalidArgumentError for another shape, and unless both are positive."""
    height, width = (int(dim) for dim in read_pair(size, name))
    if height <= 0 or width <= 0:
        raise InvalidArgumentError(problem)
    return height, width


def _check_images(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[int, int]:
    """Check a resizing op's inputs and attrs, and return the output's height and width."""
    images, size = inputs
    _check_centers(attrs)
    _check_rank_4(images, "input")
    _check_pixels(images)
    return read_size(size)


def _check_grads(grads: Tensor, original: Tensor, attrs: Attrs) -> None:
    _check_centers(attrs)
    _check_rank_4(grads, "input_grad")
    if not grads.shape[1] or not grads.shape[2]:
        raise InvalidArgumentError("resized dimensions must be positive")
    _check_rank_4(original, "original_image")
    if not original.shape[1] or not original.shape[2]:
        raise InvalidArgumentError("original dimensions must be positive")


# --- the ops --------------------------------------------------------------------------------------------------------


def compute_resized(inputs: Sequence[Tensor], attrs: Attrs, sampler: Sampler) -> tuple[Tensor]:
    """(images, size `[2]`) -> float images of this size.

    Raises InvalidArgumentError for another rank, images or a size without pixels, and half pixel centers together with aligned
    corners.
    """
    images = inputs[0]
    height, width = _check_images(inputs, attrs)
    rows = sampler(images.shape[1], height, attrs)
    return (gather(images, rows, sampler(images.shape[2], width, attrs)),)


def compute_resized_grad(inputs: Sequence[Tensor], attrs: Attrs, sampler: Sampler, multiply_in_float: bool) -> tuple[Tensor]:
    """(gradients, images) -> gradients of the images.

    Gradients are added in the type of the images, and multiplied in that type or, with `multiply_in_float`, in float. Raises
    the errors of `compute_resized`.
    """
    grads, original = inputs
    _check_grads(grads, original, attrs)
    dtype = attrs["T"].numpy
    height, width = original.shape[1:3]
    rows = sampler(height, grads.shape[1], attrs)
    columns = sampler(width, grads.shape[2], attrs)
    if dtype == np.float64 and multiply_in_float:
        return (spread(grads, rows, columns, height, width, dtype),)
    # half precision is added in float and rounded once
    wide = grads if dtype.itemsize == 2 else grads.astype(dtype, copy=False)
    return (spread(wide, rows, columns, height, width).astype(dtype, copy=False),)


def compute_nearest(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images, size `[2]`) -> images of this size, whose pixels are copies of the nearest input pixels.

    Raises InvalidArgumentError for another rank, images or a size without pixels, and for sizes from 2^24 on.
    """
    images = inputs[0]
    height, width = _check_images(inputs, attrs)
    if max(images.shape[1:3]) >= LARGEST_NEAREST:
        raise InvalidArgumentError("nearest neighbor requires max height & width of 2^24")
    rows = nearest_indices(images.shape[1], height, attrs)
    return (images.take(rows, 1).take(nearest_indices(images.shape[2], width, attrs), 2),)


def compute_nearest_grad(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(gradients, the images' size `[2]`) -> gradients of the images: each gradient is added to the pixel that was copied.

    Raises InvalidArgumentError for another rank, and a size that is not two positive numbers.
    """
    grads, size = inputs
    _check_rank_4(grads, "input")
    height, width = read_size(size, problem="shape_t's elements must be positive")
    images = np.zeros((grads.shape[0], height, width, grads.shape[3]), grads.dtype)
    if grads.size:
        rows = nearest_indices(height, grads.shape[1], attrs)
        _add_at(images, rows, nearest_indices(width, grads.shape[2], attrs), grads)
    return (images,)


def compute_scale_and_translate(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images, size, scales `[2]`, translations `[2]`) -> images that are scaled, then moved by the translation in pixels.

    Raises InvalidArgumentError for an unknown sampling kernel, shapes that do not fit, and a scale that is not positive.
    """
    images, size = inputs[:2]
    find_sampling_kernel(attrs["kernel_type"])
    _check_rank_4(images, "input")
    height, width = read_size(size, "output_shape_t")
    _check_pixels(images)
    rows, columns = _translated_axes(images.shape, (height, width), inputs[2:], attrs)
    return (gather(images, rows, columns),)


def compute_scale_and_translate_grad(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(gradients, images, scales, translations) -> the gradient with respect to the images.

    Raises the errors of `compute_scale_and_translate`.
    """
    grads, original = inputs[:2]
    find_sampling_kernel(attrs["kernel_type"])
    _check_rank_4(grads, "input_grad")
    _check_rank_4(original, "original_image")
    height, width = original.shape[1:3]
    rows, columns = _translated_axes(original.shape, grads.shape[1:3], inputs[2:], attrs)
    return (spread(grads, rows, columns, height, width),)


def _translated_axes(
    dims: Sequence[int], size: Sequence[int], placement: Sequence[Tensor], attrs: Attrs
) -> tuple[Samples, Samples]:
    # TensorFlow's messages call both scales and translations "t"
    scales = read_pair(placement[0], "t")
    if not (scales > 0).all():
        raise InvalidArgumentError("Scale must be greater than zero.")
    moves = read_pair(placement[1], "t")
    rows, columns = (
        sample_translated(dims[axis + 1], size[axis], attrs, float(scales[axis]), float(moves[axis])) for axis in (0, 1)
    )
    return rows, columns


# --- shape functions, costs and memory ------------------------------------------------------------------------------


def infer_resized(context: ShapeContext) -> tuple[Dims]:
    """Static shape `[batch, height, width, channels]`, with height and width from input 1."""
    batch, _, _, channels = with_rank(context.shapes[0], 4)
    return ((batch, *infer_size(context, 1), channels),)


def infer_size(context: ShapeContext, index: int) -> tuple[int, int]:
    """Height and width given by an input, -1 if unknown."""
    with_value(with_rank(context.shapes[index], 1)[0], 2)
    size = context.value(index)
    return (-1, -1) if size is None else (int(size[0]), int(size[1]))


def _tap_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs, taps: int) -> int:
    """Cost of a multiplication and an addition for each of `taps` rows and each of `taps` columns."""
    return 4 * taps * max(elements(inputs[0]), elements(outputs[0]))


def bilinear_grad_memory(memory: KernelMemory) -> None:
    """The output, and for half precision a temporary with the sums in float."""
    memory.allocate()
    images = memory.outputs[0]
    if images.dtype in (HALF, BFLOAT16):
        memory.temporary(4 * images.elements, images.dims)


def scale_and_translate_memory(memory: KernelMemory) -> None:
    """The output, and as temporaries the spans of each column and row, and the images with resized rows."""
    memory.allocate()
    (_, height, width, _), (batch, new_height, new_width, channels) = memory.inputs[0].dims, memory.outputs[0].dims
    if memory.outputs[0].elements:
        scales = memory.value(2)
        for in_size, out_size, scale in ((width, new_width, scales[1]), (height, new_height, scales[0])):
            memory.temporary(4 * out_size)
            memory.temporary(4 * out_size * _span_size(in_size, scale, memory.attrs))
        memory.temporary(4 * batch * new_height * width * channels)


def scale_and_translate_grad_memory(memory: KernelMemory) -> None:
    """The output, and temporaries: the forward spans, freed when their transpose is known; and images with resized rows."""
    memory.allocate()
    (_, new_height, new_width, _), (batch, height, width, channels) = memory.inputs[0].dims, memory.inputs[1].dims
    if memory.inputs[0].elements and memory.outputs[0].elements:
        samples = _translated_axes(
            (batch, height, width), (new_height, new_width), (memory.value(2), memory.value(3)), memory.attrs
        )
        scales = memory.value(2)
        for axis, in_size, out_size in ((1, width, new_width), (0, height, new_height)):
            forward = [memory.temporary(4 * out_size)]
            forward.append(memory.temporary(4 * out_size * _span_size(in_size, scales[axis], memory.attrs)))
            memory.temporary(4 * in_size)
            memory.temporary(4 * in_size * _reverse_span_size(samples[axis], in_size))
            for temporary in forward:
                memory.release(temporary)
        memory.temporary(4 * batch * height * new_width * channels)


def _span_size(in_size: int, scale: float, attrs: Attrs) -> int:
    """Number of inputs per output along an axis for which TensorFlow allocates room."""
    _, radius = find_sampling_kernel(attrs["kernel_type"])
    _, width = _invert_scale(scale, attrs)
    return min(2 * math.ceil(FLOAT(radius) * width) + 1, in_size)


def _reverse_span_size(samples: Samples, in_size: int) -> int:
    """The largest span of an input, which is the number of outputs from the first to the last one that use the input."""
    outputs, taps = samples.weights.nonzero()
    inputs = samples.indices[outputs, taps]
    first, last = np.full(in_size, len(samples.indices)), np.full(in_size, -1)
    np.minimum.at(first, inputs, outputs)
    np.maximum.at(last, inputs, outputs)
    return max(int((last - first).max()) + 1, 0)


TABLE: Table = {
    "ResizeArea": Kernel(partial(compute_resized, sampler=sample_area), infer_resized, partial(_tap_flops, taps=1)),
    "ResizeBicubic": Kernel(partial(compute_resized, sampler=sample_cubic), infer_resized, partial(_tap_flops, taps=4)),
    "ResizeBicubicGrad": Kernel(
        partial(compute_resized_grad, sampler=sample_cubic, multiply_in_float=False),
        infer_by("*, x -> x"),
        partial(_tap_flops, taps=4),
    ),
    "ResizeBilinear": Kernel(partial(compute_resized, sampler=sample_linear), infer_resized, partial(_tap_flops, taps=2)),
    "ResizeBilinearGrad": Kernel(
        partial(compute_resized_grad, sampler=sample_linear, multiply_in_float=True),
        infer_by("*, x -> x"),
        partial(_tap_flops, taps=2),
        memory=bilinear_grad_memory,
    ),
    "ResizeNearestNeighbor": Kernel(compute_nearest, infer_resized),
    "ResizeNearestNeighborGrad": Kernel(compute_nearest_grad, infer_resized),
    "ScaleAndTranslate": Kernel(
        compute_scale_and_translate, infer_resized, partial(_tap_flops, taps=4), memory=scale_and_translate_memory
    ),
    "ScaleAndTranslateGrad": Kernel(
        compute_scale_and_translate_grad,
        infer_by("*, x -> x"),
        partial(_tap_flops, taps=4),
        memory=scale_and_translate_grad_memory,
    ),
}
