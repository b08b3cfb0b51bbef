"""Datasets that select or count elements: by key, by another dataset's numbers, by uniqueness; and sparse batches.

Source: TensorFlow's `group_by_window_dataset_op.cc`, `directed_interleave_dataset_op.cc`, `unique_dataset_op.cc`,
`assert_cardinality_dataset_op.cc`, `dense_to_sparse_batch_dataset_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT64
from placesim.core.errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.batches import BatchIterator
from placesim.ops.kernels.data.values import (
    UNKNOWN,
    Element,
    ElementSequence,
    as_dataset,
    build_dataset,
    build_infer_dataset,
    function_caller,
    scalar_argument,
    signature,
    tries,
)
from placesim.ops.kernels.kernel import KernelContext, Table
from placesim.ops.kernels.shapes import format_dims

Call = Callable[[Element], Sequence[Any]]


# --- windows of one key ---------------------------------------------------------------------------------------------


class _GroupByWindowIterator(Iterator[Element]):
    """The elements of the datasets that `reduce` makes of windows. A window has one key; incomplete windows come last."""

    def __init__(self, source: ElementSequence, key: Call, reduce: Call, size: Call) -> None:
        self._dataset = source
        self._source = source.start()
        self._key, self._reduce, self._size = key, reduce, size
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}
        self._current: Iterator[Element] | None = None
        self._has_ended = False

    def __next__(self) -> Element:
        for _ in tries():
            if self._current is not None:
                try:
                    return next(self._current)
                except StopIteration:
                    self._current = None
            if self._has_ended:
                if not self._groups:
                    break
                self._begin(min(self._groups))  # TensorFlow ends the groups in the order of their keys
                continue
            self._take()
        raise StopIteration

    def _take(self) -> None:
        try:
            element = next(self._source)
        except StopIteration:
            self._has_ended = True
            return
        key = _number(self._key(element), "`key_func` must return a scalar int64.")
        if key not in self._sizes:
            size = _number(self._size((np.int64(key),)), "`window_size_func` must return a scalar int64.")
            if size <= 0:
                raise InvalidArgumentError(f"Window size must be greater than zero, but got {size}.")
            self._sizes[key] = size
        group = self._groups.setdefault(key, [])
        group.append(element)
        if len(group) == self._sizes[key]:
            self._begin(key)

    def _begin(self, key: int) -> None:
        elements = self._groups.pop(key)
        self._sizes.pop(key)
        held = ElementSequence(self._dataset.dtypes, self._dataset.shapes, lambda: iter(elements), len(elements))
        self._current = as_dataset(self._reduce((np.int64(key), held))[0]).start()


def _number(values: Sequence[Any], otherwise: str) -> int:
    if len(values) != 1 or np.ndim(values[0]) or np.asarray(values[0]).dtype != np.int64:
        raise InvalidArgumentError(otherwise)
    return int(values[0])


def group_by_window(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the results of `reduce_func` for each window. The elements of a window have the same key.

    `key_func` returns an element's key, and `window_size_func` the number of elements in a window of a key.
    """
    source = as_dataset(inputs[0])
    start, calls = 1, []
    for name in ("key", "reduce", "window_size"):
        end = start + len(attrs[f"T{name}_func_other_arguments"])
        calls.append(function_caller(context, attrs[f"{name}_func"], inputs[start:end]))
        start = end
    return ElementSequence(*signature(attrs), lambda: _GroupByWindowIterator(source, *calls), UNKNOWN)


# --- by number ------------------------------------------------------------------------------------------------------


class _DirectedInterleaveIterator(Iterator[Element]):
    """Take each element from the source whose number the selector gives. Skip ended sources; with `stops`, end at the first."""

    def __init__(self, selector: Iterator[Element], sources: list[Iterator[Element] | None], stops: bool) -> None:
        self._selector = selector
        self._sources = sources
        self._stops = stops

    def __next__(self) -> Element:
        for _ in tries():
            if not any(source is not None for source in self._sources):
                break
            index = int(next(self._selector)[0])
            if not 0 <= index < len(self._sources):
                raise InvalidArgumentError(f"Selector index out of range: {index} >= {len(self._sources)}")
            source = self._sources[index]
            if source is None:
                continue
            try:
                return next(source)
            except StopIteration:
                if self._stops:
                    self._sources = []
                    break
                self._sources[index] = None
        raise StopIteration


