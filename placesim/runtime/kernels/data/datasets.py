"""Datasets made of tensors and of other datasets: ranges, slices, parts, repetitions, concatenations.

Source: TensorFlow's `kernels/data/*_dataset_op.cc` of these names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError, OpError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Maker,
    Start,
    as_dataset,
    check_shapes,
    element_shapes,
    maker_kernel,
    scalar_argument,
    scalars_at,
    signature,
)
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table
from placesim.runtime.kernels.named_resources import shape_of, slices, types_text
from placesim.runtime.kernels.string_tensors import flat_strings
from placesim.runtime.shapes import scalar

# --- sources --------------------------------------------------------------------------------------------------------


def tensors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """One element: the inputs."""
    dtypes, shapes = signature(attrs)
    element = tuple(inputs)
    check_shapes(shapes, element_shapes(element))
    return Dataset(dtypes, shapes, lambda: iter((element,)), 1)


def tensor_slices(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The slices of the inputs along their first axis."""
    dtypes, shapes = signature(attrs)
    if not all(map(shape_of, inputs)):
        raise InvalidArgumentError("All components must be at least 1-dimensional")
    if len({shape_of(value)[0] for value in inputs}) > 1:
        raise InvalidArgumentError("All components must have the same size in the 0th dimension")
    check_shapes(shapes, [shape_of(value)[1:] for value in inputs])
    components = [slices(value, dtype) for value, dtype in zip(inputs, dtypes, strict=True)]
    return Dataset(dtypes, shapes, lambda: zip(*components, strict=True), len(components[0]))


