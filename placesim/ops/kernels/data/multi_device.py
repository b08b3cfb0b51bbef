"""Datasets of several devices: batches split into parts, parts given out to devices, and datasets as serialized graphs.

Source: TensorFlow's `multi_device_iterator_ops.cc`, `rebatch_dataset_op.cc`, `compute_batch_size_op.cc`, `remote_call`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placesim.core.errors import GraphBuildError, InvalidArgumentError, OutOfRangeError
from placesim.machine.device_names import enclose, format_spec, parse_python_spec
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.batches import UnbatchIterator, rows_of, stack_elements
from placesim.ops.kernels.data.datasets import pass_on
from placesim.ops.kernels.data.functions import infer_components
from placesim.ops.kernels.data.iterators import read_handle
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
)
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Trait
from placesim.ops.kernels.named_resources import build_finder, name_resource, serialise_handle
from placesim.ops.kernels.shapes import Dims, ShapeContext, scalar
from placesim.ops.kernels.string_tensors import string_array

RESOURCE_TYPE = "N10tensorflow4data12_GLOBAL__N_119MultiDeviceIteratorE"


# --- parts of batches -----------------------------------------------------------------------------------------------


class _PartIterator(Iterator[Element]):
    """The rows of batches in parts, whose sizes come from a cycle; a part may join rows of several batches."""

    def __init__(self, source: ElementSequence, sizes: Sequence[int], drops_remainder: bool) -> None:
        self._rows = UnbatchIterator(source.start(), source.dtypes)
        self._sizes, self._drops_remainder = itertools.cycle(sizes), drops_remainder
        self._source = source

    def __next__(self) -> Element:
        wanted = next(self._sizes)
        rows = list(itertools.islice(self._rows, wanted))
        if (wanted and not rows) or (self._drops_remainder and len(rows) < wanted):
            raise StopIteration
        if rows:
            return stack_elements(rows, self._source.dtypes)
        # a replica without rows gets an empty part
        inner = [[max(dim, 0) for dim in (shape.dims or ())[1:]] for shape in self._source.shapes]
        return tuple(np.empty((0, *dims), dtype.numpy) for dims, dtype in zip(inner, self._source.dtypes, strict=True))


def split_by_sizes(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the rows of batches in parts of given sizes `[n]`, which are used in turn.

    Raises InvalidArgumentError for sizes of another rank or below 0. An iteration raises it for scalars.
    """
    source, sizes, drops = as_dataset(inputs[0]), np.asarray(inputs[1]), bool(scalar_argument(inputs[2], "drop_remainder"))
    if sizes.ndim > 1 or not sizes.size or (sizes < 0).any() or not sizes.any():
        raise InvalidArgumentError("`batch_sizes` must be a scalar or a vector of sizes, of which none is negative.")
    cycle = sizes.reshape(-1).tolist()
    return ElementSequence(*signature(attrs), lambda: _PartIterator(source, cycle, drops), UNKNOWN)


