"""Datasets of another one's elements: in another order, fewer of them, more often, with their numbers."""

from __future__ import annotations

from typing import Any

from placesim.tf1.data import structures
from placesim.tf1.data.building import make, number, transformed
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.data.options import Options, merged
from placesim.tf1.data.seeds import seed_tensors
from placesim.tf1.graphs.default_graph_scopes import colocate_with
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types import dtypes

AUTOTUNE = -1
"""As many as the runtime thinks best."""
INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2
"""Numbers of elements that are none."""


def with_number(dataset: Dataset, op: str, argument: str, value: Any, name: str | None = None) -> Dataset:
    """The dataset of an op that takes one number."""
    return transformed(dataset, op, number(value, argument), name=name)


def concatenate(dataset: Dataset, other: Dataset, name: str | None = None) -> Dataset:
    """A dataset's elements, then another one's.  Raises TypeError where they have no structure in common."""
    spec = structures.common(dataset.element_spec, other.element_spec)
    if spec is None:
        raise TypeError(f"Incompatible dataset elements:\n  {dataset.element_spec} vs.   {other.element_spec}")
    variants = dataset._variant_tensor, other._variant_tensor
    return make("ConcatenateDataset", *variants, spec=spec, inputs=(dataset, other), name=name)


def shuffle(dataset: Dataset, buffer_size: Any, seed: Any, reshuffles: bool | None, name: str | None = None) -> Dataset:
    """A dataset's elements in another order."""
    size = number(buffer_size, "buffer_size")
    seeds = seed_tensors(seed)
    again = True if reshuffles is None else reshuffles
    return transformed(dataset, "ShuffleDataset", size, *seeds, reshuffle_each_iteration=again, name=name)


def shuffle_and_repeat(dataset: Dataset, buffer_size: Any, count: Any, seed: Any) -> Dataset:
    """A dataset's elements so many times, each time in another order."""
    size = number(buffer_size, "buffer_size")
    times = number(-1 if count is None else count, "count")
    seeds = seed_tensors(seed)
    return transformed(dataset, "ShuffleAndRepeatDataset", size, *seeds, times)


def prefetch(dataset: Dataset, buffer_size: Any, name: str | None = None) -> Dataset:
    """A dataset's elements, so many of them ahead; the op stands with the dataset's."""
    size = AUTOTUNE if buffer_size is None else buffer_size
    ahead = number(size, "buffer_size")
    automatic = isinstance(size, int) and size == AUTOTUNE
    with colocate_with(dataset._variant_tensor):
        return transformed(
            dataset, "PrefetchDataset", ahead, slack_period=0, legacy_autotune=automatic, buffer_size_min=0, name=name
        )


def cache(dataset: Dataset, filename: Any, name: str | None = None) -> Dataset:
    """A dataset's elements, kept in memory, or in a file."""
    return transformed(dataset, "CacheDataset", convert_to_tensor(filename, dtypes.string, "filename"), name=name)


def shard(dataset: Dataset, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
    """Each `num_shards`-th element, from `index` on."""
    return transformed(dataset, "ShardDataset", number(num_shards, "num_shards"), number(index, "index"), name=name)


def enumerated(dataset: Dataset, start: Any, name: str | None = None) -> Dataset:
    """A dataset's elements with their numbers."""
    from placesim.tf1.data.sources import number_range, zipped

    numbers = not_divided(number_range(start, dtypes.int64.max, name=name))
    return zipped((numbers, dataset), name=name)


def not_divided(dataset: Dataset) -> Dataset:
    """The dataset, which every worker gets as a whole where another one is divided."""
    return transformed(dataset, "RewriteDataset", "replicate_on_split")


def with_options(dataset: Dataset, options: Options, name: str | None = None) -> Dataset:
    """A dataset under options.  Its op holds these alone."""
    with colocate_with(dataset._variant_tensor):
        found = transformed(dataset, "OptionsDataset", serialized_options=options.serialised(), name=name)
    found._options = merged(dataset._options, options)
    return found
