"""Resize and its predecessor Upsample, as TensorFlow's resizing if that takes the same samples, else axis by axis.

Along an axis, the coordinates of samples, their neighbours and weights are computed, as constants if sizes and scales are
known. The neighbours are gathered, multiplied by their weights, and added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import FLOAT, INT32
from placesim.formats.onnx.folding import ConstantFolder, Value, float32, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.sampling import cubic_weights
from placesim.formats.onnx.rows.windows import channels_first, channels_last

_NATIVE: dict[tuple[str, str, str], tuple[str, dict[str, Any]]] = {
    ("linear", "half_pixel", ""): ("ResizeBilinear", {"half_pixel_centers": True}),
    ("linear", "align_corners", ""): ("ResizeBilinear", {"align_corners": True}),
    ("linear", "asymmetric", ""): ("ResizeBilinear", {}),
    ("nearest", "asymmetric", "floor"): ("ResizeNearestNeighbor", {}),
    ("nearest", "half_pixel", "round_prefer_ceil"): ("ResizeNearestNeighbor", {"half_pixel_centers": True}),
    ("nearest", "tf_half_pixel_for_nn", "floor"): ("ResizeNearestNeighbor", {"half_pixel_centers": True}),
    ("nearest", "align_corners", "round_prefer_ceil"): ("ResizeNearestNeighbor", {"align_corners": True}),
}
"""TensorFlow's op and attrs by mode, coordinates and rounding."""


class _Axis(NamedTuple):
    """The resizing of an axis: its number, its size, its new size, their ratio, and the start and end of a crop region."""

    number: int
    size: Value
    resized: Value
    scale: Value
    start: Value | None = None
    end: Value | None = None


