"""Quantization with a scale (the size of a step) and a zero point (the step that stands for zero)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import INT32, QINT32
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.quantized.ranges import cast_to_integer
from placesim.ops.kernels.shapes import format_dims, unchanged


def quantize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Quantize floats to steps, rounded half up and limited by attrs; the inputs are floats, scales and zero points.

    Scales and zero points are scalars, or vectors along the quantization axis. Raises InvalidArgumentError for other shapes.
    """
    value, scales, zero_points = inputs
    _check_axis_attr(attrs, "quantization_axis")
    scales, zero_points = _along_axis(value, scales, zero_points, attrs["quantization_axis"])
    # TensorFlow multiplies by the inverse, which rounds differently, and does not check that scales are positive
    inverse = np.float32(1) / scales
    steps = cast_to_integer(np.floor(value * inverse + np.float32(0.5)), QINT32)
    return (_moved_steps(steps, zero_points, attrs, "quantization"),)


def dequantize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Convert steps to floats; the inputs are steps, scales and zero points.

    Raises InvalidArgumentError for scales and zero points that do not fit, and for a scale that is not positive.
    """
    value, scales, zero_points = inputs
    scales, zero_points = _along_axis(value, scales, zero_points, attrs["quantization_axis"])
    if not np.all(scales > 0):
        raise InvalidArgumentError("rhs scales elements must be all positive.")
    return (((value.astype(np.int32) - zero_points).astype(np.float32) * scales).astype(attrs["Tout"].numpy),)


def requantize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Convert steps to other scales and zero points, by a fixed-point product that is rounded once.

    Raises InvalidArgumentError for scales and zero points that do not fit, two different axes, and a scale not positive.
    """
    value, scales, zero_points, new_scales, new_zero_points = inputs
    axis, new_axis = attrs["input_quantization_axis"], attrs["output_quantization_axis"]
    for name in ("input_quantization_axis", "output_quantization_axis"):
        _check_axis_attr(attrs, name)
    if axis >= 0 and new_axis >= 0 and axis != new_axis:
        raise InvalidArgumentError("If input and output is both per-axis quantized, the quantization axis must be same.")
    scales, zero_points = _along_axis(value, scales, zero_points, axis)
    new_scales, new_zero_points = _along_axis(value, new_scales, new_zero_points, new_axis)
    if not (np.all(scales > 0) and np.all(new_scales > 0)):
        raise InvalidArgumentError("input/output scales elements must be all positive.")
    ratio = scales.astype(np.float64) / new_scales
    multipliers, shifts = (np.empty(ratio.shape, np.int64) for _ in range(2))
    for where in np.ndindex(ratio.shape):
        multipliers[where], shifts[where] = find_multiplier(float(ratio[where]))
    steps = (value.astype(np.int64) - zero_points).astype(np.int32).astype(np.int64)
    # adding a half before the shift rounds halves up
    total = 31 - shifts
    moved = (steps * multipliers + (np.int64(1) << (total - 1))) >> total
    return (_moved_steps(np.clip(moved, -(2**31), 2**31 - 1), new_zero_points, attrs, "output_quantization"),)


def _moved_steps(steps: Tensor, zero_points: Tensor, attrs: Attrs, prefix: str) -> Tensor:
    """Add zero points to 32-bit steps, with wrapping sums, and limit the sums by attrs."""
    moved = (steps.astype(np.int64) + zero_points).astype(np.int32)
    lowest, highest = (attrs[f"{prefix}_{end}_val"] for end in ("min", "max"))
    clamped: Tensor = np.maximum(np.minimum(moved, highest), lowest)
    return clamped.astype(attrs["Tout"].numpy)


def find_multiplier(number: float) -> tuple[int, int]:
    """Return a positive number as a fraction of 31 bits and a power of two. Raises InvalidArgumentError for another number."""
    if not (math.isfinite(number) and number > 0):
        # TensorFlow's spelling
        raise InvalidArgumentError(f"double_multiplier must be a poisitive finite number. Given {number:g}")
    fraction, shift = math.frexp(number)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    # a number too small for 31 bits becomes zero, one too large the maximum
    if shift < -31:
        return 0, 0
    return ((1 << 31) - 1, 30) if shift > 30 else (multiplier, shift)


def _check_axis_attr(attrs: Attrs, name: str) -> None:
    if attrs[name] < -1:
        raise InvalidArgumentError(f"{name} must be >= -1, given: {attrs[name]}")


def _along_axis(value: Tensor, scales: Tensor, zero_points: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return scales and zero points as arrays that broadcast along the axis; axis -1 means that they are scalars."""
    if scales.shape != zero_points.shape:
        shapes = _shapes_text(scales, zero_points)
        raise InvalidArgumentError(f"scales and zero_points shape must be same, but given {shapes}")
    if not -1 <= axis < value.ndim:
        raise InvalidArgumentError(f"quantization_axis must be -1 or in range [0, input.rank), but given {axis}")
    if axis < 0:
        if scales.ndim != 0:
            raise InvalidArgumentError(
                "If quantization_axis is -1, scales and zero_points must be scalar tensors, "
                f"but given {_shapes_text(scales, zero_points)}"
            )
        return scales, zero_points
    if scales.shape != (value.shape[axis],):
        raise InvalidArgumentError(
            "If quantization_axis is not -1, scales and zero_points must be a tensor of rank 1 and the size must be equal to "
            f"the input.dim_size(quantization_axis), but given quantization_axis {axis}, {_shapes_text(scales, zero_points)}"
        )
    shape = (-1, *[1] * (value.ndim - axis - 1))
    return scales.reshape(shape), zero_points.reshape(shape)


def _shapes_text(scales: Tensor, zero_points: Tensor) -> str:
    return f"scales shape {format_dims(scales.shape)} and zero_points shape {format_dims(zero_points.shape)}"


def requantize_memory(memory: KernelMemory) -> None:
    """If there is a scale for each slice, two int32 temporaries have each slice's multiplier and shift."""
    memory.allocate()
    slices = max(memory.inputs[1], memory.inputs[3], key=lambda scales: len(scales.dims))
    if slices.dims:
        for _part in range(2):
            memory.temporary_like(slices, INT32)


TABLE: Table = {
    "UniformDequantize": Kernel(dequantize, unchanged, one_per_output),
    "UniformQuantize": Kernel(quantize, unchanged, one_per_output),
    "UniformRequantize": Kernel(requantize, unchanged, one_per_output, memory=requantize_memory),
}
