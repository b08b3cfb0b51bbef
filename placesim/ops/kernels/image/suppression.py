"""Non-maximum suppression: of overlapping boxes, only the box with the highest score is kept.

Candidates are ordered by score, the highest first, then by index.
Source: TensorFlow's `non_max_suppression_op.cc`, shapes from `image_ops.cc`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.memory_rules import allocates
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    merge_dim,
    scalar_dim,
    with_rank,
    with_value,
)

Similarity = Callable[[Any, Any], Tensor]
"""`(candidates, selected) -> similarities`, in the type of the scores. Both arguments are indices of boxes, one an array."""


class SuppressionLimits(NamedTuple):
    """Limits of the kept boxes: their number (`most`), their similarity, and their minimum score (exclusive).

    `deviation` above 0 means soft suppression with this standard deviation.
    """

    most: int
    similarity: Any
    score: Any
    deviation: Any


def overlap_of(boxes: Tensor, dtype: np.dtype[Any]) -> Similarity:
    """Build the intersection over union of boxes `[boxes, 4]`, given by any two opposite corners; 0 for boxes without area."""
    # half precision is computed in float; the overlap is rounded to the scores' type before it is compared
    wide = boxes.astype(np.float32)
    low = np.minimum(wide[:, :2], wide[:, 2:])
    high = np.maximum(wide[:, :2], wide[:, 2:])
    areas = (high - low).prod(1)

    def similarity(one: Any, two: Any) -> Tensor:
        sides = np.maximum(np.minimum(high[one], high[two]) - np.maximum(low[one], low[two]), np.float32(0))
        shared = sides.prod(-1)
        empty = (areas[one] <= 0) | (areas[two] <= 0)
        overlap = shared / np.where(empty, 1, areas[one] + areas[two] - shared)
        return np.where(empty, np.float32(0), overlap).astype(dtype)

    return similarity


def select(scores: Tensor, limits: SuppressionLimits, similarity: Similarity) -> tuple[list[int], list[Any]]:
    """(indices, scores) of the selected boxes, in order of selection, from scores `[boxes]`.

    Raises InvalidArgumentError for a negative maximum number.
    """
    if limits.most < 0:
        raise InvalidArgumentError("output size must be non-negative")
    return (_select_softly if limits.deviation > 0 else _select_strictly)(scores, limits, similarity)


def _candidates(scores: Tensor, least: Any) -> Tensor:
    # scores equal to `least`, and NaN, are left out
    above = np.flatnonzero(scores > least)
    return above[np.argsort(-scores[above].astype(np.float64), kind="stable")]


def _select_strictly(scores: Tensor, limits: SuppressionLimits, similarity: Similarity) -> tuple[list[int], list[Any]]:
    left = _candidates(scores, limits.score)
    selected: list[int] = []
    while left.size and len(selected) < limits.most:
        best, left = left[0], left[1:]
        selected.append(int(best))
        left = left[~(similarity(left, best) > limits.similarity)]
    return selected, [scores[index] for index in selected]


def _select_softly(scores: Tensor, limits: SuppressionLimits, similarity: Similarity) -> tuple[list[int], list[Any]]:
    """Soft suppression: similar candidates are not dropped, but compete again with reduced scores."""
    number = scores.dtype.type
    scale = number(-0.5) / number(limits.deviation)
    queue = [(-float(scores[index]), int(index), scores[index], 0) for index in _candidates(scores, limits.score)]
    selected: list[int] = []
    kept: list[Any] = []
    while queue and len(selected) < limits.most:
        _, index, score, compared = heapq.heappop(queue)
        lowered = score
        # compare only with the boxes selected since the last comparison, the latest first
        for alike in similarity(index, np.array(selected[compared:][::-1], np.int64)):
            lowered = number(lowered * np.exp(number(number(scale * alike) * alike)))
            if lowered <= limits.score:
                break
        # an unchanged score is still the best
        if lowered == score:
            selected.append(index)
            kept.append(score)
        elif lowered > limits.score:
            heapq.heappush(queue, (-float(lowered), index, lowered, len(selected)))
    return selected, kept


# --- the ops --------------------------------------------------------------------------------------------------------


def _read_scalar(tensor: Tensor, name: str, shows_rank: bool = False) -> Any:
    if tensor.ndim:
        rank = f" (Shape must be rank 0 but is rank {tensor.ndim})" if shows_rank else ""
        raise InvalidArgumentError(f"{name} must be 0-D, got shape {format_dims(tensor.shape)}{rank}")
    return tensor[()]


def _read_overlap_limit(tensor: Tensor, dtype: np.dtype[Any], shows_rank: bool) -> Any:
    limit = np.asarray(_read_scalar(tensor, "iou_threshold", shows_rank)).astype(dtype)[()]
    if not 0 <= limit <= 1:
        raise InvalidArgumentError("iou_threshold must be in [0, 1]")
    return limit


def _check_boxes(boxes: Tensor, scores: Tensor) -> None:
    if boxes.ndim != 2:
        raise InvalidArgumentError(
            f"boxes must be 2-D{format_dims(boxes.shape)} (Shape must be rank 2 but is rank {boxes.ndim})"
        )
    if boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must have 4 columns (Dimension must be 4 but is {boxes.shape[1]})")
    _check_scores(scores, boxes.shape[0])


def _check_scores(scores: Tensor, count: int) -> None:
    if scores.ndim != 1:
        raise InvalidArgumentError(
            f"scores must be 1-D{format_dims(scores.shape)} (Shape must be rank 1 but is rank {scores.ndim})"
        )
    if scores.shape[0] != count:
        raise InvalidArgumentError(
            f"scores has incompatible shape (Dimensions must be equal, but are {count} and {scores.shape[0]})"
        )


def suppress(inputs: Sequence[Tensor], attrs: Attrs, outputs: str, shows_rank: bool = False) -> tuple[Tensor, ...]:
    """(boxes `[boxes, 4]`, scores `[boxes]`, limits) -> the outputs of a version of the op.

    `outputs` has a letter for each output: `i` the indices `[kept]`, `s` the scores `[kept]`, `n` the number kept. With
    `shows_rank` messages have the rank. Raises InvalidArgumentError for other shapes, limits that are not scalars, and a
    similarity outside of [0, 1].
    """
    boxes, scores = inputs[:2]
    limits = _read_limits(inputs, attrs, shows_rank)
    _check_boxes(boxes, scores)
    chosen = select(scores, limits, overlap_of(boxes, scores.dtype))
    size = limits.most if attrs.get("pad_to_max_output_size") else len(chosen[0])
    found = {
        "i": _pad(chosen[0], size, np.dtype(np.int32)),
        "s": _pad(chosen[1], size, scores.dtype),
        "n": np.array(len(chosen[0]), np.int32),
    }
    return tuple(found[name] for name in outputs)


def _pad(values: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Tensor:
    padded = np.zeros(size, dtype)
    padded[: len(values)] = values
    return padded


def _read_limits(inputs: Sequence[Tensor], attrs: Attrs, shows_rank: bool) -> SuppressionLimits:
    """Limits from the inputs after boxes and scores; older versions of the op lack a score limit or deviation."""
    dtype = inputs[1].dtype
    count = int(_read_scalar(inputs[2], "max_output_size", shows_rank))
    similarity = _read_overlap_limit(inputs[3] if len(inputs) > 3 else np.array(attrs["iou_threshold"]), dtype, shows_rank)
    score = _read_scalar(inputs[4], "score_threshold").astype(dtype) if len(inputs) > 4 else np.finfo(dtype).min
    deviation = _read_scalar(inputs[5], "soft_nms_sigma") if len(inputs) > 5 else 0
    if deviation < 0:
        raise InvalidArgumentError("soft_nms_sigma_val must be >= 0")
    return SuppressionLimits(count, similarity, score, deviation)


def compute_with_overlaps(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(similarities `[boxes, boxes]`, scores `[boxes]`, maximum number, similarity limit, score limit) -> the indices kept.

    Raises InvalidArgumentError for other shapes, limits that are not scalars, and a negative maximum number.
    """
    overlaps, scores = inputs[:2]
    count = int(_read_scalar(inputs[2], "max_output_size"))
    similarity, score = _read_scalar(inputs[3], "overlap_threshold"), _read_scalar(inputs[4], "score_threshold")
    if overlaps.ndim != 2:
        raise InvalidArgumentError(f"overlaps must be 2-D{format_dims(overlaps.shape)}")
    if overlaps.shape[0] != overlaps.shape[1]:
        raise InvalidArgumentError(f"overlaps must be square{format_dims(overlaps.shape)}")
    _check_scores(scores, overlaps.shape[0])
    chosen = select(scores, SuppressionLimits(count, similarity, score, 0), lambda one, two: np.asarray(overlaps[one, two]))
    return (np.array(chosen[0], np.int32),)


