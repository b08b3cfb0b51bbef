"""`tf.data.experimental`: transformations for `Dataset.apply`, most of which are methods too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.data import batches, buckets, changes, choices, folding, iterators, mapping
from placesim.tf1.data.building import number, transformed
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there

Transformation = Callable[[Dataset], Dataset]


def shuffle_and_repeat(buffer_size: TensorLike, count: TensorLike | None = None, seed: int | None = None) -> Transformation:
    """The dataset repeated `count` times, shuffled again each time."""
    return lambda dataset: changes.shuffle_and_repeat(dataset, buffer_size, count, seed)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: TensorLike,
    num_parallel_batches: TensorLike | None = None,
    drop_remainder: TensorLike = False,
    num_parallel_calls: TensorLike | None = None,
) -> Transformation:
    """Batches of a function's results."""
    return lambda dataset: mapping.map_and_batched(
        dataset, map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls
    )


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: int | Tensor,
    block_length: int | Tensor = 1,
    sloppy: object = False,
    buffer_output_elements: TensorLike | None = None,
    prefetch_input_elements: TensorLike | None = None,
) -> Transformation:
    """Interleaved elements of the datasets that a function makes from several elements."""
    return lambda dataset: mapping.interleaved_ahead(
        dataset, map_func, cycle_length, block_length, sloppy, buffer_output_elements, prefetch_input_elements
    )


def unbatch() -> Transformation:
    """Transformation that yields the slices of each element."""
    return mapping.unbatch


def ignore_errors(log_warning: bool = False) -> Transformation:
    """The elements that are produced without an error."""
    return lambda dataset: changes.ignore_errors(dataset, log_warning)


def enumerate_dataset(start: TensorLike = 0) -> Transformation:
    """Pairs of a number, from `start`, and an element."""
    return lambda dataset: changes.enumerated(dataset, start)


def unique() -> Transformation:
    """Each element once."""
    return changes.unique


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """The elements before the first element for which a function is false."""
    return lambda dataset: mapping.taken_while(dataset, predicate)


def scan(initial_state: object, scan_func: Callable[..., Any]) -> Transformation:
    """Apply a function to a state and each element in turn."""
    return lambda dataset: folding.scanned(dataset, initial_state, scan_func)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: TensorLike | None = None,
    window_size_func: Callable[..., Any] | None = None,
) -> Transformation:
    """Apply a function to each window of elements with the same key."""
    return lambda dataset: folding.grouped_by_window(dataset, key_func, reduce_func, window_size, window_size_func)


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: object = None,
    padding_values: object = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Batches of elements with similar lengths."""
    padding = (padded_shapes, padding_values, pad_to_bucket_boundary, no_padding, drop_remainder)
    return lambda dataset: buckets.bucket_by_sequence_length(
        dataset, element_length_func, bucket_boundaries, bucket_batch_sizes, *padding
    )


def dense_to_sparse_batch(batch_size: TensorLike, row_shape: object) -> Transformation:
    """Batches of elements as sparse tensors."""
    return lambda dataset: batches.sparse_batch(dataset, batch_size, row_shape)


def assert_cardinality(expected_cardinality: TensorLike) -> Transformation:
    """The elements; an op fails if their number is not the expected one."""
    return lambda dataset: transformed(
        dataset, "AssertCardinalityDataset", number(expected_cardinality, "expected_cardinality")
    )


def prefetch_to_device(device: object, buffer_size: object = None) -> Transformation:
    """Raise NotImplementedError."""
    raise not_there("data.experimental.prefetch_to_device", "`Dataset.prefetch` is")


def parse_example_dataset(features: TensorLike, num_parallel_calls: object = 1, deterministic: object = None) -> Transformation:
    """Raise NotImplementedError."""
    raise not_there("data.experimental.parse_example_dataset", "`Dataset.map` with `tf.io.parse_example` is")


def cardinality(dataset: Dataset) -> Any:
    """Number of elements, a tensor of one int64; -1 if infinite, -2 if unknown."""
    return iterators.cardinality(dataset)


def get_single_element(dataset: Dataset) -> Any:
    """The only element of a dataset.  Raises TypeError for a value that is no dataset."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f"Invalid `dataset`. Expected a `tf.data.Dataset` object but got {type(dataset)}.")
    return iterators.get_single_element(dataset)


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False) -> Dataset:
    """The method of this name, with another default of `stop_on_empty_dataset`."""
    return choices.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)
