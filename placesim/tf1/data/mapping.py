"""Datasets that apply a function to each element: map, flat_map, interleave, filter and similar ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.data import structures
from placesim.tf1.data.batches import determinism, static_size
from placesim.tf1.data.building import number, transformed
from placesim.tf1.data.changes import AUTOTUNE
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.data.functions import element_function
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.type_specs import TensorSpec


def mapped(
    dataset: Dataset,
    function: Callable[..., Any],
    parallel: TensorLike | None = None,
    deterministic: bool | None = None,
    keeps_count: bool = False,
    runs_between_ops: bool = True,
) -> Dataset:
    """Apply a function to each element; `parallel` is the number of parallel calls."""
    found = element_function(function, "Dataset_map", dataset)
    attrs = {
        "f": found.name,
        "use_inter_op_parallelism": runs_between_ops,
        "preserve_cardinality": keeps_count,
        "spec": found.output_spec,
    }
    if parallel is None:
        return transformed(dataset, "MapDataset", found.captured, **attrs)
    calls = number(parallel, "num_parallel_calls")
    told = determinism(deterministic)
    return transformed(dataset, "ParallelMapDatasetV2", found.captured, calls, deterministic=told, **attrs)


def map_elements(
    dataset: Dataset,
    map_func: Callable[..., Any],
    num_parallel_calls: TensorLike | None = None,
    deterministic: bool | None = None,
    synchronous: bool | None = None,
    use_unbounded_threadpool: bool = False,
    name: str | None = None,
) -> Dataset:
    """`Dataset.map`.  As in TensorFlow, the name is ignored."""
    return mapped(dataset, map_func, num_parallel_calls, deterministic)


def map_with_legacy_function(
    dataset: Dataset, map_func: object, num_parallel_calls: object = None, deterministic: bool | None = None
) -> Dataset:
    """Raise NotImplementedError."""
    raise not_there("data.Dataset.map_with_legacy_function", "`map` is")


def filter_with_legacy_function(dataset: Dataset, predicate: object) -> Dataset:
    """Raise NotImplementedError."""
    raise not_there("data.Dataset.filter_with_legacy_function", "`filter` is")


def unbatch(dataset: Dataset, name: str | None = None) -> Dataset:
    """Slices of the elements along their first axis; sparse tensors are serialised first."""
    return transformed(normalized(dataset), "UnbatchDataset", spec=structures.unbatched(dataset.element_spec), name=name)


def normalized(dataset: Dataset, keeps_count: bool = False) -> Dataset:
    """The same elements, with sparse tensors serialised."""
    return mapped(dataset, _normalize, keeps_count=keeps_count)


def _normalize(*args: object) -> Any:
    return args[0] if len(args) == 1 else args


_normalize.__name__ = "normalize"


def flat_mapped(dataset: Dataset, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
    """Elements of the datasets that a function makes from each element."""
    found = element_function(map_func, "Dataset_flat_map", dataset)
    return transformed(dataset, "FlatMapDataset", found.captured, f=found.name, spec=found.dataset_spec(), name=name)


def interleaved(
    dataset: Dataset,
    map_func: Callable[..., Any],
    cycle_length: TensorLike | None = None,
    block_length: TensorLike | None = None,
    num_parallel_calls: TensorLike | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """Interleaved elements of the datasets that a function makes from `cycle_length` elements at a time."""
    found = element_function(map_func, "Dataset_interleave", dataset)
    spec = found.dataset_spec()
    cycle = number(AUTOTUNE if cycle_length is None else cycle_length, "cycle_length")
    block = number(1 if block_length is None else block_length, "block_length")
    if num_parallel_calls is None:
        return transformed(dataset, "InterleaveDataset", found.captured, cycle, block, f=found.name, spec=spec, name=name)
    ahead = number(AUTOTUNE, "buffer_output_elements"), number(AUTOTUNE, "prefetch_input_elements")
    calls = number(num_parallel_calls, "num_parallel_calls")
    sizes = cycle, block, *ahead, calls
    told = determinism(deterministic)
    return transformed(
        dataset, "ParallelInterleaveDatasetV4", found.captured, *sizes, f=found.name, deterministic=told, spec=spec, name=name
    )


def interleaved_ahead(
    dataset: Dataset,
    function: Callable[..., Any],
    cycle_length: int | Tensor,
    block_length: int | Tensor,
    sloppy: object,
    buffered: TensorLike | None,
    prefetched: TensorLike | None,
) -> Dataset:
    """`tf.data.experimental.parallel_interleave`: like `interleaved`, with a thread per dataset."""
    found = element_function(function, "tf_data_experimental_parallel_interleave", dataset)
    cycle = number(cycle_length, "cycle_length")
    block = number(block_length, "block_length")
    buffer = number(2 * block_length if buffered is None else buffered, "buffer_output_elements")
    ahead = number(2 * cycle_length if prefetched is None else prefetched, "prefetch_input_elements")
    told = determinism(None if sloppy is None else not sloppy)
    sizes = cycle, block, buffer, ahead
    return transformed(
        dataset,
        "LegacyParallelInterleaveDatasetV2",
        found.captured,
        *sizes,
        f=found.name,
        deterministic=told,
        spec=found.dataset_spec(),
        kind="ParallelInterleaveDataset",
    )


def map_and_batched(
    dataset: Dataset,
    function: Callable[..., Any],
    batch_size: Any,
    parallel_batches: TensorLike | None,
    drop_remainder: TensorLike,
    parallel: TensorLike | None,
) -> Dataset:
    """`tf.data.experimental.map_and_batch`: batches of a function's results."""
    if parallel is None:
        parallel = batch_size if parallel_batches is None else batch_size * parallel_batches
    elif parallel_batches is not None:
        raise ValueError(
            "`map_and_batch_with_legacy_function` allows only one of `num_parallel_batches` and `num_parallel_calls` to be "
            f"set, but `num_parallel_batches` was set to {parallel_batches} and `num_parallel_calls` as set to {parallel}."
        )
    found = element_function(function, "tf_data_experimental_map_and_batch", dataset)
    size = number(batch_size, "batch_size")
    calls = number(parallel, "num_parallel_calls")
    drops = convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder")
    spec = structures.batched(found.output_spec, static_size(size, drops))
    return transformed(
        dataset, "MapAndBatchDataset", found.captured, size, calls, drops, f=found.name, preserve_cardinality=True, spec=spec
    )


def filtered(dataset: Dataset, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
    """Elements for which a function is true.  Raises ValueError for a result of another type."""
    return _kept(dataset, "FilterDataset", "Dataset_filter", predicate, name)


def taken_while(dataset: Dataset, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
    """Elements before the first element for which a function is false.  Raises ValueError for a result of another type."""
    return _kept(dataset, "TakeWhileDataset", "Dataset_take_while", predicate, name)


def _kept(dataset: Dataset, op: str, caller: str, predicate: Callable[..., Any], name: str | None) -> Dataset:
    found = element_function(predicate, caller, dataset)
    if not TensorSpec([], dtypes.bool_).is_compatible_with(found.output_spec):
        raise ValueError(
            "Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its return type is "
            f"{found.output_spec}."
        )
    return transformed(dataset, op, found.captured, predicate=found.name, name=name)