# --- many classes at once -------------------------------------------------------------------------------------------


class Detections(NamedTuple):
    """Detections in one image: boxes `[found, 4]`, their scores and classes `[found]`."""

    boxes: Tensor
    scores: Tensor
    classes: Tensor


def compute_combined(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor, ...]:
    """(boxes `[batch, boxes, q, 4]`, scores `[batch, boxes, classes]`, limits) -> the best boxes of all classes, padded.

    Returns boxes `[batch, size, 4]`, scores and classes `[batch, size]`, and the numbers of boxes without padding `[batch]`.
    Raises InvalidArgumentError for shapes that do not fit, and limits that are not scalars or are out of range.
    """
    boxes, scores = inputs[:2]
    limits, total = _read_combined_limits(inputs)
    per_class = total if not attrs["pad_per_class"] else min(total, limits.most * scores.shape[2])
    found = [_detect(boxes[batch], scores[batch], limits, per_class) for batch in range(boxes.shape[0])]
    outputs = [np.zeros((len(found), per_class, *rest), np.float32) for rest in ((4,), (), ())]
    for batch, detections in enumerate(found):
        for output, part in zip(outputs, detections, strict=True):
            output[batch, : len(part)] = part
    if attrs["clip_boxes"]:
        outputs[0] = np.clip(outputs[0], np.float32(0), np.float32(1))
    return (*outputs, np.array([len(detections.scores) for detections in found], np.int32))


