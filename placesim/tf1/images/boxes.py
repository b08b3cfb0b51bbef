"""`tf.image`: drawing, cropping, sampling and suppression of boxes."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: object,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    name: str | None = None,
) -> Any:
    """`tf.image.non_max_suppression`: indices of the selected boxes."""
    with name_scope(name, "non_max_suppression"):
        iou = convert_to_tensor(iou_threshold, name="iou_threshold")
        least = convert_to_tensor(score_threshold, name="score_threshold")
        return gen("NonMaxSuppressionV3")(boxes, scores, max_output_size, iou, least)


def non_max_suppression_with_scores(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: object,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    soft_nms_sigma: TensorLike = 0.0,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`tf.image.non_max_suppression_with_scores`: indices and scores of the selected boxes."""
    with name_scope(name, "non_max_suppression_with_scores"):
        iou = convert_to_tensor(iou_threshold, name="iou_threshold")
        least = convert_to_tensor(score_threshold, name="score_threshold")
        sigma = convert_to_tensor(soft_nms_sigma, name="soft_nms_sigma")
        found = gen("NonMaxSuppressionV5")(boxes, scores, max_output_size, iou, least, sigma, pad_to_max_output_size=False)
        return found[0], found[1]


def non_max_suppression_with_overlaps(
    overlaps: object,
    scores: TensorLike,
    max_output_size: object,
    overlap_threshold: TensorLike = 0.5,
    score_threshold: object = float("-inf"),
    name: str | None = None,
) -> Any:
    """`tf.image.non_max_suppression_overlaps`: indices of the boxes selected by a matrix of their overlaps."""
    with name_scope(name, "non_max_suppression_overlaps"):
        most = convert_to_tensor(overlap_threshold, name="overlap_threshold")
        return gen("NonMaxSuppressionWithOverlaps")(overlaps, scores, max_output_size, most, score_threshold)


def combined_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size_per_class: object,
    max_total_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> Any:
    """`tf.image.combined_non_max_suppression`: batched, for each class separately."""
    with name_scope(name, "combined_non_max_suppression"):
        iou = convert_to_tensor(iou_threshold, dtypes.float32, name="iou_threshold")
        least = convert_to_tensor(score_threshold, dtypes.float32, name="score_threshold")
        total = convert_to_tensor(max_total_size)
        return gen("CombinedNonMaxSuppression")(
            boxes, scores, max_output_size_per_class, total, iou, least, pad_per_class, clip_boxes
        )


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: object = None,
    crop_size: object = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: object = None,
) -> Any:
    """`tf.image.crop_and_resize`."""
    box_ind = renamed("box_indices", box_indices, "box_ind", box_ind)
    return gen("CropAndResize")(image, boxes, box_ind, crop_size, method, extrapolation_value, name=name)


def draw_bounding_boxes(images: TensorLike, boxes: TensorLike, name: str | None = None, colors: object = None) -> Any:
    """`tf.image.draw_bounding_boxes`."""
    if colors is None:
        return gen("DrawBoundingBoxes")(images, boxes, name=name)
    return gen("DrawBoundingBoxesV2")(images, boxes, colors, name=name)


def extract_glimpse(
    input: TensorLike,
    size: TensorLike,
    offsets: object,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Any:
    """`tf.image.extract_glimpse`."""
    return gen("ExtractGlimpse")(
        input, size, offsets, centered=centered, normalized=normalized, uniform_noise=uniform_noise, name=name
    )


def extract_image_patches_v2(
    images: TensorLike, sizes: TensorLike, strides: object, rates: object, padding: object, name: str | None = None
) -> Any:
    """`tf.image.extract_patches`."""
    return gen("ExtractImagePatches")(images, sizes, strides, rates, padding, name=name)


def generate_bounding_box_proposals(
    scores: TensorLike,
    bbox_deltas: object,
    image_info: object,
    anchors: object,
    nms_threshold: object = 0.7,
    pre_nms_topn: object = 6000,
    min_size: object = 16,
    post_nms_topn: int = 300,
    name: str | None = None,
) -> Any:
    """`tf.image.generate_bounding_box_proposals`."""
    return gen("GenerateBoundingBoxProposals")(
        scores, bbox_deltas, image_info, anchors, nms_threshold, pre_nms_topn, min_size, post_nms_topn, name=name
    )


def sample_distorted_bounding_box(
    image_size: object,
    bounding_boxes: object,
    seed: int | None = None,
    seed2: object = None,
    min_object_covered: object = 0.1,
    aspect_ratio_range: object = None,
    area_range: object = None,
    max_attempts: object = None,
    use_image_if_no_bounding_boxes: object = None,
    name: str | None = None,
) -> Any:
    """`tf.image.sample_distorted_bounding_box`: start and size of a crop, and the box to draw."""
    with name_scope(name, "sample_distorted_bounding_box"):
        return gen("SampleDistortedBoundingBoxV2")(
            image_size,
            bounding_boxes,
            seed=seed,
            seed2=seed2,
            min_object_covered=min_object_covered,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
            name=name,
        )