class _EvenIterator(Iterator[Element]):
    """The rows of each batch in parts; the last part may be smaller."""

    def __init__(self, source: ElementSequence, count: int) -> None:
        self._dtypes, self._batches, self._count = source.dtypes, source.start(), count
        self._rows: Iterator[Element] = iter(())
        self._size = 0

    def __next__(self) -> Element:
        part = list(itertools.islice(self._rows, self._size))
        while not part:
            rows = list(rows_of(next(self._batches), self._dtypes))
            self._rows, self._size = iter(rows), -(-len(rows) // self._count)
            part = list(itertools.islice(self._rows, self._size))
        return stack_elements(part, self._dtypes)


def split_evenly(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of batches, each split into `num_replicas` parts.

    Raises InvalidArgumentError for a number that is not positive. An iteration raises it for scalars.
    """
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "num_replicas")
    if count < 1:
        raise InvalidArgumentError(f"num_replicas must be greater than zero, got {count}")
    return ElementSequence(*signature(attrs), lambda: _EvenIterator(source, count), UNKNOWN)


def tell_batch_size(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the size of the dataset's batches, or -1 if no op that makes batches is behind it."""
    return (np.int64(as_dataset(inputs[0]).batch_size),)


# --- datasets as graphs ---------------------------------------------------------------------------------------------


class _GraphText(bytes):
    """A serialized graph of a dataset.  Only ops read it, so it carries the dataset instead of a graph."""

    dataset: ElementSequence


def to_graph(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return a scalar string for a dataset."""
    text = _GraphText(b"dataset")
    text.dataset = as_dataset(inputs[0])
    return (string_array([text], ()),)


def from_graph(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return the dataset of a string that `to_graph` returned.  Raises InvalidArgumentError for another string."""
    text = scalar_argument(inputs[0], "graph_def")
    if not isinstance(text, _GraphText):
        raise InvalidArgumentError("Only graphs of datasets of the same process can be read.")
    return text.dataset


# --- elements for devices -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class MultiDeviceIterator:
    """An iteration whose elements go to `count` shards in turn; `run` counts the iterations begun."""

    count: int
    run: int = 0
    iteration: Iterator[Element] = field(default_factory=lambda: iter(()))
    given: int = 0
    waiting: list[deque[Element]] = field(default_factory=list)

    def begin(self, dataset: ElementSequence) -> int:
        """Begin an iteration; return its number."""
        self.run, self.given = self.run + 1, 0
        self.iteration, self.waiting = dataset.start(), [deque() for _ in range(self.count)]
        return self.run

    def next_element(self, shard: int, run: int) -> Element:
        """Return a shard's next element.  Raises OutOfRangeError after the last one, InvalidArgumentError for an old run."""
        if run != self.run:
            raise InvalidArgumentError("Invalid incarnation id")
        while not self.waiting[shard]:
            element = next(self.iteration, None)
            if element is None:
                raise OutOfRangeError("End of sequence")
            self.waiting[self.given % self.count].append(element)
            self.given += 1
        return self.waiting[shard].popleft()


find_iterator = build_finder(RESOURCE_TYPE)


def make_handle(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of the node's iterator, with a shard for each device."""
    handle = name_resource(attrs, context, RESOURCE_TYPE)
    context.resources.lookup_or_create(handle, lambda: MultiDeviceIterator(len(attrs["devices"])))
    return (handle,)


def begin(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Begin an iteration of a dataset, and return its number.  Raises NotFoundError for no iterator."""
    return (np.int64(find_iterator(inputs[1], context).begin(as_dataset(inputs[0]))),)


def to_string(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of an iterator as a `ResourceHandleProto`, a scalar string."""
    return (string_array([serialise_handle(inputs[0])], ()),)


def from_string(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle that a scalar string serializes.  Raises InvalidArgumentError for another device."""
    return (read_handle(inputs[0], context, RESOURCE_TYPE),)


def get_next(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the components of a shard's next element (input 1) of an iteration (input 2).

    Raises OutOfRangeError after the last element, and InvalidArgumentError for an iteration that another one replaced.
    """
    shard, run = scalar_argument(inputs[1], "shard_num"), scalar_argument(inputs[2], "incarnation_id")
    iterator: MultiDeviceIterator = find_iterator(inputs[0], context)
    if not 0 <= shard < iterator.count:
        raise InvalidArgumentError(f"shard_num must be in [0, {iterator.count}), got {shard}")
    return iterator.next_element(shard, run)


def call_remotely(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Call attr `f`, a function, on the device that input 0 names, with the other inputs.

    Raises InvalidArgumentError for a text that names no device.
    """
    target = scalar_argument(inputs[0], "target").decode("utf-8", "replace")
    try:
        device = format_spec(enclose(parse_python_spec(target), parse_python_spec(context.device)))
    except GraphBuildError as error:
        raise InvalidArgumentError(error.message) from None
    return function_caller(context, attrs["f"], (), device)(tuple(inputs[1:]))


def _infer_results(context: ShapeContext) -> tuple[Dims, ...]:
    return (None,) * len(context.attrs["Tout"])


TABLE: Table = {
    "AutoShardDataset": build_dataset(pass_on, build_infer_dataset(1, 2)),
    "ComputeBatchSize": Kernel(tell_batch_size, scalar),
    "DatasetFromGraph": build_dataset(from_graph, build_infer_dataset(0)),
    "DatasetToGraphV2": Kernel(to_graph, scalar),
    "MultiDeviceIterator": Kernel(make_handle, scalar, needs_context=True),
    "MultiDeviceIteratorFromStringHandle": Kernel(from_string, scalar, needs_context=True),
    "MultiDeviceIteratorGetNextFromShard": Kernel(get_next, infer_components, needs_context=True, traits=Trait.GIVES_ELEMENTS),
    "MultiDeviceIteratorInit": Kernel(begin, scalar, needs_context=True),
    "MultiDeviceIteratorToStringHandle": Kernel(to_string, scalar, needs_context=True),
    "RebatchDataset": build_dataset(split_evenly, build_infer_dataset(1)),
    "RebatchDatasetV2": build_dataset(split_by_sizes, build_infer_dataset(2)),
    "RemoteCall": Kernel(call_remotely, _infer_results, needs_context=True),
}
