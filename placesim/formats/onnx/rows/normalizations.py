"""Normalizations, as FusedBatchNormV3 and LRN if these compute the same, else as means and products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import FLOAT, DataType
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER
from placesim.formats.onnx.folding import MOST_KNOWN, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.pools import sums_of_windows
from placesim.formats.onnx.rows.windows import AxisWindow, channels_first, channels_last


def batch_normalization(node: OnnxNode) -> list[Tensor | None]:
    """FusedBatchNormV3 for rank 4; else, and in training, Mean, SquaredDifference, Rsqrt, Mul, Sub and AddV2."""
    images, scale, offset, mean, variance = (node[index] for index in range(5))
    if not node.attr("spatial", 1):
        return [_scaled(node, images, (mean, variance), (scale, offset), node.attr("epsilon", 1e-5))]
    if node.since >= 14 and node.attr("training_mode", 0):
        return _trained(node)
    if any(node.has_output(index) for index in range(1, 5)) or (node.since < 7 and not node.attr("is_test", 0)):
        raise UnsupportedNodeError("training statistics need version 14 of the op: expected one output")
    rank = node.known_rank(images)
    if rank == 4 and node.computes("FusedBatchNormV3", T=node.dtype(images), U=FLOAT):
        vectors = [node.cast(vector, FLOAT) for vector in (scale, offset, mean, variance)]
        epsilon = node.attr("epsilon", 1e-5)
        return [node.emit("FusedBatchNormV3", images, *vectors, epsilon=epsilon, data_format="NCHW", is_training=False)]
    return [_normalized(node, images, (mean, variance), rank)]


def _trained(node: OnnxNode) -> list[Tensor | None]:
    images, mean, variance = node[0], node[3], node[4]
    rank = node.known_rank(images)
    axes = np.array([0, *range(2, rank)], np.int32)
    now = node.emit("Mean", images, axes)
    spread = node.emit("SquaredDifference", images, _per_channel(node, now, rank))
    var = node.emit("Mean", spread, axes)
    return [_normalized(node, images, (now, var), rank), _running(node, mean, now), _running(node, variance, var)]


def _running(node: OnnxNode, before: Tensor, now: Tensor) -> Tensor:
    now = node.cast(now, node.dtype(before))
    momentum = node.attr("momentum", 0.9)
    kept = node.emit("Mul", before, node.like(momentum, before))
    return node.emit("AddV2", kept, node.emit("Mul", now, node.like(1 - momentum, now)))


def _per_channel(node: OnnxNode, vector: Tensor, rank: int) -> Tensor:
    """Return a vector `[channels]` in a shape that broadcasts over `[batch, channels, ...]`."""
    return node.emit("Reshape", vector, np.array([-1, *[1] * (rank - 2)], np.int32)) if rank > 2 else vector


def _normalized(node: OnnxNode, images: Tensor, moments: Sequence[Tensor], rank: int) -> Tensor:
    vectors = [_per_channel(node, node.cast(vector, node.dtype(images)), rank) for vector in (node[1], node[2])]
    shaped = [_per_channel(node, node.cast(vector, node.dtype(images)), rank) for vector in moments]
    return _scaled(node, images, shaped, vectors, node.attr("epsilon", 1e-5))


def _scaled(node: OnnxNode, images: Tensor, moments: Sequence[Tensor], affine: Sequence[Tensor], epsilon: float) -> Tensor:
    """Return `images * factor + (offset - mean * factor)`, as `tf.nn.batch_normalization` does."""
    (mean, variance), (scale, offset) = moments, affine
    factor = node.emit("Rsqrt", node.emit("AddV2", variance, node.like(epsilon, variance)))
    factor = node.emit("Mul", factor, scale)
    moved = node.emit("Sub", offset, node.emit("Mul", mean, factor))
    return node.emit("AddV2", node.emit("Mul", images, factor), moved)


def instance_normalization(node: OnnxNode) -> Tensor:
    """Mean, SquaredDifference, Rsqrt, Mul, Sub and AddV2 over the axes of each image."""
    images = node[0]
    rank = node.known_rank(images)
    moments = _moments(node, images, range(2, rank))
    affine = [_per_channel(node, node[1], rank), _per_channel(node, node[2], rank)]
    return _scaled(node, images, moments, affine, node.attr("epsilon", 1e-5))


def _moments(node: OnnxNode, tensor: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return mean and variance over axes, which are kept with size 1."""
    over = int32(axes)
    mean = node.emit("Mean", tensor, over, keep_dims=True)
    return mean, node.emit("Mean", node.emit("SquaredDifference", tensor, mean), over, keep_dims=True)


