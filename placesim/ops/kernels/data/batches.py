"""Datasets of batches, padded batches and windows of another dataset's elements; and unbatching.

All raise InvalidArgumentError if an input is not a dataset or not a scalar, although it must be one. Source: TensorFlow's
`batch_dataset_op.cc`, `padded_batch_dataset_op.cc`, `window_dataset_op.cc`, `unbatch_dataset_op.cc`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import DataLossError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.values import (
    UNKNOWN,
    Element,
    ElementSequence,
    Maker,
    as_dataset,
    build_dataset,
    build_infer_dataset,
    scalar_argument,
    signature,
    tries,
)
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.kernel import KernelContext, Table
from placesim.ops.kernels.named_resources import slices, stack_values
from placesim.ops.kernels.shapes import format_dims
from placesim.ops.process.memory_limit import check_room

Join = Callable[[Sequence[Element]], Element]
"""A function that makes one element of several."""


class BatchIterator(Iterator[Element]):
    """Join every `size` elements into one; with `drop_remainder`, drop a last, smaller batch."""

    def __init__(self, source: Iterator[Element], size: int, drop_remainder: bool, join: Join) -> None:
        self._source = source
        self._size = size
        self._drop_remainder = drop_remainder
        self._join = join

    def __next__(self) -> Element:
        found = list(itertools.islice(self._source, self._size))
        if not found or (self._drop_remainder and len(found) < self._size):
            raise StopIteration
        return self._join(found)


def _batch_size(value: Any) -> int:
    size = scalar_argument(value, "batch_size")
    if size <= 0:
        raise InvalidArgumentError("Batch size must be greater than zero.")
    return int(size)


def _grouped(source: ElementSequence, attrs: Attrs, size: int, drop_remainder: bool, join: Join) -> ElementSequence:
    total = source.cardinality
    if total >= 0:
        total = total // size + (not drop_remainder and total % size > 0)
    return ElementSequence(*signature(attrs), lambda: BatchIterator(source.start(), size, drop_remainder, join), total, size)


def build_batches(drop_at: int | None = None) -> Maker:
    """Return the maker of datasets of batches `[size, ...]`; `drop_at` is the position of input `drop_remainder`, if any.

    It raises InvalidArgumentError for a size that is not positive. An iteration raises it for elements of unequal shapes.
    """

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
        source = as_dataset(inputs[0])
        drop = drop_at is not None and bool(scalar_argument(inputs[drop_at], "drop_remainder"))
        return _grouped(source, attrs, _batch_size(inputs[1]), drop, lambda elements: stack_elements(elements, source.dtypes))

    return make


def stack_elements(elements: Sequence[Element], dtypes: Sequence[DataType]) -> Element:
    """Stack each component of n elements to `[n, ...]`. Raises InvalidArgumentError if shapes differ."""
    found = []
    for component, (values, dtype) in enumerate(zip(zip(*elements, strict=True), dtypes, strict=True)):
        first = value_dims(values[0])
        for index, value in enumerate(values):
            if value_dims(value) != first:
                raise InvalidArgumentError(
                    f"Cannot batch tensors with different shapes in component {component}. First element had shape "
                    f"{format_dims(first)} and element {index} had shape {format_dims(value_dims(value))}."
                )
        found.append(stack_values(values, dtype))
    return tuple(found)


# --- padding --------------------------------------------------------------------------------------------------------


class _Padding(NamedTuple):
    """Shape to which a component is padded (-1: the largest size in the batch), and the value to pad with."""

    shape: tuple[int, ...]
    value: Any
    dtype: DataType


def build_padded_batches(has_drop: bool) -> Maker:
    """Return the maker of datasets of padded batches; with `has_drop`, the last input is `drop_remainder`.

    It raises InvalidArgumentError for an invalid size, shape or value. An iteration raises InvalidArgumentError for an element
    of another rank, and DataLossError for one larger than its padded shape.
    """

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
        source, size, count = as_dataset(inputs[0]), _batch_size(inputs[1]), attrs["N"]
        drop = has_drop and bool(scalar_argument(inputs[-1], "drop_remainder"))
        paddings = _paddings(source, inputs[2 : 2 + count], inputs[2 + count : len(inputs) - has_drop])
        return _grouped(source, attrs, size, drop, lambda elements: _pad_and_stack(elements, paddings))

    return make


def _paddings(source: ElementSequence, shapes: Sequence[Any], values: Sequence[Any]) -> list[_Padding]:
    components = len(source.dtypes)
    if len(shapes) != components:
        raise InvalidArgumentError(
            f"Number of padded shapes ({len(shapes)}) must match the number of components in the input dataset's elements "
            f"({components})"
        )
    if any(np.ndim(shape) != 1 for shape in shapes):
        raise InvalidArgumentError("All padded shapes must be vectors")
    if len(values) != components:
        raise InvalidArgumentError(
            f"Number of padding values ({len(values)}) must match the number of components in the input dataset's elements "
            f"({components})"
        )
    if any(map(np.ndim, values)):
        raise InvalidArgumentError("All padding values must be scalars")
    rows = zip(shapes, values, source.dtypes, strict=True)
    return [_Padding(tuple(map(int, shape)), np.asarray(value, dtype.numpy).item(), dtype) for shape, value, dtype in rows]


def _pad_and_stack(elements: Sequence[Element], paddings: Sequence[_Padding]) -> Element:
    rows = enumerate(zip(zip(*elements, strict=True), paddings, strict=True))
    return tuple(_padded(component, values, padding) for component, (values, padding) in rows)


def _padded(component: int, values: Sequence[Any], padding: _Padding) -> Any:
    arrays = [np.asarray(value, padding.dtype.numpy) for value in values]
    for array in arrays:
        # TensorFlow's text has no space before the number
        if array.ndim != len(padding.shape):
            raise InvalidArgumentError(
                "All elements in a batch must have the same rank as the padded shape for component"
                f"{component}: expected rank {len(padding.shape)} but got element with rank {array.ndim}"
            )
    largest = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    if any(0 <= dim < size for dim, size in zip(padding.shape, largest, strict=True)):
        raise DataLossError("Attempted to pad to a smaller size than the input element.")
    shape = [size if dim < 0 else dim for dim, size in zip(padding.shape, largest, strict=True)]
    check_room((len(arrays), *shape), padding.dtype)
    found = np.full((len(arrays), *shape), padding.value, padding.dtype.numpy)
    for index, array in enumerate(arrays):
        # the ellipsis puts a scalar text itself there, no array that holds it
        where: tuple[int | slice | EllipsisType, ...] = (index, *map(slice, array.shape), ...)
        found[where] = array
    return found


# --- windows --------------------------------------------------------------------------------------------------------


class _WindowIterator(Iterator[Element]):
    """Return windows of an iteration; each is an element with a dataset for every component."""

    def __init__(self, source: ElementSequence, size: int, shift: int, stride: int, drop_remainder: bool) -> None:
        self._dataset = source
        self._source = source.start()
        self._shift = shift
        self._stride = stride
        self._span = (size - 1) * stride + 1
        self._drop_remainder = drop_remainder
        self._buffer: list[Element] = []

    def __next__(self) -> Element:
        self._buffer += itertools.islice(self._source, min(self._span - len(self._buffer), sys.maxsize))
        if not self._buffer or (self._drop_remainder and len(self._buffer) < self._span):
            raise StopIteration
        window = self._buffer[:: self._stride]
        # skip the elements between windows
        for _ in itertools.islice(self._source, max(self._shift - len(self._buffer), 0)):
            pass
        del self._buffer[: self._shift]
        return tuple(map(self._component, range(len(self._dataset.dtypes)), zip(*window, strict=True)))

    def _component(self, index: int, values: Sequence[Any]) -> ElementSequence:
        dtypes, shapes = (self._dataset.dtypes[index],), (self._dataset.shapes[index],)
        return ElementSequence(dtypes, shapes, lambda: zip(values, strict=True), len(values))


def make_windows(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of windows: `size` elements, `stride` apart; each window starts `shift` elements after the previous one.

    These inputs and `drop_remainder` are scalars. Raises InvalidArgumentError if size, stride or shift is not positive.
    """
    source = as_dataset(inputs[0])
    found = []
    for value, name in zip(inputs[1:4], ("size", "shift", "stride"), strict=True):
        found.append(int(scalar_argument(value, name)))
        if found[-1] <= 0:
            raise InvalidArgumentError(f"Window {name} must be greater than zero.")
    size, shift, stride = found
    drop = bool(scalar_argument(inputs[4], "drop_remainder"))
    total, span = source.cardinality, (size - 1) * stride + 1
    # without `drop_remainder`, a window starts as long as an element is left
    if total >= 0:
        total = max((total - span) // shift + 1, 0) if drop else -(-total // shift)
    return ElementSequence(*signature(attrs), lambda: _WindowIterator(source, size, shift, stride, drop), total)


# --- back to single elements ----------------------------------------------------------------------------------------


class UnbatchIterator(Iterator[Element]):
    """Return the slices of every element along the first axis."""

    def __init__(self, source: Iterator[Element], dtypes: Sequence[DataType]) -> None:
        self._source = source
        self._dtypes = dtypes
        self._slices: Iterator[Element] = iter(())

    def __next__(self) -> Element:
        for _ in tries():
            try:
                return next(self._slices)
            except StopIteration:
                element = next(self._source)
            self._slices = rows_of(element, self._dtypes)
        raise StopIteration


def rows_of(element: Element, dtypes: Sequence[DataType]) -> Iterator[Element]:
    """Return the slices of an element along its first axis. Raises InvalidArgumentError for scalars and unequal sizes."""
    if not all(map(value_dims, element)):
        raise InvalidArgumentError("Input element must have a non-scalar value in each component.")
    sizes = [value_dims(value)[0] for value in element]
    for index, size in enumerate(sizes):
        # TensorFlow's text has this comma
        if size != sizes[0]:
            raise InvalidArgumentError(
                "Input element must have the same batch size in each component. "
                f"Component 0 had size {sizes[0]} but component {index} had size, {size}."
            )
    return zip(*(slices(value, dtype) for value, dtype in zip(element, dtypes, strict=True)), strict=True)


def unbatch(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the slices of all elements along their first axis.

    An iteration raises InvalidArgumentError for scalars, and for components of unequal sizes.
    """
    source = as_dataset(inputs[0])
    return ElementSequence(*signature(attrs), lambda: UnbatchIterator(source.start(), source.dtypes), UNKNOWN)


TABLE: Table = {
    "BatchDataset": build_dataset(build_batches(), build_infer_dataset(1)),
    "BatchDatasetV2": build_dataset(build_batches(drop_at=2), build_infer_dataset(1, 2)),
    "ParallelBatchDataset": build_dataset(build_batches(drop_at=3), build_infer_dataset(1, 2, 3)),
    "PaddedBatchDataset": build_dataset(build_padded_batches(has_drop=False), build_infer_dataset(1)),
    "PaddedBatchDatasetV2": build_dataset(build_padded_batches(has_drop=True), build_infer_dataset(1, -1)),
    "WindowDataset": build_dataset(make_windows, build_infer_dataset(1, 2, 3, 4)),
    **dict.fromkeys(("UnbatchDataset", "ExperimentalUnbatchDataset"), build_dataset(unbatch)),
}
