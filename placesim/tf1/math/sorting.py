"""Sorting, searching and counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.array.creation import ones, ones_like
from placesim.tf1.array.shaping import concat, rank, reshape, shape, shape_of, size, stack, transpose
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.math.reductions import reduce_max
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant, convert_named, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def sort(values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """`tf.sort`."""
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction, wants_indices=False)


def argsort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Any:
    """`tf.argsort`."""
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction, wants_indices=True)


def _sorted(values: TensorLike, axis: int, direction: str, wants_indices: bool) -> Any:
    """Sort values, or return the indices that sort them.  Ascending order is the descending order of mirrored values."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of ASCENDING, DESCENDING. Received: direction={direction}")
    axis_tensor = constant_value(convert_to_tensor(axis, name="axis"))
    if axis_tensor is None:
        raise ValueError(f"Argument `axis` must be a constant scalar. Received: axis={axis}.")
    values = convert_to_tensor(values, name="values")
    if direction == "DESCENDING":
        return _descending(values, int(axis_tensor), wants_indices)
    kind = values.dtype.base_dtype

    def mirrored(x: Tensor) -> Tensor:
        if kind.is_unsigned:
            return kind.max - x  # type: ignore[no-any-return]
        return -x - 1 if kind.is_integer else -x

    found = _descending(mirrored(values), int(axis_tensor), wants_indices)
    return found if wants_indices else mirrored(found)


def _descending(values: Tensor, axis: int, wants_indices: bool) -> Any:
    count = shape(values)[axis]
    rank(values)  # TensorFlow makes this op too
    static = values.shape.rank
    from placesim.tf1.nn.activations import top_k

    if axis == -1 or (static is not None and axis == static - 1):
        found = top_k(values, count)
        return found.indices if wants_indices else found.values
    if static is None:
        raise NotImplementedError("tf.sort of a tensor of unknown rank along an inner axis is not there; set its shape")
    axis = axis if axis >= 0 else axis + static
    places = [*np.arange(axis), static - 1, *np.arange(axis + 1, static - 1), axis]
    order = constant(np.array(places, np.int64), name="transposition")
    found = top_k(transpose(values, order), count)
    return transpose(found.indices if wants_indices else found.values, order)


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Any:
    """`tf.searchsorted`."""
    last, last_of_values = shape_of(sorted_sequence)[-1], shape_of(values)[-1]
    sequences, flat = reshape(sorted_sequence, [-1, last]), reshape(values, [-1, last_of_values])
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'.")
    found = gen("UpperBound" if side == "right" else "LowerBound")(sequences, flat, out_type, name)
    return reshape(found, shape_of(values))


def bincount(
    arr: TensorLike,
    weights: TensorLike | None = None,
    minlength: TensorLike | None = None,
    maxlength: TensorLike | None = None,
    dtype: DTypeLike = dtypes.int32,
) -> Any:
    """`tf.bincount`."""
    with name_scope("bincount"):
        arr = convert_to_tensor(arr, name="arr", dtype=dtypes.int32)
        if weights is not None:
            weights = convert_to_tensor(weights, name="weights")
        is_there = size(arr) > 0
        count = cast(is_there, dtypes.int32) * (reduce_max(arr) + 1)
        if minlength is not None:
            count = gen("Maximum")(convert_to_tensor(minlength, dtypes.int32, name="minlength"), count)
        if maxlength is not None:
            count = gen("Minimum")(convert_to_tensor(maxlength, dtypes.int32, name="maxlength"), count)
        weights = weights if weights is None else reshape(weights, [-1])
        flat = reshape(arr, [-1])
        return gen("DenseBincount")(flat, count, constant([], dtype) if weights is None else weights)


def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    nbins: TensorLike = 100,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Any:
    """`tf.histogram_fixed_width`."""
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        return gen("HistogramFixedWidth")(values, value_range, nbins, dtype=dtype, name=scope)


