"""Shuffled datasets, and the generators of their seeds; the same seeds give the same order as in TensorFlow.

Source: TensorFlow's `shuffle_dataset_op.cc`, `random_seed_ops.cc`.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from placesim.core.errors import InvalidArgumentError, NotFoundError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.values import (
    INFINITE,
    UNKNOWN,
    Element,
    ElementSequence,
    Maker,
    as_dataset,
    build_dataset,
    build_infer_dataset,
    scalar_argument,
    signature,
)
from placesim.ops.kernels.device_resources import DEFAULT_CONTAINER, ResourceHandle
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table
from placesim.ops.kernels.named_resources import make_anonymous
from placesim.ops.kernels.philox import WordStream, seeded_philox
from placesim.ops.kernels.shapes import infer_by, no_outputs, scalar

SEEDS_TYPE = "N10tensorflow4data20SeedGeneratorManagerE"
CACHE_TYPE = "N10tensorflow4data18MemoryCacheManagerE"
MAX_SLICES = 3
"""Maximum number of epochs that have elements in the buffer."""


# --- seeds ----------------------------------------------------------------------------------------------------------


class SeedGenerator:
    """Two seeds for each iteration: the given ones (random ones if both are 0), or with `reshuffles` new random numbers."""

    def __init__(self, seed: int, seed2: int, reshuffles: bool) -> None:
        if not seed and not seed2:
            seed, seed2 = secrets.randbits(63), secrets.randbits(63)
        self._seeds = (seed, seed2)
        self._words = WordStream(seeded_philox(seed, seed2)) if reshuffles else None

    def next_seeds(self) -> tuple[int, int]:
        """Return the seeds of the next iteration."""
        if self._words is None:
            return self._seeds
        return self._words.word(), self._words.word()


# --- shuffling ------------------------------------------------------------------------------------------------------


class _Slice:
    """The part of the buffer that has one epoch's elements: [start, end), counted in elements since the iteration began."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.is_whole = False


class ShuffleIterator(Iterator[Element]):
    """An iteration in random order: each element is drawn from a buffer, which is then filled with the next element.

    `size` None means a buffer for a whole epoch; `count` is the number of epochs, -1 for infinitely many.
    """

    def __init__(self, source: ElementSequence, size: int | None, count: int, seeds: SeedGenerator) -> None:
        self._dataset = source
        self._buffer: list[Element] = []
        self._size = size
        self._count = count
        self._seeds = seeds
        self._source: Iterator[Element] | None = None
        self._epoch = 0
        self._held = 0
        self._slices: deque[_Slice] = deque()
        self._has_given = False
        self._reseed()

    def _reseed(self) -> None:
        self._random = WordStream(seeded_philox(*self._seeds.next_seeds()))

    def __next__(self) -> Element:
        self._fill()
        if not self._held:
            raise StopIteration
        # each epoch has its own seeds
        while self._slices[0].start == self._slices[0].end:
            self._slices.popleft()
            self._reseed()
        first = self._slices[0]
        capacity = len(self._buffer) if self._size is None else self._size
        index = (first.start + self._random.word() % (first.end - first.start)) % capacity
        place = first.start % capacity
        found = self._buffer[index]
        # the epoch's first element fills the gap, so that its elements stay contiguous
        self._buffer[index] = self._buffer[place]
        first.start += 1
        self._held -= 1
        return found

    def _wants_more(self) -> bool:
        if self._source is None and self._count != -1 and self._epoch >= self._count:
            return False
        if len(self._slices) > MAX_SLICES and self._held:
            return False
        # with a buffer for a whole epoch, the next epoch is read while the elements of the last one are returned
        if self._size is None:
            serving = next((part for part in self._slices if part.start != part.end), None)
            return serving is None or not serving.is_whole or self._held < len(self._buffer)
        return self._held < self._size

    def _fill(self) -> None:
        while self._wants_more():
            if self._source is None:
                self._slices.append(_Slice(self._slices[-1].end if self._slices else 0))
                self._source = self._dataset.start()
                self._epoch += 1
            try:
                element = next(self._source)
            except StopIteration:
                self._slices[-1].is_whole = True
                self._source = None
                # an empty dataset ends, even if repeated infinitely
                if not self._has_given and self._count == -1:
                    return
                continue
            self._add(element)

    def _add(self, element: Element) -> None:
        self._has_given = True
        last = self._slices[-1]
        if self._held == len(self._buffer) and (self._size is None or len(self._buffer) < self._size):
            self._buffer.append(element)
        else:
            self._buffer[last.end % len(self._buffer)] = element
        self._held += 1
        last.end += 1