def interleave_directed(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset that takes each element from the dataset whose number is the next element of input 0."""
    selector, *sources = map(as_dataset, inputs)
    stops = attrs["stop_on_empty_dataset"]

    def start() -> Iterator[Element]:
        return _DirectedInterleaveIterator(selector.start(), [source.start() for source in sources], stops)

    return ElementSequence(*signature(attrs), start, UNKNOWN)


# --- uniqueness and counts ------------------------------------------------------------------------------------------


class _UniqueIterator(Iterator[Element]):
    """The elements that are not equal to an earlier one."""

    def __init__(self, source: Iterator[Element]) -> None:
        self._source = source
        self._seen: set[Any] = set()

    def __next__(self) -> Element:
        for _ in tries():
            element = next(self._source)
            array = np.asarray(element[0])
            key = (array.shape, tuple(array.reshape(-1).tolist()))
            if key not in self._seen:
                self._seen.add(key)
                return element
        raise StopIteration


def keep_unique(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset without elements that are equal to an earlier one."""
    source = as_dataset(inputs[0])
    return ElementSequence(*signature(attrs), lambda: _UniqueIterator(source.start()), UNKNOWN)


class _AssertCardinalityIterator(Iterator[Element]):
    """An iteration that raises FailedPreconditionError if it does not have `count` elements."""

    def __init__(self, source: Iterator[Element], count: int) -> None:
        self._source = source
        self._count = count
        self._given = 0

    def __next__(self) -> Element:
        try:
            found = next(self._source)
        except StopIteration:
            if self._given != self._count:
                raise self._wrong("only") from None
            raise
        self._given += 1
        if self._given > self._count:
            raise self._wrong("at least")
        return found

    def _wrong(self, limit: str) -> FailedPreconditionError:
        expected, found = (f"{count} element{'s' * (count != 1)}" for count in (self._count, self._given))
        return FailedPreconditionError(f"Input dataset was expected to contain {expected} but contained {limit} {found}.")


def assert_cardinality(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return the dataset; an iteration raises FailedPreconditionError if it does not have `cardinality` elements."""
    source, count = as_dataset(inputs[0]), int(scalar_argument(inputs[1], "cardinality"))
    return ElementSequence(*signature(attrs), lambda: _AssertCardinalityIterator(source.start(), count), count)


# --- sparse batches -------------------------------------------------------------------------------------------------


def batch_sparsely(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of batches as sparse tensors `[size, *row_shape]`, where -1 means the largest size in the batch.

    Raises InvalidArgumentError for a size that is not positive, and DataLossError for an element larger than a row.
    """
    source, size = as_dataset(inputs[0]), int(scalar_argument(inputs[1], "batch_size"))
    if size <= 0:
        raise InvalidArgumentError("Batch size must be greater than zero.")
    row = tuple(map(int, inputs[2]))

    def join(elements: Sequence[Element]) -> Element:
        return (_sparse_rows([np.asarray(element[0]) for element in elements], row),)

    return ElementSequence(*signature(attrs), lambda: BatchIterator(source.start(), size, False, join), UNKNOWN)


def _sparse_rows(arrays: Sequence[np.ndarray[Any, Any]], row: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Make a sparse tensor whose rows are these arrays; return three variants `[3]`: its indices, values and dense shape."""
    dims = list(row)
    for array in arrays:
        if array.ndim != len(row):
            raise InvalidArgumentError(
                f"Input element had shape ({format_dims(array.shape)}) that is incompatible with the row shape "
                f"({format_dims(row)})."
            )
        for i, (dim, limit) in enumerate(zip(array.shape, row, strict=True)):
            if limit < 0:
                dims[i] = max(dims[i], dim)
            elif dim > limit:
                raise DataLossError(
                    f"Input element had shape ({format_dims(array.shape)}) that is larger than the row shape "
                    f"({format_dims(row)})."
                )
    places = [
        np.concatenate([np.full((array.size, 1), i, np.int64), np.argwhere(np.ones(array.shape, bool))], axis=1)
        for i, array in enumerate(arrays)
    ]
    parts = np.empty(3, object)
    parts[0] = np.concatenate(places).astype(np.int64)
    parts[1] = np.concatenate([array.reshape(-1) for array in arrays])
    parts[2] = np.array([len(arrays), *dims], INT64.numpy)
    return parts


TABLE: Table = {
    "GroupByWindowDataset": build_dataset(group_by_window),
    "DirectedInterleaveDataset": build_dataset(interleave_directed),
    "UniqueDataset": build_dataset(keep_unique),
    "AssertCardinalityDataset": build_dataset(assert_cardinality, build_infer_dataset(1)),
    "DenseToSparseBatchDataset": build_dataset(batch_sparsely, build_infer_dataset(1)),
}