def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: TensorLike,
    nbins: TensorLike = 100,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Any:
    """`tf.histogram_fixed_width_bins`: the bin of each value."""
    from placesim.tf1.clipping import clip_by_value
    from placesim.tf1.control_flow.conditionals import Assert
    from placesim.tf1.graphs.grouping import with_dependencies

    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert_to_tensor(values, name="values")
        sizes = shape(values)
        flat = reshape(values, [-1])
        limits = convert_to_tensor(value_range, name="value_range")
        count = convert_to_tensor(nbins, dtypes.int32, name="nbins")
        count = with_dependencies([Assert(count > 0, [f"nbins {count} must > 0"])], count)
        wide = cast(count, values.dtype)
        scaled = gen("RealDiv")(flat - limits[0], limits[1] - limits[0], name="scaled_values")
        places = gen("Floor")(wide * scaled, name="indices")
        found = cast(clip_by_value(places, 0, wide - 1), dtypes.int32)
        return reshape(found, sizes)


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: TensorLike | None = None,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
    weights: TensorLike | None = None,
) -> Any:
    """`tf.confusion_matrix`."""
    from placesim.tf1.assertions.conditions import assert_less, assert_non_negative
    from placesim.tf1.graphs.grouping import with_dependencies
    from placesim.tf1.weights import remove_squeezable_dimensions

    with name_scope(name, "confusion_matrix", (predictions, labels, num_classes, weights)):
        converted_labels, converted_predictions = convert_named(labels=labels, predictions=predictions)
        of_labels, of_predictions = remove_squeezable_dimensions(converted_labels, converted_predictions)
        classes = {"predictions": cast(of_predictions, dtypes.int64), "labels": cast(of_labels, dtypes.int64)}

        def check(word: str, assertion: Any, *limit: Any, message: str) -> None:
            found = assertion(classes[word], *limit, message=f"`{word}` {message}")
            classes[word] = with_dependencies([found], classes[word])

        for word in ("labels", "predictions"):
            check(word, assert_non_negative, message="contains negative values")
        if num_classes is None:
            num_classes = gen("Maximum")(reduce_max(classes["predictions"]), reduce_max(classes["labels"])) + 1
        else:
            limit = cast(num_classes, dtypes.int64)
            for word in ("labels", "predictions"):
                check(word, assert_less, limit, message="out of bound")
        counted = None if weights is None else cast(weights, dtype)
        sizes = stack([num_classes, num_classes])
        places = stack([classes["labels"], classes["predictions"]], axis=1)
        if counted is None:
            counted = ones_like(classes["predictions"], dtype)
        return gen("ScatterNd")(places, counted, cast(sizes, dtypes.int64))


# --- segments -------------------------------------------------------------------------------------------------------


def _segment_sums(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike) -> tuple[Any, Any]:
    """Sum of each segment, and number of its rows."""
    data, segment_ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    counts = _segment_sizes(data, segment_ids, num_segments)
    return gen("UnsortedSegmentSum")(data, segment_ids, num_segments), counts


def _segment_sizes(data: Tensor, segment_ids: Tensor, num_segments: TensorLike) -> Any:
    """Number of rows of each segment, at least 1, in a shape that broadcasts with the segments' sums."""
    count = convert_to_tensor(num_segments)
    all_ones = ones(shape_of(segment_ids), data.dtype)
    found = gen("UnsortedSegmentSum")(all_ones, segment_ids, count)
    first = count[None]
    inner = ones([rank(data) - rank(segment_ids)], count.dtype)
    found = reshape(found, concat([first, inner], 0))
    return gen("Maximum")(found, 1)


def unsorted_segment_mean(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None) -> Any:
    """`tf.math.unsorted_segment_mean`."""
    with name_scope(name, "UnsortedSegmentMean"):
        total, counts = _segment_sums(data, segment_ids, num_segments)
        return total / counts


def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Any:
    """`tf.math.unsorted_segment_sqrt_n`."""
    with name_scope(name, "UnsortedSegmentSqrtN"):
        total, counts = _segment_sums(data, segment_ids, num_segments)
        return total / gen("Sqrt")(counts)


def _sparse_segment(op: str) -> Any:
    def call(
        data: TensorLike,
        indices: TensorLike,
        segment_ids: TensorLike,
        name: str | None = None,
        num_segments: TensorLike | None = None,
        sparse_gradient: bool = False,
    ) -> Any:
        if num_segments is None:
            return gen(op)(data, indices, segment_ids, sparse_gradient=sparse_gradient, name=name)
        return gen(op + "WithNumSegments")(data, indices, segment_ids, num_segments, sparse_gradient=sparse_gradient, name=name)

    return call


sparse_segment_sum, sparse_segment_mean = _sparse_segment("SparseSegmentSum"), _sparse_segment("SparseSegmentMean")
sparse_segment_sqrt_n = _sparse_segment("SparseSegmentSqrtN")
