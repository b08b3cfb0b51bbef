"""Datasets with the elements of another dataset: reordered, selected, repeated, cached, numbered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.data import structures
from placesim.tf1.data.building import VERSION_2, make, number, transformed
from placesim.tf1.data.datasets import Dataset, DatasetV1Adapter
from placesim.tf1.data.options import Options, merged
from placesim.tf1.data.seeds import seed_tensors
from placesim.tf1.data.sources import number_range, zipped
from placesim.tf1.graphs.default_graph_scopes import colocate_with
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types import dtypes

AUTOTUNE = -1
"""In place of a number of parallel calls or buffered elements: the runtime chooses the number."""
INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2
"""Special cardinalities."""


def repeat(dataset: Dataset, count: TensorLike | None = None, name: str | None = None) -> Dataset:
    """The dataset repeated `count` times, infinitely by default."""
    return transformed(dataset, "RepeatDataset", number(-1 if count is None else count, "count"), name=name)


def take(dataset: Dataset, count: TensorLike, name: str | None = None) -> Dataset:
    """The first `count` elements."""
    return transformed(dataset, "TakeDataset", number(count, "count"), name=name)


def skip(dataset: Dataset, count: TensorLike, name: str | None = None) -> Dataset:
    """All elements but the first `count`."""
    return transformed(dataset, "SkipDataset", number(count, "count"), name=name)


def unique(dataset: Dataset, name: str | None = None) -> Dataset:
    """Each element once."""
    return transformed(dataset, "UniqueDataset", name=name)


def ignore_errors(dataset: Dataset, log_warning: bool = False, name: str | None = None) -> Dataset:
    """The elements that are produced without an error."""
    return transformed(dataset, "IgnoreErrorsDataset", log_warning=log_warning, name=name)


def apply(first: Dataset, transformation_func: Callable[[Dataset], Any]) -> Dataset:
    """Dataset returned by a transformation.  Raises TypeError if the result is no dataset."""
    found = transformation_func(first)
    if not isinstance(found, Dataset):
        raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(found)}.")
    kind = found._kind if found._variant_tensor.op.type in VERSION_2.split() else DatasetV1Adapter.__name__
    return DatasetV1Adapter(found._variant_tensor, found._spec, kind, found._options)


def concatenate(first: Dataset, dataset: Dataset, name: str | None = None) -> Dataset:
    """The elements of a dataset, then those of another.  Raises TypeError if their structures are incompatible."""
    spec = structures.common(first.element_spec, dataset.element_spec)
    if spec is None:
        raise TypeError(f"Incompatible dataset elements:\n  {first.element_spec} vs.   {dataset.element_spec}")
    variants = first._variant_tensor, dataset._variant_tensor
    return make("ConcatenateDataset", *variants, spec=spec, inputs=(first, dataset), name=name)


def shuffle(
    dataset: Dataset,
    buffer_size: TensorLike,
    seed: int | None = None,
    reshuffle_each_iteration: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """The elements in random order."""
    size = number(buffer_size, "buffer_size")
    seeds = seed_tensors(seed)
    again = True if reshuffle_each_iteration is None else reshuffle_each_iteration
    return transformed(dataset, "ShuffleDataset", size, *seeds, reshuffle_each_iteration=again, name=name)


def shuffle_and_repeat(dataset: Dataset, buffer_size: TensorLike, count: TensorLike | None, seed: int | None) -> Dataset:
    """The dataset repeated `count` times, shuffled again each time."""
    size = number(buffer_size, "buffer_size")
    times = number(-1 if count is None else count, "count")
    return transformed(dataset, "ShuffleAndRepeatDataset", size, *seed_tensors(seed), times)


def prefetch(dataset: Dataset, buffer_size: TensorLike | None = None, name: str | None = None) -> Dataset:
    """The elements, of which up to `buffer_size` are produced ahead.  The op is colocated with the dataset's op."""
    size = AUTOTUNE if buffer_size is None else buffer_size
    ahead = number(size, "buffer_size")
    automatic = isinstance(size, int) and size == AUTOTUNE
    with colocate_with(dataset._variant_tensor):
        return transformed(
            dataset, "PrefetchDataset", ahead, slack_period=0, legacy_autotune=automatic, buffer_size_min=0, name=name
        )


def cache(dataset: Dataset, filename: TensorLike = "", name: str | None = None) -> Dataset:
    """The dataset cached in memory or in a file."""
    return transformed(dataset, "CacheDataset", convert_to_tensor(filename, dtypes.string, "filename"), name=name)


def shard(dataset: Dataset, num_shards: TensorLike, index: TensorLike, name: str | None = None) -> Dataset:
    """Each `num_shards`-th element, from `index` on."""
    return transformed(dataset, "ShardDataset", number(num_shards, "num_shards"), number(index, "index"), name=name)


def enumerated(dataset: Dataset, start: TensorLike = 0, name: str | None = None) -> Dataset:
    """Pairs of a number, from `start`, and an element."""
    return zipped(not_divided(number_range(start, dtypes.int64.max, name=name)), dataset, name=name)


def not_divided(dataset: Dataset) -> Dataset:
    """The dataset, excluded from sharding: each worker gets all of its elements."""
    return transformed(dataset, "RewriteDataset", "replicate_on_split")


def with_options(dataset: Dataset, options: Options, name: str | None = None) -> Dataset:
    """The dataset with further options.  The new op has only these options."""
    with colocate_with(dataset._variant_tensor):
        found = transformed(dataset, "OptionsDataset", serialized_options=options.serialised(), name=name)
    found._options = merged(dataset._options, options)
    return found
