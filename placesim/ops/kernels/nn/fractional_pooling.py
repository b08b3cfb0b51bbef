"""Fractional pooling: random window sizes k and k + 1, so that the ratio of input to output size need not be an integer.

Source of the windows: Graham, "Fractional Max-Pooling" (2014), with TensorFlow's random numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.dtypes import DOUBLE
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs, TensorValue, format_float, format_tensor
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, per_element
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.nn.pooling_gradients import max_pool_gradient_memory
from placesim.ops.kernels.philox import WordStream, reserve
from placesim.ops.kernels.precision import lowest
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, infer_by, with_rank

SAME = "tensor_out_dup is not the same as tensor_out"

_Reduce = Callable[..., Any]
"""A ufunc's `reduce`, called with a window and an axis."""

# --- windows --------------------------------------------------------------------------------------------------------


def _window_sizes(size: int, count: int, attrs: Attrs, context: KernelContext) -> list[int]:
    """`count` window sizes with sum `size`, each `size // count` or one more."""
    if attrs["pseudo_random"]:
        return _pseudo_random_sizes(size, count, attrs, context)
    # the larger windows are first, then all are shuffled in TensorFlow's way; a Philox draw makes four words
    sizes = [size // count + (number < size % count) for number in range(count)]
    words = WordStream(reserve(context, attrs, -(-count // 4)))
    for number in range(count - 1):
        other = number + words.word() % (count - number)
        sizes[number], sizes[other] = sizes[other], sizes[number]
    return sizes


def _pseudo_random_sizes(size: int, count: int, attrs: Attrs, context: KernelContext) -> list[int]:
    """`count` window sizes with sum `size`: the differences of `ceil(ratio * (i + u))` for one random u."""
    # the bound of u keeps the first and last window from being too large
    ratio, quotient = size / count, size // count
    highest = min((quotient + 2) / ratio - 1, (size + 1 - quotient) / ratio - (count - 1))
    u = WordStream(reserve(context, attrs, 1)).float64() * highest
    edges = [1, *(math.ceil(ratio * (number + u)) for number in range(1, count)), size + 1]
    return np.diff(edges).tolist()


def _sequences(sizes: Sequence[int], counts: Sequence[int], attrs: Attrs, context: KernelContext) -> list[Tensor]:
    """For rows and for columns, the starts of the windows and the end of the last; drawn only once if `deterministic`."""
    kept: list[Tensor] | None = context.node_state.get("pooling_sequences")
    if kept is not None and attrs["deterministic"]:
        return kept
    found = [
        np.concatenate(([0], np.cumsum(_window_sizes(size, count, attrs, context)))).astype(np.int64)
        for size, count in zip(sizes, counts, strict=True)
    ]
    context.node_state["pooling_sequences"] = found
    return found


def _windows(sequence: Tensor, size: int, overlapping: bool) -> Iterator[slice]:
    """The cells of each window; overlapping windows share the cell at their border."""
    for start, end in zip(sequence[:-1].tolist(), sequence[1:].tolist(), strict=True):
        yield slice(start, min(end + overlapping, size))


def _reduce_windows(value: Tensor, sequences: Sequence[Tensor], overlapping: bool, reduce: _Reduce) -> Tensor:
    """Reduce the rows, then the columns of `[batch, rows, columns, channels]` window by window."""
    for axis, sequence in zip((1, 2), sequences, strict=True):
        parts = [
            reduce(value[(slice(None),) * axis + (window,)], axis)
            for window in _windows(sequence, value.shape[axis], overlapping)
        ]
        value = np.stack(parts, axis)
    return value


# --- pooling --------------------------------------------------------------------------------------------------------


def pool(
    inputs: Sequence[Tensor],
    attrs: Attrs,
    context: KernelContext,
    noun: str,
    finish: Callable[[Tensor, Sequence[Tensor], bool], Tensor],
) -> Sequence[Tensor]:
    """Return the pooled value, and the sequences of starts for rows and for columns.

    `finish` pools the windows, and `noun` names the pooling in messages. Raises InvalidArgumentError for an input or ratios
    that do not fit, and UnimplementedError for ratios of batch or channels.
    """
    (value,) = inputs
    counts = _count_windows(noun, value, attrs)
    sequences = _sequences(value.shape[1:3], counts[1:3], attrs, context)
    return finish(value, sequences, attrs["overlapping"]), *sequences


def _count_windows(noun: str, value: Tensor, attrs: Attrs) -> list[int]:
    ratios = attrs["pooling_ratio"]
    if len(ratios) != 4:
        raise InvalidArgumentError("pooling_ratio field must specify 4 dimensions")
    _check_ratios(ratios, InvalidArgumentError)
    if ratios[0] != 1 or ratios[3] != 1:
        raise UnimplementedError(f"Fractional {noun} pooling is not yet supported on the batch nor channel dimension.")
    # only a deterministic op, which draws its windows once, may have seeds
    if not attrs["deterministic"] and not attrs["seed"] == attrs["seed2"] == 0:
        raise InvalidArgumentError("Both seed and seed2 should be 0 if deterministic is false.")
    if value.ndim != 4:
        raise InvalidArgumentError("tensor_in must be 4-dimensional")
    for axis, (size, ratio) in enumerate(zip(value.shape, ratios, strict=True)):
        if size < ratio:
            raise InvalidArgumentError(
                f"Pooling ratio is higher than input dimension size for dimension {axis}. "
                f"Input dim size: {size} pooling ratio: {format_float(ratio)}"
            )
    return [_divide(size, ratio) for size, ratio in zip(value.shape, ratios, strict=True)]


def _check_ratios(ratios: Sequence[float], error: Callable[[str], Exception]) -> None:
    for ratio in ratios:
        if ratio < 1:
            raise error(f"pooling_ratio cannot be smaller than 1, got: {format_float(ratio)}")


def _divide(size: int, ratio: float) -> int:
    # TensorFlow also divides floats: the result may be rounded up to the next integer
    return math.floor(np.float32(size) / np.float32(ratio))


def _max(value: Tensor, sequences: Sequence[Tensor], overlapping: bool) -> Tensor:
    # fmax ignores NaN; a window of only NaN has the lowest value
    return _reduce_windows(value, sequences, overlapping, partial(np.fmax.reduce, initial=lowest(value.dtype)))


def _average(value: Tensor, sequences: Sequence[Tensor], overlapping: bool) -> Tensor:
    dtype = value.dtype
    sums = _reduce_windows(value, sequences, overlapping, partial(np.add.reduce, dtype=dtype))
    rows, columns = (
        [window.stop - window.start for window in _windows(sequence, size, overlapping)]
        for sequence, size in zip(sequences, value.shape[1:3], strict=True)
    )
    counts = np.outer(rows, columns)[:, :, None]
    # C++ divides integers toward zero
    means: Tensor = np.sign(sums) * (np.abs(sums) // counts) if np.issubdtype(dtype, np.integer) else sums / counts
    return means.astype(dtype)


# --- gradients ------------------------------------------------------------------------------------------------------


def pool_max_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(input, output, gradients of the output, row and column starts) -> gradients of the input `[batch, rows, columns, ...]`.

    Each output's gradient goes to the first largest cell of its window. Raises InvalidArgumentError for an input or output of
    another rank or without elements, starts that are not vectors, more gradients than outputs, and an output that differs from
    the pooled input.
    """
    value, output, gradient, *sequences = inputs
    for name, tensor in (("orig_input", value), ("orig_output", output)):
        shown = format_tensor(TensorValue(attrs["T"], tensor))
        if tensor.ndim != 4:
            raise InvalidArgumentError(f"{name} should be a tensor of rank 4, got {shown}")
        if tensor.size == 0:
            raise InvalidArgumentError(f"{name} must not be empty, got {shown}")
    for name, sequence in zip(("row", "col"), sequences, strict=True):
        if sequence.ndim != 1:
            raise InvalidArgumentError(
                f"{name}_pooling_sequence must be a vector, received shape {format_dims(sequence.shape)}"
            )
    where = _largest_cells(value, output, sequences, attrs["overlapping"]).reshape(-1)
    if gradient.size > where.size:
        raise InvalidArgumentError(f"out_backprop must have at most {where.size} elements, got {gradient.size}")
    # fewer gradients than outputs belong to the first outputs, in flattened order
    found = np.zeros(value.size, gradient.dtype)
    np.add.at(found, where[: gradient.size], gradient.reshape(-1))
    return (found.reshape(value.shape),)


def _largest_cells(value: Tensor, output: Tensor, sequences: Sequence[Tensor], overlapping: bool) -> Tensor:
    """For each window, the position in the flattened input of the first cell with the largest value. Has the output's shape.

    Raises InvalidArgumentError if the largest cell differs from the output, as it does for a window that begins with NaN.
    """
    where = np.full(output.shape, -1)
    rows, columns = (
        list(_windows(sequence, size, overlapping))[:count]
        for sequence, size, count in zip(sequences, value.shape[1:3], output.shape[1:3], strict=True)
    )
    if (len(value), len(rows), len(columns), value.shape[3]) != output.shape:
        raise InvalidArgumentError(SAME)
    cells = np.arange(value.size).reshape(value.shape)
    for row, column in itertools.product(range(len(rows)), range(len(columns))):
        window = (slice(None), rows[row], columns[column])
        taps = value[window].reshape(len(value), -1, value.shape[3])
        if min(rows[row].start, columns[column].start) < 0 or taps.shape[1] <= 0:
            raise InvalidArgumentError(SAME)
        best = np.argmax(np.where(np.isnan(taps), -np.inf, taps), axis=1)[:, None]
        largest = np.take_along_axis(taps, best, 1)[:, 0]
        if not np.all((largest == output[:, row, column]) & ~np.isnan(taps[:, 0])):
            raise InvalidArgumentError(SAME)
        where[:, row, column] = np.take_along_axis(cells[window].reshape(taps.shape), best, 1)[:, 0]
    return where


def pool_average_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(the input's shape, gradients of the output, row and column starts) -> gradients of the input.

    Each output's gradient is divided evenly among its window's cells, and summed in double. Raises InvalidArgumentError if the
    shapes do not fit, a dimension is not positive, or a start is negative.
    """
    shape, gradient, *sequences = inputs
    _check_average_gradient(shape, gradient, sequences)
    output = np.zeros(shape.tolist(), np.float64)
    if gradient.shape[::3] != output.shape[::3]:
        raise InvalidArgumentError("out_backprop and the input must have the same batch and channels")
    for row in range(gradient.shape[1]):
        rows = _cells(sequences[0], row, output.shape[1], attrs["overlapping"], "Row")
        for column in range(gradient.shape[2]):
            columns = _cells(sequences[1], column, output.shape[2], attrs["overlapping"], "Column")
            share = gradient[:, row, column] / max(len(rows) * len(columns), 1)
            output[:, rows.start : rows.stop, columns.start : columns.stop] += share[:, None, None]
    return (output.astype(gradient.dtype),)


def _check_average_gradient(shape: Tensor, gradient: Tensor, sequences: Sequence[Tensor]) -> None:
    if shape.ndim != 1 or shape.size != 4:
        # TensorFlow's message lacks the blank
        raise InvalidArgumentError("original input tensor shape must be1-dimensional and 4 elements")
    if gradient.ndim != 4:
        raise InvalidArgumentError("out_backprop must be 4-dimensional")
    for size in gradient.shape:
        if size <= 0:
            raise InvalidArgumentError(f"out_backprop must be positive for all dimension, got:{size}")
    for name, sequence, count in zip(("row", "col"), sequences, gradient.shape[1:3], strict=True):
        if sequence.size <= count:
            raise InvalidArgumentError(
                f"Given out_backprop shape {format_dims(gradient.shape)}, "
                f"{name}_seq_tensor must have at least {count + 1} elements, but got {sequence.size}"
            )
    for size in shape.tolist():
        if size < 0:
            raise InvalidArgumentError(f"Expected a non-negative size, got {size}")
    for which, size in zip(("Batch", "Rows", "Columns", "Depth"), shape.tolist(), strict=True):
        if size == 0:
            raise InvalidArgumentError(f"{which} dimension of input must not be 0")


def _cells(sequence: Tensor, number: int, size: int, overlapping: bool, which: str) -> range:
    """Rows or columns of a window; an empty range if its end is before its start."""
    start, end = sequence.reshape(-1)[number : number + 2].tolist()
    last = min(end if overlapping else end - 1, size - 1)
    shown = " ".join(_aligned(sequence))
    if min(start, last) < 0:
        raise InvalidArgumentError(f"{which} sequence tensor values must not be negative, got {shown}")
    return range(start, max(last + 1, start))


def _aligned(sequence: Tensor) -> list[str]:
    """The elements as texts of equal width."""
    texts = [str(value) for value in sequence.reshape(-1).tolist()]
    return [text.rjust(max(map(len, texts))) for text in texts]


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_pool(context: ShapeContext) -> Sequence[Dims]:
    value = with_rank(context.shapes[0], 4)
    ratios = context.attrs["pooling_ratio"]
    if len(ratios) != 4:
        raise ShapeError("pooling_ratio field must specify 4 dimensions")
    _check_ratios(ratios, ShapeError)
    dims = tuple(-1 if dim < 0 else _divide(dim, ratio) for dim, ratio in zip(value, ratios, strict=True))
    return dims, dims[1:2], dims[2:3]


def _infer_average_gradient(context: ShapeContext) -> Sequence[Dims]:
    value = context.value(0)
    if value is None:
        return ((-1,) * 4,)
    with_rank(value.shape, 1)
    for dim in value.tolist():
        if dim < -1:
            raise ShapeError(f"Invalid value in tensor used for shape: {dim}")
    return (tuple(value.tolist()),)


def average_gradient_memory(memory: KernelMemory) -> None:
    """The gradient, and a temporary in which it is summed in doubles."""
    memory.temporary_like(memory.outputs[0], DOUBLE)


TABLE: Table = {
    "FractionalAvgPool": Kernel(
        partial(pool, noun="average", finish=_average), _infer_pool, per_element(0), needs_context=True
    ),
    "FractionalAvgPoolGrad": Kernel(pool_average_gradient, _infer_average_gradient, memory=average_gradient_memory),
    "FractionalMaxPool": Kernel(partial(pool, noun="max", finish=_max), _infer_pool, per_element(0), needs_context=True),
    "FractionalMaxPoolGrad": Kernel(pool_max_gradient, infer_by("x:4 -> x"), memory=max_pool_gradient_memory),
}
