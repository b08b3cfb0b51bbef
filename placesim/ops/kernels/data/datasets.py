"""Datasets made of tensors and of other datasets: ranges, slices, parts, repetitions, concatenations.

All raise InvalidArgumentError if an input is not a dataset or not a scalar, although it must be one. Source: TensorFlow's
`kernels/data/*_dataset_op.cc` of these names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError, OpError, ResourceExhaustedError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.values import (
    INFINITE,
    UNKNOWN,
    Element,
    ElementSequence,
    Start,
    as_dataset,
    build_dataset,
    build_infer_dataset,
    check_shapes,
    element_shapes,
    scalar_argument,
    signature,
    tries,
)
from placesim.ops.kernels.device_resources import value_dims
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.named_resources import slices, types_text
from placesim.ops.kernels.shapes import scalar
from placesim.ops.kernels.string_tensors import flat_strings

MAX_CARDINALITY = (1 << 63) - 1

# --- sources --------------------------------------------------------------------------------------------------------


def hold_tensors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of one element, the inputs. Raises InvalidArgumentError if their shapes do not fit `output_shapes`."""
    dtypes, shapes = signature(attrs)
    element = tuple(inputs)
    check_shapes(shapes, element_shapes(element))
    return ElementSequence(dtypes, shapes, lambda: iter((element,)), 1)


def slice_tensors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of n elements, which are the slices of the inputs `[n, ...]` along their first axis.

    Raises InvalidArgumentError for scalars, unequal sizes, and shapes that do not fit attr `output_shapes`.
    """
    dtypes, shapes = signature(attrs)
    if not all(map(value_dims, inputs)):
        raise InvalidArgumentError("All components must be at least 1-dimensional")
    if len({value_dims(value)[0] for value in inputs}) > 1:
        raise InvalidArgumentError("All components must have the same size in the 0th dimension")
    check_shapes(shapes, [value_dims(value)[1:] for value in inputs])
    components = [slices(value, dtype) for value, dtype in zip(inputs, dtypes, strict=True)]
    return ElementSequence(dtypes, shapes, lambda: zip(*components, strict=True), len(components[0]))


def list_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of elements; the inputs are their components, one element after the other."""
    dtypes, shapes = signature(attrs)
    width = len(dtypes)
    elements = [tuple(inputs[at : at + width]) for at in range(0, len(inputs), width)]
    return ElementSequence(dtypes, shapes, lambda: iter(elements), len(elements))


