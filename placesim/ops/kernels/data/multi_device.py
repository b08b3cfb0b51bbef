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

from placesim.core.errors import InvalidArgumentError, OutOfRangeError
from placesim.machine.device_names import enclose, format_spec, parse_python_spec
from placesim.ops.attributes import Attrs
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
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.named_resources import build_finder, name_resource, serialise_handle
from placesim.ops.kernels.shapes import Dims, ShapeContext, scalar
from placesim.ops.kernels.string_tensors import string_array

RESOURCE_TYPE = "N10tensorflow4data12_GLOBAL__N_119MultiDeviceIteratorE"


# --- parts of batches -----------------------------------------------------------------------------------------------


class _PartIterator(Iterator[Element]):
    """The rows of batches in parts, whose sizes come from a cycle; a part may join rows of several batches."""

    def __init__(self, source: Iterator[Element], sizes: Iterator[int], drops_remainder: bool) -> None:
        self._source, self._sizes, self._drops_remainder = source, sizes, drops_remainder
        self._rest: Element | None = None

    def __next__(self) -> Element:
        wanted = next(self._sizes)
        parts: list[Element] = []
        count = 0
        while count < wanted or not parts:
            if self._rest is None:
                self._rest = next(self._source, None)
                if self._rest is None:
                    break
            part = tuple(value[: wanted - count] for value in self._rest)
            rest = tuple(value[wanted - count :] for value in self._rest)
            count += len(part[0])
            parts.append(part)
            self._rest = rest if len(rest[0]) else None
        if not parts or (self._drops_remainder and count < wanted):
            raise StopIteration
        return tuple(np.concatenate(values) for values in zip(*parts, strict=True))


def split_by_sizes(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of the rows of batches in parts of given sizes `[n]`, which are used in turn.

    Raises InvalidArgumentError for sizes of another rank or below 0.
    """
    source, sizes, drops = as_dataset(inputs[0]), np.asarray(inputs[1]), bool(scalar_argument(inputs[2], "drop_remainder"))
    if sizes.ndim > 1 or (sizes < 0).any() or not sizes.size:
        raise InvalidArgumentError("`batch_sizes` must be a scalar or a vector of sizes that are not negative.")
    cycle = sizes.reshape(-1).tolist()
    return ElementSequence(*signature(attrs), lambda: _PartIterator(source.start(), itertools.cycle(cycle), drops), UNKNOWN)


def split_evenly(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
    """Return a dataset of batches, each split into `num_replicas` parts; the last one may be smaller."""
    source, count = as_dataset(inputs[0]), scalar_argument(inputs[1], "num_replicas")

    def parts(element: Element) -> Iterator[Element]:
        size = -(-len(element[0]) // count)
        return (tuple(value[at : at + size] for value in element) for at in range(0, len(element[0]), size))

    return ElementSequence(*signature(attrs), lambda: itertools.chain.from_iterable(map(parts, source.start())), UNKNOWN)


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
    text = np.asarray(inputs[0], object).item()
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
    found: Element = find_iterator(inputs[0], context).next_element(shard, run)
    return found


def call_remotely(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Call attr `f`, a function, on the device that input 0 names, with the other inputs."""
    target = np.asarray(inputs[0], object).item().decode()
    device = format_spec(enclose(parse_python_spec(target), parse_python_spec(context.device)))
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
    "MultiDeviceIteratorGetNextFromShard": Kernel(get_next, infer_components, needs_context=True),
    "MultiDeviceIteratorInit": Kernel(begin, scalar, needs_context=True),
    "MultiDeviceIteratorToStringHandle": Kernel(to_string, scalar, needs_context=True),
    "RebatchDataset": build_dataset(split_evenly, build_infer_dataset(1)),
    "RebatchDatasetV2": build_dataset(split_by_sizes, build_infer_dataset(2)),
    "RemoteCall": Kernel(call_remotely, _infer_results, needs_context=True),
}