def listed(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """Elements given one after the other, each with all its components."""
    dtypes, shapes = signature(attrs)
    width = len(dtypes)
    elements = [tuple(inputs[at : at + width]) for at in range(0, len(inputs), width)]
    return Dataset(dtypes, shapes, lambda: iter(elements), len(elements))


def numbers(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The numbers from `start` to before `stop`, `step` apart."""
    names = ("start", "stop", "step")
    start, stop, step = (scalar_argument(value, name) for value, name in zip(inputs, names, strict=True))
    if not step:
        raise InvalidArgumentError("step must be a non-zero integer.")
    dtypes, shapes = signature(attrs)
    cast = dtypes[0].numpy.type
    values = range(start, stop, step)
    return Dataset(dtypes, shapes, lambda: zip(map(cast, values)), len(values))


# --- parts and repetitions ------------------------------------------------------------------------------------------


class _Repeated(Iterator[Element]):
    """Iterations one after the other, at most `count` (-1: for ever, but not of nothing)."""

    def __init__(self, start: Start, count: int) -> None:
        self._start = start
        self._left = count
        self._current: Iterator[Element] | None = None
        self._is_fresh = True

    def __next__(self) -> Element:
        while True:
            if self._current is None:
                if not self._left:
                    raise StopIteration
                self._current, self._is_fresh = self._start(), True
            try:
                found = next(self._current)
            except StopIteration:
                self._current = None
                self._left -= 1
                if self._left < 0 and self._is_fresh:
                    self._left = 0
                continue
            self._is_fresh = False
            return found


def repeated(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The dataset `count` times; for ever where it is negative."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "count")
    if count < 0:
        return _derived(source, lambda: _Repeated(source.start, -1), 0 if source.cardinality == 0 else INFINITE)
    total = 0 if not count else source.cardinality * count if source.cardinality >= 0 else source.cardinality
    return _derived(source, lambda: _Repeated(source.start, count), total)


def taken(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The first `count` elements; all where it is negative."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "count")
    if count < 0:
        return _derived(source, source.start, source.cardinality)
    total = {INFINITE: count, UNKNOWN: UNKNOWN}.get(source.cardinality, min(source.cardinality, count))
    return _derived(source, lambda: itertools.islice(source.start(), count), total)


class _Skipped(Iterator[Element]):
    """An iteration behind its first elements."""

    def __init__(self, source: Iterator[Element], count: int) -> None:
        self._source = source
        self._left = count

    def __next__(self) -> Element:
        while self._left:
            next(self._source)
            self._left -= 1
        return next(self._source)


def skipped(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """All but the first `count` elements; none where it is negative."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "count")
    if count < 0:
        return _derived(source, lambda: iter(()), 0)
    total = max(source.cardinality - count, 0) if source.cardinality >= 0 else source.cardinality
    return _derived(source, lambda: _Skipped(source.start(), count), total)


def sharded(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """Every `num_shards`-th element, from `index` on."""
    source = as_dataset(inputs[0])
    count, index = scalar_argument(inputs[1], "num_shards"), scalar_argument(inputs[2], "index")
    if count <= 0:
        raise InvalidArgumentError(f"Number of shards must be greater than zero (currently num_shards = {count}).")
    if not 0 <= index < count:
        raise InvalidArgumentError(f"Index must be between 0 and {count - 1} (currently index = {index}).")
    total = source.cardinality
    if total >= 0:
        total = total // count + (index < total % count)
    return _derived(source, lambda: itertools.islice(source.start(), index, None, count), total)


# --- several datasets -----------------------------------------------------------------------------------------------


def zipped(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The components of one element of each, as long as there is one of each."""
    sources = [as_dataset(value) for value in inputs]
    known = [source.cardinality for source in sources if source.cardinality >= 0]
    total = UNKNOWN if any(source.cardinality == UNKNOWN for source in sources) else min(known, default=INFINITE)

    def start() -> Iterator[Element]:
        parts = zip(*(source.start() for source in sources), strict=False)
        return map(_joined, parts)

    return Dataset(*signature(attrs), start, total)


def _joined(parts: Sequence[Element]) -> Element:
    return tuple(itertools.chain.from_iterable(parts))


def concatenated(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The elements of the one, then those of the other."""
    one, two = map(as_dataset, inputs)
    if one.dtypes != two.dtypes:
        raise InvalidArgumentError(
            f"input dataset and dataset to concatenate have different output_types %s and %s{types_text(two.dtypes)}"
        )
    sizes = (one.cardinality, two.cardinality)
    total = INFINITE if INFINITE in sizes else UNKNOWN if UNKNOWN in sizes else sum(sizes)
    return Dataset(*signature(attrs), lambda: _Chained([one.start, two.start]), total)


class _Chained(Iterator[Element]):
    """Iterations one after the other, each started when the one before has ended."""

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


def _derived(source: Dataset, start: Start, cardinality: int) -> Dataset:
    return Dataset(source.dtypes, source.shapes, start, cardinality)


def unchanged(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The dataset itself: options, threads and models do not change what it gives."""
    return as_dataset(inputs[0])


def prefetched(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The dataset itself, as no element is made before it is asked for."""
    if scalar_argument(inputs[1], "buffer_size") < -1:
        raise InvalidArgumentError("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning")
    return unchanged(inputs, attrs, context)


class _Recorded(Iterator[Element]):
    """An iteration that keeps its elements, and leaves them to others when it has come to its end."""

    def __init__(self, source: Iterator[Element], memory: list[tuple[Element, ...]]) -> None:
        self._source = source
        self._memory = memory
        self._seen: list[Element] = []

    def __next__(self) -> Element:
        try:
            self._seen.append(next(self._source))
        except StopIteration:
            if not self._memory:
                self._memory.append(tuple(self._seen))
            raise
        return self._seen[-1]


def cached(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The same elements, which are remembered from the first whole iteration on."""
    source = as_dataset(inputs[0])
    if flat_strings(scalar_argument(inputs[1], "filename"))[0]:
        raise UnimplementedError("placesim caches datasets in memory only, not in files")
    memory: list[tuple[Element, ...]] = []

    def start() -> Iterator[Element]:
        return iter(memory[0]) if memory else _Recorded(source.start(), memory)

    return _derived(source, start, source.cardinality)


class _Undaunted(Iterator[Element]):
    """An iteration that goes on behind what fails."""

    def __init__(self, source: Iterator[Element]) -> None:
        self._source = source

    def __next__(self) -> Element:
        while True:
            try:
                return next(self._source)
            except OpError:
                continue


def without_errors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Dataset:
    """The elements that do not fail."""
    source = as_dataset(inputs[0])
    return _derived(source, lambda: _Undaunted(source.start()), UNKNOWN)


def tell_cardinality(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """A scalar: the number of elements, -1 where it is infinite, -2 where it is not known."""
    return (np.int64(as_dataset(inputs[0]).cardinality),)


def wrap(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """The dataset itself: it needs no wrapping to move between devices."""
    return (as_dataset(inputs[0]),)


ROWS: tuple[tuple[str, Maker, tuple[int, ...]], ...] = (
    # op, what makes the dataset, which inputs are scalars
    ("TensorDataset", tensors, ()),
    ("TensorSliceDataset", tensor_slices, ()),
    ("ListDataset", listed, ()),
    ("RangeDataset", numbers, (0, 1, 2)),
    ("RepeatDataset", repeated, (1,)),
    ("TakeDataset", taken, (1,)),
    ("SkipDataset", skipped, (1,)),
    ("ShardDataset", sharded, (1, 2)),
    ("ZipDataset", zipped, ()),
    ("ConcatenateDataset", concatenated, ()),
    ("PrefetchDataset", prefetched, (1,)),
    ("CacheDataset", cached, (1,)),
    ("CacheDatasetV2", cached, (1, 2)),
    *((op, without_errors, ()) for op in ("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset")),
    *(
        (op, unchanged, ())
        for op in ("OptionsDataset", "ModelDataset", "OptimizeDataset", "OptimizeDatasetV2", "FinalizeDataset")
    ),
    *(
        (op, unchanged, ())
        for op in (
            *("MaxIntraOpParallelismDataset", "ExperimentalMaxIntraOpParallelismDataset"),
            *("PrivateThreadPoolDataset", "ExperimentalPrivateThreadPoolDataset"),
            *("NonSerializableDataset", "ExperimentalNonSerializableDataset"),
        )
    ),
)

TABLE: Table = {
    **{op: maker_kernel(make, scalars_at(*places)) for op, make, places in ROWS},
    **dict.fromkeys(("DatasetCardinality", "ExperimentalDatasetCardinality"), Kernel(tell_cardinality, scalar)),
    **dict.fromkeys(("WrapDatasetVariant", "UnwrapDatasetVariant"), Kernel(wrap, scalar)),
}