def layer_normalization(node: OnnxNode) -> list[Tensor | None]:
    """Mean, SquaredDifference, Rsqrt, Sub, Mul and AddV2 over the axes from `axis` on, computed in `stash_type`."""
    given, scale, bias = node[0], node[1], node.input(2)
    stash = _stash(node)
    wide = node.cast(given, stash)
    axes = _last_axes(node, given)
    mean, variance = _moments(node, wide, axes)
    inverse = node.emit("Rsqrt", node.emit("AddV2", variance, node.like(node.attr("epsilon", 1e-5), variance)))
    made = node.cast(node.emit("Mul", node.emit("Sub", wide, mean), inverse), node.dtype(given))
    made = node.emit("Mul", made, scale)
    return [made if bias is None else node.emit("AddV2", made, bias), mean, inverse]


def rms_normalization(node: OnnxNode) -> Tensor:
    """Square, Mean, Rsqrt and Mul over the axes from `axis` on, computed in `stash_type`."""
    given, scale = node[0], node[1]
    wide = node.cast(given, _stash(node))
    square = node.emit("Mean", node.emit("Square", wide), int32(_last_axes(node, given)), keep_dims=True)
    inverse = node.emit("Rsqrt", node.emit("AddV2", square, node.like(node.attr("epsilon", 1e-5), square)))
    made = node.cast(node.emit("Mul", wide, inverse), node.dtype(scale))
    return node.emit("Mul", made, scale)


def _stash(node: OnnxNode) -> DataType:
    number = node.attr("stash_type", 1)
    found = BY_ONNX_NUMBER.get(number)
    if found is None or not node.computes("Rsqrt", T=found):
        raise UnsupportedNodeError(f"wrong stash_type: got {number}, expected the number of a floating point type")
    return found


def _last_axes(node: OnnxNode, tensor: Tensor) -> list[int]:
    axis = node.attr("axis", -1)
    return list(range(axis, 0)) if axis < 0 else list(range(axis, node.known_rank(tensor)))


def lp_normalization(node: OnnxNode) -> Tensor:
    """DivNoNan by the norm along an axis: Sum of Abs, or Sqrt of the Sum of Square."""
    tensor, p = node[0], node.attr("p", 2)
    axis = int32([node.attr("axis", -1)])
    if p not in (1, 2):
        raise UnsupportedNodeError(f"wrong p: got {p}, expected 1 or 2")
    if p == 1:
        norm = node.emit("Sum", node.emit("Abs", tensor), axis, keep_dims=True)
    else:
        norm = node.emit("Sqrt", node.emit("Sum", node.emit("Square", tensor), axis, keep_dims=True))
    return node.emit("DivNoNan", tensor, norm)


def mean_variance_normalization(node: OnnxNode) -> Tensor:
    """Mean, SquaredDifference, Sqrt, Sub and RealDiv over `axes`; ONNX adds 1e-9 to the deviation."""
    tensor = node[0]
    mean, variance = _moments(node, tensor, node.attr("axes", (0, 2, 3)))
    deviation = node.emit("Sqrt", variance)
    return node.emit("RealDiv", node.emit("Sub", tensor, mean), node.emit("AddV2", deviation, node.like(1e-9, deviation)))


def lrn(node: OnnxNode) -> Tensor:
    """LRN between Transposes, with `alpha` divided by the size; for an even size, Sum of gathered windows."""
    images, size = node[0], node.attr("size")
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    if size is None or not 1 <= size <= MOST_KNOWN:
        raise UnsupportedNodeError(f"wrong size: got {size}, expected a number from 1 to {MOST_KNOWN}")
    if size % 2 and node.rank(images) == 4 and node.computes("LRN", T=node.dtype(images)):
        last = channels_last(node, images, 2)
        made = node.emit("LRN", last, depth_radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)
        return channels_first(node, made, 2)
    around = AxisWindow(size, 1, 1, (size - 1) // 2, size // 2)
    total = sums_of_windows(node, node.emit("Square", images), around, 1, node.known_rank(images))
    base = node.emit("AddV2", node.emit("Mul", total, node.like(alpha / size, total)), node.like(bias, total))
    return node.emit("RealDiv", images, node.emit("Pow", base, node.like(beta, base)))


ROWS: Rows = {
    ("BatchNormalization", 6, 7, 9, 14, 15): batch_normalization,
    ("InstanceNormalization", 1, 6, 22): instance_normalization,
    ("LRN", 1, 13): lrn,
    ("LayerNormalization", 17): layer_normalization,
    ("LpNormalization", 1, 22): lp_normalization,
    ("MeanVarianceNormalization", 9, 13): mean_variance_normalization,
    ("RMSNormalization", 23): rms_normalization,
}