class _ResizeOptions(NamedTuple):
    """The options of a node, from its attributes."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    excludes: bool
    antialias: bool
    extrapolation: float


def resize(node: OnnxNode) -> Tensor:
    """ResizeBilinear or ResizeNearestNeighbor if they take the same samples; else GatherV2, Mul and Sum axis by axis."""
    ways = _ResizeOptions(
        node.attr("mode", "nearest"),
        node.attr("coordinate_transformation_mode", "half_pixel"),
        node.attr("nearest_mode", "round_prefer_floor"),
        node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("exclude_outside", 0)),
        bool(node.attr("antialias", 0)),
        node.attr("extrapolation_value", 0.0),
    )
    return _resized(node, node.input(1), _filled(node, node.input(2)), _filled(node, node.input(3)), ways)


def resize_by_scales(node: OnnxNode) -> Tensor:
    """ResizeBilinear or ResizeNearestNeighbor if they take the same samples; else GatherV2, Mul and Sum axis by axis."""
    scales = node.constant(np.array(node.attr("scales"), np.float32)) if node.attr("scales") is not None else node[1]
    mode = {"bilinear": "linear"}.get(node.attr("mode", "nearest"), node.attr("mode", "nearest"))
    return _resized(node, None, scales, None, _ResizeOptions(mode, "asymmetric", "floor", -0.75, False, False, 0.0))


def _filled(node: OnnxNode, tensor: Tensor | None) -> Tensor | None:
    """Return an input, or None if it is omitted or empty."""
    return None if tensor is None or node.shape(tensor) == (0,) else tensor


def _resized(node: OnnxNode, roi: Tensor | None, scales: Tensor | None, sizes: Tensor | None, ways: _ResizeOptions) -> Tensor:
    if ways.mode not in ("nearest", "linear", "cubic"):
        raise UnsupportedNodeError(f"no such mode: got '{ways.mode}', expected nearest, linear or cubic")
    if (scales is None) == (sizes is None):
        raise UnsupportedNodeError("no target size: expected one of the inputs scales and sizes")
    images = node[0]
    axes = _axes(node, roi if ways.coordinates == "tf_crop_and_resize" else None, scales, sizes)
    axes = [axis for axis in axes if not _is_kept(axis, ways)]
    if not axes:
        return node.emit("Identity", images)
    return _native(node, axes, ways) or _by_axis(node, axes, ways)


def _axes(node: OnnxNode, roi: Tensor | None, scales: Tensor | None, sizes: Tensor | None) -> list[_Axis]:
    fold, images = ConstantFolder(node), node[0]
    rank, known = node.known_rank(images), fold.sizes(images)
    numbers = [axis % rank for axis in node.attr("axes", tuple(range(rank)))]
    given = [fold.cast(known[axis], FLOAT) for axis in numbers]
    if sizes is not None:
        wanted = fold.narrow(fold.value(sizes), "sizes")
        resized = [_item(fold, wanted, index) for index in range(len(numbers))]
        factors = [fold("RealDiv", fold.cast(size, FLOAT), was) for size, was in zip(resized, given, strict=True)]
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            all_factors = fold.pack(factors)
            least = fold("Min" if policy == "not_larger" else "Max", all_factors, int32(0))
            factors = [least] * len(numbers)
            rounded = [fold("Floor", fold("AddV2", fold("Mul", least, was), float32(0.5))) for was in given]
            resized = [fold.cast(size, INT32) for size in rounded]
    else:
        assert scales is not None
        wanted = fold.cast(fold.value(scales), FLOAT)
        factors = [_item(fold, wanted, index) for index in range(len(numbers))]
        resized = [fold.cast(fold("Floor", fold("Mul", was, by)), INT32) for was, by in zip(given, factors, strict=True)]
    made = [_Axis(axis, known[axis], *pair) for axis, pair in zip(numbers, zip(resized, factors, strict=True), strict=True)]
    if roi is None:
        return made
    region, count = fold.cast(fold.value(roi), FLOAT), len(numbers)
    ends = [(_item(fold, region, index), _item(fold, region, index + count)) for index in range(count)]
    return [axis._replace(start=start, end=end) for axis, (start, end) in zip(made, ends, strict=True)]


def _item(fold: ConstantFolder, vector: Value, index: int) -> Value:
    return fold("GatherV2", vector, int32(index), int32(0))


def _is_kept(axis: _Axis, ways: _ResizeOptions) -> bool:
    """Whether an axis is known to keep its size."""
    if ways.coordinates != "tf_crop_and_resize":
        return isinstance(axis.scale, np.ndarray) and bool(axis.scale == 1)
    is_known = all(isinstance(each, np.ndarray) for each in (axis.start, axis.end, axis.size, axis.resized))
    return is_known and axis.size == axis.resized and axis.start == 0 and axis.end == 1


# --- TensorFlow's ops -----------------------------------------------------------------------------------------------


def _native(node: OnnxNode, axes: Sequence[_Axis], ways: _ResizeOptions) -> Tensor | None:
    """Return the images resized by an op of TensorFlow; None if the op would take other samples."""
    images = node[0]
    mode = "half_pixel" if ways.coordinates == "pytorch_half_pixel" and all(map(_is_long, axes)) else ways.coordinates
    rounding = ways.rounding if ways.mode == "nearest" else ""
    found = _NATIVE.get((ways.mode, mode, rounding))
    if found is None or ways.antialias or node.rank(images) != 4 or any(axis.number < 2 for axis in axes):
        return None
    op, attrs = found
    fitting = node.dtype(images) is FLOAT if op == "ResizeBilinear" else node.computes(op, T=node.dtype(images))
    if not fitting or not all(map(_is_even, axes)):
        return None
    fold = ConstantFolder(node)
    by_number = {axis.number: axis.resized for axis in axes}
    kept = fold.sizes(images) if len(by_number) < 2 else []
    size = fold.pack([by_number[number] if number in by_number else kept[number] for number in (2, 3)])
    made = node.emit(op, channels_last(node, images, 2), size, **attrs)
    return channels_first(node, made, 2)


def _is_long(axis: _Axis) -> bool:
    return isinstance(axis.resized, np.ndarray) and bool(axis.resized > 1)


def _is_even(axis: _Axis) -> bool:
    """Whether the scale is the ratio of the sizes, as in TensorFlow."""
    if not isinstance(axis.scale, np.ndarray):
        return False
    if isinstance(axis.size, np.ndarray) and isinstance(axis.resized, np.ndarray):
        return bool(np.float32(axis.resized) == np.float32(axis.size) * axis.scale)
    return float(axis.scale).is_integer()


# --- axis by axis ---------------------------------------------------------------------------------------------------


def _by_axis(node: OnnxNode, axes: Sequence[_Axis], ways: _ResizeOptions) -> Tensor:
    own = node.dtype(node[0])
    images = node[0] if ways.mode == "nearest" or own.numpy.kind == "f" else node.cast(node[0], FLOAT)
    rank, outside = node.known_rank(node[0]), []
    for axis in axes:
        samples = _samples(node, axis, ways)
        if ways.mode == "nearest":
            images = node.emit("GatherV2", images, _nearest(node, samples, axis, ways), int32(axis.number))
        else:
            images = _weighted(node, images, samples, axis, ways, rank)
        if ways.coordinates == "tf_crop_and_resize":
            outside.append(_outside(node, samples, axis, rank))
    images = node.cast(images, own)
    for mask in outside:
        images = node.emit("SelectV2", mask, node.like(ways.extrapolation, images), images)
    return images


def _samples(node: OnnxNode, axis: _Axis, ways: _ResizeOptions) -> Value:
    """Return the coordinate in the input of each element of the resized axis."""
    fold = ConstantFolder(node)
    size = fold.cast(axis.size, FLOAT)
    length = fold("Mul", size, axis.scale)
    steps = fold.cast(fold("Range", int32(0), axis.resized, int32(1)), FLOAT)
    one, half = float32(1), float32(0.5)
    if ways.coordinates == "asymmetric":
        return fold("RealDiv", steps, axis.scale)
    if ways.coordinates == "align_corners":
        way = fold("Maximum", fold("Sub", length, one), float32(np.finfo(np.float32).tiny))
        ratio = fold("SelectV2", fold("LessEqual", length, one), float32(0), fold("RealDiv", fold("Sub", size, one), way))
        return fold("Mul", steps, ratio)
    if ways.coordinates == "tf_crop_and_resize":
        return _cropped(fold, axis, steps, length, size)
    centres = fold("RealDiv", fold("AddV2", steps, half), axis.scale)
    if ways.coordinates == "tf_half_pixel_for_nn":
        return centres
    centres = fold("Sub", centres, half)
    if ways.coordinates == "half_pixel":
        return centres
    if ways.coordinates == "pytorch_half_pixel":
        return fold("SelectV2", fold("Less", int32(1), axis.resized), centres, float32(0))
    if ways.coordinates == "half_pixel_symmetric":
        share = fold("RealDiv", fold.cast(axis.resized, FLOAT), length)
        return fold("AddV2", fold("Mul", fold("Mul", size, half), fold("Sub", one, share)), centres)
    raise UnsupportedNodeError(f"no such coordinate_transformation_mode: got '{ways.coordinates}'")


def _cropped(fold: ConstantFolder, axis: _Axis, steps: Value, length: Value, size: Value) -> Value:
    if axis.start is None or axis.end is None:
        raise UnsupportedNodeError("no crop region: expected the input roi for tf_crop_and_resize")
    one, last = float32(1), fold("Sub", size, float32(1))
    part = fold("Mul", fold("Sub", axis.end, axis.start), last)
    gaps = fold("Maximum", fold("Sub", length, one), float32(np.finfo(np.float32).tiny))
    several = fold("RealDiv", fold("Mul", steps, part), gaps)
    middle = fold("Mul", part, float32(0.5))
    within = fold("SelectV2", fold("LessEqual", length, one), middle, several)
    return fold("AddV2", within, fold("Mul", axis.start, last))


def _nearest(node: OnnxNode, samples: Value, axis: _Axis, ways: _ResizeOptions) -> Value:
    fold, half = ConstantFolder(node), float32(0.5)
    if ways.rounding == "round_prefer_floor":
        whole = fold("Ceil", fold("Sub", samples, half))
    elif ways.rounding == "round_prefer_ceil":
        whole = fold("Floor", fold("AddV2", samples, half))
    elif ways.rounding in ("floor", "ceil"):
        whole = fold(ways.rounding.capitalize(), samples)
    else:
        raise UnsupportedNodeError(f"no such nearest_mode: got '{ways.rounding}'")
    return fold.clamped(fold.cast(whole, INT32), axis.size)


def _weighted(node: OnnxNode, images: Tensor, samples: Value, axis: _Axis, ways: _ResizeOptions, rank: int) -> Tensor:
    """Return the weighted sum of each sample's neighbours along an axis."""
    fold = ConstantFolder(node)
    reach = float32(1 if ways.mode == "linear" else 2)
    shrink = fold("Minimum", axis.scale, float32(1)) if ways.antialias else float32(1)
    first = fold.cast(fold("AddV2", fold("Floor", fold("RealDiv", fold("Neg", reach), shrink)), float32(1)), INT32)
    offsets = fold("Range", first, fold("Sub", int32(2), first), int32(1))
    base = fold("Floor", samples)
    column = int32([-1, 1])
    ratio = fold("Reshape", fold("Sub", samples, base), column)
    weights = _weights(fold, fold("Abs", fold("Mul", fold("Sub", fold.cast(offsets, FLOAT), ratio), shrink)), ways)
    places = fold("AddV2", fold("Reshape", fold.cast(base, INT32), column), offsets)
    if ways.excludes:
        weights = fold("SelectV2", fold.inside(places, axis.size), weights, float32(0))
    if ways.excludes or ways.antialias:
        weights = fold("RealDiv", weights, fold("Reshape", fold("Sum", weights, int32(1)), column))
    gathered = node.emit("GatherV2", images, fold.clamped(places, axis.size), int32(axis.number))
    shaped = fold("Reshape", weights, fold.concat([fold.shape(weights), np.ones(rank - 1 - axis.number, np.int32)]))
    return node.emit("Sum", node.emit("Mul", gathered, fold.cast(shaped, node.dtype(images))), int32(axis.number + 1))


def _weights(fold: ConstantFolder, distance: Value, ways: _ResizeOptions) -> Value:
    """Return the weights of neighbours at these distances from a sample, for linear or cubic interpolation."""
    if ways.mode == "linear":
        return fold("Maximum", fold("Sub", float32(1), distance), float32(0))
    return cubic_weights(fold, distance, ways.cubic)


def _outside(node: OnnxNode, samples: Value, axis: _Axis, rank: int) -> Value:
    """Return whether the sample of each element along an axis is outside the input, shaped for broadcasting over images."""
    fold = ConstantFolder(node)
    last = fold("Sub", fold.cast(axis.size, FLOAT), float32(1))
    mask = fold("LogicalOr", fold("Less", samples, float32(0)), fold("Less", last, samples))
    return fold("Reshape", mask, int32([-1, *[1] * (rank - 1 - axis.number)]))


ROWS: Rows = {
    ("Resize", 10): resize_by_scales,
    ("Resize", 11, 13, 18, 19): resize,
    ("Upsample", 7, 9, 10): resize_by_scales,
}
