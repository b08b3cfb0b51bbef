"""`tf.image.non_max_suppression_padded`: suppression of boxes tile by tile, for a batch of images."""

from __future__ import annotations

from typing import Any

from placesim.tf1.functions.traced import Function
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")

_NAME = "non_max_suppression_padded_v2"


def non_max_suppression_padded(
    boxes: Tensor,
    scores: TensorLike,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Any, Any]:
    """Indices of the selected boxes of each image, and how many are valid.  Raises ValueError for a batch without padding."""
    with tf.name_scope(name, "non_max_suppression_padded"):
        if not pad_to_max_output_size and boxes.shape.rank is not None and boxes.shape.rank > 2:
            raise ValueError(f"'pad_to_max_output_size' (value {pad_to_max_output_size}) must be True for batched input")
        given = (max_output_size, iou_threshold, score_threshold, sorted_input, canonicalized_coordinates, tile_size)
        chosen, valid = _SUPPRESS(boxes, scores, *given)
        if not pad_to_max_output_size:
            return chosen[0, :valid], valid
        sizes = tf.concat([tf.shape(boxes)[:-2], tf.expand_dims(max_output_size, 0)], 0)
        return tf.reshape(chosen, sizes), valid


def _suppress(
    boxes: Tensor,
    scores: Tensor,
    max_output_size: Tensor,
    iou_threshold: Tensor,
    score_threshold: Tensor,
    sorted_input: Tensor,
    canonicalized_coordinates: Tensor,
    tile_size: Tensor,
) -> tuple[Any, Any]:
    """Indices of the selected boxes `[batch, max_output_size]`, and the numbers of valid ones in the shape of the batch."""
    batch_dims, count = tf.shape(boxes)[:-2], tf.shape(boxes)[-2]
    boxes, scores = tf.reshape(boxes, [-1, count, 4]), tf.reshape(scores, [-1, count])
    batch = tf.shape(boxes)[0]
    with tf.name_scope("filter_by_score"):
        mask = tf.cast(scores > score_threshold, scores.dtype)
        scores *= mask
        boxes *= tf.expand_dims(tf.cast(mask, boxes.dtype), 2)
    boxes = tf.cond(tf.logical_not(canonicalized_coordinates), lambda: _canonicalize(boxes), lambda: boxes)
    boxes, scores, order = tf.cond(
        tf.logical_not(sorted_input),
        lambda: _sort_by_score(boxes, scores),
        lambda: (boxes, scores, tf.compat.v2.zeros_like(scores, dtype=tf.int32)),
    )
    wanted = tf.cast(tf.maximum(count, max_output_size), tf.float32)
    tiles = tf.cast(tf.ceil(wanted / tf.cast(tile_size, tf.float32)), tf.int32)
    padding = tiles * tile_size - count
    boxes = tf.pad(tf.cast(boxes, tf.float32), [[0, 0], [0, padding], [0, 0]])
    scores = tf.pad(tf.cast(scores, tf.float32), [[0, 0], [0, padding]])
    padded = count + padding
    iterations = padded // tile_size

    def unfinished(_boxes: Tensor, _threshold: Tensor, found: Tensor, tile: Tensor) -> Any:
        return tf.logical_and(tf.reduce_min(found) < max_output_size, tile < iterations)

    def body(boxes: Tensor, threshold: Tensor, found: Tensor, tile: Tensor) -> tuple[Any, ...]:
        return _suppress_tile(boxes, threshold, found, tile, tile_size)

    boxes, _, found, _ = tf.while_loop(
        unfinished,
        body,
        [boxes, iou_threshold, tf.zeros([batch], tf.int32), tf.constant(0)],
        shape_invariants=[tf.TensorShape(sizes) for sizes in ([None, None, 4], [], [None], [])],
    )
    valid = tf.minimum(found, max_output_size)
    is_selected = tf.cast(tf.reduce_any(boxes > 0, [2]), tf.int32)
    ranks = is_selected * tf.expand_dims(tf.range(padded, 0, -1), 0)
    chosen = padded - tf.cast(tf.nn.top_k(ranks, max_output_size)[0], tf.int32)
    chosen = tf.minimum(chosen, count - 1)
    chosen = tf.cond(tf.logical_not(sorted_input), lambda: _original_indices(chosen, order, batch, count), lambda: chosen)
    zeros = tf.zeros([batch, max_output_size], dtype=tf.int32)
    position = tf.expand_dims(tf.range(max_output_size), 0)
    chosen = tf.where(position < tf.expand_dims(valid, 1), chosen, zeros)
    return chosen, tf.reshape(valid, batch_dims)


_SUPPRESS = Function(_suppress, name=_NAME, implements=_NAME)


def _canonicalize(boxes: Tensor) -> Any:
    """Boxes with the smaller coordinates first; the first box determines which coordinates are smaller."""
    with tf.name_scope("canonicalize_coordinates"):
        y_1, x_1, y_2, x_2 = tf.split(value=boxes, num_or_size_splits=4, axis=2)

        def lesser_first(one: Tensor, other: Tensor) -> Any:
            is_less = tf.reduce_all(tf.less_equal(one[0, 0, 0], other[0, 0, 0]))
            return tf.cond(is_less, lambda: (one, other), lambda: (other, one))

        (y_min, y_max), (x_min, x_max) = lesser_first(y_1, y_2), lesser_first(x_1, x_2)
        return tf.concat([y_min, x_min, y_max, x_max], axis=2)