def _detect(boxes: Tensor, scores: Tensor, limits: SuppressionLimits, size: int) -> Detections:
    """The best `size` of an image's boxes `[boxes, q, 4]`; suppression is separate for each class."""
    parts = [Detections(np.zeros((0, 4), np.float32), *np.zeros((2, 0), np.float32))]
    for index in range(scores.shape[1]):
        candidates = boxes[:, index if boxes.shape[1] > 1 else 0]
        chosen = np.array(select(scores[:, index], limits, overlap_of(candidates, scores.dtype))[0], np.int64)
        parts.append(Detections(candidates[chosen], scores[chosen, index], np.full(len(chosen), index, np.float32)))
    # of equal scores, the lower class is first
    joined = Detections(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    best = np.argsort(-joined.scores, kind="stable")[:size]
    return Detections(*(part[best] for part in joined))


def _read_combined_limits(inputs: Sequence[Tensor]) -> tuple[SuppressionLimits, int]:
    boxes, scores, count, total, similarity, score = inputs
    if boxes.shape[:1] != scores.shape[:1]:
        raise InvalidArgumentError("boxes and scores must have same batch size")
    per_class = int(_read_scalar(count, "max_size_per_class"))
    if per_class <= 0:
        raise InvalidArgumentError("max_size_per_class must be positive")
    total_size = int(_read_scalar(total, "max_total_size"))
    if total_size <= 0:
        raise InvalidArgumentError("max_total_size must be > 0")
    overlap, least = _read_scalar(similarity, "iou_threshold"), _read_scalar(score, "score_threshold")
    if not 0 <= overlap <= 1:
        raise InvalidArgumentError("iou_threshold must be in [0, 1]")
    _check_combined(boxes, scores)
    return SuppressionLimits(per_class, overlap, least, 0), total_size


def _check_combined(boxes: Tensor, scores: Tensor) -> None:
    if boxes.ndim != 4:
        raise InvalidArgumentError(f"boxes must be 4-D{format_dims(boxes.shape)}")
    if scores.ndim != 3:
        raise InvalidArgumentError(f"scores must be 3-D{format_dims(scores.shape)}")
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise InvalidArgumentError("third dimension of boxes must be either 1 or num classes")
    if boxes.shape[3] != 4:
        raise InvalidArgumentError("boxes must have 4 columns")
    if boxes.shape[1] != scores.shape[1]:
        raise InvalidArgumentError("scores has incompatible shape")


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_suppression(context: ShapeContext, outputs: str) -> Sequence[Dims]:
    """Static shapes of a version's outputs; see `suppress`."""
    boxes, scores = with_rank(context.shapes[0], 2), with_rank(context.shapes[1], 1)
    for dims in context.shapes[2:]:
        with_rank(dims, 0)
    merge_dim(boxes[0], scores[0])
    with_value(boxes[1], 4)
    size = scalar_dim(context, 2) if context.attrs.get("pad_to_max_output_size") else -1
    return tuple(() if name == "n" else (size,) for name in outputs)


def _infer_with_overlaps(context: ShapeContext) -> tuple[Dims]:
    overlaps, scores = with_rank(context.shapes[0], 2), with_rank(context.shapes[1], 1)
    for dims in context.shapes[2:]:
        with_rank(dims, 0)
    merge_dim(overlaps[0], scores[0])
    merge_dim(overlaps[0], overlaps[1])
    return ((-1,),)


def _infer_combined(context: ShapeContext) -> tuple[Dims, ...]:
    boxes, scores = with_rank(context.shapes[0], 4), with_rank(context.shapes[1], 3)
    for dims in context.shapes[2:]:
        with_rank(dims, 0)
    batch = boxes[0]
    merge_dim(batch, scores[0])
    merge_dim(boxes[1], scores[1])
    with_value(boxes[3], 4)
    if boxes[2] >= 0 and scores[2] >= 0 and boxes[2] not in (1, scores[2]):
        raise ShapeError("third dimension of boxes must be either 1 or equal to the third dimension of scores")
    size = _infer_combined_size(context, scores[2])
    return (batch, size, 4), (batch, size), (batch, size), (batch,)


def _infer_combined_size(context: ShapeContext, classes: int) -> int:
    context.value(2)  # TensorFlow's message shows both numbers, of which it checks this one last
    total = scalar_dim(context, 3)
    # a negative number is already rejected as a dimension
    if total == 0:
        raise ShapeError("max_total_size should be > 0 ")
    per_class = scalar_dim(context, 2)
    if not context.attrs["pad_per_class"]:
        return total
    if per_class == 0:
        raise ShapeError("max_output_size_per_class must be > 0 if pad_per_class is set to true ")
    return min(total, per_class * classes) if per_class > 0 and classes >= 0 else -1


def _guess_kept(context: ShapeContext, output: int) -> int:
    """Return the number of boxes, but at most `max_output_size`."""
    boxes = elements(context.shapes[1])
    most = context.scalar_value(2) if len(context.shapes) > 2 else context.attrs.get("max_output_size")
    return boxes if most is None else min(boxes, most)


TABLE: Table = {
    "NonMaxSuppression": Kernel(partial(suppress, outputs="i"), partial(_infer_suppression, outputs="i"), guess=_guess_kept),
    "NonMaxSuppressionV2": Kernel(partial(suppress, outputs="i"), partial(_infer_suppression, outputs="i"), guess=_guess_kept),
    "NonMaxSuppressionV3": Kernel(
        partial(suppress, outputs="i", shows_rank=True), partial(_infer_suppression, outputs="i"), guess=_guess_kept
    ),
    "NonMaxSuppressionV4": Kernel(
        partial(suppress, outputs="in"), partial(_infer_suppression, outputs="in"), guess=_guess_kept
    ),
    "NonMaxSuppressionV5": Kernel(
        partial(suppress, outputs="isn"), partial(_infer_suppression, outputs="isn"), guess=_guess_kept
    ),
    "NonMaxSuppressionWithOverlaps": Kernel(compute_with_overlaps, _infer_with_overlaps, guess=_guess_kept),
    "CombinedNonMaxSuppression": Kernel(compute_combined, _infer_combined, memory=allocates(3, 0, 1, 2)),
}
