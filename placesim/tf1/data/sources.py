"""Datasets of tensors and of numbers."""

from __future__ import annotations

from typing import Any

from placesim.tf1.data import structures
from placesim.tf1.data.building import make, number
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.data.seeds import seed_tensors
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.types.type_specs import TensorSpec


def from_tensors(tensors: object, name: str | None = None) -> Dataset:
    """Dataset of one element."""
    element = structures.normalize(tensors)
    spec = structures.spec_of(element)
    return make("TensorDataset", structures.to_tensors(element), spec=spec, name=name)


def from_tensor_slices(tensors: object, name: str | None = None, is_files: bool = False) -> Dataset:
    """Slices of tensors along their first axis.  Raises ValueError for scalars, and for different lengths."""
    element = structures.normalize(tensors)
    batched = structures.spec_of(element)
    parts = structures.to_batched_tensors(element)
    if not parts:
        raise ValueError("Invalid `tensors`. `tensors` should not be empty.")
    spec = structures.unbatched(batched)
    rows = [leaf.shape for leaf in structures.flatten(batched)]
    first = TensorShape(None)[0] if rows[0].rank is None else rows[0][0]
    for shape in rows[1:]:
        first.assert_is_compatible_with(shape[0])
    return make("TensorSliceDataset", parts, spec=spec, name=name, is_files=is_files)


def from_sparse_tensor_slices(sparse_tensor: object) -> Dataset:
    """Rows of a sparse tensor, as indices, values and dense shape.  Raises TypeError for other values."""
    if not isinstance(sparse_tensor, SparseTensor):
        raise TypeError(
            f"Invalid `sparse_tensor`. `sparse_tensor` must be a `tf.sparse.SparseTensor`. Got {type(sparse_tensor)}."
        )
    rank = sparse_tensor.indices.shape[1:2].merge_with(sparse_tensor.dense_shape.shape)[0].value
    inner = None if rank is None else rank - 1
    spec = (
        TensorSpec([None, inner], dtypes.int64),
        TensorSpec([None], sparse_tensor.dtype),
        TensorSpec([inner], dtypes.int64),
    )
    parts = sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape
    return make("SparseTensorSliceDataset", *parts, spec=spec)


def number_range(*args: Any, output_type: DTypeLike = dtypes.int64, name: str | None = None) -> Dataset:
    """Range of numbers, from `stop` or `start, stop[, step]`.  Raises ValueError for another number of arguments."""
    if not 1 <= len(args) <= 3:
        raise ValueError(f"Invalid `args`. The length of `args` should be between 1 and 3 but was {len(args)}.")
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    limits = number(start, "start"), number(stop, "stop"), number(step, "step")
    return make("RangeDataset", *limits, spec=TensorSpec([], output_type), name=name)


def random_numbers(seed: int | None = None, rerandomize_each_iteration: object = None, name: str | None = None) -> Dataset:
    """Infinite random 64-bit numbers."""
    return make("RandomDataset", *seed_tensors(seed), spec=TensorSpec([], dtypes.int64), name=name)


def zipped(*args: object, datasets: object = None, name: str | None = None) -> Dataset:
    """Structures of elements, one from each dataset.  Raises TypeError for other values than datasets."""
    if not args and datasets is None:
        raise TypeError("Must pass at least one dataset to `zip`.")
    if args and datasets is not None:
        raise TypeError("Both `*args` and `datasets` cannot be set.")
    given = (args[0] if len(args) == 1 else args) if args else datasets
    told = "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` objects"
    leaves = structures.flatten(given)
    for leaf in leaves:
        if isinstance(leaf, list):
            raise TypeError(f"{told}. Python `list` is not supported and you should use `tuple` instead.")
        if not isinstance(leaf, Dataset):
            raise TypeError(f"{told} but encountered object of type {type(leaf)}.")
    spec = structures.map_structure(lambda dataset: dataset.element_spec, given)
    return make("ZipDataset", [leaf._variant_tensor for leaf in leaves], spec=spec, inputs=leaves, name=name)