def _sort_by_score(boxes: Tensor, scores: Tensor) -> tuple[Any, Any, Any]:
    """Boxes and scores sorted by decreasing score, and their indices before sorting."""
    with tf.name_scope("sort_scores_and_boxes"):
        order = tf.argsort(scores, axis=1, direction="DESCENDING")
        scores, boxes = (tf.gather(value, order, axis=1, batch_dims=1) for value in (scores, boxes))
    return boxes, scores, order


def _original_indices(chosen: Tensor, order: Tensor, batch: Tensor, count: Tensor) -> Any:
    """Indices that the chosen boxes had before they were sorted."""
    places = tf.reshape(chosen + tf.expand_dims(tf.range(batch) * count, 1), [-1])
    return tf.reshape(tf.gather(tf.reshape(order, [-1]), places), [batch, -1])


def _overlap(one: Tensor, other: Tensor) -> Any:
    """Intersection over union of boxes `[batch, n, 4]` and `[batch, m, 4]`: `[batch, n, m]`."""
    with tf.name_scope("bbox_overlap"):
        (top, left, bottom, right), ends = (tf.split(value=boxes, num_or_size_splits=4, axis=2) for boxes in (one, other))
        top_2, left_2, bottom_2, right_2 = ends

        def across(value: Tensor) -> Any:
            return tf.transpose(value, [0, 2, 1])

        low_x = tf.maximum(left, across(left_2))
        high_x = tf.minimum(right, across(right_2))
        low_y = tf.maximum(top, across(top_2))
        high_y = tf.minimum(bottom, across(bottom_2))
        shared = tf.maximum(high_x - low_x, 0) * tf.maximum(high_y - low_y, 0)
        area = (bottom - top) * (right - left)
        area_2 = (bottom_2 - top_2) * (right_2 - left_2)
        return shared / (area + across(area_2) - shared + 1e-8)


def _suppress_tile(boxes: Tensor, threshold: Tensor, found: Tensor, tile: Tensor, tile_size: Tensor) -> tuple[Any, ...]:
    """The next state of the loop over tiles: boxes of this tile that others suppress become points."""
    with tf.name_scope("suppression_loop_body"):
        tiles, batch = tf.shape(boxes)[1] // tile_size, tf.shape(boxes)[0]
        own = tf.slice(boxes, [0, tile * tile_size, 0], [batch, tile_size, 4])
        _, own, _, _ = tf.while_loop(
            lambda _boxes, _own, _threshold, before: before < tile,
            lambda boxes, own, threshold, before: _suppress_across(boxes, own, threshold, before, tile_size),
            [boxes, own, threshold, tf.constant(0)],
        )
        overlap = _overlap(own, own)
        later = tf.reshape(tf.range(tile_size), [1, -1]) > tf.reshape(tf.range(tile_size), [-1, 1])
        mask = tf.expand_dims(later, 0)
        overlap *= tf.cast(tf.logical_and(mask, overlap >= threshold), overlap.dtype)
        overlap, _, _, _ = tf.while_loop(
            lambda _overlap, goes_on, _total, _threshold: goes_on,
            _suppress_within,
            [overlap, tf.constant(True), tf.reduce_sum(overlap, [1, 2]), threshold],
        )
        is_suppressed = tf.reduce_sum(overlap, 1) > 0
        own *= tf.expand_dims(1.0 - tf.cast(is_suppressed, own.dtype), 2)
        mask = tf.reshape(tf.cast(tf.equal(tf.range(tiles), tile), boxes.dtype), [1, -1, 1, 1])
        spread = tf.tile(tf.expand_dims(own, [1]), [1, tiles, 1, 1]) * mask
        boxes = spread + tf.reshape(boxes, [batch, tiles, tile_size, 4]) * (1 - mask)
        boxes = tf.reshape(boxes, [batch, -1, 4])
        found += tf.reduce_sum(tf.cast(tf.reduce_any(own > 0, [2]), tf.int32), [1])
    return boxes, threshold, found, tile + 1


def _suppress_across(boxes: Tensor, own: Tensor, threshold: Tensor, before: Tensor, tile_size: Tensor) -> tuple[Any, ...]:
    """The next state of the loop over the tiles before, which suppress boxes of the tile `own`."""
    batch = tf.shape(boxes)[0]
    other = tf.slice(boxes, [0, before * tile_size, 0], [batch, tile_size, 4])
    overlap = _overlap(other, own)
    own = tf.expand_dims(tf.cast(tf.reduce_all(overlap < threshold, [1]), own.dtype), 2) * own
    return boxes, own, threshold, before + 1


def _suppress_within(overlap: Tensor, _: Tensor, total: Tensor, threshold: Tensor) -> list[Any]:
    """The next state of the loop that suppresses boxes of one tile, until nothing changes."""
    batch = tf.shape(overlap)[0]
    suppresses = tf.reshape(tf.reduce_max(overlap, 1) < threshold, [batch, -1, 1])
    suppresses = tf.cast(suppresses, overlap.dtype)
    is_left = tf.cast(tf.reduce_max(suppresses * overlap, 1) < threshold, overlap.dtype)
    after = tf.reshape(is_left, [batch, -1, 1]) * overlap
    new_total = tf.reduce_sum(after, [1, 2])
    return [after, tf.reduce_any(total - new_total > threshold), new_total, threshold]