def build_shuffle(seeds_at: int | None = None, generator_at: int | None = None, count_at: int | None = None) -> Maker:
    """Return the maker of shuffled datasets.

    The arguments are positions of scalar inputs: the first of two seeds, a seed generator's handle, and the number of epochs.
    The maker raises InvalidArgumentError for an invalid buffer size or number of epochs.
    """

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ElementSequence:
        source, size = as_dataset(inputs[0]), scalar_argument(inputs[1], "buffer_size")
        if size <= 0 and size != UNKNOWN:
            raise InvalidArgumentError("buffer_size must be greater than zero or UNKNOWN_CARDINALITY")
        count = 1 if count_at is None else scalar_argument(inputs[count_at], "count")
        if count <= 0 and count != -1:
            raise InvalidArgumentError("count must be greater than zero or equal to -1.")
        seeds = None if generator_at is None else _found_generator(inputs[generator_at], context)
        if seeds is None:
            first, second = (0, 0) if seeds_at is None else map(int, inputs[seeds_at : seeds_at + 2])
            seeds = SeedGenerator(first, second, attrs.get("reshuffle_each_iteration", True))
        generator, limit = seeds, None if size == UNKNOWN else size
        total = INFINITE if count == -1 else source.cardinality * (count if source.cardinality > 0 else 1)
        start = partial(ShuffleIterator, source, limit, count, generator)
        return ElementSequence(*signature(attrs), start, total, source.batch_size)

    return make


def _found_generator(handle: ResourceHandle, context: KernelContext) -> SeedGenerator | None:
    try:
        found: SeedGenerator = context.resources.lookup(handle, SEEDS_TYPE)
    except NotFoundError:
        return None  # a dummy handle: the dataset then has its own generator
    return found


# --- handles --------------------------------------------------------------------------------------------------------


def make_generator(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of a new seed generator, and its deleter; the inputs are two seeds, and perhaps `reshuffle`."""
    reshuffles = bool(scalar_argument(inputs[2], "reshuffle")) if len(inputs) > 2 else True
    seeds = (int(scalar_argument(inputs[0], "seed")), int(scalar_argument(inputs[1], "seed2")))
    handle = make_anonymous(context, SEEDS_TYPE, "SeedGenerator", lambda: SeedGenerator(*seeds, reshuffles))
    return handle, Deleter(handle)


class Deleter:
    """A variant that deletes a resource when it is freed."""

    def __init__(self, handle: ResourceHandle) -> None:
        self.handle = handle


def delete_resource(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Delete the resource of a handle. Raises NotFoundError if it is missing."""
    context.resources.delete(inputs[0])
    return ()


def build_dummy(kind: str) -> Compute:
    """Return a kernel that returns a handle of this C++ type without a resource."""

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        return (ResourceHandle(context.device, DEFAULT_CONTAINER, "dummy", kind),)

    return make


def make_memory(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of a new cache, and its deleter."""
    handle = make_anonymous(context, CACHE_TYPE, "MemoryCache", list)
    return handle, Deleter(handle)


# --- shape functions ------------------------------------------------------------------------------------------------


infer_handle_and_deleter = infer_by("-> [], []")
"""A handle and its deleter."""

TABLE: Table = {
    "ShuffleDataset": build_dataset(build_shuffle(seeds_at=2), build_infer_dataset(1, 2, 3)),
    "ShuffleDatasetV2": build_dataset(build_shuffle(generator_at=2), build_infer_dataset(1, 2)),
    "ShuffleDatasetV3": build_dataset(build_shuffle(seeds_at=2, generator_at=4), build_infer_dataset(1, 2, 3, 4)),
    "ShuffleAndRepeatDataset": build_dataset(build_shuffle(seeds_at=2, count_at=4), build_infer_dataset(1, 2, 3, 4)),
    "ShuffleAndRepeatDatasetV2": build_dataset(
        build_shuffle(seeds_at=2, generator_at=5, count_at=4), build_infer_dataset(1, 2, 3, 4, 5)
    ),
    "AnonymousSeedGenerator": Kernel(make_generator, infer_handle_and_deleter, needs_context=True),
    "AnonymousRandomSeedGenerator": Kernel(make_generator, infer_handle_and_deleter, needs_context=True),
    "AnonymousMemoryCache": Kernel(make_memory, infer_handle_and_deleter, needs_context=True),
    "DummySeedGenerator": Kernel(build_dummy(SEEDS_TYPE), scalar, needs_context=True),
    "DummyMemoryCache": Kernel(build_dummy(CACHE_TYPE), scalar, needs_context=True),
    **dict.fromkeys(
        ("DeleteSeedGenerator", "DeleteRandomSeedGenerator", "DeleteMemoryCache"),
        Kernel(delete_resource, no_outputs, needs_context=True),
    ),
}
