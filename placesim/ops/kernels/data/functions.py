"""Datasets that call functions: mapped, filtered, interleaved, scanned; and the reduction of a dataset to a value.

TensorFlow's parallel calls run here one after another, in the order of their results. All raise InvalidArgumentError if an
input is not a dataset or not a scalar, although it must be one, and InternalError outside a session. Source: TensorFlow's
`map_dataset_op.cc`, `filter_dataset_op.cc`, `flat_map_dataset_op.cc`, `interleave_dataset_op.cc`, `scan_dataset_op.cc`,
`reduce_dataset_op.cc`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError, OutOfRangeError
from placesim.core.operating_system import available_processors
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.batches import BatchIterator, stack_elements
from placesim.ops.kernels.data.values import (
    UNKNOWN,
    Element,
    ElementSequence,
    as_dataset,
    build_dataset,
    function_caller,
    scalar_argument,
    signature,
    tries,
)
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, with_rank
from placesim.ops.process.memory_limit import check_elements

Call = Callable[[Element], Sequence[Any]]


def _captured(inputs: Sequence[Any], attrs: Attrs, before: int = 1) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the captured values, which begin at input `before`, and the inputs after them."""
    end = before + len(attrs["Targuments"])
    return inputs[before:end], inputs[end:]


# --- map ------------------------------------------------------------------------------------------------------------


def map_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the results of `f` for every element.

    If `f` raises OutOfRangeError, an iteration ends; with attr `preserve_cardinality` it raises InvalidArgumentError.
    """
    source = as_dataset(inputs[0])
    call = function_caller(context, attrs["f"], _captured(inputs, attrs)[0])
    keeps_count = bool(attrs.get("preserve_cardinality"))
    total = source.cardinality if keeps_count else UNKNOWN
    return ElementSequence(*signature(attrs), lambda: _ScanIterator(source.start(), call, (), keeps_count), total)


def map_and_batch(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the results of `f` for every element, in batches `[batch_size, ...]`.

    Raises InvalidArgumentError for a size that is not positive; an iteration raises it for results of unequal shapes.
    """
    rest = _captured(inputs, attrs)[1]
    size, drop = scalar_argument(rest[0], "batch_size"), bool(scalar_argument(rest[2], "drop_remainder"))
    if size <= 0:
        raise InvalidArgumentError("batch_size must be greater than zero.")
    source, dtypes = map_elements(inputs, attrs, context), attrs["output_types"]

    def start() -> Iterator[Element]:
        return BatchIterator(source.start(), int(size), drop, lambda elements: stack_elements(elements, dtypes))

    return ElementSequence(*signature(attrs), start, UNKNOWN)


# --- filter ---------------------------------------------------------------------------------------------------------


def _is_kept(result: Sequence[Any], otherwise: str = "Filter predicate `f` must return a scalar bool.") -> bool:
    if len(result) != 1 or np.ndim(result[0]) or np.asarray(result[0]).dtype != np.bool_:
        raise InvalidArgumentError(otherwise)
    return bool(result[0])


def filter_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the elements for which `predicate` is true.

    An iteration raises InvalidArgumentError if `predicate` does not return a scalar bool.
    """
    source = as_dataset(inputs[0])
    call = function_caller(context, attrs["predicate"], _captured(inputs, attrs)[0])
    return ElementSequence(*signature(attrs), lambda: _FilterIterator(source.start(), call), UNKNOWN, source.batch_size)


class _FilterIterator(Iterator[Element]):
    """The elements for which a function returns true."""

    def __init__(self, source: Iterator[Element], call: Call) -> None:
        self._source = source
        self._call = call

    def __next__(self) -> Element:
        for _ in tries():
            element = next(self._source)
            if _is_kept(self._call(element)):
                return element
        raise StopIteration


def take_while(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the elements before the first for which `predicate` is false. Errors are as in `filter_elements`."""
    source = as_dataset(inputs[0])
    call = function_caller(context, attrs["predicate"], _captured(inputs, attrs)[0])

    def is_kept(element: Element) -> bool:
        return _is_kept(call(element), "`predicate` must returns a scalar bool tensor.")

    return ElementSequence(*signature(attrs), lambda: itertools.takewhile(is_kept, source.start()), UNKNOWN)


# --- datasets of elements -------------------------------------------------------------------------------------------


class _InterleaveIterator(Iterator[Element]):
    """Interleave the datasets that a function returns: `block` elements of each in turn, with `cycle` datasets open."""

    def __init__(self, source: Iterator[Element], call: Call, cycle: int, block: int) -> None:
        self._source = source
        self._call = call
        self._open: list[Iterator[Element] | None] = [None] * cycle
        self._block = block
        self._at, self._given = 0, 0
        self._has_ended = False

    def __next__(self) -> Element:
        for _ in tries():
            if self._has_ended and not any(self._open):
                break
            current = self._open[self._at]
            if current is None:
                self._fill()
                continue
            try:
                found = next(current)
            except StopIteration:
                self._open[self._at] = None
                self._move_on()
                continue
            self._given += 1
            if self._given == self._block:
                self._move_on()
            return found
        raise StopIteration

    def _fill(self) -> None:
        """Open the next dataset at the current position; if there is none, move to the next position."""
        if self._has_ended:
            self._move_on()
            return
        try:
            element = next(self._source)
        except StopIteration:
            self._has_ended = True
            return
        self._open[self._at] = as_dataset(self._call(element)[0]).start()

    def _move_on(self) -> None:
        self._given = 0
        self._at = (self._at + 1) % len(self._open)


