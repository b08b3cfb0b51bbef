"""`bucket_by_sequence_length`: batches of elements with similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.array.parts import where
from placesim.tf1.data import structures
from placesim.tf1.data.batches import batch, padded_batch
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.data.folding import grouped_by_window
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape


def bucket_by_sequence_length(
    dataset: Dataset,
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: object = None,
    padding_values: object = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Batches of elements with lengths between the same boundaries.  Raises ValueError for a wrong number of sizes."""
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError(
            "`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but "
            f"`len(bucket_batch_sizes)={len(bucket_batch_sizes)}` and `len(bucket_boundaries)={len(bucket_boundaries)}`."
        )
    sizes = constant(bucket_batch_sizes, dtypes.int64)

    def element_to_bucket_id(*args: Any) -> Any:
        length = element_length_func(*args)
        limits = list(bucket_boundaries)
        lowest = [np.iinfo(np.int32).min, *limits]
        highest = [*limits, np.iinfo(np.int32).max]
        inside = tf.logical_and(tf.less_equal(lowest, length), tf.less(length, highest))
        return tf.reduce_min(where(inside))

    def window_size_fn(bucket_id: object) -> Any:
        return sizes[bucket_id]

    def batching_fn(bucket_id: object, grouped: Dataset) -> Dataset:
        size = sizes[bucket_id]
        if no_padding:
            return batch(grouped, size, drop_remainder=drop_remainder)
        longest = _longest(bucket_id, bucket_boundaries) if pad_to_bucket_boundary else None
        shapes = _padded(grouped.output_shapes if padded_shapes is None else padded_shapes, longest)
        return padded_batch(grouped, size, shapes, padding_values, drop_remainder=drop_remainder)

    return grouped_by_window(dataset, element_to_bucket_id, batching_fn, window_size_func=window_size_fn)


def _longest(bucket_id: object, bucket_boundaries: Sequence[int]) -> Tensor:
    """Greatest length in a bucket.  An op fails for the last bucket, which has no greatest length."""
    from placesim.tf1.control_flow.conditionals import Assert
    from placesim.tf1.graphs.default_graph_scopes import control_dependencies

    told = "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."
    last = constant(len(bucket_boundaries), dtypes.int64)
    with control_dependencies([Assert(tf.less(bucket_id, last), [told])]):
        limits = convert_to_tensor(bucket_boundaries, dtypes.int64)
        return limits[bucket_id] - 1


def _padded(shapes: object, longest: Tensor | None) -> Any:
    """Shapes with `longest` in place of each unknown size."""

    def filled(shape: StaticShapeLike) -> list[int | Tensor | None]:
        return [longest if size is None else size for size in TensorShape(shape).as_list()]

    return structures.pack(shapes, [filled(shape) for shape in structures.flatten(shapes)])