def count_up(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the numbers in `range(start, stop, step)`. Raises InvalidArgumentError for a step of zero."""
    names = ("start", "stop", "step")
    start, stop, step = (int(scalar_argument(value, name)) for value, name in zip(inputs, names, strict=True))
    if not step:
        raise InvalidArgumentError("step must be a non-zero integer.")
    dtypes, shapes = signature(attrs)
    cast = dtypes[0].numpy.type
    values = range(start, stop, step)
    # `len(values)` would fail above this limit
    count = min(max(-((start - stop) // step), 0), MAX_CARDINALITY)
    return ElementSequence(dtypes, shapes, lambda: zip(map(cast, values)), count)


# --- parts and repetitions ------------------------------------------------------------------------------------------


class _RepeatIterator(Iterator[Element]):
    """Run `count` iterations one after another; -1 means infinitely many, up to the first that has no elements."""

    def __init__(self, start: Start, count: int) -> None:
        self._start = start
        self._left = count
        self._current: Iterator[Element] | None = None
        self._is_fresh = True

    def __next__(self) -> Element:
        for _ in tries():
            if self._current is None:
                if not self._left:
                    break
                self._current, self._is_fresh = self._start(), True
            try:
                found = next(self._current)
            except StopIteration:
                self._current = None
                self._left -= 1
                # an empty dataset would never return an element
                if self._left < 0 and self._is_fresh:
                    self._left = 0
                continue
            self._is_fresh = False
            return found
        raise StopIteration


def repeat(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return the dataset repeated `count` times, infinitely if `count` is negative."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "count")
    if count < 0:
        return _derived(source, lambda: _RepeatIterator(source.start, -1), 0 if source.cardinality == 0 else INFINITE)
    total = 0 if not count else source.cardinality * count if source.cardinality >= 0 else source.cardinality
    return _derived(source, lambda: _RepeatIterator(source.start, count), total)


def take(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the first `count` elements, all if `count` is negative."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "count")
    if count < 0:
        return _derived(source, source.start, source.cardinality)
    total = {INFINITE: count, UNKNOWN: UNKNOWN}.get(source.cardinality, min(source.cardinality, count))
    return _derived(source, lambda: itertools.islice(source.start(), count), total)


def skip(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset without the first `count` elements, an empty one if `count` is negative."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "count")
    if count < 0:
        return _derived(source, lambda: iter(()), 0)
    total = max(source.cardinality - count, 0) if source.cardinality >= 0 else source.cardinality
    return _derived(source, lambda: _StepIterator(source.start(), count, 1), total)


def shard(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of every `num_shards`-th element from number `index` on.

    Raises InvalidArgumentError for fewer than one shard, and an index out of range.
    """
    source = as_dataset(inputs[0])
    count, index = scalar_argument(inputs[1], "num_shards"), scalar_argument(inputs[2], "index")
    if count <= 0:
        raise InvalidArgumentError(f"Number of shards must be greater than zero (currently num_shards = {count}).")
    if not 0 <= index < count:
        raise InvalidArgumentError(f"Index must be between 0 and {count - 1} (currently index = {index}).")
    total = source.cardinality
    if total >= 0:
        total = total // count + (index < total % count)
    return _derived(source, lambda: _StepIterator(source.start(), index, count), total)


class _StepIterator(Iterator[Element]):
    """Every `step`-th element of an iteration, from number `first` on."""

    def __init__(self, source: Iterator[Element], first: int, step: int) -> None:
        self._source = source
        self._before = first
        self._step = step

    def __next__(self) -> Element:
        for _ in tries() if self._before else ():
            if not self._before:
                break
            next(self._source)
            self._before -= 1
        found = next(self._source)
        self._before = self._step - 1
        return found


# --- several datasets -----------------------------------------------------------------------------------------------


def zip_datasets(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset that joins the components of one element from each dataset; it ends with the shortest dataset."""
    sources = [as_dataset(value) for value in inputs]
    known = [source.cardinality for source in sources if source.cardinality >= 0]
    total = UNKNOWN if any(source.cardinality == UNKNOWN for source in sources) else min(known, default=INFINITE)

    def start() -> Iterator[Element]:
        parts = zip(*(source.start() for source in sources), strict=False)
        return map(_joined, parts)

    return ElementSequence(*signature(attrs), start, total)


def _joined(parts: Sequence[Element]) -> Element:
    return tuple(itertools.chain.from_iterable(parts))


def concatenate(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return the elements of one dataset, then those of another. Raises InvalidArgumentError if their types differ."""
    one, two = map(as_dataset, inputs)
    if one.dtypes != two.dtypes:
        # TensorFlow's text lacks its first two values
        raise InvalidArgumentError(
            f"input dataset and dataset to concatenate have different output_types %s and %s{types_text(two.dtypes)}"
        )
    sizes = (one.cardinality, two.cardinality)
    total = INFINITE if INFINITE in sizes else UNKNOWN if UNKNOWN in sizes else sum(sizes)
    return ElementSequence(*signature(attrs), lambda: _ConcatenateIterator([one.start, two.start]), total)


class _ConcatenateIterator(Iterator[Element]):
    """Run iterations one after another; each starts when the previous one has ended."""

    def __init__(self, starts: Sequence[Start]) -> None:
        self._starts = list(starts)
        self._current: Iterator[Element] = iter(())

    def __next__(self) -> Element:
        while True:
            try:
                return next(self._current)
            except StopIteration:
                if not self._starts:
                    raise
                self._current = self._starts.pop(0)()


# --- the same elements ----------------------------------------------------------------------------------------------


def _derived(source: ElementSequence, start: Start, cardinality: int) -> ElementSequence:
    return replace(source, start=start, cardinality=cardinality)


def pass_on(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return the dataset unchanged: options, threads and models do not affect its elements."""
    return as_dataset(inputs[0])


def prefetch(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return the dataset unchanged, as elements are made on demand. Raises InvalidArgumentError for a buffer size below -1."""
    if scalar_argument(inputs[1], "buffer_size") < -1:
        raise InvalidArgumentError("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
    return pass_on(inputs, attrs, context)


class _CacheIterator(Iterator[Element]):
    """An iteration that collects its elements, and stores them in `memory` at its end."""

    def __init__(self, source: Iterator[Element], memory: list[tuple[Element, ...]]) -> None:
        self._source = source
        self._memory = memory
        self._seen: list[Element] = []

    def __next__(self) -> Element:
        try:
            self._seen.append(next(self._source))
        except StopIteration:
            # if several iterations run at the same time, the first to end fills the cache
            if not self._memory:
                self._memory.append(tuple(self._seen))
            raise
        return self._seen[-1]


def cache(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset that stores its elements in the first complete iteration. Raises UnimplementedError for a cache file."""
    source = as_dataset(inputs[0])
    if flat_strings(scalar_argument(inputs[1], "filename"))[0]:
        raise UnimplementedError("placesim caches datasets in memory only, not in files; leave `filename` empty")
    memory: list[tuple[Element, ...]] = []

    def start() -> Iterator[Element]:
        return iter(memory[0]) if memory else _CacheIterator(source.start(), memory)

    return _derived(source, start, source.cardinality)


class _IgnoreErrorsIterator(Iterator[Element]):
    """Skip elements whose computation raises an error."""

    def __init__(self, source: Iterator[Element]) -> None:
        self._source = source

    def __next__(self) -> Element:
        for _ in tries():
            try:
                return next(self._source)
            except ResourceExhaustedError:
                raise
            # the iteration can go on after an error
            except OpError:
                continue
        raise StopIteration


def ignore_errors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the elements whose computation raises no error."""
    source = as_dataset(inputs[0])
    return _derived(source, lambda: _IgnoreErrorsIterator(source.start()), UNKNOWN)


def tell_cardinality(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the number of elements, a scalar: -1 if infinite, -2 if unknown."""
    return (np.int64(min(as_dataset(inputs[0]).cardinality, MAX_CARDINALITY)),)


def wrap(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the dataset itself: it needs no wrapping to move between devices."""
    return (as_dataset(inputs[0]),)


TABLE: Table = {
    "TensorDataset": build_dataset(hold_tensors),
    "TensorSliceDataset": build_dataset(slice_tensors),
    "ListDataset": build_dataset(list_elements),
    "RangeDataset": build_dataset(count_up, build_infer_dataset(0, 1, 2)),
    "RepeatDataset": build_dataset(repeat, build_infer_dataset(1)),
    "TakeDataset": build_dataset(take, build_infer_dataset(1)),
    "SkipDataset": build_dataset(skip, build_infer_dataset(1)),
    "ShardDataset": build_dataset(shard, build_infer_dataset(1, 2)),
    "ZipDataset": build_dataset(zip_datasets),
    "ConcatenateDataset": build_dataset(concatenate),
    "PrefetchDataset": build_dataset(prefetch, build_infer_dataset(1)),
    "CacheDataset": build_dataset(cache, build_infer_dataset(1)),
    "CacheDatasetV2": build_dataset(cache, build_infer_dataset(1, 2)),
    **dict.fromkeys(("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset"), build_dataset(ignore_errors)),
    **dict.fromkeys(
        ("OptionsDataset", "ModelDataset", "OptimizeDataset", "OptimizeDatasetV2", "FinalizeDataset"), build_dataset(pass_on)
    ),
    "RewriteDataset": build_dataset(pass_on, build_infer_dataset(1)),
    **dict.fromkeys(("MaxIntraOpParallelismDataset", "ExperimentalMaxIntraOpParallelismDataset"), build_dataset(pass_on)),
    **dict.fromkeys(("PrivateThreadPoolDataset", "ExperimentalPrivateThreadPoolDataset"), build_dataset(pass_on)),
    **dict.fromkeys(("NonSerializableDataset", "ExperimentalNonSerializableDataset"), build_dataset(pass_on)),
    **dict.fromkeys(("DatasetCardinality", "ExperimentalDatasetCardinality"), Kernel(tell_cardinality, scalar)),
    **dict.fromkeys(("WrapDatasetVariant", "UnwrapDatasetVariant"), Kernel(wrap, scalar)),
}
