"""Datasets of batches, padded batches and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.data import structures
from placesim.tf1.data.building import number, transformed
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant, convert_to_tensor, holds_tensors
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.types.type_specs import TensorSpec


def static_size(size: Tensor, drops: Tensor) -> int | None:
    """Static size of batches, None if it is unknown or the last batch may be smaller."""
    if not constant_value(drops):
        return None
    found = constant_value(size)
    return None if found is None else int(found)


def _truth(value: TensorLike, name: str) -> Tensor:
    return convert_to_tensor(value, dtypes.bool_, name)


def batch(
    dataset: Dataset,
    batch_size: TensorLike,
    drop_remainder: TensorLike = False,
    num_parallel_calls: TensorLike | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """Batches of elements."""
    size, drops = number(batch_size, "batch_size"), _truth(drop_remainder, "drop_remainder")
    spec = structures.batched(dataset.element_spec, static_size(size, drops))
    if num_parallel_calls is None:
        return transformed(dataset, "BatchDatasetV2", size, drops, spec=spec, name=name)
    calls = number(num_parallel_calls, "num_parallel_calls")
    told = determinism(deterministic)
    return transformed(dataset, "ParallelBatchDataset", size, calls, drops, spec=spec, deterministic=told, name=name)


def determinism(value: bool | None) -> str:
    """Attr `deterministic`: whether elements keep their order."""
    return "default" if value is None else "true" if value else "false"


def window(
    dataset: Dataset,
    size: TensorLike,
    shift: TensorLike | None = None,
    stride: TensorLike = 1,
    drop_remainder: TensorLike = False,
    name: str | None = None,
) -> Dataset:
    """Datasets of `size` elements each."""
    parts = (
        number(size, "size"),
        number(size if shift is None else shift, "shift"),
        number(stride, "stride"),
        _truth(drop_remainder, "drop_remainder"),
    )
    spec = structures.map_structure(structures.DatasetSpec, dataset.element_spec)
    return transformed(dataset, "WindowDataset", *parts, spec=spec, name=name)


# --- padding --------------------------------------------------------------------------------------------------------


def padded_batch(
    dataset: Dataset,
    batch_size: TensorLike,
    padded_shapes: object = None,
    padding_values: Any = None,
    drop_remainder: TensorLike = False,
    name: str | None = None,
) -> Dataset:
    """Batches of elements that are padded to a common shape.  Raises ValueError or TypeError for unsuitable arguments."""
    spec = dataset.element_spec
    leaves = structures.flatten(spec)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                "`padded_batch` is only supported for datasets that produce tensor elements but type spec of elements in the "
                f"input dataset is not a subclass of TensorSpec: `{leaf}`."
            )
    if padded_shapes is None:
        padded_shapes = structures.shapes_of(spec)
        for i, leaf in enumerate(leaves):
            if leaf.shape.rank is None:
                raise ValueError(f"You must provide `padded_shapes` argument because component {i} has unknown rank.")
    size = number(batch_size, "batch_size")
    wanted = structures.pack_up_to(spec, padded_shapes)
    padded = [_padded_shape(given, leaf.shape) for given, leaf in zip(wanted, leaves, strict=True)]
    padding = _padding_values(spec, leaves, padding_values)
    drops = _truth(drop_remainder, "drop_remainder")
    known = static_size(size, drops)
    sizes = [TensorShape([known]).concatenate(_static_shape(shape)) for shape in padded]
    specs = [TensorSpec(shape, leaf.dtype) for shape, leaf in zip(sizes, leaves, strict=True)]
    return transformed(
        dataset, "PaddedBatchDatasetV2", size, padded, padding, drops, spec=structures.pack(spec, specs), name=name
    )


def _static_shape(shape: Tensor) -> TensorShape:
    from placesim.tf1.ops.constant_values import constant_value_as_shape

    return constant_value_as_shape(shape)


def _padded_shape(given: object, component: TensorShape) -> Tensor:
    """Padded shape as an int64 vector; -1 stands for the batch's largest size.  Raises ValueError for an invalid shape."""
    if isinstance(given, list | tuple) and holds_tensors(given):
        given = convert_to_tensor(given, preferred_dtype=dtypes.int64)
    if isinstance(given, Tensor):
        wanted = f"Padded shape {given} must be a `tf.int64` vector tensor, but its"
        if given.shape.rank not in (1, None):
            raise ValueError(f"{wanted} shape was {given.shape}.")
        if given.dtype is not dtypes.int64:
            raise TypeError(f"{wanted} element type was {given.dtype.name}.")
        told, found = _static_shape(given), given
    else:
        told = TensorShape([None if size == -1 else size for size in _sizes(given)])
        found = constant([-1 if size is None else size for size in told.as_list()], dtypes.int64, [len(told)])
    if not _can_be_padded(told, component):
        raise ValueError(
            f"The padded shape {told} is not compatible with the shape {component} of the corresponding input component."
        )
    return found


def _sizes(given: object) -> Sequence[Any]:
    if isinstance(given, TensorShape):
        return given.as_list()
    return given if isinstance(given, list | tuple) else TensorShape(given).as_list()


def _can_be_padded(padded: TensorShape, component: TensorShape) -> bool:
    if padded.sizes is None or component.sizes is None:
        return True
    if len(padded.sizes) != len(component.sizes):
        return False
    return all(p < 0 or c < 0 or c <= p for p, c in zip(padded.sizes, component.sizes, strict=True))


def _padding_values(spec: Any, leaves: Sequence[TensorSpec], values: Any) -> list[Tensor]:
    """Padding scalar of each component.  `values`: a structure, one value for all, or None for 0 and empty strings."""
    if values is None:
        given: list[Any] = ["" if leaf.dtype is dtypes.string else _zero(leaf.dtype) for leaf in leaves]
    elif structures.is_nested(spec) and not structures.is_nested(values):
        given = [values] * len(leaves)
    else:
        given = structures.pack_up_to(spec, values)
    return [_padding_value(value, leaf) for value, leaf in zip(given, leaves, strict=True)]


def _zero(dtype: dtypes.DType) -> Any:
    import numpy as np

    return np.zeros([], dtype.as_numpy_dtype)


def _padding_value(value: TensorLike, leaf: TensorSpec) -> Tensor:
    found = convert_to_tensor(value, name="padding_value")
    if found.shape.rank not in (None, 0):
        raise ValueError(f"Invalid `padding_values`. `padding_values` values should be scalars, but got {found.shape}.")
    if found.dtype is not leaf.dtype:
        raise TypeError(
            f"Invalid `padding_values`. `padding_values` values type {found.dtype} does not match type {leaf.dtype} of the "
            "corresponding input component."
        )
    return found


def sparse_batch(dataset: Dataset, batch_size: TensorLike, row_shape: object, name: str | None = None) -> Dataset:
    """Batches of elements as sparse tensors."""
    from placesim.tf1.types.type_specs import SparseTensorSpec

    shape = _padded_shape(row_shape, TensorShape(None))
    known = TensorShape([None]).concatenate(_static_shape(shape))
    spec = SparseTensorSpec(known, dataset.element_spec.dtype)
    return transformed(dataset, "DenseToSparseBatchDataset", batch_size, shape, spec=spec, name=name)