def flat_map(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the elements of the datasets that `f` returns, one dataset after the other."""
    source = as_dataset(inputs[0])
    call = function_caller(context, attrs["f"], _captured(inputs, attrs)[0])
    return ElementSequence(*signature(attrs), lambda: _InterleaveIterator(source.start(), call, 1, 1), UNKNOWN)


def interleave(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset that takes `block_length` elements in turn from `cycle_length` of the datasets that `f` returns.

    Raises InvalidArgumentError if either scalar is not positive.
    """
    source = as_dataset(inputs[0])
    captured, rest = _captured(inputs, attrs)
    call = function_caller(context, attrs["f"], captured)
    cycle, block = scalar_argument(rest[0], "cycle_length"), scalar_argument(rest[1], "block_length")
    if cycle == -1:  # TensorFlow then takes the number of processors, or `num_parallel_calls` if that is lower
        calls = int(scalar_argument(rest[-1], "num_parallel_calls")) if len(rest) > 2 else -1
        cycle = min(available_processors(), calls) if calls > 0 else available_processors()
    for value, name in ((cycle, "cycle_length"), (block, "block_length")):
        if value <= 0:
            raise InvalidArgumentError(f"{name} must be greater than zero.")
    check_elements(int(cycle))
    return ElementSequence(*signature(attrs), lambda: _InterleaveIterator(source.start(), call, cycle, block), UNKNOWN)


# --- state ----------------------------------------------------------------------------------------------------------


class _ScanIterator(Iterator[Element]):
    """The results of a function that takes a state and an element, and also returns the next state. A state may be empty.

    If the function raises OutOfRangeError, the iteration ends; with `keeps_count`, InvalidArgumentError is raised instead.
    """

    def __init__(self, source: Iterator[Element], call: Call, state: Element, keeps_count: bool) -> None:
        self._source = source
        self._call = call
        self._state = state
        self._keeps_count = keeps_count

    def __next__(self) -> Element:
        element = next(self._source)
        try:
            found = tuple(self._call((*self._state, *element)))
        except OutOfRangeError as error:
            if self._keeps_count:
                raise InvalidArgumentError(f"Function invocation produced OutOfRangeError: {error.message}") from None
            raise StopIteration from None
        width = len(self._state)
        self._state = found[:width]
        return found[width:]


def scan(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the results of `f`, which takes the state and an element, and also returns the next state."""
    source, call, state = _with_state(inputs, attrs, context)
    keeps_count = attrs["preserve_cardinality"]
    total = source.cardinality if keeps_count else UNKNOWN
    return ElementSequence(*signature(attrs), lambda: _ScanIterator(source.start(), call, state, keeps_count), total)


def _with_state(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> tuple[ElementSequence, Call, Element]:
    """Return an op's dataset, function and first state."""
    source, end = as_dataset(inputs[0]), 1 + len(attrs["Tstate"])
    call = function_caller(context, attrs["f"], _captured(inputs, attrs, end)[0])
    return source, call, tuple(inputs[1:end])


def reduce(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the last state; `f` takes the state and an element, and returns the next state.

    Raises InvalidArgumentError if `f` returns another number of components than the state has.
    """
    source, call, state = _with_state(inputs, attrs, context)
    width = len(state)
    for element in source.start():
        found = tuple(call((*state, *element)))
        if len(found) != width:
            raise InvalidArgumentError(
                "The number of components of the initial state and the reduce function output does not match. "
                f"(initial_state={width}, output={len(found)})."
            )
        state = found
    return state


# --- one value ------------------------------------------------------------------------------------------------------


def take_single_element(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the single element of a dataset. Raises InvalidArgumentError if the dataset is empty or has more elements."""
    iteration = as_dataset(inputs[0]).start()
    found = next(iteration, None)
    if found is None:
        raise InvalidArgumentError("Dataset was empty.")
    if next(iteration, None) is not None:
        raise InvalidArgumentError("Dataset had more than one element.")
    return found


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_components(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes in attr `output_shapes`. Raises ShapeError for a wrong number of them, or if input 0 is no scalar."""
    with_rank(context.shapes[0], 0)
    shapes, count = context.attrs["output_shapes"], len(context.attrs["output_types"])
    if len(shapes) != count:
        # TensorFlow's text does not close the bracket
        raise ShapeError(f"`output_shapes` must be the same length as `output_types` ({len(shapes)} vs. {count}")
    return [shape.dims for shape in shapes]


TABLE: Table = {
    **dict.fromkeys(
        ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "ExperimentalMapDataset"), build_dataset(map_elements)
    ),
    **dict.fromkeys(("MapAndBatchDataset", "ExperimentalMapAndBatchDataset"), build_dataset(map_and_batch)),
    **dict.fromkeys(("FilterDataset", "ParallelFilterDataset"), build_dataset(filter_elements)),
    **dict.fromkeys(("TakeWhileDataset", "ExperimentalTakeWhileDataset"), build_dataset(take_while)),
    "FlatMapDataset": build_dataset(flat_map),
    **dict.fromkeys(("InterleaveDataset", "ExperimentalParallelInterleaveDataset"), build_dataset(interleave)),
    **dict.fromkeys(("ParallelInterleaveDataset", "ParallelInterleaveDatasetV2"), build_dataset(interleave)),
    **dict.fromkeys(("ParallelInterleaveDatasetV3", "ParallelInterleaveDatasetV4"), build_dataset(interleave)),
    "LegacyParallelInterleaveDatasetV2": build_dataset(interleave),
    **dict.fromkeys(("ScanDataset", "ExperimentalScanDataset"), build_dataset(scan)),
    "ReduceDataset": Kernel(reduce, infer_components, needs_context=True),
    "DatasetToSingleElement": Kernel(take_single_element, infer_components),
}
