"""Methods of `tf.data.Dataset`: functions of neighbouring modules whose first argument is the dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.data import (
    batches,
    buckets,
    changes,
    choices,
    files,
    folding,
    generators,
    iterators,
    mapping,
    sources,
    structures,
)
from placesim.tf1.data.datasets import Dataset

_METHODS = {
    "apply": changes.apply,
    "batch": batches.batch,
    "bucket_by_sequence_length": buckets.bucket_by_sequence_length,
    "cache": changes.cache,
    "cardinality": iterators.cardinality,
    "concatenate": changes.concatenate,
    "enumerate": changes.enumerated,
    "filter": mapping.filtered,
    "filter_with_legacy_function": mapping.filter_with_legacy_function,
    "flat_map": mapping.flat_mapped,
    "get_single_element": iterators.get_single_element,
    "group_by_window": folding.grouped_by_window,
    "ignore_errors": changes.ignore_errors,
    "interleave": mapping.interleaved,
    "make_initializable_iterator": iterators.make_initializable_iterator,
    "make_one_shot_iterator": iterators.make_one_shot_iterator,
    "map": mapping.map_elements,
    "map_with_legacy_function": mapping.map_with_legacy_function,
    "padded_batch": batches.padded_batch,
    "prefetch": changes.prefetch,
    "reduce": folding.reduced,
    "repeat": changes.repeat,
    "scan": folding.scanned,
    "shard": changes.shard,
    "shuffle": changes.shuffle,
    "skip": changes.skip,
    "take": changes.take,
    "take_while": mapping.taken_while,
    "unbatch": mapping.unbatch,
    "unique": changes.unique,
    "window": batches.window,
    "with_options": changes.with_options,
}
_STATIC_METHODS: dict[str, Callable[..., Dataset]] = {
    "choose_from_datasets": choices.choose_from_datasets,
    "from_generator": generators.from_generator,
    "from_sparse_tensor_slices": sources.from_sparse_tensor_slices,
    "from_tensor_slices": sources.from_tensor_slices,
    "from_tensors": sources.from_tensors,
    "list_files": files.list_files,
    "random": sources.random_numbers,
    "range": sources.number_range,
    "sample_from_datasets": choices.sample_from_datasets,
    "zip": sources.zipped,
}
_OF_SPEC: dict[str, Callable[[Any], Any]] = {
    "output_types": structures.types_of,
    "output_shapes": structures.shapes_of,
    "output_classes": structures.classes_of,
    "_type_spec": structures.DatasetSpec,
}
"""Property -> function that computes it from the spec of the elements."""


def _property_of_spec(read: Callable[[Any], Any]) -> property:
    return property(lambda dataset: read(dataset.element_spec))


for _name, _method in _METHODS.items():
    setattr(Dataset, _name, _method)
for _name, _make in _STATIC_METHODS.items():
    setattr(Dataset, _name, staticmethod(_make))
for _name, _read in _OF_SPEC.items():
    setattr(Dataset, _name, _property_of_spec(_read))
